"""Cloud Monitoring: which points a write may add to which series, and how they are found again."""

from __future__ import annotations

from typing import Any

import pytest
from google.oauth2.credentials import Credentials
from googleapiclient.discovery import build
from googleapiclient.errors import HttpError

from embedded_cloud.core.clock import ManualClock, rfc3339
from tests.embedded_cloud.api import PROJECT, TOKEN, Api, error_of

SERIES = f"v3/projects/{PROJECT}/timeSeries"
USE = "workload.googleapis.com/vllm/kv_cache_usage"
TOKENS = "workload.googleapis.com/vllm/generation_tokens"
FIRST_TOKEN = "workload.googleapis.com/vllm/time_to_first_token"


def node(name: str) -> dict[str, Any]:
    """The monitored resource of a host."""
    return {
        "type": "generic_node",
        "labels": {"location": "us-east5-a", "namespace": "dev", "node_id": name},
    }


def gauge(at: float, value: float = 0.5, name: str = "n1") -> dict[str, Any]:
    """A point of the KV cache's use."""
    return {
        "metric": {"type": USE},
        "resource": node(name),
        "unit": "1",
        "points": [{"interval": {"endTime": rfc3339(at)}, "value": {"doubleValue": value}}],
    }


def counter(start: float, end: float, value: int) -> dict[str, Any]:
    """A point of the generated tokens."""
    return {
        "metric": {"type": TOKENS},
        "resource": node("n1"),
        "metricKind": "CUMULATIVE",
        "points": [
            {
                "interval": {"startTime": rfc3339(start), "endTime": rfc3339(end)},
                "value": {"int64Value": str(value)},
            }
        ],
    }


def distribution(at: float, **changed: Any) -> dict[str, Any]:
    """A point of the time to the first token."""
    value = {
        "count": "3",
        "mean": 0.4,
        "bucketOptions": {"explicitBuckets": {"bounds": [0.25, 0.5, 1.0]}},
        "bucketCounts": ["1", "1", "1", "0"],
    } | changed
    point = counter(at - 60, at, 0)
    point["metric"] = {"type": FIRST_TOKEN}
    point["points"][0]["value"] = {"distributionValue": value}
    return point


def write(api: Api, *series: Any) -> str:
    """Write; what is said of it, empty if all was taken."""
    answer = api.call("POST", SERIES, body={"timeSeries": list(series)})
    return "" if answer.ok else error_of(answer)[2]


def read(api: Api, clock: ManualClock, expression: str) -> dict[str, list[Any]]:
    """The values of every series that passes, the newest first, by node."""
    query = {
        "filter": expression,
        "interval.startTime": rfc3339(clock.now() - 3600),
        "interval.endTime": rfc3339(clock.now()),
    }
    answer = api.call("GET", SERIES, **query)
    assert answer.status_code == 200, answer.text
    return {
        each["resource"]["labels"]["node_id"]: [
            next(iter(point["value"].values())) for point in each["points"]
        ]
        for each in answer.json().get("timeSeries", [])
    }


OF_USE = f'metric.type="{USE}"'


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        (OF_USE, ["n1", "n2"]),
        (f'{OF_USE} AND resource.labels.node_id = "n2"', ["n2"]),
        (f'{OF_USE} resource.label."node_id"="n1"', ["n1"]),
        (f'{OF_USE} AND resource.labels.namespace="prod"', []),
        ('resource.type="generic_node"', ["n1", "n2"]),
    ],
)
def test_filters(api: Api, clock: ManualClock, expression: str, found: list[str]) -> None:
    """Series are found by metric and by labels, with their points, the newest first."""
    values = {"n1": [0.7, 0.5], "n2": [0.1]}
    assert write(api, gauge(clock.now()), gauge(clock.now(), 0.1, "n2")) == ""
    clock.advance(60)
    assert write(api, gauge(clock.now(), 0.7)) == ""

    assert read(api, clock, expression) == {name: values[name] for name in found}


@pytest.mark.parametrize(
    ("query", "status", "words"),
    [
        ({}, 400, "filter"),
        ({"filter": f'metric.type="{USE}" OR metric.type="x"'}, 501, "joined by AND"),
        ({"filter": 'metric.type=starts_with("workload")'}, 501, "joined by AND"),
        ({"filter": f'metric.type!="{USE}"'}, 501, "joined by AND"),
        ({"filter": f'metric.type="{USE}'}, 400, "syntax error"),
        ({"filter": 'metric.type="custom.googleapis.com/other"'}, 404, "Cannot find metric(s)"),
        ({"filter": f'metric.type="{USE}"', "interval.endTime": ""}, 400, "end time is required"),
        ({"filter": f'metric.type="{USE}"', "view": "HEADERS"}, 501, "without points"),
        ({"filter": f'metric.type="{USE}"', "aggregation.alignmentPeriod": "60s"}, 501, "aggregat"),
    ],
)
def test_what_is_not_read_is_refused(
    api: Api, clock: ManualClock, query: dict[str, str], status: int, words: str
) -> None:
    """What a reader asks for and does not get is an error, with Google's words where it is one
    there."""
    write(api, gauge(clock.now()))

    answer = api.call("GET", SERIES, **{"interval.endTime": rfc3339(clock.now()), **query})

    assert answer.status_code == status
    assert words in error_of(answer)[2]


