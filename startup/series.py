"""The series that a host writes to Cloud Monitoring: what they are, and the request with their
points. Pure: no clock, files or network.

Names, kinds and units are a contract: alert policies and dashboards ask for them, and Google keeps
what the first write of a metric says. They are made from text of the container, which may not be
vLLM's: what cannot have been counted is left out.

https://cloud.google.com/monitoring/api/ref_v3/rest/v3/projects.timeSeries/create
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from typing import NamedTuple

#: Of their metric types.
PREFIX = "workload.googleapis.com/vllm/"
RESOURCE = "generic_node"
GAUGE, CUMULATIVE = "GAUGE", "CUMULATIVE"
INT64, DOUBLE, DISTRIBUTION = "INT64", "DOUBLE", "DISTRIBUTION"


class Series(NamedTuple):
    """A series of a host.

    Attributes:
        name: its metric type below ``PREFIX``.
        kind: Google's metric kind.
        type: Google's value type.
        unit: in UCUM, as Google has units.
        source: vLLM's name of what it is made from, without ``vllm:``; empty for what the host
            itself knows.
        description: what Google shows of it.
    """

    name: str
    kind: str
    type: str
    unit: str
    source: str
    description: str


#: A host without an answer of its server writes those without a source only.
SERIES = (
    Series("up", GAUGE, INT64, "1", "", "Whether the server answers."),
    Series("run_seconds_left", GAUGE, INT64, "s", "", "Seconds to the end of the slice's run."),
    Series(
        "requests_in_flight",
        *(GAUGE, INT64, "{requests}", ""),
        "Requests that the guard has admitted and that have not ended.",
    ),
    Series(
        "requests_running",
        *(GAUGE, INT64, "{requests}", "num_requests_running"),
        "Requests that the engine runs.",
    ),
    Series(
        "requests_waiting",
        *(GAUGE, INT64, "{requests}", "num_requests_waiting"),
        "Requests that wait for the engine.",
    ),
    Series(
        "kv_cache_usage",
        *(GAUGE, DOUBLE, "1", "kv_cache_usage_perc"),
        "Share of the KV cache in use, from 0 to 1; of several engines the fullest.",
    ),
    Series(
        "prompt_tokens",
        *(CUMULATIVE, INT64, "{tokens}", "prompt_tokens_total"),
        "Tokens of prompts, those from the prefix cache included.",
    ),
    Series(
        "generation_tokens",
        *(CUMULATIVE, INT64, "{tokens}", "generation_tokens_total"),
        "Generated tokens.",
    ),
    Series(
        "preemptions",
        *(CUMULATIVE, INT64, "{preemptions}", "num_preemptions_total"),
        "Requests put back to make room in the KV cache.",
    ),
    Series(
        "requests_succeeded",
        *(CUMULATIVE, INT64, "{requests}", "request_success_total"),
        "Requests that have ended.",
    ),
    Series(
        "time_to_first_token",
        *(CUMULATIVE, DISTRIBUTION, "s", "time_to_first_token_seconds"),
        "Seconds to a request's first token, in vLLM's own buckets.",
    ),
)

#: No count is larger; no histogram of vLLM has more edges.
MOST, MOST_EDGES = 2**53, 100
_SAMPLE = re.compile(r"^vllm:(\w+)(?:\{([^\n]*)\})? (\S{1,30})$", re.MULTILINE)
_EDGE = re.compile(r'(?:^|,)le="([^"]{1,30})"')


class Histogram(NamedTuple):
    """Observations by their size.

    Attributes:
        edges: upper bounds of all buckets but the last one, which has none.
        counts: observations in each bucket, those of the last one included.
        sum: of the observations.
    """

    edges: tuple[float, ...]
    counts: tuple[int, ...]
    sum: float


class Counts(NamedTuple):
    """What a server counts, by the names of series; of several engines together."""

    numbers: Mapping[str, float]
    histograms: Mapping[str, Histogram]

    def has_fallen(self, before: Counts) -> bool:
        """Whether a counter is lower than ``before``: the server counts from 0 again."""
        now, then = self._totals(), before._totals()
        return any(now[name] < then[name] for name in now.keys() & then.keys())

    def _totals(self) -> Mapping[str, float]:
        """What has been counted, by the names of cumulative series."""
        totals = {name: float(sum(each.counts)) for name, each in self.histograms.items()}
        numbers = (each.name for each in SERIES if each.kind == CUMULATIVE)
        return totals | {name: self.numbers[name] for name in numbers if name in self.numbers}


NOTHING = Counts({}, {})


def read_samples(metrics: str) -> Iterator[tuple[str, str, float]]:
    """Name, labels and value of each of vLLM's samples in the text of a server's ``/metrics`` that
    can have been counted."""
    for name, labels, text in _SAMPLE.findall(metrics):
        value = _number(text)
        if value is not None:
            yield name, labels, value


def read_counts(metrics: str) -> Counts:
    """What the text of a server's ``/metrics`` says of the series that have a source."""
    samples: dict[str, list[float]] = {}
    edges: dict[str, dict[float, float]] = {}
    for sample, labels, value in read_samples(metrics):
        samples.setdefault(sample, []).append(value)
        edge = _EDGE.search(labels) if sample.endswith("_bucket") else None
        if edge is not None and (bound := _number(edge[1], math.inf)) is not None:
            below = edges.setdefault(sample, {})
            below[bound] = below.get(bound, 0.0) + value
    numbers, histograms = {}, {}
    for series in SERIES:
        if series.type == DISTRIBUTION:
            total = sum(samples.get(f"{series.source}_sum", ()))
            found = _histogram(edges.get(f"{series.source}_bucket", {}), total)
            if found is not None:
                histograms[series.name] = found
        elif values := samples.get(series.source):
            joined = max(values) if series.type == DOUBLE else sum(values)
            numbers[series.name] = min(joined, float(MOST))
    return Counts(numbers, histograms)


