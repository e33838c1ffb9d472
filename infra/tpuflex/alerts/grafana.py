"""A dashboard for Grafana, over the same job of the same Prometheus as the alert rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tpuflex.alerts.conditions import Compared, ShareAbove, parts_of
from tpuflex.alerts.promql import Dialect, gauge, prometheus, value_of
from tpuflex.alerts.rules import AlertRule
from tpuflex.alerts.signals import (
    GENERATED,
    KV_USE,
    PREEMPTIONS,
    PROMPT,
    RUNNING,
    SUCCEEDED,
    TTFT,
    UP,
    WAITING,
)
from tpuflex.duration import format_duration

#: Version of the dashboard's schema, which Grafana 10 and later read.
_SCHEMA = 39
#: What rates are taken over: a few looks.
_WINDOW = "1m"
_DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
_WIDTH, _HEIGHT = 12, 8


@dataclass(frozen=True, slots=True)
class Panel:
    """Curves over time.

    Attributes:
        title: its heading.
        unit: Grafana's name of their unit.
        curves: legend and expression of each.
        limit: where an alert's threshold is; None for none.
        most: the highest value there is; None for none.
    """

    title: str
    unit: str
    curves: tuple[tuple[str, str], ...]
    limit: float | None = None
    most: float | None = None

    def to_json(self, number: int) -> dict[str, object]:
        """The panel, as the dashboard has it."""
        steps: list[dict[str, object]] = [{"color": "green", "value": None}]
        if self.limit is not None:
            steps.append({"color": "red", "value": self.limit})
        return {
            "id": number + 1,
            "type": "timeseries",
            "title": self.title,
            "datasource": _DATASOURCE,
            "gridPos": {
                "x": number % 2 * _WIDTH,
                "y": number // 2 * _HEIGHT,
                "w": _WIDTH,
                "h": _HEIGHT,
            },
            "targets": [
                {
                    "refId": chr(ord("A") + at),
                    "datasource": _DATASOURCE,
                    "expr": query,
                    "legendFormat": legend,
                }
                for at, (legend, query) in enumerate(self.curves)
            ],
            "fieldConfig": {
                "defaults": {
                    "unit": self.unit,
                    "min": 0,
                    **({} if self.most is None else {"max": self.most}),
                    "thresholds": {"mode": "absolute", "steps": steps},
                    "custom": {
                        "thresholdsStyle": {"mode": "off" if self.limit is None else "line"}
                    },
                },
                "overrides": [],
            },
            "options": {"legend": {"displayMode": "list", "placement": "bottom"}},
        }


def dashboard(rules: Iterable[AlertRule], stack: str, job: str) -> dict[str, object]:
    """The dashboard of a stack.

    Args:
        rules: the rules of the stack, whose limits it draws.
        stack: its name.
        job: the job that collects from its server.
    """
    panels = _panels(tuple(rules), stack, prometheus(job))
    return {
        "title": f"vLLM of stack {stack}",
        "uid": job[:40],
        "tags": ["tpuflex", "vllm"],
        "schemaVersion": _SCHEMA,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {
            "list": [
                {
                    "name": "datasource",
                    "label": "Prometheus",
                    "type": "datasource",
                    "query": "prometheus",
                }
            ]
        },
        "panels": [panel.to_json(number) for number, panel in enumerate(panels)],
    }


def _panels(rules: Sequence[AlertRule], stack: str, dialect: Dialect) -> Iterator[Panel]:
    parts = [part for rule in rules for part in parts_of(rule.condition)]
    kv_limit = next(
        (each.limit for each in parts if isinstance(each, Compared) and each.signal is KV_USE), None
    )
    shares = [each for each in parts if isinstance(each, ShareAbove)]
    yield Panel(
        "Alerts",
        "short",
        (("{{alertname}} {{alertstate}}", f'ALERTS{{stack="{stack}"}}'),),
    )
    yield Panel("Server answers", "short", (("{{instance}}", gauge(UP, dialect)),), most=1)
    yield Panel(
        "Requests",
        "short",
        (("running", gauge(RUNNING, dialect)), ("waiting", gauge(WAITING, dialect))),
    )
    yield Panel("KV cache in use", "percentunit", (("", gauge(KV_USE, dialect)),), kv_limit, most=1)
    yield Panel(
        "Tokens a second",
        "short",
        (
            ("generated", _rate(dialect, GENERATED.prometheus)),
            ("prompt", _rate(dialect, PROMPT.prometheus)),
            ("prompt, from the prefix cache", _rate(dialect, "vllm:prefix_cache_hits_total")),
        ),
    )
    yield Panel(
        "Requests with a slow first token",
        "percentunit",
        tuple(
            (
                f"above {each.edge:g} s, {format_duration(each.window)}",
                value_of(each, dialect),
            )
            for each in dict.fromkeys(shares)
        ),
        shares[0].limit if shares else None,
        most=1,
    )
    yield Panel("First token", "s", _quantiles(dialect, TTFT.prometheus))
    yield Panel("Between tokens", "s", _quantiles(dialect, "vllm:inter_token_latency_seconds"))
    yield Panel("In the queue", "s", _quantiles(dialect, "vllm:request_queue_time_seconds"))
    yield Panel("Whole answer", "s", _quantiles(dialect, "vllm:e2e_request_latency_seconds"))
    yield Panel("Preemptions a second", "short", (("", _rate(dialect, PREEMPTIONS.prometheus)),))
    ended = dialect.series(SUCCEEDED)
    yield Panel(
        "Requests ended a second",
        "short",
        (("{{finished_reason}}", f"sum by (finished_reason) (rate({ended}[{_WINDOW}]))"),),
    )


def _rate(dialect: Dialect, name: str) -> str:
    return f"sum(rate({dialect.select(name)}[{_WINDOW}]))"


def _quantiles(dialect: Dialect, name: str) -> tuple[tuple[str, str], ...]:
    """Median and 95th percentile, which are interpolated within a bucket."""
    buckets = f"sum by (le) (rate({dialect.select(f'{name}_bucket')}[5m]))"
    return tuple((f"P{q * 100:g}", f"histogram_quantile({q}, {buckets})") for q in (0.5, 0.95))