def test_points_come_in_order_and_not_too_often(api: Api, clock: ManualClock) -> None:
    """A point is newer than the last of its series, by five seconds at least; a process that has
    started again counts from later than the last point."""
    start = clock.now() - 600
    now = clock.now()
    assert write(api, counter(start, now, 40)) == ""

    assert "older end time" in write(api, counter(start, now, 50))
    assert "maximum sampling period" in write(api, counter(start, now + 4, 50))
    assert "older start time" in write(api, counter(start + 300, now + 60, 3))
    assert write(api, counter(start, now + 60, 50)) == ""
    assert write(api, counter(now + 60.001, now + 120, 3)) == ""


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"points": []}, "Field timeSeries[0].points had an invalid value: Only one point"),
        ({"points": [{"value": {"stringValue": "x"}}]}, "must be BOOL, INT64"),
        ({"metric": {"type": "compute.googleapis.com/x"}}, "timeSeries[0].metric.type"),
        ({"resource": {"type": "tpu_worker"}}, "Unknown monitored resource type"),
        ({"resource": {"type": "generic_node", "labels": {"node_id": "n1"}}}, "namespace"),
        ({"metricKind": "CUMULATIVE"}, "must be before the end time"),
    ],
)
def test_what_is_no_series_is_refused(
    api: Api, clock: ManualClock, changed: dict[str, Any], words: str
) -> None:
    """Each part of a series is checked, and the refusal names the field."""
    assert words in write(api, gauge(clock.now()) | changed)


@pytest.mark.parametrize(
    "changed",
    [
        {"count": "4"},
        {"bucketCounts": ["1", "1", "1", "0", "0"]},
        {"bucketOptions": {"explicitBuckets": {"bounds": [0.5, 0.25]}}},
        {"bucketOptions": {}},
        {"count": "0", "bucketCounts": []},
    ],
)
def test_a_distribution_adds_up(api: Api, clock: ManualClock, changed: dict[str, Any]) -> None:
    """Its bounds rise, and its counts are those of its buckets."""
    assert write(api, distribution(clock.now())) == ""
    clock.advance(60)

    assert "distributionValue" in write(api, distribution(clock.now(), **changed))


@pytest.mark.parametrize(("seconds", "words"), [(301, "future"), (-90_011, "25h10s in the past")])
def test_points_are_of_the_present(
    api: Api, clock: ManualClock, seconds: float, words: str
) -> None:
    """A point lies neither far back nor ahead."""
    assert words in write(api, gauge(clock.now() + seconds))


def test_what_is_right_is_written_all_the_same(api: Api, clock: ManualClock) -> None:
    """The others of a write are kept, and the answer says how many."""
    now = clock.now()
    write(api, gauge(now))
    clock.advance(60)
    body = {
        "timeSeries": [gauge(now), gauge(clock.now(), 0.2, "n2"), gauge(clock.now(), 0.2, "n2")]
    }

    error = api.call("POST", SERIES, body=body).json()["error"]

    assert "Duplicate TimeSeries" in error["message"]
    assert "timeSeries[0] (example metric.type=" in error["message"]
    (summary,) = error["details"]
    assert (summary["totalPointCount"], summary["successPointCount"]) == (3, 1)
    assert read(api, clock, f'metric.type="{USE}"') == {"n1": [0.5], "n2": [0.2]}


def test_a_write_has_200_series_at_most(api: Api, clock: ManualClock) -> None:
    """One more is refused, and nothing is kept."""
    many = [gauge(clock.now(), 0.1, f"n{number}") for number in range(201)]

    assert "maximum of 200 TimeSeries" in write(api, *many)
    assert write(api, *many[:200]) == ""


def test_the_first_point_decides_what_a_metric_is(api: Api, clock: ManualClock) -> None:
    """A later one of another type is refused."""
    write(api, gauge(clock.now()))
    clock.advance(60)
    other = gauge(clock.now())
    other["points"][0]["value"] = {"int64Value": "1"}
    assert f"Value type for metric {USE} must be DOUBLE, but is INT64." in write(api, other)


def test_who_may_not_write_is_refused(api: Api, clock: ManualClock) -> None:
    """In Google's words, with the permission that is missing."""
    missing = {"permissions": {"missing": ["monitoring.timeSeries.create"]}}
    api.call("POST", "_emulator/strictness", body=missing)

    assert write(api, gauge(clock.now())) == (
        "Permission monitoring.timeSeries.create denied (or the resource may not exist)."
    )


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_googles_client_writes_and_reads(api: Api, clock: ManualClock) -> None:
    """Google's own client of this API in REST, made of its discovery document, is served."""
    credentials: Any = Credentials  # it has no types
    client = build(
        "monitoring",
        "v3",
        credentials=credentials(token=TOKEN),
        client_options={"api_endpoint": api.url},
        static_discovery=True,
    )
    of_series = client.projects().timeSeries()
    project = f"projects/{PROJECT}"

    of_series.create(name=project, body={"timeSeries": [distribution(clock.now())]}).execute()
    asked = of_series.list(
        name=project,
        filter=f'metric.type="{FIRST_TOKEN}"',
        interval_endTime=rfc3339(clock.now()),
    )
    (found,) = asked.execute()["timeSeries"]

    assert found["valueType"] == "DISTRIBUTION"
    assert found["points"][0]["value"]["distributionValue"]["count"] == "3"
    with pytest.raises(HttpError, match="older end time"):
        of_series.create(name=project, body={"timeSeries": [distribution(clock.now())]}).execute()
    client.close()
