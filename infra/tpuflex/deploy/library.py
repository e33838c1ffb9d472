"""The library of a Google Cloud project: make it, look at it, delete it and prove it gone."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tpuflex.catalog.zones import is_misspelt
from tpuflex.deploy.apis import require_apis
from tpuflex.deploy.library_engine import LibraryEngine, regions_of, unfinished
from tpuflex.engine.state import known_ids, state_ids
from tpuflex.errors import AlreadyExistsError, ConflictError, IncompleteTeardownError
from tpuflex.gcloud_commands import remove_bucket
from tpuflex.google.required_apis import LIBRARY_APIS
from tpuflex.inventory.kinds import SECRET
from tpuflex.inventory.library import list_library
from tpuflex.inventory.listing import Listing
from tpuflex.inventory.unlisted import reasons
from tpuflex.naming import programs_key
from tpuflex.stack.progress import Progress, agree, require_consent, require_name, silent
from tpuflex.weights.library import ensure_programs_key, is_programs_key_there
from tpuflex.weights.library_contents import library_contents, no_library
from tpuflex.weights.use import END_USES

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from tpuflex.engine.events import EnginePlan
    from tpuflex.recovery.owners import Taken
    from tpuflex.stack.connection import Connection
    from tpuflex.stack.progress import Consent
    from tpuflex.weights.library_contents import Contents

#: Deletions are visible in lists only after a moment.
_SETTLE_SECONDS = 30.0
_POLL_SECONDS = 1.0

_REGION = re.compile(r"[a-z]+-[a-z]+[0-9]+")
_RIGHTS_GONE = (
    "what was made again gives no endpoint its rights back: `down` and `up` those that were up"
)


@dataclass(frozen=True, slots=True)
class LibraryPlan:
    """What is about to be made, told before it is asked for.

    Attributes:
        project: the Google Cloud project.
        plan: what the engine would do.
        new: the regions that get a bucket.
    """

    project: str
    plan: EnginePlan
    new: tuple[str, ...]

    def __str__(self) -> str:
        return f"The library of {self.project}: {len(self.plan.changes)} to change"


@dataclass(frozen=True, slots=True)
class LibraryUp:
    """The library that there is now.

    Attributes:
        project: the Google Cloud project.
        changed: whether anything was changed.
        buckets: its buckets by region.
    """

    project: str
    changed: bool
    buckets: Mapping[str, str]

    def to_json(self) -> dict[str, object]:
        """The document that ``tpuflex library up --json`` prints."""
        return {"project": self.project, "changed": self.changed, "buckets": dict(self.buckets)}


@dataclass(frozen=True, slots=True)
class LibraryStatus:
    """What the library holds; of one that is about to be deleted, told before it is asked for.

    Attributes:
        project: the Google Cloud project.
        buckets: its buckets.
    """

    project: str
    buckets: tuple[Contents, ...]

    def __str__(self) -> str:
        return f"The library of {self.project}: {len(self.buckets)} buckets"

    def to_json(self) -> dict[str, object]:
        """The document that ``tpuflex library status --json`` prints."""
        return {"project": self.project, "buckets": [each.to_json() for each in self.buckets]}


@dataclass(frozen=True, slots=True)
class LibraryDown:
    """What was deleted, or would be.

    Attributes:
        library: what it held.
        deleted: whether it is deleted.
    """

    library: LibraryStatus
    deleted: bool

    def to_json(self) -> dict[str, object]:
        """The document that ``tpuflex library down --json`` prints."""
        return {**self.library.to_json(), "deleted": self.deleted}


#: Takes the progress of making a library, the plan among it.
LibraryReport = Callable[[Progress | LibraryPlan], None]


def library_up(
    cloud: Connection,
    regions: Collection[str] = (),
    report: LibraryReport = silent,
    *,
    consent: Consent,
    new_programs_key: bool = False,
) -> LibraryUp:
    """Enable the APIs that the library needs, and make it; as :func:`make_library`.

    Raises:
        AccessError, ApiError, ServiceDisabledError: the APIs cannot be used.
    """
    require_apis(cloud, report, consent, apis=LIBRARY_APIS)
    return make_library(cloud, regions, report, consent=consent, new_programs_key=new_programs_key)


def make_library(
    cloud: Connection,
    regions: Collection[str] = (),
    report: LibraryReport = silent,
    *,
    consent: Consent,
    new_programs_key: bool = False,
) -> LibraryUp:
    """Make the library's buckets: in the stack's regions, in ``regions``, and where it has them.

    Args:
        cloud: the cloud of a stack in the library's project.
        regions: further regions.
        report: is told what will be made, and then how far it is.
        consent: asked, unless there is nothing to do.
        new_programs_key: whether hosts that boot from now on stop using the programs compiled so
            far.

    Raises:
        ConflictError: hosts cannot read the value that signs compiled programs.
        AlreadyExistsError: another state has made one of them, or somebody else.
        InterruptedByUser: the user did not agree.
        TpuflexError: the engine failed; the same command goes on.
    """
    work = LibraryEngine(cloud, report)
    with work.alone():
        state = work.state()
        had = regions_of(state)
        gone = _gone(work, had, known_ids(state))
        if gone and not unfinished(state):
            report(f"What it has in {', '.join(gone)} is gone: asking the cloud …")
            work.engine.refresh()
        work.regions = tuple(sorted({*had, *cloud.stack.settings.slice.regions, *regions}))
        plan = work.preview()
        taken = work.taken(plan)
        if unfinished(state) or any(_made_by(each, state) for each in taken):
            work.settle()
            plan = work.preview()
            taken = work.taken(plan)
        if taken:
            raise _refused(work, taken)
        new = sorted({*work.regions} - {*had} | {*gone})
        report(LibraryPlan(work.project, plan, tuple(new)))
        if new_programs_key:
            report("All endpoints of the library compile once more, as their hosts boot.")
        if plan.changes or new_programs_key:
            require_consent(consent, "Go ahead?")
        if plan.changes:
            work.up(plan)
        ensure_programs_key(cloud, anew=new_programs_key)
        if new_programs_key:
            report(
                "Compiled programs have a new key: hosts that boot from now on use none of the"
                " existing ones."
            )
    if gone:
        report(f"  warning  {_RIGHTS_GONE}")
    buckets = {region: work.names.bucket(work.project, region) for region in work.regions}
    return LibraryUp(work.project, bool(plan.changes) or new_programs_key, buckets)


def library_status(cloud: Connection) -> LibraryStatus:
    """What the library holds, what it costs, and who may read it.

    Raises:
        NotFoundError: the project has no library.
        TpuflexError: it cannot be looked at.
    """
    found = library_contents(cloud)
    if not found:
        raise no_library(cloud)
    return LibraryStatus(cloud.stack.settings.project, found)


def library_down(
    cloud: Connection,
    report: Callable[[Progress | LibraryStatus], None] = silent,
    *,
    consent: Consent,
    with_readers: bool = False,
    dry_run: bool = False,
) -> LibraryDown:
    """Delete the library with everything in it, and prove that nothing of it is left.

    Args:
        cloud: the cloud of a stack in the library's project.
        report: is told what will be deleted, and then how far it is.
        consent: asked for the project's id.
        with_readers: whether it is deleted although endpoints may read from it.
        dry_run: whether only what would be deleted is told.

    Raises:
        NotFoundError: there is no library.
        ConflictError: endpoints may read from it, or this backend has no state of it.
        InterruptedByUser: the user did not agree.
        IncompleteTeardownError: something is left, or could not be listed.
        TpuflexError: the engine failed; the same command goes on.
    """
    project = cloud.stack.settings.project
    work = LibraryEngine(cloud, report)
    with work.alone():
        state = work.state()
        found = library_contents(cloud)
        if not found and not known_ids(state):
            work.forget()
            raise no_library(cloud)
        _require_known(found, state_ids(state))
        library = LibraryStatus(project, found)
        report(library)
        if dry_run:
            return LibraryDown(library, deleted=False)
        require_unread(found, with_readers=with_readers)
        require_name(consent, "project's id", project)
        if consent is not agree:  # an endpoint may have come up while the user thought
            require_unread(library_contents(cloud), with_readers=with_readers)
        work.regions = tuple(sorted({*regions_of(state), *(each.region for each in found)}))
        if unfinished(state) or any(each.bucket.id not in known_ids(state) for each in found):
            work.settle()  # a state from a backup may not know all it has made
        work.destroy()
        _prove_gone(cloud)
        work.forget()
    return LibraryDown(library, deleted=True)


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


def require_unread(found: Sequence[Contents], *, with_readers: bool) -> None:
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
    if not listing.resources and not listing.unlisted:
        return
    left = [f"  left: {each.kind.name} {each.name} ({each.location})" for each in listing.resources]
    unlisted = [f"  not looked at: {line}" for line in reasons(listing.unlisted)]
    raise IncompleteTeardownError(
        "\n".join((f"It is not proved that the library of {project} is gone:", *left, *unlisted)),
        hint=f"Look once more: tpuflex library status --stack {cloud.stack.name}\n"
        "What it still shows: `library down` once more.",
    )


def _listed(cloud: Connection) -> Listing:
    apis, project = cloud.apis(), cloud.stack.settings.project
    buckets, keys = list_library(apis, project), list_library(apis, project, SECRET)
    return Listing((*buckets.resources, *keys.resources), (*buckets.unlisted, *keys.unlisted))
