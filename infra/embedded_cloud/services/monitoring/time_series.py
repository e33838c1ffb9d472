"""Time series: what a write may add to them, and what there is. No HTTP.

Rules and quotas: https://cloud.google.com/monitoring/quotas and
https://cloud.google.com/monitoring/custom-metrics/creating-metrics. The words of the refusals are
those of public GitHub issues, named beside them.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from embedded_cloud.core.clock import Clock, parse_rfc3339, rfc3339
from embedded_cloud.core.errors import CloudError, invalid_argument, not_found, unimplemented
from embedded_cloud.core.json_types import (
    JsonObject,
    JsonValue,
    child,
    children,
    items,
    number,
    string_map,
    text,
)
from embedded_cloud.core.store import Store

#: What a filter asks: fields, such as ``resource.labels.node_id``, and the value each has to have.
Terms = tuple[tuple[str, str], ...]

_SERIES, _POINTS, _METRICS = "_monitoring/series", "_monitoring/points", "_monitoring/metrics"
_MOST_SERIES = 200
_SAMPLING_S = 5.0
_PAST_S, _FUTURE_S = 25 * 3600 + 10, 300
_TYPE = re.compile(
    r"(?:custom|external|workload)\.googleapis\.com/[A-Za-z][\w]*(?:[/.][A-Za-z0-9_]+)*"
)
#: Those of https://cloud.google.com/monitoring/custom-metrics/creating-metrics#custom-metric-resources
#: that a host without a cluster may name, and their labels beside project_id.
_RESOURCES: Mapping[str, frozenset[str]] = {
    "global": frozenset(),
    "gce_instance": frozenset({"instance_id", "zone"}),
    "generic_node": frozenset({"location", "namespace", "node_id"}),
    "generic_task": frozenset({"location", "namespace", "job", "task_id"}),
}
_VALUES = {
    "boolValue": "BOOL",
    "int64Value": "INT64",
    "doubleValue": "DOUBLE",
    "distributionValue": "DISTRIBUTION",
    "stringValue": "STRING",
}
#: What counts up (https://cloud.google.com/monitoring/api/v3/kinds-and-types#kind-type-combos).
_CUMULATIVE = ("INT64", "DOUBLE", "DISTRIBUTION")
#: https://cloud.google.com/monitoring/quotas#custom_metrics_quotas
_MOST_BUCKETS = 200


@dataclass(frozen=True, slots=True)
class _Written:
    """One series of a write.

    Attributes:
        body: as sent.
        key: what it is kept under.
        resource: the monitored resource, with the project that it is in.
        point: its one point.
        start, end: the interval of the point.
        kind: metric kind.
        value_type: type of the point's value.
    """

    body: JsonObject
    key: str
    resource: JsonObject
    point: JsonObject
    start: float
    end: float
    kind: str
    value_type: str

    @property
    def type(self) -> str:
        """The metric's type."""
        return text(child(self.body, "metric"), "type")


