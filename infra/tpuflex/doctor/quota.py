"""Whether a zone has what the stack asks for, and the project the quota for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal

from tpuflex.catalog.rows import Accelerator
from tpuflex.catalog.zones import region_of
from tpuflex.doctor.check import Check, Group, Subject
from tpuflex.doctor.cloud import ExaminedCloud
from tpuflex.doctor.side_by_side import Examination
from tpuflex.errors import ApiError, NotFoundError, QuotaError, SettingsError
from tpuflex.gcloud_commands import show_accelerators
from tpuflex.google.paging import entries, objects, pages
from tpuflex.google.reading import Unread

if TYPE_CHECKING:
    from tpuflex.google.transport import Api, JsonObject
    from tpuflex.stack.connection import Connection

Pool = Literal["preemptible", "on-demand"]
#: Which quota Flex-start draws from is reported both ways: the preemptible one
#: (https://cloud.google.com/tpu/docs/request-using-flex-start), and the on-demand one by a
#: practitioner. So both are looked at, and what one of them allows is not refused.
POOLS: tuple[Pool, ...] = ("preemptible", "on-demand")

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


def examinations(cloud: ExaminedCloud) -> list[Examination]:
    """What to examine of what the zones offer, and of the project's quota."""
    return [
        Examination(Group.CAPACITY, "offers", partial(_examine_offers, cloud)),
        Examination(Group.CAPACITY, "quota", partial(_examine_quota, cloud)),
    ]


def _examine_offers(cloud: ExaminedCloud) -> tuple[Check, ...]:
    wanted = _wanted(cloud)
    tpu = cloud.api(cloud.endpoints.tpu)
    found = {
        zone: cloud.attempt(
            _SERVICE,
            partial(zone_offer, tpu, wanted.project, zone, wanted.accelerator, wanted.runtime),
        )
        for zone in wanted.zones
    }
    return offer_checks(wanted, found)


def _examine_quota(cloud: ExaminedCloud) -> tuple[Check, ...]:
    return quota_checks(_wanted(cloud), _quota(cloud))


def quota_shortage_beside(connection: Connection, accelerator: str, zone: str) -> str:
    """What is wrong with the quota if the slice of the stack is asked for while one of
    ``accelerator`` goes on in ``zone``; empty if there is enough for both.

    Raises:
        ApiError: it cannot be read.
    """
    cloud = ExaminedCloud(connection)
    row = cloud.settings.catalog.accelerators.get(accelerator)
    if row is None:
        return ""  # nobody can tell what it takes
    found = _quota(cloud)
    if isinstance(found, Unread):
        raise ApiError(found.why, hint=found.remedy)
    return _short_beside(_wanted(cloud), found, row, zone)


def _quota(cloud: ExaminedCloud) -> TpuQuota | Unread:
    api = cloud.api(cloud.endpoints.serviceusage)
    return cloud.attempt("serviceusage.googleapis.com", lambda: tpu_quota(api, cloud.project))


def _wanted(cloud: ExaminedCloud) -> Wanted:
    asked = cloud.settings.slice
    row = cloud.settings.catalog.accelerators[asked.accelerator_type]
    return Wanted(
        cloud.project,
        row.name,
        row.generation,
        row.chips,
        asked.runtime_version or row.runtime_version or "",
        asked.zones,
        hands_over=asked.replace == "create_first",
    )


@dataclass(frozen=True, slots=True)
class Offer:
    """Whether a zone has what a stack asks for.

    Attributes:
        accelerator: whether it has the accelerator type.
        runtime: whether it has the runtime version.
    """

    accelerator: bool
    runtime: bool


def zone_offer(tpu: Api, project: str, zone: str, accelerator: str, runtime: str) -> Offer:
    """Whether ``zone`` has ``accelerator`` and ``runtime``, where one is given. That there is
    capacity it does not say.

    https://cloud.google.com/tpu/docs/reference/rest/v2alpha1/projects.locations.acceleratorTypes

    Raises:
        AccessError: the caller lacks tpu.acceleratortypes.get or tpu.runtimeversions.get, or the
            API is not enabled.
        ApiError: the API does not answer.
    """
    place = f"/v2alpha1/projects/{project}/locations/{zone}"
    return Offer(
        accelerator=_exists(tpu, f"{place}/acceleratorTypes/{accelerator}"),
        runtime=not runtime or _exists(tpu, f"{place}/runtimeVersions/{runtime}"),
    )


