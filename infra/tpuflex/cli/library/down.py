"""The steps of `tpuflex library down`: delete it with everything in it, and prove it gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuflex.cli.library.contents import show_contents
from tpuflex.deploy.library_engine import LibraryEngine, regions_of, unfinished
from tpuflex.engine.state import known_ids, state_ids
from tpuflex.errors import ConflictError, IncompleteTeardownError
from tpuflex.gcloud_commands import remove_bucket
from tpuflex.inventory.kinds import SECRET
from tpuflex.inventory.library import list_library
from tpuflex.inventory.listing import Listing
from tpuflex.inventory.unlisted import reasons
from tpuflex.weights.library_contents import (
    Contents,
    library_contents,
    no_library,
)
from tpuflex.weights.use import END_USES

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from tpuflex.cli.invocation import Invocation
    from tpuflex.stack.connection import Connection

#: Deletions are visible in lists only after a moment.
_SETTLE_SECONDS = 30.0
_POLL_SECONDS = 1.0


def run_library_down(
    invocation: Invocation, cloud: Connection, *, with_readers: bool, dry_run: bool
) -> None:
    """Delete the library with everything in it, and prove that nothing of it is left.

    Args:
        invocation: the command.
        cloud: the cloud of a stack in the library's project.
        with_readers: whether it is deleted although endpoints may read from it.
        dry_run: whether only what would be deleted is shown.

    Raises:
        NotFoundError: there is no library.
        ConflictError: endpoints may read from it, or this backend has no state of it.
        InterruptedByUser: the user did not agree.
        IncompleteTeardownError: something is left, or could not be listed.
        TpuflexError: the engine failed; the same command goes on.
    """
    output, project = invocation.output, cloud.stack.settings.project
    work = LibraryEngine(cloud, invocation.report)
    with work.alone():
        state = work.state()
        found = library_contents(cloud)
        if not found and not known_ids(state):
            work.forget()
            raise no_library(cloud)
        _require_known(found, state_ids(state))
        output.heading(f"To be deleted for good: the library of {project}")
        show_contents(cloud, output, found)
        if not dry_run:
            _require_unread(found, with_readers=with_readers)
            if not invocation.yes:
                output.confirm_name("project's id", project)
                # Somebody may have come up while the user thought.
                _require_unread(library_contents(cloud), with_readers=with_readers)
            work.regions = tuple(sorted({*regions_of(state), *(each.region for each in found)}))
            if unfinished(state) or any(each.bucket.id not in known_ids(state) for each in found):
                work.settle()  # a state from a backup may not know all it has made
            work.destroy()
            _prove_gone(cloud)
            work.forget()
    output.document(
        {
            "project": project,
            "deleted": not dry_run,
            "buckets": [each.to_json() for each in found],
        }
    )
    if dry_run:
        output.result("Nothing was changed (--dry-run).")
    else:
        output.result(
            f"Nothing is left of the library of {project}: its buckets and its secret were listed."
        )


def _require_known(found: Sequence[Contents], states: Collection[str]) -> None:
    """Check that this backend's state has made every bucket.

    Raises:
        ConflictError: another one has.
    """
    others = [each.bucket for each in found if each.bucket.marker.state_id not in states]
    if not others:
        return
    lines = "\n".join(
        f"  bucket {each.name}: made by state {each.marker.state_id or '(none)'}" for each in others
    )
    raise ConflictError(
        f"The state in this backend has not made all of the library:\n{lines}\n"
        "Nothing was deleted.",
        hint="Use the backend that has its state (PULUMI_BACKEND_URL). If that state is"
        f" lost, delete them with all that is in them: {remove_bucket('gs://BUCKET')}",
    )


def _require_unread(found: Sequence[Contents], *, with_readers: bool) -> None:
    """Check that no endpoint serves from the library.

    Raises:
        ConflictError: one may read from it.
    """
    readers = sorted({f"  {who.member}: {who.where}" for each in found for who in each.endpoints})
    if readers and not with_readers:
        raise ConflictError(
            "Endpoints may read from the library, and a host of theirs that boots again would find"
            " no weights; or machines copy into it:\n"
            + "\n".join(readers)
            + "\nNothing was deleted.",
            hint=f"{END_USES} Or give the endpoints buckets of their own.\n"
            "To delete the library all the same: --with-readers\n"
            "A new library does not give them the right to read back: that takes a"
            " `down` and an `up` of each.",
        )


def _prove_gone(cloud: Connection) -> None:
    """List the library's buckets and secrets until there is none.

    Raises:
        IncompleteTeardownError: after half a minute there is one, or they cannot be listed.
    """
    project, timing = cloud.stack.settings.project, cloud.timing
    deadline = timing.monotonic() + _SETTLE_SECONDS
    listing = _listed(cloud)
    while listing.resources and timing.monotonic() < deadline:
        cloud.sleep(_POLL_SECONDS)
        listing = _listed(cloud)
    if not listing.resources and not listing.unseen:
        return
    left = [f"  left: {each.kind.name} {each.name} ({each.location})" for each in listing.resources]
    unseen = [f"  not looked at: {line}" for line in reasons(listing.unseen)]
    raise IncompleteTeardownError(
        "\n".join((f"It is not proved that the library of {project} is gone:", *left, *unseen)),
        hint=f"Look once more: tpuflex library status --stack {cloud.stack.name}\n"
        "What it still shows: `library down` once more.",
    )


def _listed(cloud: Connection) -> Listing:
    apis, project = cloud.apis(), cloud.stack.settings.project
    buckets, keys = list_library(apis, project), list_library(apis, project, SECRET)
    return Listing((*buckets.resources, *keys.resources), (*buckets.unseen, *keys.unseen))