class TimeSeries:
    """The series of projects."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def write(self, project: str, series: list[JsonObject]) -> None:
        """Add a point to each of ``series``, but to those that are refused.

        Raises:
            CloudError: 400, none was added, or not all.
        """
        if not series:
            raise invalid_argument("Field timeSeries had an invalid value: No TimeSeries provided.")
        if len(series) > _MOST_SERIES:  # ServiceWeaver/weaver-gke#142
            raise invalid_argument(
                f"Field timeSeries had an invalid value: A maximum of {_MOST_SERIES} TimeSeries can"
                " be written in a single request."
            )
        refused: list[str] = []
        seen: set[str] = set()
        for index, body in enumerate(series):
            try:
                written = self._read(project, body)
                if written.key in seen:  # census-ecosystem/opencensus-go-exporter-stackdriver#73
                    raise _InvalidFieldError(
                        "",
                        "Duplicate TimeSeries encountered. Only one point can be written per"
                        " TimeSeries per request.",
                    )
            except _InvalidFieldError as invalid:
                refused.append(invalid.sentence(index))
                continue
            seen.add(written.key)
            if problem := self._too_early(written):
                refused.append(_not_added(index, written, problem))
            else:
                self._keep(project, written)
        if refused:
            raise _not_written(len(series), refused)

    def _read(self, project: str, body: JsonObject) -> _Written:
        metric, resource = child(body, "metric"), child(body, "resource")
        kind_of, labels = text(resource, "type"), string_map(resource, "labels")
        labels.setdefault("project_id", project)
        if not _TYPE.fullmatch(text(metric, "type")):
            raise _InvalidFieldError(
                "metric.type", "Must be a valid metric type", text(metric, "type")
            )
        if kind_of not in _RESOURCES:
            raise _InvalidFieldError("resource.type", "Unknown monitored resource type", kind_of)
        if set(labels) - {"project_id"} != _RESOURCES[kind_of]:
            wanted = ", ".join(sorted(_RESOURCES[kind_of]))
            raise _InvalidFieldError(
                "resource.labels", f"{kind_of} has the labels project_id, {wanted}"
            )
        points = children(body, "points")
        if len(points) != 1:  # GoogleCloudPlatform/opentelemetry-operations-java#225
            raise _InvalidFieldError(
                "points", "Only one point can be written per TimeSeries per request."
            )
        value_type = _value_type(points[0])
        kind = self._kind(project, body, text(metric, "type"), value_type)
        start, end = self._interval(points[0], kind, text(metric, "type"))
        place: JsonObject = {"type": kind_of, "labels": dict[str, JsonValue](labels)}
        identity = json.dumps([metric, place], sort_keys=True)
        digest = hashlib.sha256(identity.encode()).hexdigest()[:32]
        key = f"{project}/{digest}"
        return _Written(body, key, place, points[0], start, end, kind, value_type)

    def _kind(self, project: str, body: JsonObject, type_: str, value_type: str) -> str:
        """The metric's kind; what is written first decides."""
        known = self._store.get(_METRICS, f"{project}/{type_}")
        asked, said = text(body, "metricKind"), text(body, "valueType")
        kind = text(known, "metricKind") if known else asked or "GAUGE"
        if said and said != value_type:
            raise _InvalidFieldError("valueType", f"The value type must be {value_type}", said)
        if known is not None and text(known, "valueType") != value_type:
            raise _InvalidFieldError(
                "points[0].value",
                f"Value type for metric {type_} must be {text(known, 'valueType')}, but is"
                f" {value_type}.",
            )
        if asked and asked != kind:
            raise _InvalidFieldError(
                "metricKind", f"Metric kind for metric {type_} must be {kind}, but is {asked}."
            )
        if kind not in ("GAUGE", "CUMULATIVE") or (
            kind == "CUMULATIVE" and value_type not in _CUMULATIVE
        ):
            raise _InvalidFieldError(
                "metricKind", f"A metric of {value_type} cannot be {kind} where it is written", kind
            )
        return kind

    def _interval(self, point: JsonObject, kind: str, type_: str) -> tuple[float, float]:
        stamps = child(point, "interval")
        try:
            end = parse_rfc3339(text(stamps, "endTime"))
            start = parse_rfc3339(text(stamps, "startTime") or text(stamps, "endTime"))
        except ValueError:
            raise _InvalidFieldError("points[0].interval", "It has no end time", "") from None
        now, shown = self._clock.now(), text(stamps, "endTime")
        if end < now - _PAST_S:  # influxdata/telegraf#13826
            raise _InvalidFieldError(
                "points[0].interval.end_time",
                "Data points cannot be written more than approximately 24 hours in the past,"
                " specifically no more than 25h10s in the past.",
                shown,
            )
        if end > now + _FUTURE_S:
            raise _InvalidFieldError(
                "points[0].interval.end_time",
                "Data points cannot be written more than 5 minutes in the future.",
                shown,
            )
        # influxdata/telegraf#13725 and googleapis/java-bigtable#2719
        if kind == "GAUGE" and start != end:
            what = f"must be equal to the end time ({shown}) for the gauge metric '{type_}'."
        elif kind != "GAUGE" and start >= end:
            what = f"must be before the end time ({shown}) for the non-gauge metric '{type_}'."
        else:
            return start, end
        given = text(stamps, "startTime") or shown
        raise _InvalidFieldError("points[0].interval.start_time", f"The start time {what}", given)

    def _too_early(self, written: _Written) -> str:
        """Why a point may not follow the last one of its series; empty if it may."""
        before = self._store.get(_SERIES, written.key)
        if before is None:
            return ""
        start, end = number(before, "start"), number(before, "end")
        # A process that starts again counts from later than the last point.
        restarted = written.kind == "CUMULATIVE" and written.start != start
        if written.end <= end or (restarted and written.start < end):
            # googleapis/python-monitoring#57, GoogleCloudPlatform/opentelemetry-operations-go#1029
            which = "end" if written.end <= end and not restarted else "start"
            return (
                "Points must be written in order. One or more of the points specified had an older"
                f" {which} time than the most recent point."
            )
        if written.end - end < _SAMPLING_S:
            # GoogleCloudPlatform/opentelemetry-operations-python#431
            return (
                "One or more points were written more frequently than the maximum sampling period"
                f" configured for the metric. {{Metric: {written.type}, Timestamps: {{Youngest"
                f" Existing: '{_slashed(end)}', New: '{_slashed(written.end)}'}}}}"
            )
        return ""

    def _keep(self, project: str, written: _Written) -> None:
        types: JsonObject = {"metricKind": written.kind, "valueType": written.value_type}
        self._store.put(_METRICS, f"{project}/{written.type}", types)
        self._store.put(
            _SERIES,
            written.key,
            {
                "metric": child(written.body, "metric"),
                "resource": written.resource,
                **types,
                "start": written.start,
                "end": written.end,
            },
        )
        interval: JsonObject = {
            "startTime": rfc3339(written.start),
            "endTime": rfc3339(written.end),
        }
        point: JsonObject = {"interval": interval, "value": written.point["value"]}
        self._store.put(_POINTS, f"{written.key}/{rfc3339(written.end)}", point)

    def select(
        self, project: str, wanted: Terms, start: float, end: float
    ) -> Iterator[tuple[str, JsonObject]]:
        """Key and series that pass, with their points in the interval, the newest first; a series
        without any is left out.

        Raises:
            CloudError: 404, there is no such metric.
        """
        type_ = dict(wanted).get("metric.type")
        if type_ and type_ not in self.metrics(project):
            raise no_metric(type_)
        for key, series in self._store.list(_SERIES, f"{project}/"):
            fields = _fields(project, series)
            if any(fields.get(name) != value for name, value in wanted):
                continue
            if points := self._points(key, start, end):
                head = ("metric", "resource", "metricKind", "valueType")
                yield key, {**{name: series[name] for name in head}, "points": points}

    def _points(self, key: str, start: float, end: float) -> list[JsonValue]:
        first, last = rfc3339(start), rfc3339(end)
        found: list[JsonValue] = []
        for name, point in self._store.list(_POINTS, f"{key}/"):
            stamp = name.rpartition("/")[2]
            if first < stamp <= last or (first == last == stamp):
                found.append(point)
        return found[::-1]

    def metrics(self, project: str) -> set[str]:
        """The types of the metrics that have been written."""
        return {key.partition("/")[2] for key, _ in self._store.list(_METRICS, f"{project}/")}


