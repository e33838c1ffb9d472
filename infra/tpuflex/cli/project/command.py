"""`tpuflex init`, `bootstrap` and `ci …`: a project, and what its repository needs."""

from __future__ import annotations

from pathlib import Path

import click

from tpuflex.cli.completion_values import rows, templates
from tpuflex.cli.examples import ExampleCommand
from tpuflex.cli.invocation import Invocation
from tpuflex.cli.options import Commands, as_json, assume_yes, pass_invocation, stack_name, verbose


@click.command(
    cls=ExampleCommand,
    examples=(
        "tpuflex init demo --cloud embedded  # no account: a small model on this machine",
        "tpuflex init --template gemma-4-e4b-v6e-1  # a stack that comes with tpuflex",
        "tpuflex init --stack prod --model google/gemma-4-E4B-it --accelerator v6e-1",
        "tpuflex init --from values.yaml  # another tool's configuration",
    ),
)
@click.argument("directory", required=False, type=click.Path(file_okay=False, path_type=Path))
@stack_name
@click.option("--name", help="Name of a new project.  [default: the directory's]")
@click.option(
    "--cloud",
    type=click.Choice(("embedded", "google")),
    help="Where the stack runs: on this machine, or on Google Cloud.",
)
@click.option(
    "--template",
    metavar="STACK",
    shell_complete=templates,
    help="Begin with a stack that comes with tpuflex.",
)
@click.option(
    "--from",
    "source",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Begin with what starts vLLM elsewhere: a command or script with `vllm serve` or `docker"
    " run`, a manifest of Kubernetes, a file of Compose, a task of dstack or SkyPilot, Helm-style"
    " values, or YAML with `inference:`. What is not carried over is named.",
)
@click.option("--project", metavar="ID", help="Google Cloud project.")
@click.option(
    "--model", metavar="NAME", shell_complete=rows("models"), help="Hugging Face id of the model."
)
@click.option(
    "--accelerator",
    metavar="TYPE",
    shell_complete=rows("accelerators"),
    help="Accelerator type, such as v6e-4.",
)
@click.option(
    "--zone",
    "zones",
    multiple=True,
    metavar="ZONE",
    shell_complete=rows("zones"),
    help="Zone; may be repeated.",
)
@click.option("--run", metavar="DURATION", help="Longest run, such as 4h.")
@click.option(
    "--weights",
    metavar="SOURCE",
    help="Where the weights come from: a directory on this machine, relative to the project, or"
    " hf://OWNER/NAME@COMMIT.",
)
@click.option(
    "--set",
    "changes",
    multiple=True,
    metavar="KEY=VALUE",
    help="Any setting, such as serving.flags.max_num_seqs=32; null removes it. May be repeated.",
)
@assume_yes
@as_json
@pass_invocation
def init(
    invocation: Invocation,
    directory: Path | None,
    name: str | None,
    cloud: str | None,
    template: str | None,
    source: Path | None,
    project: str | None,
    model: str | None,
    accelerator: str | None,
    zones: tuple[str, ...],
    run: str | None,
    weights: str | None,
    changes: tuple[str, ...],
) -> None:
    """Make a new project, or a new stack in this one, by questions or options.

    Without Pulumi.yaml in DIRECTORY (by default the current one, or the project above it) this
    writes one, with the program and what git shall ignore; in a project, a stack file only. The
    stack is checked as `up` checks it before anything is written, and no file is ever changed.

    What is not given is asked, and each answer checked at once; `?` lists models, chips that hold
    the model, zones and runs, with prices. --yes takes what has a default, and goes on without
    those keys of --from that are refused. A variable that the file of --from leaves open is asked
    for, or set before the command: TP=4 tpuflex init --from serve.sh.

    Exit codes: 5 if the stack would be wrong, 2 if something is missing and there is no terminal to
    ask on.
    """
    from tpuflex.cli.project.init import run_init
    from tpuflex.scaffold.new_project import InitOptions

    options = InitOptions(
        directory=directory,
        name=name,
        stack=invocation.chosen_stack,
        cloud=cloud,
        template=template,
        source=source,
        project=project,
        model=model,
        accelerator=accelerator,
        zones=zones,
        run=run,
        weights=weights,
        changes=changes,
    )
    run_init(invocation, options)


_NUMBERS = "gh api repos/OWNER/NAME --jq '.owner.id, .id'"


