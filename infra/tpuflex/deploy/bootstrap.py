"""The steps of `tpuflex bootstrap`: say what it makes, ask, make it; and the way back."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from tpuflex.components.bootstrap_names import PULUMI_PROJECT, BootstrapNames, Repository
from tpuflex.deploy.apis import require_apis
from tpuflex.deploy.bootstrap_cloud import Remains, StateBucket, remains, restore
from tpuflex.deploy.engine_work import EngineWork, Workplace
from tpuflex.deploy.preparation import BUCKET
from tpuflex.engine.events import EnginePlan
from tpuflex.engine.state import Stored, known_ids, pending, resources
from tpuflex.errors import ConflictError, NotFoundError
from tpuflex.files.trusted import own_directory, write_private
from tpuflex.google.required_apis import BOOTSTRAP_APIS
from tpuflex.stack.progress import Report, silent

if TYPE_CHECKING:
    from tpuflex.cli.invocation import Invocation
    from tpuflex.stack.connection import Connection

#: What a removal leaves, and why.
_STAYS = (
    "key ring and key: Google deletes neither, and what they have encrypted is lost without them;"
    " to destroy the key itself: gcloud kms keys versions destroy",
    "identity pool and custom roles: deleted, and restorable by name for 30 and 7 days; a"
    " bootstrap within that time restores them",
    "the APIs, which stay enabled: others may use them",
)


class Bootstrapping(EngineWork):
    """One command's work on the bootstrap of the Google Cloud project of a stack. Its state is in
    files of the project's home, and a copy in the bucket that it makes.

    Attributes:
        repository: whose workflows get in; None where nothing is made.
    """

    def __init__(
        self,
        cloud: Connection,
        report: Report = silent,
        repository: Repository | None = None,
    ) -> None:
        super().__init__(cloud, report)
        self.repository = repository
        self._region = ""
        self._adopted: Mapping[str, str] = {}

    @property
    def names(self) -> BootstrapNames:
        """The names in that project; in the region of the stack, or of what there is already."""
        settings = self.cloud.stack.settings
        return BootstrapNames(settings.project, self._region or settings.region)

    @property
    def bucket(self) -> StateBucket:
        """The bucket that holds states."""
        return StateBucket(self.cloud, self.names)

    def place(self) -> Workplace:
        """A project of its own, with a backend of files."""
        stack = self.cloud.stack
        root = stack.own_files / "bootstrap" / ("embedded" if stack.embedded else "google")
        own_directory(root / "backend")
        write_private(root / "Pulumi.yaml", f"name: {PULUMI_PROJECT}\nruntime: python\n")
        environ = {
            **self.cloud.environ,
            "PULUMI_BACKEND_URL": f"file://{root / 'backend'}",
            "PULUMI_CONFIG_PASSPHRASE": "",  # the state holds no secret
        }
        return Workplace(root, self.names.project, environ)

    def open_state(self) -> bool:
        """Whether there is a state: here, or kept in the bucket, from where it is taken.

        Raises:
            TpuflexError: that cannot be told, or it is damaged.
        """
        if self.engine.exists():
            self._region = _region(self.engine.deployment())
            return True
        kept = self.bucket.read() if self.bucket.exists() else {}
        if not kept:
            return False
        self.engine.create()
        self.engine.replace(kept)
        self._region = _region(kept)
        self.report(f"State taken from {self.names.backend}.")
        return True

    def remains(self, *, known: bool) -> Remains:
        """What an earlier bootstrap has left that the state does not know."""
        ids = known_ids(self.engine.deployment()) if known else frozenset()
        found = remains(self.cloud, self.names, ids)
        self._adopted = found.adopted
        return found

    def up(self, found: Remains, plan: EnginePlan) -> None:
        """Make everything, and keep the state in the bucket, also if something failed."""
        self._adopted = restore(self.cloud, found)
        try:
            with self.changing(len(plan.changes)):
                self.engine.up()
        finally:
            if self.bucket.exists():
                self.bucket.keep(self.engine.deployment())

    def destroy(self, plan: EnginePlan) -> None:
        """Delete everything that can be deleted."""
        if self.bucket.exists():
            self.bucket.empty()
        with self.changing(len(plan.changes)):
            self.engine.destroy()
        with suppress(NotFoundError):
            self.engine.remove()

    def program(self) -> None:
        """What a bootstrap makes."""
        from tpuflex.components.bootstrap import BootstrapArgs, deploy_bootstrap

        if self.repository is None:
            raise ValueError("the program is not run to remove anything")
        deploy_bootstrap(
            BootstrapArgs(names=self.names, repository=self.repository, adopted=dict(self._adopted))
        )


def run_bootstrap(
    invocation: Invocation, cloud: Connection, repository: Repository, *, dry_run: bool
) -> None:
    """Make what a project needs for previews and deployments from a repository on GitHub.

    Raises:
        AlreadyExistsError: the bucket's name is somebody else's.
        InterruptedByUser: the user did not agree.
        TpuflexError: a permission is missing, or the engine failed.
    """
    output, work = invocation.output, Bootstrapping(cloud, invocation.report, repository)
    project = work.names.project
    if not dry_run:
        require_apis(cloud, invocation.report, invocation.consent, apis=BOOTSTRAP_APIS)
    found = work.remains(known=work.open_state())
    names = work.names
    plan = work.engine.preview()
    _show(invocation, work, plan, found)
    changed = bool(plan.changes)
    if changed and not dry_run:
        if not invocation.yes:
            output.confirm_name("project's id", project)
        work.up(found, plan)
    variables = names.variables(cloud.project_number)
    output.document(
        {
            "project": project,
            "repository": repository.name,
            "changed": changed and not dry_run,
            "changes": _changes(plan),
            "restored": sorted(found.restorable.values()),
            "apis": [api.service for api in BOOTSTRAP_APIS],
            "variables": variables,
        }
    )
    if dry_run:
        output.result("Nothing was changed (--dry-run).")
        return
    output.heading("For the workflows on GitHub: none of these is a secret")
    for name, value in variables.items():
        output.result(f"  gh variable set {name} --repo {repository.name} --body '{value}'")
    output.result()
    output.result(
        f"Protect the environment {repository.environment!r} of {repository.name}: its reviewers"
        " decide who deploys. Then: tpuflex ci init"
    )


def run_removal(
    invocation: Invocation, cloud: Connection, *, with_states: bool, dry_run: bool
) -> None:
    """Remove what a bootstrap has made.

    Raises:
        NotFoundError: there is no state of a bootstrap.
        ConflictError: the bucket holds states, and they are not to be deleted.
        InterruptedByUser: the user did not agree.
        TpuflexError: the engine failed.
    """
    output, work = invocation.output, Bootstrapping(cloud, invocation.report)
    project = work.names.project
    if not work.open_state() or not _holds(work.engine.deployment()):
        raise NotFoundError(f"Project {project} has no bootstrap that is known here.")
    states = work.bucket.states() if work.bucket.exists() else ()
    if states and not with_states:
        raise ConflictError(
            f"{work.names.backend} holds the states of {', '.join(states)}: nothing was removed",
            hint="Tear those stacks down first: tpuflex down --all. To delete their states with the"
            " bucket, whatever they still have: --with-states",
        )
    plan = work.engine.preview_destroy()
    output.heading(f"To be removed from project {project}")
    output.table(("KIND", "NAME", "OPERATION"), _rows(plan))
    for line in (*(f"the state of {each}" for each in states), "every version of every object"):
        output.result(f"  with the bucket: {line}")
    for line in _STAYS:
        output.result(f"  stays: {line}")
    if not dry_run:
        if not invocation.yes:
            output.confirm_name("project's id", project)
        work.destroy(plan)
    output.document(
        {
            "project": project,
            "removed": not dry_run,
            "changes": _changes(plan),
            "states": list(states),
            "stays": list(_STAYS),
        }
    )
    done = "Nothing was changed (--dry-run)." if dry_run else "Removed; what stays is listed above."
    output.result(done)


def _holds(deployment: Stored) -> bool:
    """Whether there is anything in the state: a dry run has an empty one."""
    return bool(resources(deployment) or pending(deployment))


def _region(deployment: Stored) -> str:
    """The region of the bucket in the state; empty if it has none."""
    buckets = (each for each in resources(deployment) if each["type"] == BUCKET)
    locations = (str((each.get("inputs") or {}).get("location") or "") for each in buckets)
    return next(locations, "").lower()


def _show(invocation: Invocation, work: Bootstrapping, plan: EnginePlan, found: Remains) -> None:
    output, repository = invocation.output, work.repository
    if not plan.changes or repository is None:
        output.result(f"Project {work.names.project} has everything; nothing changes.")
        return
    output.heading(f"For {repository.name} in project {work.names.project}")
    output.table(("KIND", "NAME", "OPERATION"), _rows(plan))
    output.facts(
        (
            ("states", f"{work.names.backend}, versioned, private"),
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
            ("restored", "\n".join(found.restorable.values())),
            ("cost", "the key, about $0.06 a month, and the states' storage"),
        )
    )
    output.result()


def _changes(plan: EnginePlan) -> list[dict[str, str]]:
    """What changes in the cloud, sorted: the engine tells it in any order."""
    steps = sorted(
        (step for step in plan.steps if step.touches_cloud),
        key=lambda step: (step.type.rpartition(":")[2], step.name),
    )
    return [{"operation": step.operation, "type": step.type, "name": step.name} for step in steps]


def _rows(plan: EnginePlan) -> list[tuple[str, str, str]]:
    return [
        (each["type"].rpartition(":")[2], each["name"], each["operation"])
        for each in _changes(plan)
    ]
