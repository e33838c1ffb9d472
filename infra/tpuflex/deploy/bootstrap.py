"""What a project needs once for previews and deployments from GitHub: made, and removed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
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
from tpuflex.stack.progress import Progress, Report, require_name, silent

if TYPE_CHECKING:
    from tpuflex.engine.events import Step
    from tpuflex.stack.connection import Connection
    from tpuflex.stack.progress import Consent

#: What a removal leaves, and why.
STAYS = (
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


@dataclass(frozen=True, slots=True)
class BootstrapPlan:
    """What a bootstrap is about to make, told before it asks.

    Attributes:
        names: the names in the project.
        repository: whose workflows get in.
        plan: what the engine would do.
        restored: ids of what an earlier bootstrap has left deleted, and is restored.
    """

    names: BootstrapNames
    repository: Repository
    plan: EnginePlan
    restored: tuple[str, ...]

    def __str__(self) -> str:
        return f"For {self.repository.name} in project {self.names.project}: {_counted(self.plan)}"


@dataclass(frozen=True, slots=True)
class Bootstrapped:
    """What a bootstrap has made, or would.

    Attributes:
        plan: what it was about to make.
        changed: whether anything was changed.
        variables: what the workflows need, none of it secret.
    """

    plan: BootstrapPlan
    changed: bool
    variables: Mapping[str, str]

    def to_json(self) -> dict[str, object]:
        """The document that ``tpuflex bootstrap --json`` prints."""
        return {
            "project": self.plan.names.project,
            "repository": self.plan.repository.name,
            "changed": self.changed,
            "changes": _changes_json(self.plan.plan),
            "restored": sorted(self.plan.restored),
            "apis": [api.service for api in BOOTSTRAP_APIS],
            "variables": dict(self.variables),
        }


@dataclass(frozen=True, slots=True)
class RemovalPlan:
    """What is about to be removed, told before it is asked for.

    Attributes:
        project: the Google Cloud project.
        plan: what the engine would do.
        states: the stacks whose states go with the bucket, as ``PROJECT/STACK``.
    """

    project: str
    plan: EnginePlan
    states: tuple[str, ...]

    def __str__(self) -> str:
        return f"To be removed from project {self.project}: {_counted(self.plan)}"


@dataclass(frozen=True, slots=True)
class Removed:
    """What was removed, or would be.

    Attributes:
        plan: what was about to be removed.
        removed: whether it is.
    """

    plan: RemovalPlan
    removed: bool

    def to_json(self) -> dict[str, object]:
        """The document that ``tpuflex bootstrap --remove --json`` prints."""
        return {
            "project": self.plan.project,
            "removed": self.removed,
            "changes": _changes_json(self.plan.plan),
            "states": list(self.plan.states),
            "stays": list(STAYS),
        }


def bootstrap(
    cloud: Connection,
    repository: Repository,
    report: Callable[[Progress | BootstrapPlan], None] = silent,
    *,
    consent: Consent,
    dry_run: bool = False,
) -> Bootstrapped:
    """Make what a project needs for previews and deployments from a repository on GitHub.

    Args:
        cloud: the cloud of a stack in that project.
        repository: whose workflows get in.
        report: is told what will be made, and then how far it is.
        consent: asked for the project's id, unless there is nothing to do.
        dry_run: whether only what would be made is told.

    Raises:
        AlreadyExistsError: the bucket's name is somebody else's.
        InterruptedByUser: the user did not agree.
        TpuflexError: a permission is missing, or the engine failed.
    """
    work = Bootstrapping(cloud, report, repository)
    if not dry_run:
        require_apis(cloud, report, consent, apis=BOOTSTRAP_APIS)
    found = work.remains(known=work.open_state())
    names = work.names
    plan = work.engine.preview()
    planned = BootstrapPlan(names, repository, plan, tuple(found.restorable.values()))
    report(planned)
    changing = bool(plan.changes) and not dry_run
    if changing:
        require_name(consent, "project's id", names.project)
        work.up(found, plan)
    return Bootstrapped(planned, changing, names.variables(cloud.project_number))


def remove_bootstrap(
    cloud: Connection,
    report: Callable[[Progress | RemovalPlan], None] = silent,
    *,
    consent: Consent,
    with_states: bool = False,
    dry_run: bool = False,
) -> Removed:
    """Remove what a bootstrap has made.

    Args:
        cloud: the cloud of a stack in that project.
        report: is told what will be removed, and then how far it is.
        consent: asked for the project's id.
        with_states: whether states in the bucket are deleted with it.
        dry_run: whether only what would be removed is told.

    Raises:
        NotFoundError: there is no state of a bootstrap.
        ConflictError: the bucket holds states, and they are not to be deleted.
        InterruptedByUser: the user did not agree.
        TpuflexError: the engine failed.
    """
    work = Bootstrapping(cloud, report)
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
    planned = RemovalPlan(project, plan, states)
    report(planned)
    if not dry_run:
        require_name(consent, "project's id", project)
        work.destroy(plan)
    return Removed(planned, removed=not dry_run)


def _holds(deployment: Stored) -> bool:
    """Whether there is anything in the state: a dry run has an empty one."""
    return bool(resources(deployment) or pending(deployment))


def _region(deployment: Stored) -> str:
    """The region of the bucket in the state; empty if it has none."""
    buckets = (each for each in resources(deployment) if each["type"] == BUCKET)
    locations = (str((each.get("inputs") or {}).get("location") or "") for each in buckets)
    return next(locations, "").lower()


def cloud_changes(plan: EnginePlan) -> list[Step]:
    """What changes in the cloud, sorted: the engine tells it in any order."""
    return sorted(plan.resources, key=lambda step: (step.type.rpartition(":")[2], step.name))


def _changes_json(plan: EnginePlan) -> list[dict[str, str]]:
    return [
        {"operation": step.operation, "type": step.type, "name": step.name}
        for step in cloud_changes(plan)
    ]


def _counted(plan: EnginePlan) -> str:
    return f"{len(plan.resources)} to change"
