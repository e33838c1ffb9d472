"""Who uses the sets of weights in a stack's bucket, and when they were last used.

What uses a set now a removal looks at first, as far as it can be seen. Two sources, either of which
is enough: the bucket's own policy, in which every endpoint has a binding for its set for as long as
it is there; and what the nodes and requests of the Google Cloud project are to boot with, for
endpoints whose grants others make. When a set was last used is noted with it, by the day.
"""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tpuflex.boot.planned import planned_weights
from tpuflex.catalog.zones import region_of
from tpuflex.errors import (
    AccessError,
    ApiError,
    NotFoundError,
    ServiceDisabledError,
    TpuflexError,
)
from tpuflex.gcloud_commands import grant_on_bucket
from tpuflex.google.existing_bucket import PUSH_ROLE, held_in
from tpuflex.host.report import CONFIG_KEY
from tpuflex.inventory.library import bucket_readers
from tpuflex.inventory.listing import ANY_ZONE
from tpuflex.naming import LABEL_OWNER
from tpuflex.queued_resource.states import ON_ITS_WAY, Lifecycle, lifecycle
from tpuflex.weights.stack_weights import StackWeights, is_shared
from tpuflex.weights.storage_errors import translated
from tpuflex.weights.stored_set import TIMEOUT, SetObjects, last_use_metadata, last_used

if TYPE_CHECKING:
    from collections.abc import Callable

    from tpuflex.boot.planned import PlannedWeights
    from tpuflex.queued_resource.model import Node, QueuedResource
    from tpuflex.stack.connection import Connection

#: The hint where endpoints use what would be removed.
END_USES = "Take those endpoints down first: tpuflex --stack NAME down."
#: What a removal needs.
_DELETES = "storage.objects.delete"
#: Requests that have hosts, or will have.
_LIVE = ON_ITS_WAY | {Lifecycle.ACTIVE}


@dataclass(frozen=True, slots=True)
class User:
    """An endpoint that uses a set.

    Attributes:
        text: how it was seen, in words.
        owner: its owner marker, by its slice or by its binding; empty where the binding has none,
            because the account is the endpoint's own.
        member: that account, as a policy spells it; empty where it was seen by its slice.
    """

    text: str
    owner: str = ""
    member: str = ""


@dataclass(frozen=True, slots=True)
class Uses:
    """Who uses the sets of weights of one bucket.

    Attributes:
        by_prefix: the users of each set, by its prefix.
        unlisted: what could not be looked at, a line each: more sets may be in use.
    """

    by_prefix: Mapping[str, tuple[User, ...]]
    unlisted: tuple[str, ...] = ()

    def of(self, prefix: str) -> tuple[str, ...]:
        """The users of the set at ``prefix``, or of one below or above it, a line each."""
        return tuple(user.text for user in self._at(prefix))

    def others(self, prefix: str, owner: str, member: str) -> tuple[str, ...]:
        """Those of them that are not the endpoint with this ``owner`` marker, whose hosts run as
        ``member``, a line each."""
        return tuple(
            each.text
            for each in self._at(prefix)
            if (each.owner != owner if each.owner else each.member != member)
        )

    def _at(self, prefix: str) -> tuple[User, ...]:
        """The users of what is at ``prefix``. One set can lie below another where two stacks write
        to ``gs://B`` and ``gs://B/models``."""
        found = sorted(self.by_prefix.items())
        return tuple(user for at, users in found if _overlap(at, prefix) for user in users)


def weights_uses(weights: StackWeights) -> Uses:
    """Who uses the sets of weights, any stack's, in the bucket of ``weights``."""
    found: dict[str, list[User]] = defaultdict(list)
    unlisted: list[str] = []
    try:
        for reader in bucket_readers(weights.cloud.apis(), weights.bucket):
            if reader.endpoint and not reader.plain:
                unlisted.append(f"what {reader.member} may read: {reader.where}")
            elif reader.endpoint:
                text = f"{reader.member} may read it, an endpoint's account"
                found[reader.where].append(User(text, reader.owner, reader.member))
    except (AccessError, ApiError, NotFoundError) as error:
        unlisted.append(f"who may read gs://{weights.bucket}: {error.message}")
    for zone in (*weights.stack.settings.slice.zones, ANY_ZONE):
        try:
            for prefix, user in _slices(weights, zone):
                if user not in found[prefix]:
                    found[prefix].append(user)
        except ServiceDisabledError:
            continue  # no TPU in the project
        except (AccessError, ApiError, NotFoundError) as error:
            if zone != ANY_ZONE and isinstance(error, NotFoundError):
                continue  # no such zone
            unlisted.append(f"slices in {_place(zone)}: {error.message}")
    return Uses({prefix: tuple(users) for prefix, users in found.items()}, tuple(unlisted))


