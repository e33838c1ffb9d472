"""The time series of all projects, as they are written. No HTTP.

https://cloud.google.com/monitoring/custom-metrics/creating-metrics#writing-ts
"""

from __future__ import annotations

import hashlib
import json

from embedded_cloud.clock import Clock, parse_rfc3339, rfc3339
from embedded_cloud.errors import CloudError, invalid_argument
from embedded_cloud.json_types import JsonObject, JsonValue, child, children, number, text
from embedded_cloud.monitoring.descriptors import Descriptors, check_type
from embedded_cloud.monitoring.errors import invalid_field
from embedded_cloud.monitoring.resource_types import RESOURCE_TYPES
from embedded_cloud.store import Store

_COLLECTION = "_monitoring/timeSeries"
#: https://cloud.google.com/monitoring/quotas
_MOST_SERIES = 200
_SHORTEST_S = 5.0
_OLDEST_S = 25 * 3600.0 + 10
_NEWEST_S = 300.0
#: Fields of a point's value, by the type of the values.
_VALUES = {
    "boolValue": "BOOL",
    "int64Value": "INT64",
    "doubleValue": "DOUBLE",
    "distributionValue": "DISTRIBUTION",
}
_IN_ORDER = (
    "Points must be written in order. One or more of the points specified had an older {} time "
    "than the most recent point."
)


class Series:
    """Time series by metric, resource and their labels."""

    def __init__(self, store: Store, clock: Clock, descriptors: Descriptors) -> None:
        self._store = store
        self._clock = clock
        self._descriptors = descriptors

    def of(self, project: str) -> list[tuple[str, JsonObject]]:
        """Keys and time series of a project, their points the oldest first."""
        return self._store.list(_COLLECTION, f"{project}/")

    def forget(self, project: str, type_: str) -> None:
        """Delete all of a metric."""
        for key, series in self.of(project):
            if text(child(series, "metric"), "type") == type_:
                self._store.delete(_COLLECTION, key)

    def write(self, project: str, sent: list[JsonObject]) -> None:
        """Add a point to each of the time series; those that cannot be written hold up no other.

        Raises:
            CloudError: 400, with what is wrong with each that was not written.
        """
        if len(sent) > _MOST_SERIES:
            raise invalid_argument(
                f"A maximum of {_MOST_SERIES} TimeSeries can be written in a single request."
            )
        errors: list[str] = []
        seen: set[str] = set()
        for index, series in enumerate(sent):
            try:
                self._write(project, series, f"timeSeries[{index}]", seen)
            except CloudError as error:
                errors.append(f"{error.message}: timeSeries[{index}]")
        if errors:
            raise _not_written(errors, len(sent))

    def _write(self, project: str, series: JsonObject, where: str, seen: set[str]) -> None:
        metric, resource = child(series, "metric"), _resource(project, series, where)
        check_type(text(metric, "type"), f"{where}.metric.type")
        identity: JsonObject = {"metric": metric, "resource": resource}
        key = (
            f"{project}/{hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()}"
        )
        if key in seen:
            raise invalid_argument(
                f"Field {where} had an invalid value: Duplicate TimeSeries encountered. Only one "
                "point can be written per TimeSeries per request."
            )
        seen.add(key)
        points = children(series, "points")
        if len(points) != 1:
            reason = "exactly one point must be written."
            raise invalid_field(f"{where}.points", len(points), reason)
        value_type = _value_type(points[0], where)
        known = self._descriptors.find(project, text(metric, "type")) or {}
        kind = text(known, "metricKind") or text(series, "metricKind") or "GAUGE"
        for field, own in (("metricKind", kind), ("valueType", value_type)):
            for said in (text(series, field), text(known, field)):
                if said and said != own:
                    reason = f"The metric {text(metric, 'type')} is of {field} {said}."
                    raise invalid_field(f"{where}.{field}", own, reason)
        point = self._point(points[0], kind, text(metric, "type"), f"{where}.points[0].interval")
        before = children(self._store.get(_COLLECTION, key) or {}, "points")
        if before:
            _check_order(before[-1], point, kind)
        self._descriptors.of_point(project, series, value_type)
        kept: JsonObject = {
            **identity,
            "metricKind": kind,
            "valueType": value_type,
            "points": list[JsonValue]([*before, point]),
        }
        self._store.put(_COLLECTION, key, kept)

    def _point(self, point: JsonObject, kind: str, type_: str, where: str) -> JsonObject:
        """``point`` with both ends of its interval. Raises CloudError 400."""
        interval, now = child(point, "interval"), self._clock.now()
        end = parse_rfc3339(text(interval, "endTime"))
        start = parse_rfc3339(text(interval, "startTime") or text(interval, "endTime"))
        if end < now - _OLDEST_S:
            reason = (
                "Data points cannot be written more than approximately 24 hours in the past, "
                "specifically no more than 25h10s in the past."
            )
            raise invalid_field(f"{where}.end_time", interval["endTime"], reason)
        if end > now + _NEWEST_S:
            reason = "Data points cannot be written more than 5m0s in the future."
            raise invalid_field(f"{where}.end_time", interval["endTime"], reason)
        if kind == "GAUGE" and start != end:
            reason = f"The start time must equal the end time for the gauge metric '{type_}'."
            raise invalid_field(f"{where}.start_time", interval["startTime"], reason)
        if kind != "GAUGE" and start >= end:
            reason = (
                f"The start time must be before the end time ({interval['endTime']}) for the "
                f"non-gauge metric '{type_}'."
            )
            raise invalid_field(f"{where}.start_time", interval.get("startTime", ""), reason)
        value = child(point, "value")
        if "doubleValue" in value:
            value = {"doubleValue": number(value, "doubleValue")}
        return {"interval": {"startTime": rfc3339(start), "endTime": rfc3339(end)}, "value": value}


