"""Conditions in PromQL: by vLLM's own names, as a Prometheus collects them; and by those in Cloud
Monitoring (https://cloud.google.com/monitoring/promql/promql-mapping)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tpuflex.alerts.conditions import (
    AllOf,
    AnyOf,
    Compared,
    Condition,
    Increase,
    Part,
    ShareOf,
)
from tpuflex.alerts.signals import CLOUD_PREFIX, Kind, Signal
from tpuflex.duration import format_duration

#: The monitored resource that hosts write their metrics for.
CLOUD_RESOURCE = "generic_node"


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a signal is named and found.

    Attributes:
        name: its name; of the signals that the system has.
        by: the label that servers differ in.
        labels: those that it has to have.
        like: those that have to match a regular expression.
    """

    name: Callable[[Signal], str]
    by: str
    labels: Mapping[str, str]
    like: Mapping[str, str] = field(default_factory=dict)

    def series(self, signal: Signal, suffix: str = "", **matchers: str) -> str:
        """The series of ``signal``.

        Args:
            signal: the signal.
            suffix: of its name, as ``_bucket``.
            matchers: what else labels have to match, as a regular expression.
        """
        return self.select(f"{self.name(signal)}{suffix}", **dict(signal.where), **matchers)

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
    domain, _, path = f"{CLOUD_PREFIX}{signal.cloud}".partition("/")
    return ":".join(re.sub(r"\W", "_", part) for part in (domain, path))


def promql(condition: Condition, dialect: Dialect) -> str:
    """``condition`` as an expression, which has a value while it is true."""
    if isinstance(condition, AllOf):
        return "\nand\n".join(_inner(each, dialect) for each in condition.of)
    if isinstance(condition, AnyOf):
        return "\nor\n".join(_inner(each, dialect) for each in condition.of)
    if condition.limit is None:
        raise ValueError(f"the limit of {condition.signal.name} is not known")
    return f"{value_of(condition, dialect)} {condition.comparison} {condition.limit:.10g}"


def gauge(signal: Signal, dialect: Dialect) -> str:
    """The value of a gauge."""
    return dialect.merged(signal, dialect.series(signal))


def value_of(part: Part, dialect: Dialect) -> str:
    """What ``part`` compares with its limit; of a gauge over a time, the value that compares
    worst."""
    signal, window = part.signal, format_duration(part.window)
    if isinstance(part, Compared):
        if not part.window:
            return gauge(signal, dialect)
        worst = "max" if part.comparison == "<" else "min"
        return dialect.merged(signal, f"{worst}_over_time({dialect.series(signal)}[{window}])")
    if isinstance(part, Increase):
        suffix = "_count" if signal.kind is Kind.HISTOGRAM else ""
        return dialect.merged(signal, f"increase({dialect.series(signal, suffix)}[{window}])")
    if isinstance(part, ShareOf):
        both = (part.signal, part.whole)
        rates = (dialect.merged(each, f"rate({dialect.series(each)}[{window}])") for each in both)
        return " / ".join(rates)
    # 1.0, as vLLM writes it; or 1, as what has read it may.
    below = dialect.series(signal, "_bucket", le=rf"{re.escape(f'{part.edge:g}')}(\.0)?")
    every = dialect.series(signal, "_count")
    parts = (dialect.merged(signal, f"rate({each}[{window}])") for each in (below, every))
    return "1 - {} / {}".format(*parts)


def _inner(condition: Condition, dialect: Dialect) -> str:
    text = promql(condition, dialect)
    return f"(\n{_indented(text)}\n)" if isinstance(condition, AllOf | AnyOf) else text


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