@click.command(
    cls=ExampleCommand,
    examples=(
        "gh api repos/acme/chat --jq '.owner.id, .id'  # the two numbers",
        "tpuflex bootstrap -s prod --repository acme/chat --owner-id 12 --repository-id 34",
        "tpuflex bootstrap -s prod --remove --dry-run  # the way back",
    ),
)
@click.option("--repository", metavar="OWNER/NAME", help="The repository whose workflows get in.")
@click.option("--owner-id", type=click.IntRange(min=1), help="Number of its owner.")
@click.option("--repository-id", type=click.IntRange(min=1), help="Its own number.")
@click.option(
    "--environment",
    default="production",
    show_default=True,
    metavar="NAME",
    help="The GitHub environment whose jobs may deploy.",
)
@click.option("--remove", is_flag=True, help="Remove what a bootstrap has made.")
@click.option(
    "--with-states", is_flag=True, help="With --remove: delete the states in the bucket, too."
)
@click.option("--dry-run", is_flag=True, help="Say what would be done, and stop.")
@stack_name
@as_json
@assume_yes
@verbose
@pass_invocation
def bootstrap(
    invocation: Invocation,
    repository: str | None,
    owner_id: int | None,
    repository_id: int | None,
    environment: str,
    remove: bool,
    with_states: bool,
    dry_run: bool,
) -> None:
    """Make what a project needs once for previews and deployments from GitHub.

    In the Google Cloud project and region of the stack: a private, versioned bucket for states, a
    key for their secrets, service accounts that may preview and deploy with custom roles, and an
    identity pool that takes GitHub's tokens for this repository alone, by its numbers, so that no
    key of an account exists. Shows all of it first, asks, and prints the variables that the
    workflows need. Run again, it changes only what differs.

    --remove is the way back. A bucket that holds states is refused without --with-states; the key
    stays, because Google deletes none.
    """
    from tpuflex.cli.project.bootstrap import run_bootstrap, run_removal
    from tpuflex.components.bootstrap_names import Repository

    if remove:
        if repository or owner_id or repository_id:
            raise click.UsageError("--remove takes no repository.")
        stack = invocation.open_stack(deploying=False)
        run_removal(invocation, invocation.connect(stack), with_states=with_states, dry_run=dry_run)
        return
    if with_states:
        raise click.UsageError("--with-states is for --remove.")
    if repository is None or owner_id is None or repository_id is None:
        raise click.UsageError(
            "Give --repository, --owner-id and --repository-id. A name can be taken by somebody"
            f" else later, a number cannot: {_NUMBERS}"
        )
    try:
        chosen = Repository(repository, owner_id, repository_id, environment)
    except ValueError as error:
        raise click.UsageError(f"{error}.") from error
    stack = invocation.open_stack(deploying=False)
    run_bootstrap(invocation, invocation.connect(stack), chosen, dry_run=dry_run)


@click.group(
    cls=Commands,
    examples=(
        "tpuflex ci init",
        "tpuflex ci stacks --base origin/main",
    ),
)
def ci() -> None:
    """What a repository's workflows need: which stacks, and the workflows themselves."""


@ci.command(
    "init",
    examples=("tpuflex ci init --branch main",),
)
@click.option(
    "--source",
    metavar="OWNER/NAME@COMMIT",
    default="",
    help="tpuflex on GitHub, and the commit to use.  [default: what is installed, if it was "
    "installed from there]",
)
@click.option(
    "--branch",
    metavar="NAME",
    default="",
    help="The protected branch that is deployed.  [default: origin's, or main]",
)
@as_json
@pass_invocation
def ci_init(invocation: Invocation, source: str, branch: str) -> None:
    """Write the repository's workflows for GitHub Actions, or update them.

    Each is a few lines that call a workflow of tpuflex by its commit: tpuflex-preview.yml comments
    on every pull request, tpuflex-deploy.yml runs the plan that was approved, tpuflex-renew.yml
    starts the next run of stacks with renew_before, tpuflex-drift.yml compares the stacks that are
    up with the cloud, tpuflex-sweep.yml looks for what no state knows. Run it again for another
    version: it changes its own files only, and none that somebody has edited. `tpuflex docs ci`
    says what to set up on GitHub and on Google Cloud.
    """
    from tpuflex.cli.project.ci import show_workflows
    from tpuflex.scaffold.workflows import write_workflows

    environ = invocation.environ
    written = write_workflows(invocation.project, environ, source=source, branch=branch)
    show_workflows(invocation.output, written)


@ci.command(
    "stacks",
    examples=(
        "tpuflex ci stacks --base origin/main --json",
        "tpuflex ci stacks --renewing --json",
        "tpuflex ci stacks --up --json",
    ),
)
@click.option(
    "--base", metavar="REF", help="Those that differ from this Git reference, such as origin/main."
)
@click.option(
    "--renewing",
    is_flag=True,
    help="Those on Google with renew_before, which a schedule has to bring up again.",
)
@click.option(
    "--up",
    "brought_up",
    is_flag=True,
    help="Those that have a state, which a schedule compares with the cloud.",
)
@as_json
@pass_invocation
def ci_stacks(invocation: Invocation, base: str | None, renewing: bool, brought_up: bool) -> None:
    """List the stacks that a change touches, or that a schedule renews or compares with the cloud.

    A change of a stack's file touches that stack; a change of Pulumi.yaml or catalog.yaml touches
    every stack. A renamed stack is two: one that is left behind, and a new one. Stacks that a
    program of your own deploys are not compared: only Pulumi can plan them.
    """
    from tpuflex.cli.project.ci import show_changed, show_scheduled
    from tpuflex.deploy.workflow_stacks import changed_stacks, renewed_stacks, stacks_up

    if [base is not None, renewing, brought_up].count(True) != 1:
        raise click.UsageError("Write one of --base, --renewing and --up.")
    project, output, environ = invocation.project, invocation.output, invocation.environ
    if base is not None:
        show_changed(output, changed_stacks(project, base, environ))
    elif renewing:
        found = renewed_stacks(project, invocation.opened_config, output.progress)
        show_scheduled(output, found)
    else:
        found = stacks_up(project, invocation.open_named, environ, invocation.report)
        show_scheduled(output, found)