def _resource(project: str, series: JsonObject, where: str) -> JsonObject:
    """The resource with all of its labels, as the service completes them. Raises CloudError 400."""
    resource = child(series, "resource")
    type_, labels = text(resource, "type"), child(resource, "labels")
    if type_ not in RESOURCE_TYPES:
        reason = f"The resource type must be one of {', '.join(RESOURCE_TYPES)}."
        raise invalid_field(f"{where}.resource.type", type_, reason)
    known = RESOURCE_TYPES[type_][1]
    for label in labels:
        if label not in known:
            reason = f"unrecognized resource label; {type_} has {', '.join(known)}."
            raise invalid_field(f"{where}.resource.labels", label, reason)
    filled: JsonObject = {label: text(labels, label) for label in known}
    return {"type": type_, "labels": {**filled, "project_id": project}}


def _value_type(point: JsonObject, where: str) -> str:
    value = child(point, "value")
    if len(value) != 1 or not _VALUES.keys() & value.keys():
        reason = f"must have one of {', '.join(_VALUES)}."
        raise invalid_field(f"{where}.points[0].value", ", ".join(value), reason)
    return _VALUES[next(iter(value))]


def _check_order(last: JsonObject, point: JsonObject, kind: str) -> None:
    """Raises CloudError 400 where ``point`` cannot follow ``last``."""
    before, after = child(last, "interval"), child(point, "interval")
    if text(after, "endTime") <= text(before, "endTime"):
        raise invalid_argument(_IN_ORDER.format("end"))
    if kind != "GAUGE":
        same = text(after, "startTime") == text(before, "startTime")
        if not same and text(after, "startTime") <= text(before, "endTime"):
            raise invalid_argument(_IN_ORDER.format("start"))
    apart = parse_rfc3339(text(after, "endTime")) - parse_rfc3339(text(before, "endTime"))
    if apart < _SHORTEST_S:
        raise invalid_argument(
            "One or more points were written more frequently than the maximum sampling period "
            "configured for the metric."
        )


def _not_written(errors: list[str], total: int) -> CloudError:
    """400 with all that is wrong, and how much was written nevertheless."""
    failed: JsonObject = {"status": {"code": 3}, "pointCount": len(errors)}
    summary: JsonObject = {
        "@type": "type.googleapis.com/google.monitoring.v3.CreateTimeSeriesSummary",
        "totalPointCount": total,
        "successPointCount": total - len(errors),
        "errors": [failed],
    }
    message = f"One or more TimeSeries could not be written: {'; '.join(errors)}"
    return invalid_argument(message, [summary])
