"""The zones of the catalog for an accelerator: offer, quota, price, and what is known of Flex-start
there. What an engineer compares before writing zones into a stack file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING

from tpuflex.catalog.zones import region_of
from tpuflex.doctor.cloud import ExaminedCloud
from tpuflex.doctor.quota import (
    POOLS,
    Limits,
    Offer,
    Pool,
    TpuQuota,
    is_enough,
    pool_limits,
    tpu_quota,
    units_of,
    zone_offer,
)
from tpuflex.errors import NotFoundError, QuotaError, SettingsError
from tpuflex.google.queued_resources import TpuClient
from tpuflex.google.reading import Unread, read_all
from tpuflex.planning.cost import usd
from tpuflex.planning.figure import source_json
from tpuflex.queued_resource.causes import explained
from tpuflex.queued_resource.name import RequestName
from tpuflex.queued_resource.snapshot import NO_REASON, Snapshot
from tpuflex.queued_resource.states import Lifecycle, describe, lifecycle
from tpuflex.sizing import known_accelerator

if TYPE_CHECKING:
    from tpuflex.catalog.catalog import Catalog
    from tpuflex.catalog.rows import Accelerator, Price, Zone
    from tpuflex.doctor.cloud import ProjectCloud
    from tpuflex.google.transport import Api
    from tpuflex.queued_resource.model import QueuedResource
    from tpuflex.stack.connection import Connection

_TPU, _SERVICE_USAGE = "tpu.googleapis.com", "serviceusage.googleapis.com"
_FLEX_START = "FLEX_START"
#: Of a request in one of these, capacity was granted, and hosts were made.
_GRANTED = (Lifecycle.ACTIVE, Lifecycle.ENDED)


@dataclass(frozen=True, slots=True)
class LastRequest:
    """The project's newest request for chips of a generation with Flex-start in a zone.

    Attributes:
        id: of the queued resource.
        accelerator: its accelerator type.
        requested: when it was asked for (RFC 3339).
        state: Google's word for its state.
        lifecycle: the state in a word; whether an active one has lost its node is not looked at.
        meaning: what it means, with the reason where it failed.
    """

    id: str
    accelerator: str
    requested: str
    state: str
    lifecycle: Lifecycle
    meaning: str

    def to_json(self) -> dict[str, str]:
        """The request in a JSON document."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class ZoneFacts:
    """What is known of the accelerator in one zone.

    Attributes:
        zone: its name.
        chosen: whether the stack asks for chips there.
        offer: whether the zone has the accelerator.
        limits: the project's quota by pool.
        units: what the accelerator takes of a quota.
        chips: how many chips it has.
        price: the catalog's row of its price with Flex-start.
        row: the catalog's row of Flex-start there.
        request: the project's newest request with Flex-start there; None for none.
    """

    zone: str
    chosen: bool
    offer: Offer | Unread
    limits: Limits | Unread
    units: int
    chips: int
    price: Price | None
    row: Zone | None
    request: LastRequest | Unread | None

    @property
    def offered(self) -> bool | None:
        """Whether the zone has accelerator type and runtime version; None if not known."""
        return (
            None
            if isinstance(self.offer, Unread)
            else self.offer.accelerator and self.offer.runtime
        )

    @property
    def enough(self) -> bool | None:
        """Whether the quota of one pool is enough; None where that is not known."""
        return None if isinstance(self.limits, Unread) else is_enough(self.limits, self.units)

    @property
    def possible(self) -> bool:
        """Whether nothing that is known keeps a request from being accepted."""
        return self.offered is not False and self.enough is not False

    @property
    def seen(self) -> bool:
        """Whether the zone is known to take requests with Flex-start: from this project, or by the
        catalog."""
        if isinstance(self.request, LastRequest) and self.request.lifecycle in _GRANTED:
            return True
        return self.row is not None and self.row.flex_start in ("documented", "observed")

    @property
    def usd_per_hour(self) -> Decimal | None:
        """US dollars per hour for all chips with Flex-start; None where no source has it."""
        if self.price is None or self.price.usd_per_chip_hour is None:
            return None
        return self.price.usd_per_chip_hour * self.chips

    @property
    def unread(self) -> Unread | None:
        """What could not be read of the zone itself: its offer, or else the requests there."""
        unread = (each for each in (self.offer, self.request) if isinstance(each, Unread))
        return next(unread, None)

    def to_json(self) -> dict[str, object]:
        """The zone in a JSON document; what is not known is null."""
        return {
            "zone": self.zone,
            "chosen": self.chosen,
            "possible": self.possible,
            "offered": self.offered,
            "quota": None
            if isinstance(self.limits, Unread)
            else _quota_json(self.limits, self.units),
            "enough": self.enough,
            "usd_per_hour": usd(self.usd_per_hour),
            "price_source": None if self.price is None else source_json(self.price.source),
            "flex_start": None if self.row is None else _row_json(self.row),
            "last_request": self.request.to_json()
            if isinstance(self.request, LastRequest)
            else None,
            "not_known": None if self.unread is None else self.unread.why,
        }


