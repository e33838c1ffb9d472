"""How many chips a project may request in a zone, and how many it has requested.

Every queued resource counts for as long as it exists: waiting, running, and also ended or
failed until it is deleted. Flex-start and spot use the preemptible quota
(https://docs.cloud.google.com/tpu/docs/request-using-flex-start); the ids are those that
refused requests named in July 2026.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from embedded_cloud.errors import resource_exhausted
from embedded_cloud.json_types import JsonObject, child, children, flag, text
from embedded_cloud.tpu import validation
from embedded_cloud.tpu.records import Node, Place, QueuedResource
from embedded_cloud.tpu.zones import Accelerator

#: Family -> (preemptible, on-demand), without what all quota ids end with.
_IDS = {
    "v6e": ("TPUV6EPreemptible", "TPUV6E"),
    "v5litepod": ("TPUV5sPreemptibleLitepod", "TPUV5sLitepod"),
    "v5p": ("TPUV5PPreemptible", "TPUV5P"),
}
_ID_END = "PerProjectPerZoneForTPUAPI"


def check(
    place: Place,
    needed: Counter[str],
    *,
    limit: int,
    queued: Iterable[QueuedResource],
    nodes: Iterable[Node],
) -> None:
    """Check that a request fits into the quota.

    Args:
        place: project and zone.
        needed: what it needs, by quota id.
        limit: the limit of every quota in the zone.
        queued: all queued resources of the place.
        nodes: all nodes of the place; those of queued resources are not counted twice.

    Raises:
        CloudError: 429 RESOURCE_EXHAUSTED.
    """
    used: Counter[str] = Counter()
    for one in queued:
        used += of_queued_resource(place, one.spec)
    for node in nodes:
        if not node.queued_resource:
            used += of_node(place, node.spec)
    for quota_id, units in needed.items():
        if used[quota_id] + units > limit:
            raise resource_exhausted(
                f"Quota '{quota_id}' exhausted. Limit {limit} in zone {place.zone}"
            )


def of_queued_resource(place: Place, spec: JsonObject) -> Counter[str]:
    """What a queued resource needs, by quota id; nothing if it is in a reservation."""
    model = text(spec, "provisioningModel")
    reserved = model == "RESERVATION_BOUND" or text(spec, "reservationName")
    if reserved or flag(child(spec, "guaranteed"), "reserved"):
        return Counter()
    preemptible = model in ("FLEX_START", "SPOT") or "spot" in spec or "bestEffort" in spec
    needed: Counter[str] = Counter()
    for node_spec in children(child(spec, "tpu"), "nodeSpec"):
        accelerator = validation.accelerator_of(place, child(node_spec, "node"))
        units = _units(accelerator) * validation.node_count(node_spec)
        needed[_quota_id(accelerator, preemptible=preemptible)] += units
    return needed


def of_node(place: Place, node: JsonObject) -> Counter[str]:
    """What a node that is created without the queue needs, by quota id."""
    scheduling = child(node, "schedulingConfig")
    if flag(scheduling, "reserved"):
        return Counter()
    preemptible = flag(scheduling, "preemptible") or flag(scheduling, "spot")
    accelerator = validation.accelerator_of(place, node)
    return Counter({_quota_id(accelerator, preemptible=preemptible): _units(accelerator)})


def _quota_id(accelerator: Accelerator, *, preemptible: bool) -> str:
    return _IDS[accelerator.family][0 if preemptible else 1] + _ID_END


def _units(accelerator: Accelerator) -> int:
    """Chips; of v5p, cores."""
    return accelerator.chips * (2 if accelerator.family == "v5p" else 1)
