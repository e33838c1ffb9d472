"""Time series as they are read: those of a filter, in an interval, aligned and reduced. No HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from embedded_cloud.clock import parse_duration, parse_rfc3339, rfc3339
from embedded_cloud.errors import invalid_argument, unimplemented
from embedded_cloud.json_types import JsonObject, JsonValue, child, children, text
from embedded_cloud.monitoring.aggregation import (
    ALIGNERS,
    REDUCERS,
    Aligned,
    Aligner,
    Periods,
    Point,
    Reducer,
    Value,
    reduced,
)
from embedded_cloud.monitoring.errors import invalid_field
from embedded_cloud.monitoring.filters import canonical, field_of

_SHORTEST_PERIOD_S = 60.0
_FIELDS = {"BOOL": "boolValue", "INT64": "int64Value", "DOUBLE": "doubleValue"}


@dataclass(frozen=True, slots=True)
class Interval:
    """What is read: ends of points after ``start`` until ``end``, or at ``end`` if both are one."""

    start: float
    end: float

    @classmethod
    def parse(cls, start: str, end: str) -> Interval:
        """Read both ends. Raises CloudError 400."""
        try:
            interval = cls(parse_rfc3339(start or end), parse_rfc3339(end))
        except ValueError:
            raise invalid_field("interval.end_time", end, "must be RFC 3339.") from None
        if interval.start > interval.end:
            reason = "The start time must not be later than the end time."
            raise invalid_field("interval.start_time", start, reason)
        return interval

    def part(self, series: JsonObject) -> JsonObject:
        """``series`` with its points in this interval."""
        points = [point for point in children(series, "points") if self._has(point)]
        return {**series, "points": list[JsonValue](points)}

    def _has(self, point: JsonObject) -> bool:
        end = parse_rfc3339(text(child(point, "interval"), "endTime"))
        return self.start < end <= self.end or self.start == end == self.end


@dataclass(frozen=True, slots=True)
class Aggregation:
    """How time series are aligned and reduced.

    Attributes:
        name: of the aligner.
        aligner: the aligner.
        period_s: its period.
        reducer: what makes one series of several; None for each by itself.
        group_by: fields in which series of one group are equal.
    """

    name: str
    aligner: Aligner
    period_s: float
    reducer: Reducer | None
    group_by: tuple[str, ...]

    @classmethod
    def parse(
        cls, period: str, aligner: str, reducer: str, group_by: Sequence[str]
    ) -> Aggregation | None:
        """Read it; None where nothing is asked for. Raises CloudError 400, or 501 for what is not
        spoken here."""
        if aligner in ("", "ALIGN_NONE"):
            if reducer not in ("", "REDUCE_NONE"):
                reason = "must be set, and not to ALIGN_NONE, where there is a crossSeriesReducer."
                raise invalid_field("aggregation.perSeriesAligner", aligner, reason)
            return None
        try:
            seconds = parse_duration(period)
        except ValueError:
            seconds = 0.0
        if seconds < _SHORTEST_PERIOD_S:
            reason = "The alignment period must be at least 60 seconds."
            raise invalid_field("aggregation.alignmentPeriod", period, reason)
        if aligner not in ALIGNERS:
            raise unimplemented(f"the aligner {aligner}")
        if reducer in ("", "REDUCE_NONE"):
            return cls(aligner, ALIGNERS[aligner], seconds, None, ())
        if reducer not in REDUCERS:
            raise unimplemented(f"the reducer {reducer}")
        fields = tuple(canonical(field) for field in group_by)
        return cls(aligner, ALIGNERS[aligner], seconds, REDUCERS[reducer], fields)

    def of(self, series: Iterable[JsonObject], interval: Interval) -> list[JsonObject]:
        """What becomes of ``series``. Raises CloudError 400 where the aligner does not apply."""
        aligned = [(each, self._aligned(each, interval)) for each in series]
        if self.reducer is None:
            return [self._shown(each, values) for each, values in aligned if values]
        groups: dict[str, list[tuple[JsonObject, Aligned]]] = {}
        for each, values in aligned:
            identity = [field_of(each, field) for field in ("resource.type", *self.group_by)]
            groups.setdefault(json.dumps(identity), []).append((each, values))
        return [
            self._shown(self._group(group[0][0]), values)
            for group in groups.values()
            if (values := reduced(self.reducer, [each for _, each in group]))
        ]

    def _aligned(self, series: JsonObject, interval: Interval) -> Aligned:
        kind, type_ = text(series, "metricKind"), text(series, "valueType")
        reducible = self.reducer is None or (self.aligner.type or type_) in self.reducer.types
        if kind not in self.aligner.kinds or type_ not in self.aligner.types or not reducible:
            what = "aligner" if reducible else "reducer"
            raise invalid_field(
                "aggregation.perSeriesAligner",
                self.name,
                f"The {what} cannot be applied to metrics with kind {kind} and value type {type_}.",
            )
        points = [_point(point, type_) for point in children(series, "points")]
        return self.aligner.align(points, Periods(interval.start, interval.end, self.period_s))

    def _group(self, first: JsonObject) -> JsonObject:
        """A series of a group with only what all of them have in common."""
        shown = {part: child(first, part) for part in ("metric", "resource")}
        return {
            **first,
            **{
                part: {
                    "type": text(owner, "type"),
                    "labels": {
                        label: value
                        for label, value in child(owner, "labels").items()
                        if f"{part}.labels.{label}"
                        in (*self.group_by, "resource.labels.project_id")
                    },
                }
                for part, owner in shown.items()
            },
        }

    def _shown(self, series: JsonObject, values: Aligned) -> JsonObject:
        kind = self.aligner.kind or text(series, "metricKind")
        type_ = (self.reducer.type if self.reducer else "") or self.aligner.type
        type_ = type_ or text(series, "valueType")
        length = self.period_s if kind == "DELTA" else 0.0
        points: list[JsonValue] = [
            {
                "interval": {"startTime": rfc3339(end - length), "endTime": rfc3339(end)},
                "value": _value(value, type_),
            }
            for end, value in values.items()
        ]
        return {**series, "metricKind": kind, "valueType": type_, "points": points}


def _point(point: JsonObject, type_: str) -> Point:
    interval, value = child(point, "interval"), child(point, "value").get(_FIELDS.get(type_, ""))
    if type_ == "INT64":
        value = int(str(value))
    if not isinstance(value, bool | int | float):
        raise invalid_argument(f"Points of type {type_} cannot be aggregated.")
    start, end = (parse_rfc3339(text(interval, key)) for key in ("startTime", "endTime"))
    return Point(start, end, value)


def _value(value: Value, type_: str) -> JsonObject:
    if type_ == "INT64":
        return {"int64Value": str(round(float(value)))}
    return {_FIELDS[type_]: value if type_ == "BOOL" else float(value)}
