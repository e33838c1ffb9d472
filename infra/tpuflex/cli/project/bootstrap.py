"""What `tpuflex bootstrap` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuflex.deploy.bootstrap import (
    STAYS,
    BootstrapPlan,
    RemovalPlan,
    bootstrap,
    cloud_changes,
    remove_bootstrap,
)

if TYPE_CHECKING:
    from tpuflex.cli.invocation import Invocation
    from tpuflex.components.bootstrap_names import Repository
    from tpuflex.engine.events import EnginePlan
    from tpuflex.stack.connection import Connection
    from tpuflex.stack.progress import Progress
    from tpuflex.terminal.output import Output


def run_bootstrap(
    invocation: Invocation, cloud: Connection, repository: Repository, *, dry_run: bool
) -> None:
    """Make it, and print what the workflows need; raises as :func:`bootstrap`."""
    output = invocation.output

    def report(progress: Progress | BootstrapPlan) -> None:
        if isinstance(progress, BootstrapPlan):
            _show_plan(output, progress)
        else:
            invocation.report(progress)

    made = bootstrap(cloud, repository, report, consent=invocation.consent, dry_run=dry_run)
    output.document(made.to_json())
    if dry_run:
        output.result("Nothing was changed (--dry-run).")
        return
    output.heading("For the workflows on GitHub: none of these is a secret")
    for name, value in made.variables.items():
        output.result(f"  gh variable set {name} --repo {repository.name} --body '{value}'")
    output.result()
    output.result(
        f"Protect the environment {repository.environment!r} of {repository.name}: its reviewers"
        " decide who deploys. Then: tpuflex ci init"
    )


def run_removal(
    invocation: Invocation, cloud: Connection, *, with_states: bool, dry_run: bool
) -> None:
    """Remove it, and print what goes and what stays; raises as :func:`remove_bootstrap`."""
    output = invocation.output

    def report(progress: Progress | RemovalPlan) -> None:
        if isinstance(progress, RemovalPlan):
            _show_removal(output, progress)
        else:
            invocation.report(progress)

    done = remove_bootstrap(
        cloud, report, consent=invocation.consent, with_states=with_states, dry_run=dry_run
    )
    output.document(done.to_json())
    text = "Nothing was changed (--dry-run)." if dry_run else "Removed; what stays is listed above."
    output.result(text)


def _show_plan(output: Output, planned: BootstrapPlan) -> None:
    names, repository = planned.names, planned.repository
    if not planned.plan.changes:
        output.result(f"Project {names.project} has everything; nothing changes.")
        return
    output.heading(f"For {repository.name} in project {names.project}")
    _table(output, planned.plan)
    output.facts(
        (
            ("states", f"{names.backend}, versioned, private"),
            ("who gets in", repository.condition),
            (
                "preview may",
                "read: tpuflexPreview on the project, the states, decrypt with the key",
            ),
            (
                "deploy may",
                "tpuflexDeploy and tpuflexHostGrants on the project, the states, the key",
            ),
            ("who deploys", f"jobs of the environment {repository.environment!r}"),
            ("restored", "\n".join(planned.restored)),
            ("cost", "the key, about $0.06 a month, and the states' storage"),
        )
    )
    output.result()


def _show_removal(output: Output, planned: RemovalPlan) -> None:
    output.heading(f"To be removed from project {planned.project}")
    _table(output, planned.plan)
    states = (f"the state of {each}" for each in planned.states)
    for line in (*states, "every version of every object"):
        output.result(f"  with the bucket: {line}")
    for line in STAYS:
        output.result(f"  stays: {line}")


def _table(output: Output, plan: EnginePlan) -> None:
    output.table(
        ("KIND", "NAME", "OPERATION"),
        [(step.type.rpartition(":")[2], step.name, step.operation) for step in cloud_changes(plan)],
    )
