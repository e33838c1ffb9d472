"""Cloud Monitoring: metrics of one's own, and their points written, read, aligned and reduced."""

from __future__ import annotations

from typing import Any

import google.oauth2.credentials
import googleapiclient.discovery
import pytest
from google.api_core.client_options import ClientOptions

from embedded_cloud.clock import ManualClock, rfc3339
from embedded_cloud.server import EmbeddedCloud
from tests.embedded_cloud.api import PROJECT, TOKEN, Api, error_of

V3 = f"v3/projects/{PROJECT}"
METRIC = "custom.googleapis.com/tpuflex/queue_depth"
DESCRIPTOR = {
    "type": METRIC,
    "metricKind": "GAUGE",
    "valueType": "INT64",
    "labels": [{"key": "stack"}],
}
OF_METRIC = f'metric.type = "{METRIC}"'
HOUR = 3600.0


def series(end: float, value: Any = 1, *, start: float | None = None, **more: Any) -> Any:
    """A time series with one point, as a client writes it."""
    interval = {"endTime": rfc3339(end)} | ({} if start is None else {"startTime": rfc3339(start)})
    key = "doubleValue" if isinstance(value, float) else "int64Value"
    return {
        "metric": {"type": METRIC, "labels": {"stack": "a"}},
        "resource": {"type": "global"},
        "points": [{"interval": interval, "value": {key: value}}],
        **more,
    }


def write(api: Api, *sent: Any) -> Any:
    """Write time series; the answer."""
    return api.call("POST", f"{V3}/timeSeries", body={"timeSeries": list(sent)})


def read(api: Api, clock: ManualClock, **query: str) -> list[Any]:
    """Time series of the last hour, their points the newest first."""
    answer = api.call("GET", f"{V3}/timeSeries", **{**last_hour(clock), **query})
    assert answer.status_code == 200, answer.text
    return list(answer.json().get("timeSeries", []))


def last_hour(clock: ManualClock) -> dict[str, str]:
    """The filter and the interval of a read."""
    ends = {"interval.startTime": rfc3339(clock.now() - HOUR)}
    return {"filter": OF_METRIC, **ends, "interval.endTime": rfc3339(clock.now())}


def values(found: Any) -> list[float]:
    """The values of a series that was read."""
    return [float(next(iter(point["value"].values()))) for point in found["points"]]


def test_a_metric_is_made_changed_and_deleted(api: Api) -> None:
    """Under its type, slashes and all; a change takes no label away, and its kind stays."""
    made = api.call("POST", f"{V3}/metricDescriptors", body=DESCRIPTOR).json()
    assert made["name"] == f"projects/{PROJECT}/metricDescriptors/{METRIC}"
    change = {**DESCRIPTOR, "labels": [{"key": "zone"}], "description": "d"}
    api.call("POST", f"{V3}/metricDescriptors", body=change).raise_for_status()
    shown = api.call("GET", f"{V3}/metricDescriptors/{METRIC}").json()
    assert [label["key"] for label in shown["labels"]] == ["stack", "zone"]
    assert shown["description"] == "d"
    other = {**DESCRIPTOR, "metricKind": "CUMULATIVE"}
    assert api.call("POST", f"{V3}/metricDescriptors", body=other).status_code == 400
    for expression, count in (("", 1), ('metric.type = starts_with("external.")', 0)):
        listed = api.call("GET", f"{V3}/metricDescriptors", filter=expression).json()
        assert len(listed.get("metricDescriptors", [])) == count
    assert api.call("DELETE", f"{V3}/metricDescriptors/{METRIC}").status_code == 200
    assert error_of(api.call("GET", f"{V3}/metricDescriptors/{METRIC}")) == (
        404,
        "NOT_FOUND",
        f"Could not find descriptor for metric '{METRIC}'.",
    )


@pytest.mark.parametrize(
    "change",
    [
        {"type": "compute.googleapis.com/a"},
        {"type": "custom.googleapis.com"},
        {"metricKind": "DELTA"},
        {"valueType": "MONEY"},
        {"labels": [{"key": "0"}]},
    ],
)
def test_what_a_metric_may_not_be(api: Api, change: dict[str, Any]) -> None:
    """Only one's own, of a kind, of a type of values and with labels that Google takes."""
    refused = api.call("POST", f"{V3}/metricDescriptors", body={**DESCRIPTOR, **change})
    assert refused.status_code == 400
    assert "had an invalid value of" in error_of(refused)[2]


