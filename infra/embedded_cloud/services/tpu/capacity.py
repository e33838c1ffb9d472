"""Capacity rules: when the embedded cloud grants a queued resource, set by its user."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from embedded_cloud.core.clock import Clock
from embedded_cloud.core.errors import CODES, CloudError, cloud_error, invalid_argument
from embedded_cloud.core.json_types import JsonObject, JsonValue, as_object, child, number, text
from embedded_cloud.core.store import Store


@dataclass(frozen=True, slots=True)
class CapacityRule:
    """What happens to requests in one zone. Times are seconds on the cloud's clock.

    Attributes:
        admission_s: from the request to its place in the queue (or its rejection).
        grant_after_s: waiting in the queue until capacity is granted.
        grant_after_polls: instead of a time: granted at the n-th GET of the request.
        never: no capacity at all.
        provisioning_s: from the grant to ACTIVE (also: a node's creation, start and stop).
        suspending_s: how long SUSPENDING lasts.
        deleting_s: how long DELETING lasts.
        failure: provisioning fails with this canonical code and message.
    """

    admission_s: float = 0.3
    grant_after_s: float = 2.0
    grant_after_polls: int | None = None
    never: bool = False
    provisioning_s: float = 1.0
    suspending_s: float = 1.0
    deleting_s: float = 0.5
    failure: tuple[str, str] | None = None

    def node_failure(self, zone: str) -> tuple[str, str] | None:
        """The error with which creating a node without the queue fails, if it does."""
        if self.never:
            return "RESOURCE_EXHAUSTED", f'There is no more capacity in the zone "{zone}"'
        return self.failure

    def to_json(self) -> JsonObject:
        """The rule as the control API shows it."""
        shown: JsonObject = {name: getattr(self, name) for name in (*_SECONDS, "never")}
        if self.grant_after_polls is not None:
            shown["grant_after_polls"] = self.grant_after_polls
        if self.failure is not None:
            shown["failure"] = {"code": self.failure[0], "message": self.failure[1]}
        return shown


#: Chips of v5e and v6e that a project gets in every zone unless it asks for more
#: (https://docs.cloud.google.com/tpu/docs/request-using-flex-start, preemptible quota).
DEFAULT_QUOTA = 64

#: Key in ``quota`` for every zone that is not named.
EVERY_ZONE = "*"


class Pool(Enum):
    """Which requests a quota counts."""

    PREEMPTIBLE = "preemptible"
    ON_DEMAND = "on_demand"


#: The limit of both pools, or of each.
Limit: TypeAlias = int | Mapping[Pool, int]


@dataclass(frozen=True, slots=True)
class Capacity:
    """The rules of all zones.

    Attributes:
        default: the rule of zones without one of their own.
        zones: rules of single zones, complete.
        unsupported_zones: zones that refuse FLEX_START even if the table of zones allows it.
        quota: a project's limit for every quota in a zone, or for those of each pool; ``*`` is
            every other zone.
    """

    default: CapacityRule = CapacityRule()
    zones: Mapping[str, CapacityRule] = field(default_factory=dict)
    unsupported_zones: frozenset[str] = frozenset()
    quota: Mapping[str, Limit] = field(default_factory=dict)

    def rule(self, zone: str) -> CapacityRule:
        """The rule of ``zone``."""
        return self.zones.get(zone, self.default)

    def limit(self, zone: str, pool: Pool) -> int:
        """A project's limit for the quotas of ``pool`` in ``zone``, in the quota's own unit."""
        for key in (zone, EVERY_ZONE):
            limit = self.quota.get(key)
            if isinstance(limit, int):
                return limit
            if limit is not None and pool in limit:
                return limit[pool]
        return DEFAULT_QUOTA

    def to_json(self) -> JsonObject:
        """The form that :meth:`from_json` reads."""
        return {
            **self.default.to_json(),
            "zones": {zone: rule.to_json() for zone, rule in self.zones.items()},
            "unsupported_zones": list[JsonValue](sorted(self.unsupported_zones)),
            "quota": {
                EVERY_ZONE: DEFAULT_QUOTA,
                **{zone: _quota_shown(limit) for zone, limit in self.quota.items()},
            },
        }

    @classmethod
    def from_json(cls, document: JsonObject) -> Capacity:
        """Read ``{"grant_after_s": 2, "zones": {...}, "quota": {"us-east5-a": 0}}``.

        A zone inherits what it does not set from the rule outside of ``zones``.

        Raises:
            CloudError: 400 naming what is not understood.
        """
        outer = {
            key: value
            for key, value in document.items()
            if key not in ("zones", "unsupported_zones", "quota")
        }
        default = _rule(outer, CapacityRule())
        zones = document.get("zones", {})
        unsupported = document.get("unsupported_zones", [])
        if not isinstance(zones, dict) or not isinstance(unsupported, list):
            raise invalid_argument("zones must be an object and unsupported_zones a list")
        if not all(isinstance(rule, dict) for rule in zones.values()):
            raise invalid_argument("zones: the rule of a zone must be an object")
        return cls(
            default=default,
            zones={zone: _rule(as_object(rule), default) for zone, rule in zones.items()},
            unsupported_zones=frozenset(str(zone) for zone in unsupported),
            quota=_quota(document.get("quota", {})),
        )


class CapacityBook:
    """The capacity rules in force and since when, kept over restarts."""

    _COLLECTION = "_emulator"
    _KEY = "capacity"

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._read: tuple[JsonObject, Capacity] = ({}, Capacity())

    def current(self) -> Capacity:
        """The rules in force."""
        stored = self._store.get(self._COLLECTION, self._KEY)
        if stored is None:
            return Capacity()
        # Read many times per call and hardly ever set: parsed again only when it has changed.
        previous, capacity = self._read
        if stored != previous:
            capacity = Capacity.from_json(child(stored, "rules"))
            self._read = (stored, capacity)
        return capacity

    def since(self) -> float:
        """When they were set: no grant under new rules is dated before this time."""
        stored = self._store.get(self._COLLECTION, self._KEY)
        return 0.0 if stored is None else number(stored, "since")

    def set(self, capacity: Capacity) -> None:
        """Put other rules in force from now on."""
        self._store.put(
            self._COLLECTION,
            self._KEY,
            {"rules": capacity.to_json(), "since": self._clock.now()},
        )


#: Seconds that anything may take here: three hundred years, and the sum of a few is still a date.
_LONGEST = 10_000_000_000
_SECONDS = ("admission_s", "grant_after_s", "provisioning_s", "suspending_s", "deleting_s")


def _rule(document: JsonObject, base: CapacityRule) -> CapacityRule:
    rule = base
    for key, value in document.items():
        rule = _with(rule, key, value)
    # A way of granting that is set replaces one that was inherited.
    if "never" not in document and {"grant_after_s", "grant_after_polls"} & document.keys():
        rule = dataclasses.replace(rule, never=False)
    if "grant_after_s" in document and "grant_after_polls" not in document:
        rule = dataclasses.replace(rule, grant_after_polls=None)
    return rule


def _with(rule: CapacityRule, key: str, value: JsonValue) -> CapacityRule:
    if key in _SECONDS and isinstance(value, int | float) and _is_count(value):
        return dataclasses.replace(rule, **{key: float(value)})  # type: ignore[arg-type]  # a float field
    if key == "grant_after_polls" and (value is None or (isinstance(value, int) and value > 0)):
        return dataclasses.replace(rule, grant_after_polls=value)
    if key == "never" and isinstance(value, bool):
        return dataclasses.replace(rule, never=value)
    if key == "failure":
        return dataclasses.replace(rule, failure=_failure(value))
    raise _not_understood(key, value)


def _is_count(value: float) -> bool:
    return not isinstance(value, bool) and 0 <= value <= _LONGEST


def _quota(value: JsonValue) -> dict[str, Limit]:
    if not isinstance(value, dict):
        raise _bad_quota()
    return {zone: _limit(limit) for zone, limit in value.items()}


def _limit(value: JsonValue) -> Limit:
    if isinstance(value, int) and _is_count(value):
        return value
    if not isinstance(value, dict) or not value.keys() <= {pool.value for pool in Pool}:
        raise _bad_quota()
    pools: dict[Pool, int] = {}
    for pool, limit in value.items():
        if not isinstance(limit, int) or not _is_count(limit):
            raise _bad_quota()
        pools[Pool(pool)] = limit
    return pools


def _quota_shown(limit: Limit) -> JsonValue:
    if isinstance(limit, int):
        return limit
    return {pool.value: chips for pool, chips in limit.items()}


def _bad_quota() -> CloudError:
    return invalid_argument(
        'quota must be {"us-east5-a": 0, "*": 64}: chips by zone, or '
        '{"us-east5-a": {"preemptible": 0, "on_demand": 64}}: chips by zone and pool'
    )


def _failure(value: JsonValue) -> tuple[str, str] | None:
    if value is None:
        return None
    if not isinstance(value, dict) or text(value, "code") not in CODES:
        raise invalid_argument('failure must be {"code": "RESOURCE_EXHAUSTED", "message": "..."}')
    return text(value, "code"), text(value, "message")


def _not_understood(key: str, value: JsonValue) -> CloudError:
    names = ", ".join(rule_field.name for rule_field in dataclasses.fields(CapacityRule))
    return cloud_error(
        "INVALID_ARGUMENT",
        f"capacity: {key}={value!r} is not understood; known: {names}, zones, unsupported_zones, "
        "quota",
    )