def _slices(weights: StackWeights, zone: str) -> Iterator[tuple[str, User]]:
    """What the slices in ``zone`` boot with: the prefix, and who that is."""
    project = weights.stack.settings.project
    # In this order: the node of a request that is granted in between is in the second list.
    requests = weights.cloud.tpu.list_queued_resources(project, zone)
    nodes = weights.cloud.tpu.list_nodes(project, zone)
    for node in nodes.nodes:
        yield from _use(weights, node, node)
    for request in requests.queued_resources:
        if lifecycle(request.state.state, None) in _LIVE:
            yield from _use(weights, request.spec.node, request)
    settings = weights.stack.settings
    unreachable = (
        place.rpartition("/")[2] for place in (*nodes.unreachable, *requests.unreachable)
    )
    # A library's bucket is read in its region alone; one of the user's own may be from everywhere.
    anywhere = settings.model.weights.existing is not None
    near = weights.region
    missing = {each for each in unreachable if anywhere or region_of(each) == near}
    if missing:
        raise ApiError(f"{', '.join(sorted(missing))} did not answer")


def _use(
    weights: StackWeights, node: Node, of: Node | QueuedResource
) -> Iterator[tuple[str, User]]:
    planned = planned_weights(node.metadata)
    if planned is None and CONFIG_KEY in node.metadata:
        raise ApiError(f"{of.name}: this version cannot read with which weights it boots")
    text = f"{of.name.partition('/locations/')[2]} boots with it"
    user = User(text, owner=node.labels.get(LABEL_OWNER, "unmarked"))
    if planned is not None and planned.holds(weights.bucket):
        yield planned.prefix, user


def _overlap(one: str, other: str) -> bool:
    """Whether one of two prefixes is the other, or below it."""
    return f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/")


def _place(zone: str) -> str:
    return "all other zones" if zone == ANY_ZONE else zone


def require_right(weights: StackWeights, prefix: str, instead: str = "") -> None:
    """Check that the caller may delete what is at ``prefix``, before anything is gone. A right on
    some objects alone is not told for a bucket: who has none on all of it is told what is looked
    for.

    Args:
        weights: the stack's weights, in one of its regions.
        prefix: the set.
        instead: what to do otherwise than to have the right granted; empty for nothing.

    Raises:
        AccessError: it may not.
    """
    try:
        held = held_in(weights.cloud.apis().storage, weights.bucket, (_DELETES,))
    except TpuflexError:
        return  # the first call that is refused tells
    if _DELETES not in held:
        raise AccessError(
            f"You may not delete gs://{weights.bucket}/{prefix}: {_DELETES} on the bucket is"
            " missing. Nothing was deleted.",
            hint=(f"{instead}, or have" if instead else "Have")
            + " whoever administers it run: "
            + str(grant_on_bucket(f"gs://{weights.bucket}", PUSH_ROLE, "user:YOU")),
        )


def note_use(there: SetObjects, day: dt.date) -> None:
    """Note that the complete set that is ``there`` is used on ``day``, unless a later day is noted
    already; what no push has written stays as it is.

    Raises:
        AccessError: the caller may not.
        ConflictError: another client writes there at the same moment.
    """
    blob = there.manifest_object
    if blob is None or there.manifest is None or not there.is_part_of_push(blob):
        return
    before = last_used(blob.metadata)
    if before is not None and before >= day:
        return
    with translated(there.bucket):
        blob.metadata = {**(blob.metadata or {}), **last_use_metadata(day)}
        blob.patch(if_metageneration_match=blob.metageneration, timeout=TIMEOUT)


def note_weights_use(weights: StackWeights, say: Callable[[str], None]) -> None:
    """Note in the bucket of each region that the stack's ``weights`` are used today, if the buckets
    outlive the stack.

    A refusal is told to ``say``, and no more: a set whose last use nobody knows is not removed for
    want of use.
    """
    if is_shared(weights.stack):
        for each in weights.everywhere():
            _note_use(each, say)


def _note_use(weights: StackWeights, say: Callable[[str], None]) -> None:
    try:
        note_use(weights.store.contents(weights.prefix), weights.cloud.now().date())
    except NotFoundError:
        return  # removed in this moment
    except TpuflexError as error:
        say(f"  warning  it could not be noted that {weights.place} is used today: {error.message}")


def note_last_use(cloud: Connection, served: PlannedWeights, say: Callable[[str], None]) -> None:
    """As :func:`note_weights_use`, once the slice that was made for ``served`` is gone: only if the
    stack file still names these weights. It has not used any others."""
    weights = StackWeights(cloud)
    if (served.bucket, served.prefix) == (weights.bucket, weights.prefix):
        note_weights_use(weights, say)