def test_points_are_written_and_read(api: Api, clock: ManualClock) -> None:
    """The first point makes the metric; points come the newest first, of the interval without its
    start, in pages of points; without the points where only headers are asked for."""
    for value in (1, 2, 3):
        assert write(api, series(clock.now(), value)).status_code == 200
        clock.advance(1200)
    (found,) = read(api, clock)
    assert values(found) == [3, 2]
    assert found["valueType"] == "INT64"
    assert found["resource"] == {"type": "global", "labels": {"project_id": PROJECT}}
    assert "points" not in read(api, clock, view="HEADERS")[0]
    query = {**last_hour(clock), "pageSize": "1"}
    first = api.call("GET", f"{V3}/timeSeries", **query).json()
    assert values(first["timeSeries"][0]) == [3]
    (rest,) = read(api, clock, pageSize="1", pageToken=first["nextPageToken"])
    assert values(rest) == [2]
    assert api.call("GET", f"{V3}/metricDescriptors/{METRIC}").json()["valueType"] == "INT64"
    api.call("DELETE", f"{V3}/metricDescriptors/{METRIC}").raise_for_status()
    gone = api.call("GET", f"{V3}/timeSeries", **last_hour(clock))
    assert error_of(gone)[::2] == (404, f'Cannot find metric(s) that match type = "{METRIC}".')


@pytest.mark.parametrize(
    ("after", "change", "message"),
    [
        (60, {"points": []}, "exactly one point"),
        (60, {"resource": {"type": "k8s_node"}}, "The resource type must be one of"),
        (60, {"resource": {"type": "global", "labels": {"a": "b"}}}, "unrecognized resource label"),
        (60, {"metric": {"type": "tpu.googleapis.com/a"}}, "must be a URL-formatted string"),
        (60, {"metricKind": "CUMULATIVE"}, "is of metricKind"),
        (60, {"valueType": "DOUBLE"}, "is of valueType DOUBLE"),
        (60, {"points": [{"interval": {"endTime": "2026-11-21T12:01:00Z"}}]}, "must have one of"),
        (0, {}, "Points must be written in order."),
        (-60, {}, "Points must be written in order."),
        (4, {}, "more frequently than the maximum sampling period"),
        (361, {}, "more than 5m0s in the future"),
        (-25 * HOUR, {}, "no more than 25h10s in the past"),
    ],
)
def test_a_point_that_cannot_be_written(
    api: Api, clock: ManualClock, after: float, change: dict[str, Any], message: str
) -> None:
    """Each is refused in Google's words, and holds up no other of the same request."""
    first = clock.now()
    assert write(api, series(first)).status_code == 200
    clock.advance(60)
    good = series(clock.now(), metric={"type": METRIC, "labels": {"stack": "b"}})
    refused = write(api, series(first + after, **change), good)
    status, code, told = error_of(refused)
    assert (status, code) == (400, "INVALID_ARGUMENT")
    assert told.startswith("One or more TimeSeries could not be written: ")
    assert message in told
    assert told.endswith(": timeSeries[0]")
    (summary,) = refused.json()["error"]["details"]
    assert (summary["totalPointCount"], summary["successPointCount"]) == (2, 1)
    assert sorted(map(len, map(values, read(api, clock)))) == [1, 1]


def test_one_point_for_a_series_of_a_request(api: Api, clock: ManualClock) -> None:
    """A second one is refused, and so are more series than Google takes at once."""
    told = error_of(write(api, series(clock.now()), series(clock.now() + 60)))[2]
    assert "Duplicate TimeSeries encountered" in told
    assert write(api, *[series(clock.now())] * 201).status_code == 400


