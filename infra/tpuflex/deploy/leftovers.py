"""Resources in the cloud projects of stacks that no state records: listed, and deleted if they are
proved to belong to a known stack."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tpuflex.advice import Advice
from tpuflex.deploy.library_engine import LibraryEngine
from tpuflex.engine.backend import stack_names, stored_state
from tpuflex.engine.commands import Target
from tpuflex.engine.find import ensure
from tpuflex.engine.state import known_ids, state_ids
from tpuflex.errors import EmulatorError, IncompleteTeardownError, NotFoundError, TpuflexError
from tpuflex.inventory.listing import Listing, Unlisted, list_all
from tpuflex.inventory.unlisted import reasons, unlisted_remedy
from tpuflex.naming import library_names
from tpuflex.operate.sweep import Disposition, Here, Leftover, leftovers, runs
from tpuflex.operate.sweep_deletion import Deleted, delete
from tpuflex.stack.progress import Report, silent, working

if TYPE_CHECKING:
    from tpuflex.deploy.known_stacks import KnownStack
    from tpuflex.stack.connection import Connection
    from tpuflex.stack.stack import Stack


@dataclass(frozen=True, slots=True)
class Swept:
    """What was left behind in one cloud project, and what became of it.

    Attributes:
        cloud: the cloud of one of its stacks.
        here: what is known here.
        listing: what the cloud project has.
        left: what of that is left behind.
        deleted: what of that had to be deleted.
    """

    cloud: Connection
    here: Here
    listing: Listing
    left: tuple[Leftover, ...]
    deleted: tuple[Deleted, ...] = ()

    @property
    def orphans(self) -> list[Leftover]:
        """What may be deleted."""
        return [each for each in self.left if each.disposition is Disposition.ORPHAN]

    @property
    def unknown(self) -> list[Leftover]:
        """What no state knows, and is still there."""
        gone = {id(each.leftover) for each in self.deleted if not each.problem}
        left = (each for each in self.left if each.disposition is not Disposition.QUOTA_ONLY)
        return [each for each in left if id(each) not in gone]

    @property
    def stack(self) -> str:
        """The stack that commands in advice name: without it they would look at the cloud project
        of the default one."""
        return self.cloud.stack.name

    def to_json(self) -> dict[str, object]:
        """The document that ``tpuflex sweep --json`` prints."""
        problems = {id(item.leftover): item.problem for item in self.deleted}
        return {
            "project": self.here.cloud_project,
            "complete": not self.listing.unlisted,
            "unseen": [str(each) for each in self.listing.unlisted],
            "state_ids": {stack: sorted(ids) for stack, ids in self.here.states.items()},
            "leftovers": [_entry(each, problems.get(id(each))) for each in self.left],
        }


@dataclass(frozen=True, slots=True)
class CloudProject:
    """One cloud project, and the stacks in it."""

    cloud: str
    project: str
    stacks: tuple[Stack, ...]

    @property
    def zones(self) -> tuple[str, ...]:
        """The zones in which its stacks ask for capacity."""
        return tuple(dict.fromkeys(z for each in self.stacks for z in each.settings.slice.zones))


@dataclass(frozen=True, slots=True)
class Failure:
    """What went wrong with one cloud project, or with one stack file.

    Attributes:
        where: the cloud project, or the stack.
        stack: the stack that commands in advice name.
        error: what went wrong.
        environ: the environment that they are typed in.
    """

    where: str
    stack: str
    error: TpuflexError
    environ: Mapping[str, str] = field(repr=False)

    @property
    def hint(self) -> str:
        """What to do about it."""
        return self.error.hint.for_stack(self.stack, self.environ)

    def to_json(self) -> dict[str, str]:
        """It in the document of ``--json``."""
        return {"where": self.where, "message": self.error.message, "hint": self.hint}


@dataclass(frozen=True, slots=True)
class SweptProjects:
    """What was left behind in every cloud project of some stacks, and what became of it.

    Attributes:
        projects: project by project.
        failures: what went wrong.
    """

    projects: tuple[Swept, ...]
    failures: tuple[Failure, ...]

    @property
    def exit_code(self) -> int:
        """The highest of the projects."""
        return max((each.error.exit_code for each in self.failures), default=0)

    def to_json(self) -> dict[str, object]:
        """The document that ``tpuflex sweep --all --json`` prints."""
        return {
            "exit_code": self.exit_code,
            "projects": [swept.to_json() for swept in self.projects],
            "errors": [each.to_json() for each in self.failures],
        }


def sweep(
    cloud: Connection,
    report: Report = silent,
    *,
    slices: frozenset[str] = frozenset(),
    deletes: bool = False,
) -> Swept:
    """List the resources that are in no stack's state, and with ``deletes`` delete what is ours.

    Args:
        cloud: the cloud of one of the stacks.
        report: receives progress.
        slices: names of queued resources and nodes that may be deleted while they run.
        deletes: whether something may be deleted. One that cannot be does not stop the others.

    Raises:
        NotFoundError: a slice was named that is not left behind; nothing was deleted.
        IncompleteTeardownError: the same, and the list is incomplete.
        TpuflexError: a state could not be read; nothing was deleted.
    """
    with working(report, "Asking every service in every zone"):
        swept = look(cloud, slices, cloud.stack.settings.slice.zones, report)
    require_slices(slices, (swept,))
    return delete_orphans(swept, report) if deletes else swept


def sweep_projects(
    stacks: Iterable[KnownStack],
    connect: Callable[[Stack], Connection],
    environ: Mapping[str, str],
    report: Report = silent,
    *,
    slices: frozenset[str] = frozenset(),
    deletes: bool = False,
    strict: bool = False,
) -> SweptProjects:
    """:func:`sweep` in every cloud project of ``stacks``. One that cannot be looked at does not
    stop the others.

    Args:
        stacks: the stacks that have a stack file.
        connect: connects to a stack's cloud, and starts nothing.
        environ: the environment that commands in advice are typed in.
        report: receives progress.
        slices: names of queued resources and nodes that may be deleted while they run.
        deletes: whether something may be deleted.
        strict: whether it is a failure that something is there that no state knows.

    Raises:
        NotFoundError: a slice was named that is not left behind; nothing was deleted.
        IncompleteTeardownError: the same, and the list is incomplete.
    """
    cloud_projects, failures = _cloud_projects(stacks, environ)
    found = list(_looked(cloud_projects, connect, environ, slices, failures, report))
    require_slices(slices, found)
    if deletes:
        found = [delete_orphans(each, report) for each in found]
    for swept in found:
        try:
            require_none_left(swept, deletes=deletes, strict=strict)
        except TpuflexError as error:
            failures.append(Failure(swept.here.cloud_project, swept.stack, error, environ))
    return SweptProjects(tuple(found), tuple(failures))


def look(
    cloud: Connection, slices: frozenset[str], zones: Iterable[str], report: Report = silent
) -> Swept:
    """List what is left behind in the project of ``cloud``, in ``zones`` and in the catalog's.

    Raises:
        TpuflexError: a state could not be read.
    """
    settings = cloud.stack.settings
    here = known_here(cloud, report)
    where = tuple(dict.fromkeys((*zones, *(zone for zone, _ in settings.catalog.zones))))
    project = settings.project
    report(f"Asking every service of {project} in {len(where)} zones …")
    listing = list_all(cloud.apis(), project, where, here.accounts)
    here, listing = _numbered(here, listing, cloud)
    here = _with_library(cloud, here, listing, report)
    return Swept(cloud, here, listing, leftovers(listing, here, slices))


def delete_orphans(swept: Swept, report: Report) -> Swept:
    """Delete what is ours and in no state; one that cannot be deleted does not stop the others."""
    cloud = swept.cloud
    deleted = delete(
        swept.orphans,
        cloud.apis(),
        say=report,
        timing=cloud.timing,
    )
    return replace(swept, deleted=deleted)


def require_none_left(swept: Swept, *, deletes: bool, strict: bool = False) -> None:
    """Check that the list is complete, and that what had to go is gone.

    Raises:
        IncompleteTeardownError: names the exceptions; with ``strict``, everything that no state
            knows.
    """
    require_complete(swept.listing, swept.deleted, swept.here.cloud_project)
    if deletes:
        _require_no_slice(swept)
    if strict and swept.unknown:
        lines = (f"  left: {each.resource.title}: {each.reason}" for each in swept.unknown)
        raise IncompleteTeardownError(
            "\n".join((f"No state knows this in {swept.here.cloud_project}:", *lines)),
            hint=_deletion(swept, swept.unknown),
        )


def _deletion(swept: Swept, these: Sequence[Leftover]) -> Advice:
    """How to delete ``these``, which no state knows, or what to ask about them."""
    standing = {each.disposition for each in these}
    lines: list[Advice | str] = []
    if standing - {Disposition.LIBRARY, Disposition.FOREIGN}:
        lines.append(Advice("To delete what is ours: {command}", command=sweep_command(these)))
    if Disposition.FOREIGN in standing:
        lines.append(f"Whose the rest is: tpuflex sweep --stack {swept.stack}")
    if Disposition.LIBRARY in standing:
        lines.append(f"What a library is: tpuflex library status --stack {swept.stack}")
    return Advice.lines(*lines)


def known_here(cloud: Connection, report: Report = silent) -> Here:
    """What is in the state of any stack of the backend, and the states that were seen here before.

    Raises:
        EngineError: a state cannot be read; its resources would look orphaned without it.
        AccessError: others may write what this home remembers.
    """
    project, seen = cloud.stack.project, cloud.known_state_ids
    engine = ensure(project.home, cloud.environ, report)
    target = Target(cloud.stack.engine_project, cloud.stack.name, engine, cloud.environ)
    states = {stack: stored_state(target, stack) for stack in stack_names(target)}
    for stack, deployment in states.items():
        seen.remember(stack, state_ids(deployment))
    known = frozenset(id_ for deployment in states.values() for id_ in known_ids(deployment))
    by_stack = seen.by_stack()
    stacks = tuple(dict.fromkeys((*project.stack_names(), *states, *by_stack)))
    return Here(project.name, cloud.stack.settings.project, "", stacks, known, by_stack)


def _with_library(cloud: Connection, here: Here, listing: Listing, report: Report) -> Here:
    """``here`` with what the state of the project's library knows, if there is anything of one.

    Raises:
        EngineError: that state cannot be read.
    """
    owner = library_names(here.cloud_project).owner
    if not any(resource.marker.owner == owner for resource in listing.resources):
        return here
    target = LibraryEngine(cloud, report).target
    if target.stack not in stack_names(target):
        return here
    return replace(here, known=here.known | known_ids(stored_state(target, target.stack)))


def _numbered(here: Here, listing: Listing, cloud: Connection) -> tuple[Here, Listing]:
    """Both with the project's number, if there is anything that it tells about; if it cannot be
    told, the list is incomplete."""
    if not any(resource.kind.shared_names for resource in listing.resources):
        return here, listing
    try:
        return replace(here, number=cloud.project_number), listing
    except TpuflexError as error:
        return here, replace(listing, unlisted=(*listing.unlisted, Unlisted.of("", error)))


def require_slices(slices: frozenset[str], found: Sequence[Swept]) -> None:
    """Check that every named slice is among what is left, so that a slip is not overlooked.

    Raises:
        NotFoundError: one is not.
        IncompleteTeardownError: one is not among what could be listed.
    """
    left = (each for swept in found for each in swept.left)
    unknown = sorted(slices - {each.resource.name for each in left})
    if unknown:
        for swept in found:
            require_complete(swept.listing, (), swept.here.cloud_project)
        raise NotFoundError(
            f"--slice {unknown[0]}: nothing of that name is left behind; nothing was deleted.",
            hint=Advice("See what is: {sweep}"),
        )


def _require_no_slice(swept: Swept) -> None:
    """Check that no slice that runs, and is billed, was spared.

    Raises:
        IncompleteTeardownError: names them.
    """
    tried = {id(each.leftover) for each in swept.deleted}
    running = [each for each in swept.left if runs(each.resource) and id(each) not in tried]
    if running:
        lines = (f"  left: {each.resource.title}: {each.reason}" for each in running)
        raise IncompleteTeardownError(
            "\n".join(("What runs was left alone:", *lines)),
            hint=Advice.lines(
                "It runs on, and is billed, until its run ends.", _deletion(swept, running)
            ),
        )


def require_complete(listing: Listing, deleted: tuple[Deleted, ...], project: str) -> None:
    """Check that everything could be listed, and that what had to be deleted is gone.

    Raises:
        IncompleteTeardownError: names the exceptions.
    """
    failed = [item for item in deleted if item.problem]
    if not failed and not listing.unlisted:
        return
    lines = [
        *(f"  left: {d.leftover.resource.title}: {d.problem}" for d in failed),
        *(f"  not listed: {line}" for line in reasons(listing.unlisted)),
    ]
    head = "Something is left:" if failed else "The list is incomplete:"
    problems = (*(item.problem for item in failed), *listing.unlisted)
    remedy = unlisted_remedy(problems, project)
    raise IncompleteTeardownError(
        "\n".join((head, *lines)),
        hint=Advice("{remedy}\nthen run again: {sweep}", remedy=remedy)
        if remedy
        else Advice("Run: {sweep}"),
    )


def _entry(leftover: Leftover, problem: str | None) -> dict[str, object]:
    """One leftover as JSON; ``problem`` is None if it was not tried, empty if it is gone."""
    resource = leftover.resource
    return {
        "kind": resource.kind.name,
        "name": resource.name,
        "location": resource.location,
        "stack": leftover.stack,
        "owner": resource.marker.owner or None,
        "state_id": resource.marker.state_id or None,
        "state": resource.state or None,
        "standing": leftover.disposition.value,
        "reason": leftover.reason,
        "deleted": problem == "",
        "problem": problem or None,
    }


def sweep_command(these: Sequence[Leftover]) -> Advice:
    """The command that deletes ``these``, as far as they are ours: it names each slice that
    runs."""
    ours = (each for each in these if each.disposition is not Disposition.FOREIGN)
    slices = dict.fromkeys(each.resource.name for each in ours if runs(each.resource))
    return Advice("{sweep} --yes{slices}", slices="".join(f" --slice {name}" for name in slices))


def _looked(
    cloud_projects: Iterable[CloudProject],
    connect: Callable[[Stack], Connection],
    environ: Mapping[str, str],
    slices: frozenset[str],
    failures: list[Failure],
    report: Report,
) -> Iterator[Swept]:
    """What is left behind in each project; a project that cannot be asked goes to ``failures``."""
    for each in cloud_projects:
        stack = each.stacks[0]
        try:
            yield look(connect(stack), slices, each.zones, report)
        except EmulatorError as error:
            # Nothing of a cloud that is not running runs, and nothing of it is ever billed.
            report(f"Not looked at: the embedded cloud: {error.message}")
        except TpuflexError as error:
            failures.append(Failure(each.project, stack.name, error, environ))


def _cloud_projects(
    stacks: Iterable[KnownStack], environ: Mapping[str, str]
) -> tuple[tuple[CloudProject, ...], list[Failure]]:
    """The cloud projects, and the stack files that cannot be read, whose projects are not
    listed."""
    by_project: dict[tuple[str, str], list[Stack]] = {}
    broken: list[Failure] = []
    for known in stacks:
        if known.stack is None:
            if known.error is not None:
                broken.append(Failure(known.name, known.name, known.error, environ))
            continue
        settings = known.stack.settings
        by_project.setdefault((settings.cloud, settings.project), []).append(known.stack)
    cloud_projects = (
        CloudProject(*key, tuple(stacks)) for key, stacks in sorted(by_project.items())
    )
    return tuple(cloud_projects), broken
