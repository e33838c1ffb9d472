"""Rules across inputs: what each allows by itself and all together do not. Every finding names
both inputs. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from pulumi_plugin.values import UNKNOWN, Properties, Value, has_unknown
from tpuflex.duration import google_seconds
from tpuflex.queued_resource import limits
from tpuflex.queued_resource.name import ids_of
from tpuflex.queued_resource.node_fields import ONE_NETWORK
from tpuflex.queued_resource.rows import moment

Findings = Iterator[tuple[str, str]]

#: The two ways to bound a run.
RUN_LENGTH = ("maxRunDuration", "terminationTime")
#: A oneof in Google's definition: giving two of them is not "and".
QUEUEING_POLICY = (
    "validUntilDuration",
    "validUntilTime",
    "validAfterDuration",
    "validAfterTime",
    "validInterval",
)
#: Of each group, at most one may be given.
_ONE_OF = (
    ("acceleratorType", "acceleratorConfig"),
    RUN_LENGTH,
    ("bestEffort", "guaranteed"),
)
_TIMES = ("terminationTime", "validUntilTime")


def conflicts(inputs: Properties, *, before: Properties, now: datetime | None) -> Findings:
    """What cannot be honoured together, as (input, reason naming the other)."""
    given = {key: value for key, value in inputs.items() if _is_given(value)}
    yield from _needs(given)
    given = {key: value for key, value in given.items() if value is not UNKNOWN}
    for group in _ONE_OF:
        yield from _at_most_one(given, group, "Write one of them.")
    yield from _at_most_one(given, QUEUEING_POLICY, "Write one of them; validInterval says both.")
    yield from _model(given)
    yield from _network(given)
    yield from _disks(given)
    yield from _node_names(given)
    yield from _renewal(given)
    yield from _replace(given)
    yield from _zones(given)
    yield from _one_zone(given)
    yield from _interval(given)
    if now is not None:
        yield from _times(given, before, now)


def _is_given(value: Value) -> bool:
    """Whether a value says anything: what is off, or empty, does not."""
    return value is not None and value is not False and value != []


def _at_most_one(given: Properties, group: tuple[str, ...], remedy: str) -> Findings:
    found = [key for key in group if key in given]
    if len(found) > 1:
        yield found[1], f"{' and '.join(found)} cannot be set together. {remedy}"


def _needs(given: Properties) -> Findings:
    if "acceleratorType" not in given and "acceleratorConfig" not in given:
        yield "acceleratorType", "it, or acceleratorConfig, is required. Write a type such as v6e-4"
    model = given.get("provisioningModel")
    if model == "FLEX_START" and not any(key in given for key in RUN_LENGTH):
        yield (
            "maxRunDuration",
            "it, or terminationTime, is required with provisioningModel FLEX_START. Write seconds"
            " with the suffix s, such as 14400s.",
        )
    if model == "RESERVATION_BOUND" and "reservationName" not in given:
        yield "reservationName", "it is required with provisioningModel RESERVATION_BOUND"


def _model(given: Properties) -> Findings:
    model = given.get("provisioningModel")
    if not isinstance(model, str):
        return
    allowed = {
        **dict.fromkeys(RUN_LENGTH, ("FLEX_START",)),
        "reservationName": ("RESERVATION_BOUND",),
        "bestEffort": ("STANDARD",),
        "guaranteed": ("STANDARD", "RESERVATION_BOUND"),
    }
    for key, models in allowed.items():
        if key in given and model not in models:
            needed = " or ".join(models)
            yield key, f"only provisioningModel {needed} can have it, but that is {model}"


def _network(given: Properties) -> Findings:
    if "networkConfigs" not in given:
        return
    for key in ONE_NETWORK:
        if key in given:
            yield (
                key,
                f"{key} and networkConfigs cannot be set together. Write it in networkConfigs.",
            )


def _disks(given: Properties) -> Findings:
    boot = given.get("bootDisk")
    confidential = isinstance(boot, dict) and boot.get("enableConfidentialCompute") is True
    if confidential and isinstance(boot, dict) and boot.get("kmsKeyName") is None:
        yield (
            "bootDisk.enableConfidentialCompute",
            "it needs bootDisk.kmsKeyName. Write the key's full name, or leave both out.",
        )
    if "multiNode" not in given:
        return
    for position, disk in _entries(given, "dataDisks"):
        if disk.get("mode", "READ_WRITE") == "READ_WRITE":
            yield (
                f"dataDisks[{position}].mode",
                "a disk can be written by one node only, so dataDisks of multiNode must be"
                " READ_ONLY.",
            )


def _node_names(given: Properties) -> Findings:
    """The ids of several nodes are their prefix and a number: together not too long."""
    several = given.get("multiNode")
    if not isinstance(several, dict) or has_unknown(several):
        return
    named = several.get("nodeIdPrefix") is not None
    ids = ids_of(str(given.get("queuedResourceId")), several)
    if ids and "queuedResourceId" in given and len(ids[-1]) > limits.NODE_ID_LIMIT:
        maker = "multiNode.nodeIdPrefix" if named else "queuedResourceId"
        yield (
            "multiNode.nodeIdPrefix",
            f"{maker} and multiNode.nodeCount make node ids such as {ids[-1]}, of"
            f" {len(ids[-1])} characters. Write a prefix for ids of at most"
            f" {limits.NODE_ID_LIMIT}.",
        )


def _renewal(given: Properties) -> Findings:
    renew = google_seconds(given.get("renewBefore"))
    run = google_seconds(given.get("maxRunDuration"))
    if renew is None or run is None:
        return
    if limits.renews_at_once(timedelta(seconds=renew), timedelta(seconds=run)):
        yield (
            "renewBefore",
            f"{renew}s is not shorter than maxRunDuration ({run}s): every run would be renewed as"
            " soon as it begins. Write less, or a longer maxRunDuration.",
        )


def _replace(given: Properties) -> Findings:
    if given.get("replace") == "delete_first" and given.get("deletionProtection") is True:
        yield (
            "replace",
            "delete_first deletes what serves, which deletionProtection forbids. Write"
            " create_first, or deletionProtection false.",
        )


def _zones(given: Properties) -> Findings:
    zones = given.get("zones")
    if not isinstance(zones, list) or has_unknown(zones):
        return
    names = [str(zone) for zone in zones]
    if twice := limits.named_twice(names):
        yield "zones", f"{', '.join(twice)} is named twice. Name each zone once."
    regions = limits.regions_of(names)
    # A bare name is looked up in the region of the zone that is asked.
    if len(regions) > 1 and "/" in str(given.get("subnetwork", "")):
        yield (
            "zones",
            f"the zones are in {' and '.join(regions)}, but subnetwork is in one region."
            " Write zones of one region; or the name of a subnetwork that each region has.",
        )


def _one_zone(given: Properties) -> Findings:
    """What lies in one zone fits requests in that zone only."""
    zones = given.get("zones")
    if not isinstance(zones, list) or has_unknown(zones):
        return
    named = [
        (f"dataDisks[{position}].sourceDisk", disk.get("sourceDisk"))
        for position, disk in _entries(given, "dataDisks")
    ]
    boot = given.get("bootDisk")
    pool = boot.get("storagePool") if isinstance(boot, dict) else None
    named.append(("bootDisk.storagePool", pool))
    named.append(("reservationName", given.get("reservationName")))
    for path, name in named:
        zone = _zone_of(name)
        others = [str(other) for other in zones if other != zone]
        if zone and others:
            yield (
                path,
                f"it is in {zone}, but zones has {', '.join(others)}. Write one of {zone},"
                " or leave it out.",
            )


def _zone_of(name: Value) -> str:
    parts = name.split("/") if isinstance(name, str) else []
    for place in ("zones", "locations"):
        if place in parts[:-1]:
            return parts[parts.index(place) + 1]
    return ""


def _interval(given: Properties) -> Findings:
    interval = given.get("validInterval")
    if not isinstance(interval, dict) or has_unknown(interval):
        return
    start, end = interval.get("startTime"), interval.get("endTime")
    if start is None and end is None:
        yield "validInterval", "it says nothing. Write startTime, endTime, or both."
    elif isinstance(start, str) and isinstance(end, str) and moment(start) >= moment(end):
        yield "validInterval.endTime", "it must be later than validInterval.startTime"


def _times(given: Properties, before: Properties, now: datetime) -> Findings:
    for key in _TIMES:
        value = given.get(key)
        if isinstance(value, str) and value != before.get(key) and moment(value) <= now:
            yield key, f"{value} has passed. Write a later time."
    end = given.get("terminationTime")
    if isinstance(end, str) and moment(end) > now + limits.LONGEST_RUN:
        yield "terminationTime", f"{end} is more than 7 days from now. Write an earlier time."


def _entries(given: Properties, key: str) -> Iterator[tuple[int, dict[str, Value]]]:
    found = given.get(key)
    for position, item in enumerate(found if isinstance(found, list) else []):
        if isinstance(item, dict):
            yield position, item