def test_a_counter_and_its_resets(api: Api, clock: ManualClock) -> None:
    """A counter's points have a begin, which stays until it is reset; rates bridge the reset."""
    cumulative = {"metricKind": "CUMULATIVE"}
    begin = clock.now()
    for start, value in ((0, 60), (0, 120), (120, 60), (120, 120)):
        clock.advance(60)
        # A reset begins at least a millisecond after the point before it.
        begins = begin + start + (0.001 if start else 0)
        point = series(clock.now(), value, start=begins, **cumulative)
        assert write(api, point).status_code == 200
    clock.advance(60)
    early = series(clock.now(), 9, start=begin + 60, **cumulative)
    assert "older start time" in error_of(write(api, early))[2]
    backwards = series(clock.now(), 9, start=clock.now(), **cumulative)
    assert "must be before the end time" in error_of(write(api, backwards))[2]
    end = rfc3339(begin + 240)
    shape = {"aggregation.alignmentPeriod": "60s", "interval.endTime": end}
    query = {**last_hour(clock), **shape, "aggregation.perSeriesAligner": "ALIGN_RATE"}
    (rate,) = api.call("GET", f"{V3}/timeSeries", **query).json()["timeSeries"]
    assert values(rate) == pytest.approx([1.0] * 4, rel=1e-3)
    assert (rate["metricKind"], rate["valueType"]) == ("GAUGE", "DOUBLE")
    query["aggregation.perSeriesAligner"] = "ALIGN_DELTA"
    (delta,) = api.call("GET", f"{V3}/timeSeries", **query).json()["timeSeries"]
    assert values(delta) == pytest.approx([60] * 4)
    assert delta["points"][0]["interval"]["startTime"] == rfc3339(begin + 180)
    query["aggregation.perSeriesAligner"] = "ALIGN_MEAN"
    told = error_of(api.call("GET", f"{V3}/timeSeries", **query))[2]
    assert "cannot be applied to metrics with kind CUMULATIVE and value type INT64" in told


@pytest.fixture
def two(api: Api, clock: ManualClock) -> Api:
    """Two series, each with a point in three of the last four minutes."""
    for minute in range(3):
        clock.advance(60)
        for stack, factor in (("a", 1), ("b", 10)):
            metric = {"type": METRIC, "labels": {"stack": stack, "zone": "z"}}
            assert write(api, series(clock.now(), factor * (minute + 1), metric=metric)).ok
    clock.advance(60)
    return api


@pytest.mark.parametrize(
    ("aligner", "expected"),
    [
        ("ALIGN_MIN", [3, 1]),
        ("ALIGN_MAX", [3, 2]),
        ("ALIGN_MEAN", [3, 1.5]),
        ("ALIGN_SUM", [3, 3]),
        ("ALIGN_COUNT", [1, 2]),
        ("ALIGN_NEXT_OLDER", [3, 2]),
    ],
)
def test_points_are_aligned(
    two: Api, clock: ManualClock, aligner: str, expected: list[float]
) -> None:
    """A value for each period before the interval's end, the newest first."""
    shape = {"aggregation.alignmentPeriod": "120s", "aggregation.perSeriesAligner": aligner}
    query = {**last_hour(clock), **shape, "filter": f'{OF_METRIC} AND metric.label.stack="a"'}
    (found,) = two.call("GET", f"{V3}/timeSeries", **query).json()["timeSeries"]
    assert values(found) == expected
    assert found["points"][0]["interval"]["endTime"] == rfc3339(clock.now())


@pytest.mark.parametrize(
    ("reducer", "expected"),
    [
        ("REDUCE_MIN", [3, 2, 1]),
        ("REDUCE_MAX", [30, 20, 10]),
        ("REDUCE_MEAN", [16.5, 11, 5.5]),
        ("REDUCE_SUM", [33, 22, 11]),
        ("REDUCE_COUNT", [2, 2, 2]),
    ],
)
def test_series_are_reduced(
    two: Api, clock: ManualClock, reducer: str, expected: list[float]
) -> None:
    """To one with what all have in common; or to one for each value of a label."""
    shape = {"aggregation.alignmentPeriod": "60s", "aggregation.perSeriesAligner": "ALIGN_MAX"}
    shape["aggregation.crossSeriesReducer"] = reducer
    (found,) = read(two, clock, **shape)
    assert values(found) == expected
    assert found["metric"] == {"type": METRIC, "labels": {}}
    by_zone = read(two, clock, **shape, **{"aggregation.groupByFields": "metric.labels.zone"})
    assert [each["metric"]["labels"] for each in by_zone] == [{"zone": "z"}]
    by_stack = read(two, clock, **shape, **{"aggregation.groupByFields": 'metric.label."stack"'})
    assert [each["metric"]["labels"] for each in by_stack] == [{"stack": "a"}, {"stack": "b"}]


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        ("", 2),
        ('metric.labels.stack = "a"', 1),
        ('metric.labels.stack != "a"', 1),
        ('metric.labels.stack = one_of("a", "b") resource.type = "global"', 2),
        ('metric.labels.stack = monitoring.regex.full_match("[bc]")', 1),
        ('metric.labels.zone : "z" AND metric.labels.stack = ends_with("c")', 0),
        ('metric.type = has_substring("queue")', 2),
        (f'project = "{PROJECT}"', 2),
        ('resource.labels.project_id = "other"', 0),
    ],
)
def test_filters(two: Api, clock: ManualClock, expression: str, found: int) -> None:
    """Comparisons and functions, joined by AND or by nothing."""
    assert len(read(two, clock, filter=f"{OF_METRIC} {expression}")) == found


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ({"filter": ""}, 400),
        ({"filter": 'resource.type = "global"'}, 400),
        ({"filter": f'{OF_METRIC} OR resource.type = "global"'}, 400),
        ({"filter": f'{OF_METRIC} resource.labels.a = monitoring.regex.full_match("(")'}, 400),
        ({"filter": 'metric.type = "custom.googleapis.com/other"'}, 404),
        ({"interval.endTime": ""}, 400),
        ({"interval.startTime": "2027-01-01T00:00:00Z"}, 400),
        ({"orderBy": "metric.type"}, 400),
        ({"pageToken": "!"}, 400),
        ({"aggregation.crossSeriesReducer": "REDUCE_SUM"}, 400),
        ({"aggregation.perSeriesAligner": "ALIGN_SUM"}, 400),
        (
            {
                "aggregation.perSeriesAligner": "ALIGN_RATE",
                "aggregation.alignmentPeriod": "60s",
            },
            400,
        ),
        (
            {
                "aggregation.perSeriesAligner": "ALIGN_STDDEV",
                "aggregation.alignmentPeriod": "60s",
            },
            501,
        ),
        (
            {
                "aggregation.perSeriesAligner": "ALIGN_SUM",
                "aggregation.alignmentPeriod": "60s",
                "aggregation.crossSeriesReducer": "REDUCE_STDDEV",
            },
            501,
        ),
        ({"secondaryAggregation.alignmentPeriod": "60s"}, 501),
    ],
)
def test_what_is_not_understood_is_refused(
    two: Api, clock: ManualClock, query: dict[str, str], status: int
) -> None:
    """Nothing of a read is ignored."""
    answer = two.call("GET", f"{V3}/timeSeries", **{**last_hour(clock), **query})
    assert answer.status_code == status, answer.text