@dataclass(frozen=True, slots=True)
class ZoneComparison:
    """The zones for an accelerator, the best first: where a request is possible, is known to be
    taken, and costs least.

    Attributes:
        project: Google Cloud project id.
        embedded: whether that is on the embedded cloud.
        accelerator: the catalog's row.
        units: what it takes of a quota.
        runtime: the runtime version that zones were asked for; empty for none.
        zones: what is known of each.
        quota: why the quota could not be read; None if it was.
    """

    project: str
    embedded: bool
    accelerator: Accelerator
    units: int
    runtime: str
    zones: tuple[ZoneFacts, ...]
    quota: Unread | None

    @property
    def best(self) -> tuple[str, ...]:
        """The zones where a request is possible and known to be taken."""
        return tuple(each.zone for each in self.zones if each.possible and each.seen)

    @property
    def exit_code(self) -> int:
        """0 where a request is possible in some zone; else that of the reason: no zone offers the
        accelerator, or the quota is too small in those that do."""
        if any(each.possible for each in self.zones):
            return 0
        offered = any(each.offered is not False for each in self.zones)
        return QuotaError.exit_code if offered else SettingsError.exit_code

    def to_json(self) -> dict[str, object]:
        """The document of ``--json``."""
        return {
            "project": self.project,
            "cloud": "embedded" if self.embedded else "google",
            "accelerator": self.accelerator.name,
            "chips": self.accelerator.chips,
            "units": self.units,
            "runtime_version": self.runtime or None,
            "zones": [each.to_json() for each in self.zones],
            "best": list(self.best),
            "quota_not_known": None if self.quota is None else self.quota.why,
        }


def zones_of_stack(connection: Connection, accelerator: str | None = None) -> ZoneComparison:
    """As :func:`compare_zones`, in the project of the stack of ``connection``, for the stack's
    accelerator unless another is named."""
    settings = connection.stack.settings
    wanted = settings.slice
    name = accelerator or wanted.accelerator_type
    runtime = wanted.runtime_version if name == wanted.accelerator_type else ""
    return compare_zones(
        ExaminedCloud(connection),
        settings.catalog,
        name,
        connection.now(),
        runtime=runtime or "",
        chosen=wanted.zones,
    )


def compare_zones(
    cloud: ProjectCloud,
    catalog: Catalog,
    accelerator: str,
    now: datetime,
    *,
    runtime: str = "",
    chosen: Sequence[str] = (),
) -> ZoneComparison:
    """What is known of ``accelerator`` in each zone that the catalog has for it.

    The quota is read once, each zone is asked for its offer and the project's requests, all zones
    side by side. What a zone refuses is not known there, and keeps no other from being shown.

    Args:
        cloud: the project that is asked.
        catalog: accelerators, zones and prices.
        accelerator: accelerator type.
        now: the time by the cloud's clock.
        runtime: runtime version to look for; the accelerator's own by default.
        chosen: zones of a stack, which are looked at whether or not the catalog has them.

    Raises:
        NotFoundError: the catalog has no such accelerator, or no zone for it; or the Cloud TPU API
            does not have it.
        TpuflexError: no zone could be asked, each for the same kind of reason.
    """
    row = _requestable(catalog, accelerator)
    names = tuple(dict.fromkeys((*_zones_of(catalog, row), *chosen)))
    if not names:
        raise NotFoundError(
            f"The catalog has no zone for {row.generation}.",
            hint="`tpuflex catalog zones` lists those that it has.",
        )
    runtime = runtime or row.runtime_version or ""
    service_usage = cloud.api(cloud.endpoints.serviceusage)
    quota = cloud.attempt(_SERVICE_USAGE, lambda: tpu_quota(service_usage, cloud.project))
    look = _Look(cloud, cloud.api(cloud.endpoints.tpu), catalog, row, runtime, now)
    answers = read_all([(zone, partial(look.at, zone)) for zone in names])
    found = {
        zone: (answer, answer) if isinstance(answer, Unread) else answer
        for zone, answer in zip(names, answers, strict=True)
    }
    _require_any(offer for offer, _ in found.values())
    units = units_of(row.generation, row.chips)
    zones = [
        ZoneFacts(
            zone,
            zone in chosen,
            offer,
            quota if isinstance(quota, Unread) else _limits(quota, row, zone),
            units,
            row.chips,
            catalog.price(row.generation, region_of(zone)),
            catalog.zone(zone, row.generation),
            request,
        )
        for zone, (offer, request) in found.items()
    ]
    return ZoneComparison(
        cloud.project,
        cloud.endpoints.embedded,
        row,
        units,
        runtime,
        tuple(sorted(zones, key=_place)),
        quota if isinstance(quota, Unread) else None,
    )