def _exists(tpu: Api, path: str) -> bool:
    try:
        tpu.call("GET", path, budget=0)
    except NotFoundError:
        return False
    return True


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

    https://cloud.google.com/service-usage/docs/reference/rest/v1beta1/services.consumerQuotaMetrics/list

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


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a stack asks for.

    Attributes:
        project: Google Cloud project id.
        accelerator: accelerator type.
        generation: its generation.
        chips: how many it has.
        runtime: runtime version.
        zones: the zones that are asked.
        hands_over: whether a replacement is made, and serves, before the old slice is deleted.
    """

    project: str
    accelerator: str
    generation: str
    chips: int
    runtime: str
    zones: tuple[str, ...]
    hands_over: bool = True

    @property
    def units(self) -> int:
        """What it takes of a quota."""
        return units_of(self.generation, self.chips)


def units_of(generation: str, chips: int) -> int:
    """What so many chips take of a quota: chips, of v5p cores, of which a chip has two
    (https://cloud.google.com/tpu/docs/quota)."""
    return chips * (2 if generation == "v5p" else 1)


def offer_checks(wanted: Wanted, offers: Mapping[str, Offer | Unread]) -> tuple[Check, ...]:
    """Whether each zone has accelerator type and runtime version. One zone is enough.

    Args:
        wanted: what the stack asks for.
        offers: what each zone has.
    """
    possible = any(_complete(offers[zone]) is not False for zone in wanted.zones)
    return tuple(_offer_check(wanted, zone, offers[zone], possible) for zone in wanted.zones)


def quota_checks(wanted: Wanted, quota: TpuQuota | Unread) -> tuple[Check, ...]:
    """Whether the quota of each zone is enough, in one pool at least. One zone is enough.

    Args:
        wanted: what the stack asks for.
        quota: the project's.
    """
    if isinstance(quota, Unread):
        return tuple(_quota_subject(zone).unknown(quota) for zone in wanted.zones)
    limits = {zone: _limits(wanted, quota, zone) for zone in wanted.zones}
    possible = any(is_enough(limits[zone], wanted.units) is not False for zone in wanted.zones)
    return tuple(_quota_check(wanted, zone, limits[zone], possible) for zone in wanted.zones)


def _short_beside(wanted: Wanted, quota: TpuQuota, accelerator: Accelerator, zone: str) -> str:
    """What is wrong with the quota of the project if ``wanted`` is asked for while a slice of
    ``accelerator`` goes on in ``zone``; empty if a zone has quota for it, or may have.

    Args:
        wanted: what the stack asks for.
        quota: the project's.
        accelerator: what serves until then.
        zone: where.
    """
    found = []
    for each in wanted.zones:
        limits = _limits(wanted, quota, each)
        shares = each == zone and accelerator.generation == wanted.generation
        used = units_of(accelerator.generation, accelerator.chips) if shares else 0
        if is_enough(limits, wanted.units + used) is not False:
            return ""
        beside = f" beside the {used} of what serves" if used else ""
        found.append(f"{each}: {wanted.units} wanted{beside}; {_amounts(limits)}")
    return "; ".join(found)


def _complete(offer: Offer | Unread) -> bool | None:
    return None if isinstance(offer, Unread) else offer.accelerator and offer.runtime


def _offer_check(wanted: Wanted, zone: str, offer: Offer | Unread, possible: bool) -> Check:
    subject = Subject(Group.CAPACITY, f"{wanted.accelerator} in {zone}")
    if isinstance(offer, Unread):
        return subject.unknown(offer)
    if not offer.accelerator:
        remedy = (
            f"{show_accelerators(wanted.project, zone)}\n"
            "and write another zone to tpuflex:slice.zones (`tpuflex zones` compares them)"
        )
        text = "not offered there"
    elif not offer.runtime:
        remedy = "Write one that the zone has to tpuflex:slice.runtime_version."
        text = f"the runtime version {wanted.runtime} is not offered there"
    else:
        return subject.ok(f"offered, with runtime version {wanted.runtime}")
    return (
        subject.warning(text, remedy) if possible else subject.failed(SettingsError, text, remedy)
    )


def quota_page(project: str) -> str:
    """The page on which quota of the Cloud TPU API is seen and asked for."""
    return f"https://console.cloud.google.com/iam-admin/quotas?service={_SERVICE}&project={project}"


def _quota_subject(zone: str) -> Subject:
    return Subject(Group.CAPACITY, f"quota in {zone}")


Limits = Mapping[Pool, QuotaLimit | None]


def pool_limits(quota: TpuQuota, generation: str, chips: int, zone: str) -> Limits:
    """The limit of each pool that holds for a slice in ``zone``; None for what is not listed."""
    return {pool: quota.limit(generation, chips, zone, pool) for pool in POOLS}


def _limits(wanted: Wanted, quota: TpuQuota, zone: str) -> Limits:
    return pool_limits(quota, wanted.generation, wanted.chips, zone)


def is_enough(limits: Limits, units: int) -> bool | None:
    """Whether one pool is enough for so many ``units``; None if no pool is known."""
    known = [limit for limit in limits.values() if limit is not None]
    if not known:
        return None
    return any(limit.limit is None or limit.limit >= units for limit in known)


def _quota_check(wanted: Wanted, zone: str, limits: Limits, possible: bool) -> Check:
    subject = _quota_subject(zone)
    page = quota_page(wanted.project)
    enough = is_enough(limits, wanted.units)
    text = f"{wanted.units} wanted; {_amounts(limits)}"
    if enough is None:
        return subject.unknown(Unread(f"no quota of {wanted.generation} is listed", page))
    if not enough:
        remedy = f"{page}\n(ask for preemptible quota: Flex-start draws from it)"
        return (
            subject.warning(text, remedy) if possible else subject.failed(QuotaError, text, remedy)
        )
    preemptible = limits["preemptible"]
    if preemptible is not None and is_enough({"preemptible": preemptible}, wanted.units) is False:
        return subject.warning(
            f"{text}: by Google's page, Flex-start draws from the preemptible one",
            f"{page}\n(ask for preemptible quota if the request is refused)",
            kind=QuotaError,
        )
    if wanted.hands_over and is_enough(limits, 2 * wanted.units) is False:
        return subject.warning(
            f"{text}: enough for one slice, but a change or a renewal needs two until the new one"
            " serves",
            f"{page}\n(ask for twice as much, or write delete_first to tpuflex:slice.replace: then"
            " nothing serves meanwhile)",
        )
    return subject.ok(text)


def _amounts(limits: Limits) -> str:
    return ", ".join(f"{pool} {_amount(limits[pool])}" for pool in POOLS)


def _amount(limit: QuotaLimit | None) -> str:
    if limit is None:
        return "not listed"
    return "without limit" if limit.limit is None else str(limit.limit)
