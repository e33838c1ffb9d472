"""The Cloud Monitoring v3 methods that are emulated."""

from __future__ import annotations

from embedded_cloud.core.clock import parse_rfc3339
from embedded_cloud.core.errors import invalid_argument, unimplemented
from embedded_cloud.core.json_types import children
from embedded_cloud.core.paging import Paging
from embedded_cloud.core.projects import named
from embedded_cloud.core.routing import Call, Context, Reply, Service
from embedded_cloud.core.store import Store
from embedded_cloud.services.monitoring.alerting import Alerting
from embedded_cloud.services.monitoring.filters import Filter
from embedded_cloud.services.monitoring.time_series import TimeSeries

#: https://cloud.google.com/monitoring/api/ref_v3/rest/v3/projects.timeSeries/list
_PAGING = Paging(default=100_000, maximum=100_000)
_DESCRIPTOR_PAGING = Paging(default=10_000, maximum=10_000)
#: Arithmetic over points, which nothing here does.
_ARITHMETIC = ("aggregation.", "secondaryAggregation.")


class TimeSeriesHandlers:
    """Handlers of ``timeSeries``."""

    def __init__(self, series: TimeSeries, store: Store) -> None:
        self._series = series
        self._store = store

    def create(self, call: Call) -> Reply:
        """POST …/timeSeries: a point each."""
        project = named(call.params["project"], self._store)
        self._series.write(project, children(call.body or {}, "timeSeries"))
        return Reply(body={})

    def list(self, call: Call) -> Reply:
        """GET …/timeSeries: the series that a filter names, with their points in an interval."""
        for name in call.query:
            if name.startswith(_ARITHMETIC):
                raise unimplemented(f"{name}: read the points themselves")
        if call.query.get("orderBy"):
            raise invalid_argument("Field orderBy is unsupported: it must be left blank.")
        wanted = Filter.parse(call.query.get("filter", ""))
        if not wanted.terms:
            raise invalid_argument("Field filter had an invalid value: It is required.")
        found = self._series.select(
            named(call.params["project"], self._store),
            wanted,
            *_interval(call),
            with_points=call.query.get("view", "FULL") == "FULL",
        )
        return _PAGING.reply(call, "timeSeries", found, lambda each: each[0], lambda each: each[1])


class MetricDescriptorHandlers:
    """Handlers of ``metricDescriptors``: they come with the first point of their metric."""

    def __init__(self, series: TimeSeries, store: Store) -> None:
        self._series = series
        self._store = store

    def get(self, call: Call) -> Reply:
        """GET …/metricDescriptors/{metricDescriptor}."""
        project = named(call.params["project"], self._store)
        return Reply(body=self._series.descriptor(project, call.params["metricDescriptor"]))

    def list(self, call: Call) -> Reply:
        """GET …/metricDescriptors."""
        project = named(call.params["project"], self._store)
        found = self._series.descriptors(project, Filter.parse(call.query.get("filter", "")))
        return _DESCRIPTOR_PAGING.resources(call, "metricDescriptors", found)


def _interval(call: Call) -> tuple[float, float]:
    end = call.query.get("interval.endTime", "")
    if not end:
        raise invalid_argument(
            "Field interval.endTime had an invalid value: The end time is required."
        )
    start = call.query.get("interval.startTime") or end
    try:
        begin, over = parse_rfc3339(start), parse_rfc3339(end)
    except ValueError:
        kind = "type.googleapis.com/google.protobuf.Timestamp"
        raise invalid_argument(f"Invalid value at 'interval' ({kind}), \"{start}\"") from None
    if begin > over:
        raise invalid_argument(
            f'Field interval.startTime had an invalid value of "{start}": The start time must not'
            " be later than the end time."
        )
    return begin, over


def service(context: Context) -> Service:
    """Cloud Monitoring."""
    series = TimeSeries(context.store, context.clock)
    alerting = Alerting(context.store, context.clock, series)
    of_series = TimeSeriesHandlers(series, context.store)
    of_descriptors = MetricDescriptorHandlers(series, context.store)
    return Service(
        name="monitoring",
        version="v3",
        handlers={
            **alerting.handlers(),
            "monitoring.projects.timeSeries.create": of_series.create,
            "monitoring.projects.timeSeries.list": of_series.list,
            "monitoring.projects.metricDescriptors.get": of_descriptors.get,
            "monitoring.projects.metricDescriptors.list": of_descriptors.list,
        },
    )
