"""`tpuflex alerts`: whether something is wrong now, and the same rules for other systems."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

import click

from tpuflex.cli.invocation import Invocation
from tpuflex.cli.options import (
    Commands,
    as_json,
    endpoint_name,
    no_tunnel,
    pass_invocation,
    stack_name,
    watch,
    watch_every,
)

if TYPE_CHECKING:
    from tpuflex.alerts.rules import AlertRule

_job = click.option(
    "--job",
    metavar="NAME",
    help="Job of Prometheus that collects from the server.  [default: tpuflex-STACK]",
)


@click.group(
    cls=Commands,
    invoke_without_command=True,
    subcommand_metavar="[prometheus|grafana ...]",
    examples=(
        "tpuflex alerts",
        "tpuflex --stack prod alerts --json  # for a script: exit code 16 when one fires",
        "tpuflex alerts --watch  # every 10 seconds, until Ctrl-C",
        "tpuflex --stack prod alerts prometheus > prod.rules.yml",
    ),
)
@watch_every(10.0)
@no_tunnel
@stack_name
@endpoint_name
@as_json
@pass_invocation
@click.pass_context
def alerts(
    ctx: click.Context, invocation: Invocation, seconds: float | None, no_tunnel: bool
) -> None:
    """Say whether an alert fires: by the endpoint's metrics, its slice, and what that costs.

    The rules are those of `tpuflex alerts prometheus`, and some about the slice, which Prometheus
    does not see; their thresholds are tpuflex:monitoring.thresholds. For cron or a terminal, where
    there is no Prometheus.

    One look decides most of them. Where a condition has to hold for a while, or no token comes
    while requests are in flight, it looks again, for five minutes at most, and says for which rule.
    A rule that needs half an hour of looks, such as the share of slow first tokens, is "not known",
    unless what the server has counted since its start decides it; --watch or a Prometheus knows
    more.

    With --watch the screen of a terminal is drawn again; elsewhere each look is a block of its own,
    and with --json a document on a line. Ctrl-C ends it.

    Exit code 16: an alert fires; with --watch, at the last look. 7: nothing fires, and the run is
    over or its request failed. 4: the stack has no slice. Where nothing fires and the server could
    not be asked, the exit code says why: 6, a role is missing; 1, there is no way to it.
    """
    if ctx.invoked_subcommand is not None:
        if seconds is not None or no_tunnel:
            raise click.UsageError(f"`alerts {ctx.invoked_subcommand}` asks no endpoint.")
        return
    from tpuflex.cli.alerts.show import show_alerts
    from tpuflex.measure.alerts import read_alerts, watch_alerts
    from tpuflex.stack.progress import working

    cloud = invocation.connect(invocation.open_deployed(), start=False)
    if seconds is not None:
        looks = watch_alerts(cloud, seconds, invocation.report, tunnel=not no_tunnel)
        raise SystemExit(
            watch(invocation.output, looks, partial(show_alerts, invocation)).exit_code
        )
    with working(invocation.report, "Looking at the endpoint"):
        found = read_alerts(cloud, invocation.report, tunnel=not no_tunnel)
    invocation.output.document(found.to_json())
    show_alerts(invocation, found)
    raise SystemExit(found.exit_code)


@alerts.command(
    examples=(
        "tpuflex --stack prod alerts prometheus > prod.rules.yml",
        "tpuflex alerts prometheus --job vllm  # the job that collects from it already",
    ),
)
@_job
@stack_name
@as_json
@pass_invocation
def prometheus(invocation: Invocation, job: str | None) -> None:
    """Print the alert rules as a rule file for Prometheus.

    Its head says how to collect the metrics. Each alert has a summary, the page about it and the
    command to type next. Rules about the slice are not among them: Prometheus does not see it.
    Needs no cloud.
    """
    from tpuflex.alerts.prometheus import job_of, prometheus_rules, prometheus_text

    stack, rules, server = _opened(invocation)
    job = job_of(stack, job)
    invocation.output.document(prometheus_rules(rules, stack, job))
    invocation.output.verbatim(prometheus_text(rules, stack, job, server))


@alerts.command(
    examples=("tpuflex --stack prod alerts grafana > prod.json",),
)
@_job
@stack_name
@as_json
@pass_invocation
def grafana(invocation: Invocation, job: str | None) -> None:
    """Print a dashboard for Grafana, over the same Prometheus as the rules.

    Import it in Grafana under Dashboards, New, Import. Needs no cloud.
    """
    from tpuflex.alerts.grafana import dashboard
    from tpuflex.alerts.prometheus import job_of

    stack, rules, _ = _opened(invocation)
    document = dashboard(rules, stack, job_of(stack, job))
    invocation.output.document(document)
    invocation.output.verbatim(json.dumps(document, indent=2))


def _opened(invocation: Invocation) -> tuple[str, tuple[AlertRule, ...], str]:
    """The stack's name, its rules, and the URL of its server but for the address."""
    from tpuflex.alerts.rules import alert_rules

    stack = invocation.open_stack(deploying=False)
    return stack.name, alert_rules(stack.settings), stack.settings.url("ADDRESS")
