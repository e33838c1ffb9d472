"""Whether the weights are there: complete in the bucket, or with a source to push them from. Which
ones `tpuflex up` would use is reported as far as that is known without the state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from tpuflex.advice import Advice
from tpuflex.boot.places import weights_prefix
from tpuflex.doctor.check import Check, Group, Subject
from tpuflex.doctor.side_by_side import Examination
from tpuflex.errors import AlreadyExistsError, NotFoundError, TpuflexError, WeightsError
from tpuflex.google.bucket_owner import may_read_buckets, require_own_bucket
from tpuflex.google.existing_bucket import read_existing_bucket
from tpuflex.google.project import project_number
from tpuflex.google.reading import Unread, attempt
from tpuflex.operate.endpoint_status import gone_container
from tpuflex.operate.slice import slice_status
from tpuflex.queued_resource.states import Lifecycle
from tpuflex.settings.weights_source import LocalDirectory
from tpuflex.weights.bucket import weights_bucket
from tpuflex.weights.library import require_library, require_programs_key
from tpuflex.weights.push_record import PushedWeights
from tpuflex.weights.source import check_source, fetching_text
from tpuflex.weights.trust import Choice, Trust, Weights, choose

if TYPE_CHECKING:
    from tpuflex.doctor.cloud import ExaminedCloud
    from tpuflex.stack.connection import Connection
    from tpuflex.stack.stack import Stack
    from tpuflex.weights.stored_set import WeightsCheck

WEIGHTS = Subject(Group.SERVED, "weights")
DELETED = Subject(Group.SERVED, "deleted")


@dataclass(frozen=True, slots=True)
class WeightsPlace:
    """Where the weights of a stack belong.

    Attributes:
        url: their place in the bucket.
        source: where `up` takes missing ones from; empty if the stack names none.
        unusable: why that source cannot be used, if so.
        push: the command that pushes them.
        pinned: whether the stack file pins their manifest.
        active: whether the slice is ACTIVE: `up` then has nothing to do, and pushes nothing.
    """

    url: str
    source: str
    unusable: TpuflexError | None
    push: str
    pinned: bool = False
    active: bool = False


def examinations(cloud: ExaminedCloud) -> list[Examination]:
    """What to examine of the weights."""
    return [
        Examination(Group.SERVED, "weights", partial(_examine, cloud)),
        Examination(Group.SERVED, "deleted", partial(_examine_deleted, cloud)),
    ]


def _examine_deleted(examined: ExaminedCloud) -> list[Check]:
    """What a slice that runs was made with and somebody has deleted: it would not boot again."""
    cloud = examined.connection
    try:
        gone = gone_container(cloud) if _active(cloud) else ""
    except NotFoundError:
        return []  # all of it is still to be made
    if not gone:
        return []
    return [DELETED.warning(f"{gone} was deleted outside of tpuflex", Advice("`{up}`"))]


def _examine(examined: ExaminedCloud) -> list[Check]:
    cloud, project = examined.connection, examined.project
    manager, storage = examined.manager, examined.api(examined.endpoints.storage)
    stack, model = cloud.stack, examined.settings.model
    prefix = weights_prefix(model)
    place = WeightsPlace(
        f"gs://{cloud.bucket}/{prefix}",
        f"a stand-in for {stack.stand_in}" if stack.stand_in else str(model.weights.source or ""),
        _error(lambda: check_source(stack, cloud)),
        f"tpuflex weights push DIRECTORY --stack {stack.name}",
        model.weights.manifest_sha256 is not None,
    )

    existing = model.weights.existing

    def read() -> WeightsCheck | None:
        if existing is not None:
            read_existing_bucket(storage, existing, stack.settings.region)
        elif not all(map(_there, cloud.buckets.values())):
            require_library(cloud)
            return None
        require_programs_key(cloud)
        bucket = weights_bucket(
            cloud.bucket, project=project, environ=cloud.environ, existing=existing
        )
        try:
            return bucket.verify(prefix, stack.needs)
        except NotFoundError:
            return None

    def _there(name: str) -> bool:
        number = partial(project_number, manager, project)
        readable = partial(may_read_buckets, manager, project)
        shared = name != cloud.made_bucket
        return require_own_bucket(storage, name, project, number, readable, shared=shared)

    try:
        stored = read()
        if stored is not None and stored.problems:
            place = replace(place, active=attempt(lambda: _active(cloud)) is True)
        check = weights_check(place, stored, _choice_for(cloud, place.url, stored))
    except (AlreadyExistsError, NotFoundError) as error:
        check = WEIGHTS.failed(type(error), error.message, error.hint)
    return [check, *_stood_in(stack)]


def _stood_in(stack: Stack) -> Iterator[Check]:
    """What a rehearsal has a stand-in for, and an `up` on Google would miss."""
    if isinstance(stack.stand_in, LocalDirectory):
        text = Advice(
            "{source} is not on this machine: on Google, `{up}` refuses", source=stack.stand_in
        )
        yield WEIGHTS.warning(text, fetching_text(stack.settings.model.name, stack.stand_in.path))


def _choice_for(
    cloud: Connection, place: str, stored: WeightsCheck | None
) -> Choice | WeightsError:
    """What `up` would do about the weights in the bucket, as far as that is known without the
    state, or why it would refuse them.

    Args:
        cloud: the stack's cloud.
        place: where they are.
        stored: what is there.
    """
    settings = cloud.stack.settings.model.weights
    known = PushedWeights(cloud.stack.own_files)
    pushed = known.get(cloud.bucket, weights_prefix(cloud.stack.settings.model))
    found = None if stored is None else stored.sha256
    try:
        return choose(
            Weights(place, cloud.stack.name, found, settings.source is not None),
            Trust(pinned=settings.manifest_sha256, pushed=pushed),
        )
    except WeightsError as error:
        return error


def _active(cloud: Connection) -> bool:
    status = slice_status(cloud.stack.settings, cloud.stack.names, cloud.tpu)
    return status.lifecycle is Lifecycle.ACTIVE


def _error(look: Callable[[], object]) -> TpuflexError | None:
    try:
        look()
    except TpuflexError as error:
        return error
    return None


def weights_check(
    place: WeightsPlace, stored: WeightsCheck | Unread | None, chosen: Choice | WeightsError
) -> Check:
    """How the weights stand.

    Args:
        place: where they belong.
        stored: what is there; None if there are none, or no bucket yet.
        chosen: what `up` would do about them, by
            :func:`tpuflex.weights.trust.choose`; or why it would refuse them, as far as
            that is known without the state.
    """
    if isinstance(stored, Unread):
        return WEIGHTS.unknown(stored)
    if stored is not None and not stored.problems and chosen is not Choice.PUSH:
        return _complete_check(place, stored, chosen)
    lacking = _lacking(stored)
    if not place.source:
        return WEIGHTS.failed(
            WeightsError, f"{place.url}: {lacking}, and the stack names no source", place.push
        )
    if place.unusable is not None:
        return WEIGHTS.failed(
            type(place.unusable),
            f"{place.url}: {lacking}, and the source {place.source} cannot be used: "
            f"{' '.join(place.unusable.message.split())}",
            place.unusable.hint or place.push,
        )
    if place.active and stored is not None and stored.problems:
        return WEIGHTS.warning(
            Advice(
                "{url}: {lacking}; the slice is ACTIVE, so `{up}` pushes nothing, and a"
                " host that boots again would not find them",
                url=place.url,
                lacking=lacking,
            ),
            place.push,
        )
    refused = ", and refuses others than the pinned ones" if place.pinned else ""
    return WEIGHTS.ok(
        Advice(
            "{url}: {lacking}; `{up}` pushes from {source}{refused}",
            url=place.url,
            lacking=lacking,
            source=place.source,
            refused=refused,
        )
    )


def _complete_check(
    place: WeightsPlace, stored: WeightsCheck, chosen: Choice | WeightsError
) -> Check:
    """How weights stand that match their manifest: it may be one that `up` does not trust."""
    gigabytes = stored.manifest.total_bytes / 1e9
    text = f"{place.url}: complete, {len(stored.manifest.files)} files, {gigabytes:.2f} GB"
    if isinstance(chosen, Choice):
        return WEIGHTS.ok(text)
    if place.pinned:
        return WEIGHTS.failed(WeightsError, " ".join(chosen.message.split()), chosen.hint)
    # The state may name them, which only the engine reads.
    return WEIGHTS.warning(
        Advice(
            "{text}; not pushed from here, so `{up}` serves them only if the slice was made for"
            " them before",
            text=text,
        ),
        chosen.hint,
    )


def _lacking(stored: WeightsCheck | None) -> str:
    if stored is None:
        return "none"
    return _damage(stored) if stored.problems else "others than the pinned ones"


def _damage(stored: WeightsCheck) -> str:
    first = stored.problems[0]
    more = len(stored.problems) - 1
    return f"{first.path} ({first.problem})" + (f" and {more} more" if more else "")
