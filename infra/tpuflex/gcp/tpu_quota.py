"""The quota of TPU chips that a project has, as Service Usage tells it.

https://cloud.google.com/service-usage/docs/reference/rest/v1beta1/services.consumerQuotaMetrics/list
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tpuflex.catalog.zones import region_of
from tpuflex.errors import ApiError
from tpuflex.gcp.paging import entries, objects, pages

if TYPE_CHECKING:
    from tpuflex.gcp.transport import Api, JsonObject

Pool = Literal["preemptible", "on-demand"]

#: Generation -> what the metric of its on-demand pool is called; ``-preemptible`` follows for the
#: other one. Those of v5e were seen in use, with a pair of their own for slices of up to 8 chips
#: (https://cloud.google.com/tpu/docs/quota, 2026-08); the others follow from them and from the
#: quota ids of refusals.
_METRICS = {
    "v5e": "tpu-v5s-litepod",
    "v5p": "tpu-v5p",
    "v6e": "tpu-v6e",
}
_SERVING = {"v5e": ("tpu-v5s-litepod-serving", 8)}
_SERVICE = "tpu.googleapis.com"
#: What an ``effectiveLimit`` says where there is no limit.
_UNLIMITED = -1


@dataclass(frozen=True, slots=True)
class QuotaLimit:
    """A limit on the chips of a pool in a zone or region.

    Attributes:
        metric: name of the metric.
        location: the zone or region.
        limit: chips (of v5p, cores); None where there is no limit.
    """

    metric: str
    location: str
    limit: int | None


@dataclass(frozen=True, slots=True)
class TpuQuota:
    """All limits of the Cloud TPU API in a project."""

    metrics: tuple[JsonObject, ...]

    def limit(self, generation: str, chips: int, zone: str, pool: Pool) -> QuotaLimit | None:
        """The lowest limit of ``pool`` that holds in ``zone``; None if there is none of it.

        Args:
            generation: TPU generation, such as v6e.
            chips: chips of the slice, which decide between two metrics of v5e.
            zone: the zone; the limit of its region holds there, too.
            pool: which of the two.

        Raises:
            ApiError: a limit is not a number.
        """
        name = _metric(generation, chips, pool)
        if name is None:
            return None
        found = [
            limit
            for metric in self.metrics
            if metric.get("metric") == f"{_SERVICE}/{name}"
            for entry in objects(metric, "consumerQuotaLimits")
            if (limit := _limit_in(name, entry, zone)) is not None
        ]
        return min(found, key=_size, default=None)


def tpu_quota(serviceusage: Api, project: str) -> TpuQuota:
    """The quota of ``project``.

    Raises:
        AccessError: the caller lacks serviceusage.quotas.get, or the API is not enabled.
        ApiError: the API does not answer.
    """
    path = f"/v1beta1/projects/{project}/services/{_SERVICE}/consumerQuotaMetrics"
    query = {"view": "FULL", "pageSize": "200"}
    return TpuQuota(tuple(_metrics(pages(serviceusage, path, query, budget=0))))


def _metrics(listed: Iterator[JsonObject]) -> Iterator[JsonObject]:
    for page in listed:
        yield from objects(page, "metrics")


def _metric(generation: str, chips: int, pool: Pool) -> str | None:
    base = _METRICS.get(generation)
    serving = _SERVING.get(generation)
    if serving is not None and chips <= serving[1]:
        base = serving[0]
    if base is None:
        return None
    return f"{base}-preemptible" if pool == "preemptible" else base


def _limit_in(metric: str, limit: JsonObject, zone: str) -> QuotaLimit | None:
    """``limit`` in ``zone``, if it is one by zone or region that is known there."""
    unit = str(limit.get("unit"))
    scope = next((scope for scope in ("zone", "region") if f"{{{scope}}}" in unit), None)
    if scope is None:
        return None
    place = zone if scope == "zone" else region_of(zone)
    known = entries(limit, "supportedLocations")
    if known and place not in known:
        return QuotaLimit(metric, place, 0)
    # From the least specific bucket, which has no dimensions, to the most specific one.
    holding = [
        bucket
        for bucket in objects(limit, "quotaBuckets")
        if not (of := bucket.get("dimensions")) or (isinstance(of, dict) and of.get(scope) == place)
    ]
    return QuotaLimit(metric, place, _chips(holding[-1]) if holding else 0)


def _chips(bucket: JsonObject) -> int | None:
    try:
        value = int(str(bucket.get("effectiveLimit", 0)))
    except ValueError as error:
        raise ApiError("Service Usage gives a quota that is not a number") from error
    return None if value == _UNLIMITED else value


def _size(limit: QuotaLimit) -> float:
    return float("inf") if limit.limit is None else limit.limit
