"""The steps of `tpuflex sweep`: states, listing, consent by --yes, deletion, proof."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuflex.catalog.zones import ZONES
from tpuflex.engine.backend import stack_names, stored_state
from tpuflex.engine.commands import Target
from tpuflex.engine.find import ensure
from tpuflex.engine.state import known_ids
from tpuflex.errors import IncompleteTeardownError
from tpuflex.gcp.listing import Listing, list_marked
from tpuflex.operate.sweep import Deleted, Disposition, Here, Leftover, delete, leftovers

if TYPE_CHECKING:
    from tpuflex.cli.cloud import Cloud
    from tpuflex.cli.invocation import Invocation
    from tpuflex.cli.output import Output


def run_sweep(invocation: Invocation, cloud: Cloud, *, all_stacks: bool) -> None:
    """List the resources that are in no stack's state, and with ``--yes`` delete them.

    Raises:
        IncompleteTeardownError: something could not be deleted, or could not be listed.
        TpuflexError: a state could not be read; nothing was deleted.
    """
    output, settings = invocation.output, cloud.stack.settings
    here = known_here(invocation, cloud)
    zones = tuple(dict.fromkeys((*settings.slice.zones, *ZONES)))
    output.progress(f"Asking every service of {settings.project} in {len(zones)} zones …")
    listing = list_marked(cloud.apis(), settings.project, zones, here.accounts)
    left = leftovers(listing, here)
    chosen = (
        (Disposition.ORPHAN, Disposition.UNKNOWN_STACK) if all_stacks else (Disposition.ORPHAN,)
    )
    to_delete = [leftover for leftover in left if leftover.disposition in chosen]
    deleted: tuple[Deleted, ...] = ()
    if to_delete and invocation.yes:
        deleted = delete(
            to_delete,
            cloud.apis(),
            say=output.progress,
            now=cloud.timing.monotonic,
            sleep=cloud.sleep,
        )
    show(output, settings.project, left, deleted, listing)
    if to_delete and not invocation.yes:
        output.result()
        output.result("Nothing was deleted. To delete the orphans: tpuflex sweep --yes")
    require_complete(listing, deleted)


def known_here(invocation: Invocation, cloud: Cloud) -> Here:
    """What is in the state of any stack of the backend.

    Raises:
        EngineError: a state cannot be read; its resources would look orphaned without it.
    """
    project = cloud.stack.project
    engine = ensure(project.home, invocation.environ, invocation.output.progress)
    target = Target(project.root, cloud.stack.name, engine, cloud.environ)
    stored = stack_names(target)
    known = frozenset(id_ for stack in stored for id_ in known_ids(stored_state(target, stack)))
    stacks = tuple(dict.fromkeys((*project.stack_names(), *stored)))
    return Here(project.name, cloud.stack.settings.project, stacks, known)


def show(
    output: Output,
    project: str,
    left: tuple[Leftover, ...],
    deleted: tuple[Deleted, ...],
    listing: Listing,
) -> None:
    """Print the leftovers, and what became of each."""
    problems = {id(item.leftover): item.problem for item in deleted}
    output.document(
        {
            "project": project,
            "complete": not listing.unseen,
            "unseen": list(listing.unseen),
            "leftovers": [
                {
                    "kind": leftover.resource.kind.name,
                    "name": leftover.resource.name,
                    "location": leftover.resource.location,
                    "stack": leftover.stack,
                    "state": leftover.resource.state or None,
                    "standing": leftover.disposition.value,
                    "reason": leftover.reason,
                    "deleted": problems.get(id(leftover)) == "",
                    "problem": problems.get(id(leftover)) or None,
                }
                for leftover in left
            ],
        }
    )
    if left:
        output.table(
            ("KIND", "NAME", "LOCATION", "STATE", "STACK", "WHY"),
            [
                (
                    leftover.resource.kind.name,
                    leftover.resource.name,
                    leftover.resource.location,
                    leftover.resource.state,
                    leftover.stack,
                    problems.get(id(leftover), leftover.reason) or "deleted",
                )
                for leftover in left
            ],
        )
    elif not listing.unseen:
        output.result(f"Nothing is left behind in {project}: every service was asked.")


def require_complete(listing: Listing, deleted: tuple[Deleted, ...]) -> None:
    """Check that everything could be listed, and that what had to be deleted is gone.

    Raises:
        IncompleteTeardownError: names the exceptions.
    """
    failed = [item for item in deleted if item.problem]
    if not failed and not listing.unseen:
        return
    lines = [
        *(
            f"  left: {d.leftover.resource.kind.name} {d.leftover.resource.name}: {d.problem}"
            for d in failed
        ),
        *(f"  not listed: {place}" for place in listing.unseen),
    ]
    head = "Something is left:" if failed else "The list is incomplete:"
    raise IncompleteTeardownError("\n".join((head, *lines)), hint="Run: tpuflex sweep")