def test_resources_that_metrics_may_be_of(api: Api) -> None:
    """Each with its labels; others are not there."""
    listed = api.call("GET", f"{V3}/monitoredResourceDescriptors").json()["resourceDescriptors"]
    assert {each["type"] for each in listed} >= {"global", "generic_node", "gce_instance"}
    node = api.call("GET", f"{V3}/monitoredResourceDescriptors/generic_node").json()
    assert [label["key"] for label in node["labels"]][-1] == "node_id"
    assert api.call("GET", f"{V3}/monitoredResourceDescriptors/nothing").status_code == 404


def test_a_host_may_write_and_not_read(cloud: EmbeddedCloud, clock: ManualClock) -> None:
    """A host's service account has roles/monitoring.metricWriter."""
    host = Api(cloud.url, token=cloud.cloud.access.host_token("n1"))
    assert write(host, series(clock.now())).status_code == 200
    assert host.call("GET", f"{V3}/timeSeries", **last_hour(clock)).status_code == 403


def test_googles_library(cloud: EmbeddedCloud, clock: ManualClock) -> None:
    """Google's own client of discovery documents makes a metric, writes, reads and deletes."""
    library = googleapiclient.discovery.build(
        "monitoring",
        "v3",
        credentials=google.oauth2.credentials.Credentials(TOKEN),  # type: ignore[no-untyped-call]
        client_options=ClientOptions(api_endpoint=cloud.url),
        static_discovery=True,
    )
    name = f"projects/{PROJECT}"
    ends = {"startTime": rfc3339(clock.now() - HOUR), "endTime": rfc3339(clock.now())}
    shape: dict[str, Any] = {
        "alignmentPeriod": "60s",
        "perSeriesAligner": "ALIGN_MEAN",
        "crossSeriesReducer": "REDUCE_SUM",
        "groupByFields": ["metric.labels.stack", "resource.type"],
    }
    asked = {f"interval_{key}": value for key, value in ends.items()}
    asked |= {f"aggregation_{key}": value for key, value in shape.items()}
    with library:
        projects = library.projects()
        metrics, time_series = projects.metricDescriptors(), projects.timeSeries()
        made = metrics.create(name=name, body=DESCRIPTOR).execute()
        sent = {"timeSeries": [series(clock.now(), 7)]}
        time_series.create(name=name, body=sent).execute()
        found = time_series.list(name=name, filter=OF_METRIC, **asked).execute()
        assert values(found["timeSeries"][0]) == [7]
        assert metrics.get(name=made["name"]).execute()["type"] == METRIC
        metrics.delete(name=made["name"]).execute()
        assert metrics.list(name=name).execute() == {}
