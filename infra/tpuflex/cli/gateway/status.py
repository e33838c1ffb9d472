"""How `tpuflex gateway status` shows what a gateway says of itself."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from tpuflex.duration import format_age
from tpuflex.gateway.first_token import SHARE

if TYPE_CHECKING:
    from tpuflex.cli.invocation import Invocation
    from tpuflex.gateway.gateway_status import (
        ClassStatus,
        GatewayStatus,
        LimitStatus,
        UpstreamStatus,
    )

#: Rows of limits: the fullest ones; --json has all.
_MOST_LIMITS = 20


def show_status(invocation: Invocation, found: GatewayStatus) -> None:
    """Print ``found``."""
    output = invocation.output
    up = format_age(found.at - found.since)
    output.heading(f"Gateway, {found.at.astimezone():%Y-%m-%d %H:%M:%S %Z}, up for {up}")
    if found.why:
        output.result(f"This is its last answer. {found.why}")
    for model, serving in found.models.items():
        if not serving:
            output.result(f"Nothing serves {model}: its requests are refused.")
    for why in found.unseen_stacks.values():
        output.result(why)
    if found.upstreams:
        output.table(
            ("UPSTREAM", "STATE", "IN FLIGHT", "FIRST TOKEN P95", "KV USE", "RUN ENDS IN"),
            [_upstream(each) for each in found.upstreams],
        )
    for each in found.upstreams:
        for line in _whys(each, found.at):
            output.result(line, hanging="  ")
    output.result()
    output.table(
        ("CLASS", "WAITING", "ANSWERED", "NOT ANSWERED"),
        [_class(each) for each in found.classes],
    )
    if not found.limits:
        return
    output.result()
    output.table(
        ("CLIENT", "LIMIT", "USED", "OF", ""),
        [_limit(each) for each in found.limits[:_MOST_LIMITS]],
    )
    if (more := len(found.limits) - _MOST_LIMITS) > 0:
        output.result(f"{more} more, which are less full: --json has them.")


def _upstream(each: UpstreamStatus) -> tuple[str, ...]:
    late = (f"{late.pace.replace('_', ' ')} for {name}" for name, late in each.late.items())
    left = each.run_seconds_left
    p95 = None if each.state == "closed" else each.first_token_p95
    return (
        each.name,
        ", ".join((each.state, *late)),
        f"{each.in_flight} of {each.limit}",
        "-" if p95 is None else f"{p95:.2f} s",
        "-" if each.state == "closed" else f"{each.kv_use * 100:.0f} %",
        "-" if left is None else format_age(timedelta(seconds=left)),
    )


def _whys(each: UpstreamStatus, at: datetime) -> Iterator[str]:
    """Why an upstream gets nothing, or less than it could, and for how long that is so."""
    if each.state != "open":
        verb = "drained" if each.state == "draining" else "been closed"
        yield f"{each.name} has {verb} for {format_age(at - each.since)}: {each.why}"
    for name, late in each.late.items():
        yield (
            f"{each.name} has been {late.pace.replace('_', ' ')} for {name} requests for"
            f" {format_age(at - late.since)}: more than {SHARE * 100:g} % of its first tokens came"
            f" after {late.limit:g} s."
        )


def _class(each: ClassStatus) -> tuple[str, ...]:
    reasons = sorted(each.not_answered.items(), key=lambda reason: -reason[1])
    return (
        each.name or "(none)",
        f"{each.waiting} of {each.room}" if each.name else "-",
        f"{each.answered:,}",
        ", ".join(f"{count:,} {reason}" for reason, count in reasons) or "-",
    )


def _limit(each: LimitStatus) -> tuple[str, ...]:
    def number(value: float) -> str:
        return f"{value:,.2f}" if each.limit.startswith("usd") else f"{value:,.0f}"

    share = f"{each.used / each.most * 100:.0f} %"
    return each.client, each.limit, number(each.used), number(each.most), share
