"""Conditions in PromQL: by vLLM's own names, as a Prometheus collects them; and by those in Cloud
Monitoring (https://cloud.google.com/monitoring/promql/promql-mapping)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from tpuflex.alerts.conditions import AllOf, AnyOf, Compared, Condition, Increase
from tpuflex.alerts.signals import CLOUD_PREFIX, Kind, Signal
from tpuflex.duration import format_duration

#: The monitored resource that hosts write their metrics for.
CLOUD_RESOURCE = "generic_node"


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a signal is named and found.

    Attributes:
        name: its name; empty where it is not there.
        by: the label that servers differ in.
        labels: those that it has to have.
        like: those that have to match a regular expression.
    """

    name: Callable[[Signal], str]
    by: str
    labels: Mapping[str, str]
    like: Mapping[str, str] = field(default_factory=dict)

    def knows(self, signal: Signal) -> bool:
        """Whether it is there."""
        return bool(self.name(signal))

    def series(self, signal: Signal, suffix: str = "", **matchers: str) -> str:
        """The series of ``signal``.

        Args:
            signal: the signal.
            suffix: of its name, as ``_bucket``.
            matchers: what else labels have to match, as a regular expression.
        """
        return self.select(f"{self.name(signal)}{suffix}", **matchers)

    def select(self, name: str, **matchers: str) -> str:
        """The series ``name``, as :meth:`series` has those of a signal."""
        equal = [f"{name}={json.dumps(value)}" for name, value in self.labels.items()]
        wanted = {**self.like, **matchers}
        like = [f"{name}=~{json.dumps(value)}" for name, value in wanted.items()]
        return f"{name}{{{','.join(equal + like)}}}"

    def merged(self, signal: Signal, series: str) -> str:
        """``series`` of ``signal``, one for each server."""
        return f"{signal.merge} by ({self.by}) ({series})"


def prometheus(job: str) -> Dialect:
    """Servers that a Prometheus collects from as ``job``, by vLLM's own names."""
    return Dialect(lambda signal: signal.prometheus, "instance", {"job": job})


def cloud_monitoring(namespace: str, nodes: str = "") -> Dialect:
    """What hosts have written to Cloud Monitoring.

    Args:
        namespace: label of that name of their monitored resource: the stack.
        nodes: what their nodes are called, as a regular expression: another project of Pulumi's
            may have a stack of the same name in the same Google Cloud project.
    """
    labels = {"monitored_resource": CLOUD_RESOURCE, "namespace": namespace}
    return Dialect(_in_cloud, "node_id", labels, {"node_id": nodes} if nodes else {})


def _in_cloud(signal: Signal) -> str:
    if not signal.cloud:
        return ""
    domain, _, path = f"{CLOUD_PREFIX}{signal.cloud}".partition("/")
    return ":".join(re.sub(r"\W", "_", part) for part in (domain, path))


def promql(condition: Condition, dialect: Dialect) -> str:
    """``condition`` as an expression, which has a value while it is true."""
    if isinstance(condition, AllOf):
        return "\nand\n".join(_inner(each, dialect) for each in condition.of)
    if isinstance(condition, AnyOf):
        return "\nor\n".join(_inner(each, dialect) for each in condition.of)
    if isinstance(condition, Compared):
        if condition.limit is None:
            raise ValueError(f"the limit of {condition.signal.name} is not known")
        value = gauge(condition.signal, dialect, condition.throughout, condition.comparison)
        return f"{value} {condition.comparison} {_number(condition.limit)}"
    if isinstance(condition, Increase):
        value = increase(condition.signal, dialect, format_duration(condition.window))
        return f"{value} {condition.comparison} {_number(condition.limit)}"
    value = share_above(
        condition.signal, condition.edge, dialect, format_duration(condition.window)
    )
    return f"{value} > {_number(condition.limit)}"


def gauge(
    signal: Signal, dialect: Dialect, throughout: timedelta = timedelta(), comparison: str = ">"
) -> str:
    """The value of a gauge; over a time, the one that compares worst."""
    series = dialect.series(signal)
    if throughout:
        worst = "max" if comparison == "<" else "min"
        series = f"{worst}_over_time({series}[{format_duration(throughout)}])"
    return dialect.merged(signal, series)


def increase(signal: Signal, dialect: Dialect, window: str) -> str:
    """How much a counter has grown, or how many observations of a histogram there were."""
    suffix = "_count" if signal.kind is Kind.HISTOGRAM else ""
    return dialect.merged(signal, f"increase({dialect.series(signal, suffix)}[{window}])")


def share_above(signal: Signal, edge: float, dialect: Dialect, window: str) -> str:
    """The share of a histogram's observations above ``edge``."""
    # 1.0, as vLLM writes it; or 1, as what has read it may.
    below = dialect.series(signal, "_bucket", le=rf"{re.escape(f'{edge:g}')}(\.0)?")
    every = dialect.series(signal, "_count")
    parts = (dialect.merged(signal, f"rate({each}[{window}])") for each in (below, every))
    return "1 - {} / {}".format(*parts)


def _inner(condition: Condition, dialect: Dialect) -> str:
    text = promql(condition, dialect)
    return f"(\n{_indented(text)}\n)" if isinstance(condition, AllOf | AnyOf) else text


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())


def _number(value: float) -> str:
    return f"{value:.10g}"