def _number(text: str, most: float = MOST) -> float | None:
    """The number ``text``; None if it is none of a count, or larger than ``most``."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 <= value <= most else None  # which no comparison with NaN is


def _histogram(below: Mapping[float, float], total: float) -> Histogram | None:
    """Observations up to each edge, as they are in each bucket; None if they cannot be that."""
    edges = sorted(below)
    if not 2 <= len(edges) <= MOST_EDGES or edges[-1] != math.inf or total > MOST:
        return None
    upto = [int(below[edge]) for edge in edges]
    counts = tuple(now - before for before, now in zip([0, *upto], upto, strict=False))
    if min(counts) < 0 or upto[-1] > MOST:
        return None
    return Histogram(tuple(edges[:-1]), counts, total)


class Since(NamedTuple):
    """Since when a server counts. All points of a cumulative series have the same start, until the
    server counts from 0 again: the next start is later than the last point.

    Attributes:
        process: which process it is, as docker says when it was started.
        start: since when, by the cloud's clock.
        end: of the last point, by the cloud's clock.
        counts: what it had counted then.
    """

    process: str
    start: float
    end: float
    counts: Counts


def since(
    before: Since | None, process: str, started: float, end: float, counts: Counts
) -> Since | None:
    """Since when the server counts.

    Args:
        before: what held at the last point; None before the first.
        process: see :class:`Since`.
        started: when that is, by a clock that may differ a little from the cloud's.
        end: of the point, by the cloud's clock.
        counts: what the server has counted by then.

    Returns:
        What holds now; None where no time lies between start and end.
    """
    if before is not None and before.process == process and not counts.has_fallen(before.counts):
        start = before.start
    elif before is None:
        start = started
    else:
        # A counter that fell without another process did so at an unknown time.
        later = started if before.process != process else 0.0
        start = max(later, before.end + 0.001)
    return Since(process, start, end, counts) if start < end else None


def request(
    place: Mapping[str, str],
    end: float,
    known: Mapping[str, float],
    counts: Counts,
    start: float | None,
) -> dict[str, object]:
    """The request of ``timeSeries.create`` with a point of each series.

    Args:
        place: labels of the monitored resource.
        end: the time of the points, by the cloud's clock.
        known: what the host itself knows, by the names of series.
        counts: what the server says.
        start: since when it counts, by the cloud's clock; without it, counters are left out.
    """
    numbers = {**known, **counts.numbers}
    series: list[dict[str, object]] = []
    for each in SERIES:
        value = _value(each, numbers.get(each.name), counts.histograms.get(each.name))
        if value is None or (each.kind == CUMULATIVE and start is None):
            continue
        interval = {"endTime": rfc3339(end)}
        if each.kind == CUMULATIVE and start is not None:
            interval["startTime"] = rfc3339(start)
        series.append(
            {
                "metric": {"type": f"{PREFIX}{each.name}"},
                "resource": {"type": RESOURCE, "labels": dict(place)},
                "metricKind": each.kind,
                "valueType": each.type,
                "unit": each.unit,
                "description": each.description,
                "points": [{"interval": interval, "value": value}],
            }
        )
    return {"timeSeries": series}


def _value(
    series: Series, number: float | None, histogram: Histogram | None
) -> dict[str, object] | None:
    """A point's value as Google has it in JSON; None without one."""
    if series.type == DISTRIBUTION:
        return None if histogram is None else {"distributionValue": _distribution(histogram)}
    if number is None:
        return None
    return {"doubleValue": number} if series.type == DOUBLE else {"int64Value": str(int(number))}


def _distribution(histogram: Histogram) -> dict[str, object]:
    """https://cloud.google.com/monitoring/api/ref_v3/rest/v3/TypedValue#Distribution; how far the
    observations are from their mean, buckets do not tell."""
    count = sum(histogram.counts)
    return {
        "count": str(count),
        "mean": histogram.sum / count if count else 0,
        "bucketOptions": {"explicitBuckets": {"bounds": list(histogram.edges)}},
        "bucketCounts": [str(each) for each in histogram.counts],
    }


def rfc3339(at: float) -> str:
    """``at`` as Google reads it, to the millisecond."""
    # The host's Python may be 3.10, which has no datetime.UTC.
    moment = datetime.fromtimestamp(at, timezone.utc)  # noqa: UP017
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
