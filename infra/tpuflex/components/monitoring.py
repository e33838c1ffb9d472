"""Alert policies of Cloud Monitoring and a dashboard, made of the rules of
:mod:`tpuflex.alerts.rules`."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pulumi
from pulumi_gcp import monitoring

from tpuflex.alerts.conditions import Compared, Condition, Part, ShareAbove, parts_of
from tpuflex.alerts.promql import Dialect, cloud_monitoring, gauge, promql, value_of
from tpuflex.alerts.rules import AlertRule
from tpuflex.alerts.signals import (
    GENERATED,
    IN_FLIGHT,
    PROMPT,
    RUNNING,
    SUCCEEDED,
    WAITING,
    Signal,
)
from tpuflex.components.inputs import inputs_of
from tpuflex.components.ownership import labels
from tpuflex.duration import google_duration
from tpuflex.naming import Names

#: Hosts write a point a minute, so nothing is new more often.
EVALUATED_EVERY = timedelta(minutes=1)
#: An incident ends when a run has ended and nothing more is written; Google's shortest.
AUTO_CLOSE = timedelta(minutes=30)
SEVERITIES = {"page": "CRITICAL", "ticket": "WARNING"}
#: Of the grid of a dashboard's tiles.
_COLUMNS = 48
_WIDTH, _HEIGHT = 24, 16
_HEAD_HEIGHT = 8
#: What the rates of a chart are taken over: a few points.
_RATE_WINDOW = "5m"


@dataclass(frozen=True, kw_only=True)
class MonitoringArgs:
    """Inputs of :class:`Monitoring`."""

    names: Names
    """Physical names."""

    state_id: pulumi.Input[str]
    """Id of the state that makes them."""

    project: str
    """Google Cloud project id."""

    model: str
    """Name of the served model."""

    rules: tuple[AlertRule, ...]
    """The rules, those among them that Cloud Monitoring can judge."""

    notification_channels: tuple[str, ...]
    """Full names of the channels that Google notifies; they exist already."""

    labels: pulumi.Input[Mapping[str, str]] | None
    """Labels of the user's."""


