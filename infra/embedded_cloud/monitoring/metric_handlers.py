"""HTTP calls on metrics, time series and monitored resources turned into calls on the state."""

from __future__ import annotations

import json

from embedded_cloud.errors import invalid_argument, not_found, unimplemented
from embedded_cloud.json_types import JsonObject, JsonValue, child, children, text
from embedded_cloud.monitoring.descriptors import Descriptors
from embedded_cloud.monitoring.errors import invalid_field
from embedded_cloud.monitoring.filters import Filter
from embedded_cloud.monitoring.reading import Aggregation, Interval
from embedded_cloud.monitoring.resource_types import RESOURCE_TYPES, descriptor
from embedded_cloud.monitoring.series import Series
from embedded_cloud.paging import Paging, page
from embedded_cloud.resourcemanager.state import require
from embedded_cloud.routing import Call, Reply

_PAGING = Paging(default=10_000, maximum=10_000)
_MAX_POINTS = 100_000
#: A time whose digits are turned sorts the other way round: points come the newest first.
_TURNED = str.maketrans("0123456789", "9876543210")


class MetricHandlers:
    """Handlers of ``metricDescriptors``, ``monitoredResourceDescriptors`` and ``timeSeries``."""

    def __init__(self, descriptors: Descriptors, series: Series) -> None:
        self._descriptors = descriptors
        self._series = series

    def create(self, call: Call) -> Reply:
        """POST …/metricDescriptors: a new metric, or a change of one."""
        return Reply(body=self._descriptors.put(_project(call), call.body or {}))

    def get(self, call: Call) -> Reply:
        """GET …/metricDescriptors/{type}."""
        return Reply(body=self._descriptors.get(_project(call), call.id))

    def list(self, call: Call) -> Reply:
        """GET …/metricDescriptors."""
        if call.query.get("activeOnly", "").lower() == "true":
            raise unimplemented("activeOnly")
        wanted = Filter.parse(call.query.get("filter", ""))
        found = [
            each
            for each in self._descriptors.of(_project(call))
            if wanted.matches({"metric": {"type": each["type"]}})
        ]
        return _PAGING.resources(call, "metricDescriptors", found)

    def delete(self, call: Call) -> Reply:
        """DELETE …/metricDescriptors/{type}: the metric and its time series."""
        self._descriptors.delete(_project(call), call.id)
        self._series.forget(_project(call), call.id)
        return Reply(body={})

    def resource(self, call: Call) -> Reply:
        """GET …/monitoredResourceDescriptors/{type}."""
        if call.id not in RESOURCE_TYPES:
            raise not_found(f"Could not find descriptor for monitored resource '{call.id}'.")
        return Reply(body=descriptor(_project(call), call.id))

    def resources(self, call: Call) -> Reply:
        """GET …/monitoredResourceDescriptors."""
        wanted = Filter.parse(call.query.get("filter", ""))
        known = [descriptor(_project(call), type_) for type_ in RESOURCE_TYPES]
        found = [each for each in known if wanted.matches({"resource": each})]
        return _PAGING.resources(call, "resourceDescriptors", found)

    def write(self, call: Call) -> Reply:
        """POST …/timeSeries: a point for each time series."""
        self._series.write(_project(call), children(call.body or {}, "timeSeries"))
        return Reply(body={})

    def read(self, call: Call) -> Reply:
        """GET …/timeSeries."""
        query, project = call.query, _project(call)
        if query.get("orderBy"):
            raise invalid_field("order_by", query["orderBy"], "must be left blank.")
        if any(name.startswith("secondaryAggregation.") for name in query):
            raise unimplemented("secondaryAggregation")
        wanted = self._filter(project, query.get("filter", ""))
        interval = Interval.parse(
            query.get("interval.startTime", ""), query.get("interval.endTime", "")
        )
        aggregation = Aggregation.parse(
            query.get("aggregation.alignmentPeriod", ""),
            query.get("aggregation.perSeriesAligner", ""),
            query.get("aggregation.crossSeriesReducer", ""),
            call.request.query.getall("aggregation.groupByFields", []),
        )
        stored = [each for _, each in self._series.of(project) if wanted.matches(each)]
        found = (
            [interval.part(each) for each in stored]
            if aggregation is None
            else aggregation.of(stored, interval)
        )
        return _paged(call, [each for each in found if each["points"]])

    def _filter(self, project: str, expression: str) -> Filter:
        """Raises CloudError 400 or 404: a filter names the metric, and there is one."""
        wanted = Filter.parse(expression)
        terms = wanted.on("metric.type")
        if not terms:
            reason = 'must specify a restriction on "metric.type" in the filter.'
            raise invalid_field("filter", expression, reason)
        known = self._descriptors.of(project)
        if not any(all(term.holds({"metric": each}) for term in terms) for each in known):
            raise not_found(f'Cannot find metric(s) that match type = "{terms[0].values[0]}".')
        return wanted


def _paged(call: Call, found: list[JsonObject]) -> Reply:
    """The page of time series that ``call`` asks for: by points, or by series without them."""
    headers = call.query.get("view") == "HEADERS"
    of = {json.dumps([each["metric"], each["resource"]], sort_keys=True): each for each in found}
    entries: list[tuple[str, str, JsonObject]] = []
    for identity, series in of.items():
        for point in [{}] if headers else children(series, "points"):
            end = text(child(point, "interval"), "endTime").translate(_TURNED)
            entries.append((f"{identity}/{end}", identity, point))
    entries.sort(key=lambda each: each[0])
    size = int(call.query.get("pageSize", 0))
    try:
        shown, token = page(
            entries,
            key=lambda each: each[0],
            size=min(size, _MAX_POINTS) if size > 0 else _MAX_POINTS,
            token=call.query.get("pageToken"),
        )
    except ValueError:
        raise invalid_argument("Invalid page token.") from None
    points: dict[str, list[JsonValue]] = {}
    for _, identity, point in shown:
        points.setdefault(identity, []).append(point)
    answer: JsonObject = {}
    if points:
        answer["timeSeries"] = [
            {key: value for key, value in of[identity].items() if key != "points"}
            | ({} if headers else {"points": each})
            for identity, each in points.items()
        ]
    if token:
        answer["nextPageToken"] = token
    return Reply(body=answer)


def _project(call: Call) -> str:
    return require(call.params["project"])