def no_metric(type_: str) -> CloudError:
    """404: nobody has written this metric (GoogleCloudPlatform/cloud-foundation-fabric#3739)."""
    return not_found(
        f'Cannot find metric(s) that match type = "{type_}". If a metric was created recently, it'
        " could take up to 10 minutes to become available. Please try again soon."
    )


class _InvalidFieldError(Exception):
    """A series that is not kept.

    Args:
        where: the field below the series; empty for the series itself.
        problem: what is wrong with it.
        value: what was sent, where that helps.
    """

    def __init__(self, where: str, problem: str, value: str | None = None) -> None:
        super().__init__(problem)
        self._where, self._problem, self._value = where, problem, value

    def sentence(self, index: int) -> str:
        """What Google says of it."""
        of = "" if self._value is None else f' of "{self._value}"'
        where = f"timeSeries[{index}]{'.' * bool(self._where)}{self._where}"
        return f"Field {where} had an invalid value{of}: {self._problem}"


def _value_type(point: JsonObject) -> str:
    given = [name for name in child(point, "value") if name in _VALUES]
    if len(given) != 1 or given == ["stringValue"]:
        raise _InvalidFieldError(
            "points[0].value", "It must be BOOL, INT64, DOUBLE, or DISTRIBUTION."
        )
    if given == ["distributionValue"]:
        _check_distribution(child(child(point, "value"), "distributionValue"))
    return _VALUES[given[0]]


