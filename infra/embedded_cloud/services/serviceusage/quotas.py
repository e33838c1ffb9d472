"""Quotas of a project's services: Service Usage API v1beta1.

It is what ``gcloud alpha services quota list`` reads. Seen of Cloud TPU in 2026: one metric per
family and pool, each with a limit per zone and one per region; a bucket without ``effectiveLimit``
is 0, and -1 is no limit.
"""

from __future__ import annotations

from urllib.parse import quote

from embedded_cloud.core.errors import not_found, unimplemented
from embedded_cloud.core.json_types import JsonObject, JsonValue
from embedded_cloud.core.paging import Paging
from embedded_cloud.core.projects import number_of
from embedded_cloud.core.routing import Call, Context, Reply, Service
from embedded_cloud.services.serviceusage.state import KNOWN
from embedded_cloud.services.tpu.capacity import EVERY_ZONE, Capacity, CapacityBook, Pool
from embedded_cloud.services.tpu.quota import METRICS, QuotaMetric
from embedded_cloud.services.tpu.zones import ZONES

_TPU = "tpu.googleapis.com"
_UNLIMITED = -1
_PAGING = Paging(default=50, maximum=200)


class QuotaHandlers:
    """Handlers of ``services.consumerQuotaMetrics``."""

    def __init__(self, context: Context) -> None:
        self._capacity = CapacityBook(context.store, context.clock)

    def list(self, call: Call) -> Reply:
        """GET …/services/{service}/consumerQuotaMetrics."""
        parent = self._parent(call)
        capacity = self._capacity.current()
        metrics = METRICS if call.params["service"] == _TPU else ()
        return _PAGING.reply(
            call,
            "metrics",
            metrics,
            lambda metric: metric.name,
            lambda metric: _metric(parent, metric, capacity),
        )

    def _parent(self, call: Call) -> str:
        if call.params["v1beta1Id"] != "projects":
            raise unimplemented(f"{call.method_id} of {call.params['v1beta1Id']}")
        service, project = call.params["service"], call.params["v1beta1Id1"]
        if service not in KNOWN:
            raise not_found(f"Service '{service}' not found or permission denied.")
        return f"projects/{number_of(project)}/services/{service}"


def _metric(parent: str, metric: QuotaMetric, capacity: Capacity) -> JsonObject:
    name = f"{parent}/consumerQuotaMetrics/{quote(metric.name, safe='')}"
    zones = sorted(zone for zone in ZONES if metric.family in ZONES[zone].families)
    regions = sorted({zone.rpartition("-")[0] for zone in zones})
    return {
        "name": name,
        "metric": metric.name,
        "displayName": metric.title,
        "unit": "1",
        "consumerQuotaLimits": [
            _limit(name, metric, "region", regions, [_bucket(_UNLIMITED)]),
            _limit(name, metric, "zone", zones, _zone_buckets(metric.pool, zones, capacity)),
        ],
    }


def _limit(
    name: str, metric: QuotaMetric, scope: str, locations: list[str], buckets: list[JsonObject]
) -> JsonObject:
    return {
        "name": f"{name}/limits/%2Fproject%2F{scope}",
        "metric": metric.name,
        "unit": f"1/{{project}}/{{{scope}}}",
        "isPrecise": True,
        "quotaBuckets": list[JsonValue](buckets),
        "supportedLocations": list[JsonValue](locations),
    }


def _zone_buckets(pool: Pool, zones: list[str], capacity: Capacity) -> list[JsonObject]:
    """The bucket of all zones, then one for each zone with a limit of its own."""
    return [_bucket(capacity.limit(EVERY_ZONE, pool))] + [
        _bucket(capacity.limit(zone, pool), zone=zone) for zone in zones if zone in capacity.quota
    ]


def _bucket(limit: int, **dimensions: str) -> JsonObject:
    bucket: JsonObject = {}
    if limit:
        bucket = {"effectiveLimit": str(limit), "defaultLimit": str(limit)}
    if dimensions:
        bucket["dimensions"] = dict[str, JsonValue](dimensions)
    return bucket


def service(context: Context) -> Service:
    """Quotas: the limits of Cloud TPU, by family, pool and zone."""
    quotas = QuotaHandlers(context)
    return Service(
        name="serviceusage",
        version="v1beta1",
        handlers={
            "serviceusage.services.consumerQuotaMetrics.list": quotas.list,
        },
    )