def _requestable(catalog: Catalog, accelerator: str) -> Accelerator:
    row = known_accelerator(catalog, accelerator)
    if not row.flex_start_api:
        raise NotFoundError(
            f"The Cloud TPU API, which tpuflex asks for capacity, does not have {row.name}.",
            hint=f"`tpuflex catalog accelerators {row.name}` says what is known of it.",
        )
    return row


def _zones_of(catalog: Catalog, row: Accelerator) -> Iterable[str]:
    return (each.zone for each in catalog.zones.values() if each.generation == row.generation)


@dataclass(frozen=True, slots=True)
class _Look:
    """What each zone is asked."""

    cloud: ProjectCloud
    tpu: Api
    catalog: Catalog
    row: Accelerator
    runtime: str
    now: datetime

    def at(self, zone: str) -> tuple[Offer | Unread, LastRequest | Unread | None]:
        """Whether ``zone`` has the accelerator, and the newest request there."""
        project, name = self.cloud.project, self.row.name
        offer = self.cloud.attempt(
            _TPU, lambda: zone_offer(self.tpu, project, zone, name, self.runtime)
        )
        return offer, self.cloud.attempt(_TPU, lambda: self._last_request(zone))

    def _last_request(self, zone: str) -> LastRequest | None:
        try:
            found = TpuClient(self.tpu).list_queued_resources(self.cloud.project, zone)
        except NotFoundError:  # no such zone, which the offer says
            return None
        requests = [each for each in found.queued_resources if self._counts(each)]
        newest = max(requests, key=lambda each: each.create_time, default=None)
        return None if newest is None else self._described(newest)

    def _counts(self, request: QueuedResource) -> bool:
        """Whether it is for chips of the same generation, with Flex-start."""
        row = self.catalog.accelerator(request.spec.node.accelerator_type)
        same = row is not None and row.generation == self.row.generation
        return same and request.provisioning_model == _FLEX_START

    def _described(self, request: QueuedResource) -> LastRequest:
        name, at = RequestName.parse(request.name), self.now.timestamp()
        state = request.state.state
        word, meaning = lifecycle(state, "READY", too_early=request.too_early(at)), describe(state)
        if word is Lifecycle.FAILED:
            snapshot = Snapshot(name, request, at=at)
            reason = (snapshot.failure or NO_REASON).message
            meaning = f"{meaning}: {explained(reason, snapshot.cause)}"
        accelerator = request.spec.node.accelerator_type
        return LastRequest(name.id, accelerator, request.create_time, state, word, meaning)


def _require_any(offers: Iterable[Offer | Unread]) -> None:
    """See that some zone has answered, or that zones have different reasons not to.

    Raises:
        TpuflexError: the reason, which is of one kind in all of them.
    """
    errors = [each.error if isinstance(each, Unread) else None for each in offers]
    first = errors[0]
    if first is not None and all(type(each) is type(first) for each in errors):
        raise first


def _limits(quota: TpuQuota, row: Accelerator, zone: str) -> Limits:
    return pool_limits(quota, row.generation, row.chips, zone)


def _place(facts: ZoneFacts) -> tuple[bool, bool, bool, Decimal]:
    """Where the zone stands in the order; zones alike stay in the catalog's."""
    refused = facts.row is not None and facts.row.flex_start == "refused"
    price = facts.usd_per_hour
    return (
        not facts.possible,
        not facts.seen,
        refused,
        Decimal("Infinity") if price is None else price,
    )


def _quota_json(limits: Limits, units: int) -> dict[str, object]:
    return {pool.replace("-", "_"): _pool_json(limits, pool, units) for pool in POOLS}


def _pool_json(limits: Limits, pool: Pool, units: int) -> dict[str, object] | None:
    limit = limits[pool]
    if limit is None:
        return None
    return {
        "metric": limit.metric,
        "location": limit.location,
        "limit": limit.limit,
        "enough": is_enough({pool: limit}, units),
    }


def _row_json(row: Zone) -> dict[str, object]:
    return {"known": row.flex_start, "note": row.note, "source": source_json(row.source)}
