"""The steps of `tpuflex library`: make it, show it, delete it and prove it gone."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tpuflex.catalog.zones import is_misspelt
from tpuflex.cli.library_keys import ensure_programs_keys, is_programs_key_there
from tpuflex.cli.output import for_stack
from tpuflex.cli.steps.library_contents import (
    Contents,
    library_contents,
    listed_buckets,
    show_contents,
)
from tpuflex.cli.steps.library_engine import LibraryEngine, regions_of, unfinished
from tpuflex.cli.steps.policy import planned_resources
from tpuflex.cli.steps.preflight import run_preflight
from tpuflex.cli.weights_uses import END_USES
from tpuflex.engine.state import known_ids, state_ids
from tpuflex.errors import (
    AlreadyExistsError,
    ConflictError,
    IncompleteTeardownError,
    NotFoundError,
)
from tpuflex.gcp.kinds import BUCKET, SECRET
from tpuflex.gcp.library import list_library
from tpuflex.gcp.listing import Listing
from tpuflex.gcp.required_apis import LIBRARY_APIS
from tpuflex.naming import programs_key
from tpuflex.operate.unseen import reasons

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from tpuflex.cli.cloud import Cloud
    from tpuflex.cli.invocation import Invocation
    from tpuflex.engine.events import EnginePlan
    from tpuflex.engine.recovery.owners import Taken

#: Deletions are visible in lists only after a moment.
_SETTLE_SECONDS = 30.0
_POLL_SECONDS = 1.0
_REGION = re.compile(r"[a-z]+-[a-z]+[0-9]+")
_STAYS = "until `tpuflex library down`; what is in it is billed until then"
_RIGHTS_GONE = (
    "what was made again gives no endpoint its rights back: `down` and `up` those that were up"
)
_SETTING = "tpuflex:model.weights.bucket: library"


def run_library_up(
    invocation: Invocation,
    cloud: Cloud,
    regions: Collection[str],
    *,
    take_over: bool,
    new_programs_key: bool = False,
) -> None:
    """Make the library's buckets, and print them; as :func:`make_library`. With
    ``new_programs_key``, hosts that boot from then on use no compiled programs of before."""
    output, project = invocation.output, cloud.stack.settings.project
    run_preflight(invocation, cloud, apis=LIBRARY_APIS)
    changed, buckets = make_library(
        invocation, cloud, regions, take_over=take_over, new_programs_key=new_programs_key
    )
    output.document({"project": project, "changed": changed, "buckets": buckets})
    for region, name in buckets.items():
        output.result(f"  {region}  gs://{name}")
    output.result(f"Stacks of {project} keep their weights there with `{_SETTING}` in their file.")


def make_library(
    invocation: Invocation,
    cloud: Cloud,
    regions: Collection[str] = (),
    *,
    take_over: bool = False,
    new_programs_key: bool = False,
) -> tuple[bool, dict[str, str]]:
    """Make the library's buckets: in the stack's regions, in ``regions``, and where it has them.

    Says first what is made, and asks. Gives whether anything was changed, and the buckets by
    region.

    Args:
        invocation: the command.
        cloud: the cloud of a stack in the library's project.
        regions: further regions.
        take_over: whether to adopt what a state that is lost has made.
        new_programs_key: whether hosts that boot from now on use no compiled programs of before.

    Raises:
        ConflictError: hosts cannot read the value that signs compiled programs.
        AlreadyExistsError: another state has made one of them, or somebody else.
        InterruptedByUser: the user did not agree.
        TpuflexError: the engine failed; the same command goes on.
    """
    output, stack = invocation.output, cloud.stack
    work = LibraryEngine(invocation, cloud)
    with work.alone():
        state = work.state()
        had = regions_of(state)
        gone = _gone(work, had, known_ids(state))
        if gone and not unfinished(state):
            output.progress(f"What it has in {', '.join(gone)} is gone: asking the cloud …")
            work.run.refresh()
        lost = _regions_there(cloud) if take_over else ()
        work.regions = tuple(sorted({*had, *lost, *stack.settings.slice.regions, *regions}))
        plan = work.preview()
        taken = work.taken(plan)
        if take_over or unfinished(state) or any(_made_by(each, state) for each in taken):
            work.settle(take_over=take_over)
            plan = work.preview()
            taken = work.taken(plan)
        if taken:
            raise _refused(work, taken)
        new = sorted({*work.regions} - {*had} | {*gone})
        _show_plan(invocation, work, plan, new)
        if plan.changes:
            if not invocation.yes:
                output.confirm("Go ahead?")
            work.up(plan)
        if new_programs_key and not invocation.yes:
            output.confirm("All endpoints of the library compile once more. Go ahead?")
        ensure_programs_keys(cloud, work.regions, anew=new_programs_key)
        if new_programs_key:
            output.progress(
                "Compiled programs have a new key: hosts that boot from now on use none of before."
            )
    if gone:
        output.progress(f"  warning  {_RIGHTS_GONE}")
    buckets = {region: work.names.bucket(work.project, region) for region in work.regions}
    return bool(plan.changes) or new_programs_key, buckets


def run_library_status(invocation: Invocation, cloud: Cloud) -> None:
    """Show what the library holds, what it costs, and who may read it.

    Raises:
        NotFoundError: the project has no library.
        TpuflexError: it cannot be looked at.
    """
    output, project = invocation.output, cloud.stack.settings.project
    found = library_contents(cloud)
    if not found:
        raise _no_library(cloud)
    output.document({"project": project, "buckets": [each.to_json() for each in found]})
    output.heading(f"The library of {project}")
    show_contents(cloud, output, found)


def run_library_down(
    invocation: Invocation, cloud: Cloud, *, with_readers: bool, dry_run: bool
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
    work = LibraryEngine(invocation, cloud)
    with work.alone():
        state = work.state()
        found = library_contents(cloud)
        if not found and not known_ids(state):
            work.forget()
            raise _no_library(cloud)
        _require_known(cloud, found, state_ids(state))
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
                work.settle(take_over=False)  # a state from a backup may not know all it has made
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
            f"Nothing is left of the library of {project}: its buckets and secrets were listed."
        )


def wrong_region(names: Collection[str]) -> str:
    """The first of ``names`` that is no region, or a misspelt one; empty if there is none. One that
    tpuflex has not heard of may be new."""
    return next(
        (name for name in names if not _REGION.fullmatch(name) or is_misspelt(f"{name}-a")), ""
    )


def _gone(work: LibraryEngine, regions: Collection[str], known: Collection[str]) -> tuple[str, ...]:
    """Of ``regions``, which the state has, those whose bucket or secret somebody has deleted, of
    which the state has ``known``; raises as :meth:`Cloud.is_there`."""

    def is_there(region: str) -> bool:
        key = programs_key(work.project, region)
        bucket = work.cloud.is_there(work.names.bucket(work.project, region))
        return bucket and (key not in known or is_programs_key_there(work.cloud, key))

    return tuple(each for each in regions if not is_there(each))


def _made_by(taken: Taken, state: dict[str, object]) -> bool:
    """Whether the library's own ``state`` has made what exists, and does not know it."""
    return taken.marker.state_id in state_ids(state) and taken.id not in known_ids(state)