class Monitoring(pulumi.ComponentResource):
    """An alert policy per rule that Cloud Monitoring can judge, and a dashboard of what they look
    at and of the traffic.

    The metrics need not exist yet: they come with the first point that a host writes.

    Attributes:
        policies: the policies by the name of their rule.
        dashboard: the dashboard.
    """

    policies: Mapping[str, monitoring.AlertPolicy]
    dashboard: monitoring.Dashboard

    def __init__(
        self, name: str, args: MonitoringArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        judged = {
            rule: condition
            for rule in args.rules
            if (condition := rule.cloud_condition) is not None
        }
        shown = inputs_of(args) | {"rules": [rule.name for rule in judged]}
        super().__init__("tpuflex:index:Monitoring", name, shown, opts)
        dialect = cloud_monitoring(args.names.stack, args.names.node_pattern)
        self.policies = {
            rule.name: self._policy(f"{name}-{rule.name}", rule, promql(condition, dialect), args)
            for rule, condition in judged.items()
        }
        marks = labels(args.names, args.state_id, args.labels)
        self.dashboard = monitoring.Dashboard(
            name,
            project=args.project,
            dashboard_json=pulumi.Output.from_input(marks).apply(
                lambda found: json.dumps(
                    {
                        "displayName": args.names.shown(),
                        "labels": found,
                        "mosaicLayout": layout(judged, dialect, args.names, args.model),
                    }
                )
            ),
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.register_outputs({"dashboard": self.dashboard.id})

    def _policy(
        self, name: str, rule: AlertRule, query: str, args: MonitoringArgs
    ) -> monitoring.AlertPolicy:
        promql_condition = monitoring.AlertPolicyConditionConditionPrometheusQueryLanguageArgs(
            query=query,
            duration=google_duration(held(rule)),
            evaluation_interval=google_duration(EVALUATED_EVERY),
            alert_rule=rule.name,
            rule_group=args.names.shown(),
            labels={"severity": rule.severity},
            disable_metric_validation=True,
        )
        return monitoring.AlertPolicy(
            name,
            project=args.project,
            display_name=args.names.shown(rule.name),
            combiner="OR",
            conditions=[
                monitoring.AlertPolicyConditionArgs(
                    display_name=rule.name, condition_prometheus_query_language=promql_condition
                )
            ],
            severity=SEVERITIES[rule.severity],
            documentation=monitoring.AlertPolicyDocumentationArgs(
                content=documentation(rule, args.names, args.model),
                mime_type="text/markdown",
                subject=f"{rule.name}: {args.names.shown()}",
            ),
            alert_strategy=monitoring.AlertPolicyAlertStrategyArgs(
                auto_close=google_duration(AUTO_CLOSE)
            ),
            notification_channels=list(args.notification_channels),
            user_labels=labels(args.names, args.state_id, args.labels),
            opts=pulumi.ResourceOptions(parent=self),
        )


def held(rule: AlertRule) -> timedelta:
    """How long the condition of ``rule`` has to be true: whole minutes, so that it is looked at
    twice where it has to last at all."""
    return EVALUATED_EVERY * math.ceil(rule.held / EVALUATED_EVERY)


def documentation(rule: AlertRule, names: Names, model: str) -> str:
    """The text of a notification: what is wrong, what to type next, and which page says more."""
    advice = rule.next.for_stack(names.stack)
    part = "Cloud Monitoring sees a part of that; `tpuflex alerts` sees all of it.\n\n"
    return (
        f"{rule.summary}\n\n"
        f"{part if rule.in_cloud else ''}"
        f"Endpoint: {model}, stack {names.stack} of {names.project}.\n\n"
        f"Next: {advice}\n\n"
        f"Runbook: `tpuflex docs runbooks/{rule.runbook}`"
    )


def layout(
    judged: Mapping[AlertRule, Condition], dialect: Dialect, names: Names, model: str
) -> dict[str, Any]:
    """The tiles of the dashboard: a chart for each rule, of what its condition compares, and those
    of the traffic.

    Nothing in it is zero or empty: Cloud Monitoring answers without that, and each preview would
    show a change.
    """
    text = f"{model}, stack {names.stack} of {names.project}. Made by tpuflex; `tpuflex status`, "
    head = {
        "width": _COLUMNS,
        "height": _HEAD_HEIGHT,
        "widget": {"text": {"content": text + "`tpuflex alerts` and `tpuflex metrics` say more."}},
    }
    charts = {
        f"{rule.name}: {rule.summary}": _chart(condition, dialect)
        for rule, condition in judged.items()
    } | _traffic(dialect)
    placed = [
        _placed(index, {"title": title, "xyChart": chart})
        for index, (title, chart) in enumerate(charts.items())
    ]
    return {"columns": _COLUMNS, "tiles": [head, *placed]}


def _traffic(dialect: Dialect) -> dict[str, dict[str, Any]]:
    """Title -> chart of what the endpoint does, whether or not a rule is about it."""

    def rate(signal: Signal) -> str:
        return dialect.merged(signal, f"rate({dialect.series(signal)}[{_RATE_WINDOW}])")

    shown = {
        "Requests in flight, running and waiting": [
            gauge(each, dialect) for each in (IN_FLIGHT, RUNNING, WAITING)
        ],
        "Tokens a second, generated and of prompts": [rate(GENERATED), rate(PROMPT)],
        "Requests ended a second": [rate(SUCCEEDED)],
    }
    return {title: {"dataSets": [_line(each) for each in of]} for title, of in shown.items()}


def _placed(index: int, widget: dict[str, Any]) -> dict[str, Any]:
    row, column = divmod(index, _COLUMNS // _WIDTH)
    place = {"xPos": column * _WIDTH, "yPos": _HEAD_HEIGHT + row * _HEIGHT}
    taken = {key: value for key, value in place.items() if value}
    return {"width": _WIDTH, "height": _HEIGHT, **taken, "widget": widget}


def _chart(condition: Condition, dialect: Dialect) -> dict[str, Any]:
    """What decides: shares, which have a scale of their own, else what has a limit, else all."""
    parts = list(parts_of(condition))
    shares: list[Part] = [each for each in parts if isinstance(each, ShareAbove)]
    # That the server answers is not what NoTokens is about.
    limited = [each for each in parts if each.limit and each.comparison != "=="]
    drawn = shares or limited or parts
    limits = dict.fromkeys(each.limit for each in limited if each in drawn)
    return {
        "dataSets": [_line(_curve(each, dialect)) for each in drawn],
        **({"thresholds": [{"value": limit} for limit in limits]} if limits else {}),
    }


def _line(query: str) -> dict[str, Any]:
    return {"plotType": "LINE", "timeSeriesQuery": {"prometheusQuery": query}}


def _curve(part: Part, dialect: Dialect) -> str:
    """What is drawn of ``part``: of a gauge each value, not the worst of a while."""
    return gauge(part.signal, dialect) if isinstance(part, Compared) else value_of(part, dialect)