def _check_distribution(found: JsonObject) -> None:
    """https://cloud.google.com/monitoring/api/ref_v3/rest/v3/TypedValue#Distribution: its counts
    fit its buckets, and add up."""
    where = "points[0].value.distributionValue"
    options = child(found, "bucketOptions")
    if len(options) != 1:
        raise _InvalidFieldError(
            f"{where}.bucketOptions", "Exactly one kind of buckets is required."
        )
    if "explicitBuckets" not in options:
        raise unimplemented("linear and exponential buckets of a distribution")
    bounds = [float(str(each)) for each in items(child(options, "explicitBuckets"), "bounds")]
    if not bounds or len(bounds) >= _MOST_BUCKETS:
        raise _InvalidFieldError(
            f"{where}.bucketOptions", f"There must be 1 to {_MOST_BUCKETS - 1} bounds."
        )
    for at, (lower, upper) in enumerate(pairwise(bounds), 1):
        if upper <= lower:
            raise _InvalidFieldError(
                f"{where}",
                f"Distribution |explicit_buckets.bounds| entry {at} has a value of {upper:g} which"
                f" is less than or equal to the value of entry {at - 1} which is {lower:g}.",
            )
    counts = [int(str(each)) for each in items(found, "bucketCounts")]
    count, mean = int(number(found, "count")), number(found, "mean")
    if len(counts) > len(bounds) + 1 or any(each < 0 for each in (count, *counts)):
        raise _InvalidFieldError(
            f"{where}.bucketCounts", "There are more counts than buckets, or below 0."
        )
    if sum(counts) != count:
        raise _InvalidFieldError(
            f"{where}",
            f"Distribution |count| of {count} does not equal the sum of |bucket_counts|,"
            f" {sum(counts)}.",
        )
    if count == 0 and (mean or number(found, "sumOfSquaredDeviation")):
        raise _InvalidFieldError(f"{where}.mean", "It must be 0 where the count is 0.")


def _fields(project: str, series: JsonObject) -> dict[str, str]:
    """What a filter can ask of a series."""
    metric, resource = child(series, "metric"), child(series, "resource")
    return {
        "project": project,
        "metric.type": text(metric, "type"),
        "resource.type": text(resource, "type"),
        **{f"metric.labels.{key}": value for key, value in string_map(metric, "labels").items()},
        **{
            f"resource.labels.{key}": value for key, value in string_map(resource, "labels").items()
        },
    }


def _not_added(index: int, written: _Written, problem: str) -> str:
    """What Google says of a point that may not follow the last one of its series."""
    labels = json.dumps(string_map(child(written.body, "metric"), "labels"))
    return (
        f'timeSeries[{index}] (example metric.type="{written.type}", metric.labels={labels}): write'
        f" for resource={_place(written.resource)} failed with: {problem}"
    )


def _not_written(total: int, refused: list[str]) -> CloudError:
    """400 with what is refused, and a summary that says how much of the request was written."""
    summary: JsonObject = {
        "@type": "type.googleapis.com/google.monitoring.v3.CreateTimeSeriesSummary",
        "totalPointCount": total,
        "errors": [{"status": {"code": 3}, "pointCount": len(refused)}],
    }
    if total > len(refused):
        summary["successPointCount"] = total - len(refused)
    sentences = "; ".join(refused)
    return invalid_argument(f"One or more TimeSeries could not be written: {sentences}", [summary])


def _place(resource: JsonObject) -> str:
    labels = string_map(resource, "labels")
    shown = ",".join(f"{key}:{labels[key]}" for key in sorted(labels) if key != "project_id")
    return f"{text(resource, 'type')}{{{shown}}}"


def _slashed(at: float) -> str:
    stamp = rfc3339(at)
    return f"{stamp[:10].replace('-', '/')}-{stamp[11:23]}"
