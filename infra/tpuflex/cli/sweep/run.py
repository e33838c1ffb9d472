"""The steps of `tpuflex sweep`: states, listing, consent by --yes, deletion, proof."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tpuflex.advice import Advice
from tpuflex.cli.sweep.report import document, show, sweep_command
from tpuflex.deploy.library_engine import LibraryEngine
from tpuflex.engine.backend import stack_names, stored_state
from tpuflex.engine.commands import Target
from tpuflex.engine.find import ensure
from tpuflex.engine.state import known_ids, state_ids
from tpuflex.errors import IncompleteTeardownError, NotFoundError, TpuflexError
from tpuflex.inventory.listing import Listing, list_all
from tpuflex.inventory.unlisted import reasons, unseen_remedy
from tpuflex.naming import library_names
from tpuflex.operate.sweep import Disposition, Here, Leftover, leftovers, runs
from tpuflex.operate.sweep_deletion import Deleted, delete

if TYPE_CHECKING:
    from tpuflex.cli.invocation import Invocation
    from tpuflex.stack.connection import Connection
    from tpuflex.terminal.output import Output


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

    def document(self) -> dict[str, object]:
        """The document of ``--json``."""
        return document(self.here, self.left, self.deleted, self.listing)

    def show(self, output: Output) -> None:
        """Print it."""
        show(output, self.here, self.left, self.deleted, self.listing)

    @property
    def stack(self) -> str:
        """The stack that commands in advice name: without it they would look at the cloud project
        of the default one."""
        return self.cloud.stack.name


def run_sweep(
    invocation: Invocation, cloud: Connection, slices: frozenset[str], *, exit_code: bool = False
) -> None:
    """List the resources that are in no stack's state, and with ``--yes`` delete what is ours.

    Args:
        invocation: the command.
        cloud: the cloud of the stack.
        slices: names of queued resources and nodes that may be deleted while they run.
        exit_code: whether it is an error that something is there that no state knows.

    Raises:
        NotFoundError: a slice was named that is not left behind.
        IncompleteTeardownError: something could not be deleted, or could not be listed.
        TpuflexError: a state could not be read; nothing was deleted.
    """
    output = invocation.output
    swept = look(invocation, cloud, slices, cloud.stack.settings.slice.zones)
    require_slices(slices, (swept,))
    if invocation.yes:
        swept = delete_orphans(invocation, swept)
    output.document(swept.document())
    swept.show(output)
    if swept.orphans and not invocation.yes:
        output.result()
        advice = Advice("Nothing was deleted. To delete the orphans: {sweep} --yes")
        output.result(advice.for_stack(swept.stack, invocation.environ))
    require_none_left(invocation, swept, exit_code=exit_code)


def look(
    invocation: Invocation, cloud: Connection, slices: frozenset[str], zones: Iterable[str]
) -> Swept:
    """List what is left behind in the project of ``cloud``, in ``zones`` and in the catalog's.

    Raises:
        TpuflexError: a state could not be read.
    """
    settings = cloud.stack.settings
    here = known_here(invocation, cloud)
    where = tuple(dict.fromkeys((*zones, *(zone for zone, _ in settings.catalog.zones))))
    project = settings.project
    invocation.output.progress(f"Asking every service of {project} in {len(where)} zones …")
    listing = list_all(cloud.apis(), project, where, here.accounts)
    here, listing = _numbered(here, listing, cloud)
    here = _with_library(invocation, cloud, here, listing)
    return Swept(cloud, here, listing, leftovers(listing, here, slices))


def delete_orphans(invocation: Invocation, swept: Swept) -> Swept:
    """Delete what is ours and in no state; one that cannot be deleted does not stop the others."""
    cloud = swept.cloud
    deleted = delete(
        swept.orphans,
        cloud.apis(),
        say=invocation.output.progress,
        timing=cloud.timing,
    )
    return replace(swept, deleted=deleted)


def require_none_left(invocation: Invocation, swept: Swept, *, exit_code: bool) -> None:
    """Check that the list is complete, and that what had to go is gone.

    Raises:
        IncompleteTeardownError: names the exceptions; with ``exit_code``, everything that no state
            knows.
    """
    require_complete(swept.listing, swept.deleted, swept.here.cloud_project)
    if invocation.yes:
        _require_no_slice(swept)
    if exit_code and swept.unknown:
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


def known_here(invocation: Invocation, cloud: Connection) -> Here:
    """What is in the state of any stack of the backend, and the states that were seen here before.

    Raises:
        EngineError: a state cannot be read; its resources would look orphaned without it.
        AccessError: others may write what this home remembers.
    """
    project, seen = cloud.stack.project, cloud.seen_states
    engine = ensure(project.home, invocation.environ, invocation.output.progress)
    target = Target(cloud.stack.engine_project, cloud.stack.name, engine, cloud.environ)
    states = {stack: stored_state(target, stack) for stack in stack_names(target)}
    for stack, deployment in states.items():
        seen.remember(stack, state_ids(deployment))
    known = frozenset(id_ for deployment in states.values() for id_ in known_ids(deployment))
    by_stack = seen.by_stack()
    stacks = tuple(dict.fromkeys((*project.stack_names(), *states, *by_stack)))
    return Here(project.name, cloud.stack.settings.project, "", stacks, known, by_stack)


def _with_library(invocation: Invocation, cloud: Connection, here: Here, listing: Listing) -> Here:
    """``here`` with what the state of the project's library knows, if there is anything of one.

    Raises:
        EngineError: that state cannot be read.
    """
    owner = library_names(here.cloud_project).owner
    if not any(resource.marker.owner == owner for resource in listing.resources):
        return here
    target = LibraryEngine(cloud, invocation.report).target
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
        return here, replace(listing, unseen=(*listing.unseen, error.message))


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
    if not failed and not listing.unseen:
        return
    lines = [
        *(f"  left: {d.leftover.resource.title}: {d.problem}" for d in failed),
        *(f"  not listed: {line}" for line in reasons(listing.unseen)),
    ]
    head = "Something is left:" if failed else "The list is incomplete:"
    problems = (*(item.problem for item in failed), *listing.unseen)
    remedy = unseen_remedy(problems, project)
    raise IncompleteTeardownError(
        "\n".join((head, *lines)),
        hint=Advice("{remedy}\nthen run again: {sweep}", remedy=remedy)
        if remedy
        else Advice("Run: {sweep}"),
    )