def _refused(work: LibraryEngine, taken: Sequence[Taken]) -> AlreadyExistsError:
    lines = "\n".join(f"  {each}" for each in taken)
    ours = any(each.marker.owner == work.names.owner for each in taken)
    command = f"tpuflex library up --take-over --stack {work.cloud.stack.name}"
    return AlreadyExistsError(
        f"The library of {work.project} has buckets that this state does not know:\n{lines}\n"
        "Nothing was changed.",
        status=409,
        hint="A colleague may keep its state in another backend: then use that one"
        f" (PULUMI_BACKEND_URL).\nIf its state is lost: {command}"
        if ours
        else "Nothing of tpuflex has made them. Keep weights in the stacks' own buckets: leave"
        " tpuflex:model.weights.bucket out.",
    )


def _show_plan(
    invocation: Invocation, work: LibraryEngine, plan: EnginePlan, new: Sequence[str]
) -> None:
    output = invocation.output
    if not plan.changes:
        output.result(f"The library of {work.project} is as it should be; nothing changes.")
        return
    output.heading(f"The library of {work.project}")
    buckets = [each for each in planned_resources(plan) if each.type == BUCKET.type]
    output.table(
        ("REGION", "BUCKET"),
        [(str(each.inputs.get("location")).lower(), each.text("name")) for each in buckets],
    )
    output.facts(
        (
            ("new in", ", ".join(new)),
            ("programs", "compiled ones are kept for 90 days, signed with a secret in each region"),
            ("access", "private, uniform; what is replaced or deleted can be had back for 7 days"),
            ("stays", for_stack(_STAYS, invocation.stack)),
        )
    )
    output.result()


def _no_library(cloud: Cloud) -> NotFoundError:
    project, stack = cloud.stack.settings.project, cloud.stack.name
    return NotFoundError(
        f"Project {project} has no library of weights.",
        hint=f"To make one: tpuflex library up --stack {stack}",
    )


def _require_known(cloud: Cloud, found: Sequence[Contents], states: Collection[str]) -> None:
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
        hint="Use the backend that has its state (PULUMI_BACKEND_URL). If that state is lost:"
        f" tpuflex library up --take-over --stack {cloud.stack.name}",
    )


def _require_unread(found: Sequence[Contents], *, with_readers: bool) -> None:
    """Check that no endpoint serves from the library.

    Raises:
        ConflictError: one may read from it.
    """
    readers = sorted({f"  {who.member}: {who.where}" for each in found for who in each.users})
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


def _regions_there(cloud: Cloud) -> tuple[str, ...]:
    """The regions in which the library has a bucket or a secret, whichever state has made it.

    Raises:
        AccessError, ApiError: they cannot be listed.
    """
    secrets = list_library(cloud.apis(), cloud.stack.settings.project, SECRET)
    named = (each.name.rpartition("-programs-")[2] for each in secrets.resources)
    return tuple({*(each.location for each in listed_buckets(cloud)), *named})


def _prove_gone(cloud: Cloud) -> None:
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
        "What it still shows: `library up --take-over`, then `library down`.",
    )


def _listed(cloud: Cloud) -> Listing:
    apis, project = cloud.apis(), cloud.stack.settings.project
    buckets, keys = list_library(apis, project), list_library(apis, project, SECRET)
    return Listing((*buckets.resources, *keys.resources), (*buckets.unseen, *keys.unseen))
