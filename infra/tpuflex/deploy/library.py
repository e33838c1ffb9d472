"""The steps of `tpuflex library up` and `status`: make it, and show it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tpuflex.advice import Advice
from tpuflex.catalog.zones import is_misspelt
from tpuflex.cli.library.contents import show_contents
from tpuflex.deploy.apis import require_apis
from tpuflex.deploy.library_engine import LibraryEngine, regions_of, unfinished
from tpuflex.deploy.policy import planned_resources
from tpuflex.engine.state import known_ids, state_ids
from tpuflex.errors import AlreadyExistsError
from tpuflex.gcloud_commands import remove_bucket
from tpuflex.google.required_apis import LIBRARY_APIS
from tpuflex.inventory.kinds import BUCKET
from tpuflex.naming import programs_key
from tpuflex.weights.library import ensure_programs_key, is_programs_key_there
from tpuflex.weights.library_contents import (
    library_contents,
    no_library,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from tpuflex.cli.invocation import Invocation
    from tpuflex.engine.events import EnginePlan
    from tpuflex.recovery.owners import Taken
    from tpuflex.stack.connection import Connection

_REGION = re.compile(r"[a-z]+-[a-z]+[0-9]+")
_STAYS = Advice("until `{library_down}`; what is in it is billed until then")
_RIGHTS_GONE = (
    "what was made again gives no endpoint its rights back: `down` and `up` those that were up"
)
_SETTING = "tpuflex:model.weights.bucket: library"


def run_library_up(
    invocation: Invocation,
    cloud: Connection,
    regions: Collection[str],
    *,
    new_programs_key: bool = False,
) -> None:
    """Make the library's buckets, and print them; as :func:`make_library`. With
    ``new_programs_key``, hosts that boot from then on do not use the programs compiled so far."""
    output, project = invocation.output, cloud.stack.settings.project
    require_apis(cloud, invocation.report, invocation.consent, apis=LIBRARY_APIS)
    changed, buckets = make_library(invocation, cloud, regions, new_programs_key=new_programs_key)
    output.document({"project": project, "changed": changed, "buckets": buckets})
    for region, name in buckets.items():
        output.result(f"  {region}  gs://{name}")
    output.result(f"Stacks of {project} keep their weights there with `{_SETTING}` in their file.")


def make_library(
    invocation: Invocation,
    cloud: Connection,
    regions: Collection[str] = (),
    *,
    new_programs_key: bool = False,
) -> tuple[bool, dict[str, str]]:
    """Make the library's buckets: in the stack's regions, in ``regions``, and where it has them.

    Says first what is made, and asks. Gives whether anything was changed, and the buckets by
    region.

    Args:
        invocation: the command.
        cloud: the cloud of a stack in the library's project.
        regions: further regions.
        new_programs_key: whether hosts that boot from now on stop using the programs compiled so
            far.

    Raises:
        ConflictError: hosts cannot read the value that signs compiled programs.
        AlreadyExistsError: another state has made one of them, or somebody else.
        InterruptedByUser: the user did not agree.
        TpuflexError: the engine failed; the same command goes on.
    """
    output, stack = invocation.output, cloud.stack
    work = LibraryEngine(cloud, invocation.report)
    with work.alone():
        state = work.state()
        had = regions_of(state)
        gone = _gone(work, had, known_ids(state))
        if gone and not unfinished(state):
            output.progress(f"What it has in {', '.join(gone)} is gone: asking the cloud …")
            work.engine.refresh()
        work.regions = tuple(sorted({*had, *stack.settings.slice.regions, *regions}))
        plan = work.preview()
        taken = work.taken(plan)
        if unfinished(state) or any(_made_by(each, state) for each in taken):
            work.settle()
            plan = work.preview()
            taken = work.taken(plan)
        if taken:
            raise _refused(work, taken)
        new = sorted({*work.regions} - {*had} | {*gone})
        _show_plan(invocation, work, plan, new)
        if new_programs_key:
            output.progress("All endpoints of the library compile once more, as their hosts boot.")
        if (plan.changes or new_programs_key) and not invocation.yes:
            output.confirm("Go ahead?")
        if plan.changes:
            work.up(plan)
        ensure_programs_key(cloud, anew=new_programs_key)
        if new_programs_key:
            output.progress(
                "Compiled programs have a new key: hosts that boot from now on use none of the"
                " existing ones."
            )
    if gone:
        output.progress(f"  warning  {_RIGHTS_GONE}")
    buckets = {region: work.names.bucket(work.project, region) for region in work.regions}
    return bool(plan.changes) or new_programs_key, buckets


def run_library_status(invocation: Invocation, cloud: Connection) -> None:
    """Show what the library holds, what it costs, and who may read it.

    Raises:
        NotFoundError: the project has no library.
        TpuflexError: it cannot be looked at.
    """
    output, project = invocation.output, cloud.stack.settings.project
    found = library_contents(cloud)
    if not found:
        raise no_library(cloud)
    output.document({"project": project, "buckets": [each.to_json() for each in found]})
    output.heading(f"The library of {project}")
    show_contents(cloud, output, found)


def wrong_region(names: Collection[str]) -> str:
    """The first of ``names`` that is no region, or a misspelt one; empty if there is none. One that
    tpuflex has not heard of may be new."""
    return next(
        (name for name in names if not _REGION.fullmatch(name) or is_misspelt(f"{name}-a")), ""
    )


def _gone(work: LibraryEngine, regions: Collection[str], known: Collection[str]) -> tuple[str, ...]:
    """Of ``regions``, which the state has, those whose bucket somebody has deleted, and all where
    that is the secret, of which the state has ``known``; raises as :meth:`Connection.is_there`."""
    if programs_key(work.project) in known and not is_programs_key_there(work.cloud):
        return tuple(regions)
    there = {each: work.cloud.is_there(work.names.bucket(work.project, each)) for each in regions}
    return tuple(each for each in regions if not there[each])


def _made_by(taken: Taken, state: dict[str, object]) -> bool:
    """Whether the library's own ``state`` has made what exists, and does not know it."""
    return taken.marker.state_id in state_ids(state) and taken.id not in known_ids(state)


def _refused(work: LibraryEngine, taken: Sequence[Taken]) -> AlreadyExistsError:
    lines = "\n".join(f"  {each}" for each in taken)
    ours = any(each.marker.owner == work.names.owner for each in taken)
    return AlreadyExistsError(
        f"The library of {work.project} has buckets that this state does not know:\n{lines}\n"
        "Nothing was changed.",
        status=409,
        hint="A colleague may keep its state in another backend: then use that one"
        " (PULUMI_BACKEND_URL).\nIf its state is lost, delete what is listed, with the weights in"
        f" it: {remove_bucket('gs://BUCKET')}"
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
            (
                "programs",
                "compiled ones are kept for 90 days, signed with a secret of the library's",
            ),
            ("access", "private, uniform; what is replaced or deleted can be had back for 7 days"),
            ("stays", _STAYS.for_stack(invocation.stack, invocation.environ)),
        )
    )
    output.result()
