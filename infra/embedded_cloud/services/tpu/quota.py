"""How many chips a project may request in a zone, and how many it has requested.

Every queued resource counts for as long as it exists: waiting, running, and also ended or
failed until it is deleted. Flex-start and spot use the preemptible quota
(https://docs.cloud.google.com/tpu/docs/request-using-flex-start); the ids are those that
refused requests named in July 2026.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from embedded_cloud.core.errors import resource_exhausted
from embedded_cloud.core.json_types import JsonObject, child, children, flag, text
from embedded_cloud.services.tpu import validation
from embedded_cloud.services.tpu.capacity import Pool
from embedded_cloud.services.tpu.records import Node, Place, QueuedResource
from embedded_cloud.services.tpu.zones import Accelerator


@dataclass(frozen=True, slots=True)
class QuotaMetric:
    """What one quota counts.

    Attributes:
        family: accelerator family.
        pool: which requests of it.
        id: of the limit per zone, as refusals name it.
        name: as Service Usage names it.
        title: what people read.
    """

    family: str
    pool: Pool
    id: str
    name: str
    title: str


#: Ids: refusals and the Cloud Quotas API, July and August 2026. Names: public scripts of 2026 that
#: read them from Service Usage; those of v6e and v5p on demand are inferred from these.
METRICS = tuple(
    QuotaMetric(family, pool, f"{of_id}PerProjectPerZoneForTPUAPI", f"tpu.googleapis.com/{name}", t)
    for family, pool, of_id, name, t in (
        ("v6e", Pool.PREEMPTIBLE, "TPUV6EPreemptible", "tpu-v6e-preemptible", "Preemptible v6e"),
        ("v6e", Pool.ON_DEMAND, "TPUV6E", "tpu-v6e", "v6e"),
        (
            *("v5litepod", Pool.PREEMPTIBLE, "TPUV5sPreemptibleLitepod"),
            *("tpu-v5s-litepod-preemptible", "Preemptible v5e"),
        ),
        ("v5litepod", Pool.ON_DEMAND, "TPUV5sLitepod", "tpu-v5s-litepod", "v5e"),
        ("v5p", Pool.PREEMPTIBLE, "TPUV5PPreemptible", "tpu-v5p-preemptible", "Preemptible v5p"),
        ("v5p", Pool.ON_DEMAND, "TPUV5P", "tpu-v5p", "v5p"),
    )
)
_BY_USE = {(metric.family, metric.pool): metric for metric in METRICS}
_BY_ID = {metric.id: metric for metric in METRICS}


def check(
    place: Place,
    needed: Counter[str],
    *,
    limit: Callable[[Pool], int],
    queued: Iterable[QueuedResource],
    nodes: Iterable[Node],
) -> None:
    """Check that a request fits into the quota.

    Args:
        place: project and zone.
        needed: what it needs, by quota id.
        limit: the limit of the quotas of a pool in the zone.
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
        most = limit(_BY_ID[quota_id].pool)
        if used[quota_id] + units > most:
            raise resource_exhausted(
                f"Quota '{quota_id}' exhausted. Limit {most} in zone {place.zone}"
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
    return _BY_USE[accelerator.family, Pool.PREEMPTIBLE if preemptible else Pool.ON_DEMAND].id


def _units(accelerator: Accelerator) -> int:
    """Chips; of v5p, cores."""
    return accelerator.chips * (2 if accelerator.family == "v5p" else 1)
