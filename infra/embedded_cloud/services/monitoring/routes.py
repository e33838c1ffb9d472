"""The Cloud Monitoring v3 methods that are emulated.

A filter of time series (https://cloud.google.com/monitoring/api/v3/filters) is read as far as it is
comparisons with ``=`` joined by AND; everything else in one is refused, never ignored.
"""

from __future__ import annotations

import json
import re

from embedded_cloud.core.clock import parse_rfc3339
from embedded_cloud.core.errors import CloudError, invalid_argument, unimplemented
from embedded_cloud.core.json_types import children
from embedded_cloud.core.paging import Paging
from embedded_cloud.core.projects import named
from embedded_cloud.core.routing import Call, Context, Reply, Service
from embedded_cloud.core.store import Store
from embedded_cloud.services.monitoring.alerting import Alerting
from embedded_cloud.services.monitoring.time_series import Terms, TimeSeries

#: https://cloud.google.com/monitoring/api/ref_v3/rest/v3/projects.timeSeries/list
_PAGING = Paging(default=100_000, maximum=100_000)
#: Arithmetic over points, which nothing here does.
_ARITHMETIC = ("aggregation.", "secondaryAggregation.")
_STRING = r'"(?:[^"\\]|\\.)*"'
_TERM = re.compile(rf"(?P<field>[a-z_]+(?:\.(?:\w+|{_STRING}))*)\s*=\s*(?P<value>{_STRING})")
_GAP = re.compile(r"\s*(?:AND\b\s*)?")
#: What else Google reads in a filter.
_UNBUILT = re.compile(r"\b(?:OR|NOT)\b|[()<>]|!=|group\.id|metadata\.")


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
        if call.query.get("view", "FULL") != "FULL":
            raise unimplemented(f"{call.method_id} without points")
        if call.query.get("orderBy"):
            raise invalid_argument("Field orderBy is unsupported: it must be left blank.")
        wanted = _terms(call.query.get("filter", ""))
        if not wanted:
            raise invalid_argument("Field filter had an invalid value: It is required.")
        found = self._series.select(
            named(call.params["project"], self._store),
            wanted,
            *_interval(call),
        )
        return _PAGING.reply(call, "timeSeries", found, lambda each: each[0], lambda each: each[1])


def _terms(expression: str) -> Terms:
    """What a filter asks of the fields of a series.

    Raises:
        CloudError: 400, it is no filter; 501, it is one that is not built here.
    """
    terms: list[tuple[str, str]] = []
    at = _after_gap(expression, 0)
    while at < len(expression):
        found = _TERM.match(expression, at)
        if found is None:
            raise _refused(expression, at)
        # `metric.label.x` is another way to write `metric.labels.x`.
        field = re.sub(r"^(metric|resource)\.label\.", r"\1.labels.", found["field"])
        terms.append((field.replace('"', ""), _value(found["value"])))
        at = _after_gap(expression, found.end())
    return tuple(terms)


def _after_gap(expression: str, at: int) -> int:
    gap = _GAP.match(expression, at)
    return at if gap is None else gap.end()


def _value(quoted: str) -> str:
    try:
        return str(json.loads(quoted))
    except ValueError:
        raise invalid_argument(f"Could not parse filter {quoted}; syntax error") from None


def _refused(expression: str, at: int) -> CloudError:
    rest = re.sub(_STRING, '""', expression[at:])
    if _UNBUILT.search(rest):
        return unimplemented(f"more than comparisons with = joined by AND: {expression[at:]}")
    return invalid_argument(
        f'Field filter had an invalid value of "{expression}": Could not parse filter;'
        f' syntax error at line 1, column {at + 1}, token "{expression[at:].split()[0]}"'
    )


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
    """Cloud Monitoring v3: time series, alert policies and notification channels."""
    series = TimeSeries(context.store, context.clock)
    alerting = Alerting(context.store, context.clock, series)
    of_series = TimeSeriesHandlers(series, context.store)
    return Service(
        name="monitoring",
        version="v3",
        handlers={
            **alerting.handlers(),
            "monitoring.projects.timeSeries.create": of_series.create,
            "monitoring.projects.timeSeries.list": of_series.list,
        },
    )
