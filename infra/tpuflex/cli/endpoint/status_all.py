"""How `tpuflex status --all` shows the stacks of a project."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING

from tpuflex.cli.endpoint.status import headline, serving_of
from tpuflex.cli.options import watch
from tpuflex.deploy.known_stacks import known_stacks
from tpuflex.deploy.project_status import status_of_all, watch_all
from tpuflex.duration import format_age
from tpuflex.errors import BootError
from tpuflex.queued_resource.states import Lifecycle
from tpuflex.stack.connection import connect as connect_to
from tpuflex.stack.progress import working
from tpuflex.terminal.output import one_line

if TYPE_CHECKING:
    from tpuflex.cli.invocation import Invocation
    from tpuflex.deploy.project_status import ProjectStatus, StackRow
    from tpuflex.operate.endpoint_status import EndpointStatus
    from tpuflex.stack.connection import Connection
    from tpuflex.stack.stack import Stack
    from tpuflex.terminal.output import Output

_HEADER = ("STACK", "STATE", "ZONE", "LEFT", "COST", "TOKENS/S", "ALERTS")
#: Columns of a reason: what a server or Google says may have any length.
_REASON = 300


def run_status_all(invocation: Invocation, seconds: float | None, *, tunnel: bool) -> int:
    """Show all stacks of the project, once or every so many seconds, and give the exit code."""
    known, without_state = known_stacks(
        invocation.project,
        invocation.open_named,
        invocation.environ,
        invocation.report,
        rehearsing=invocation.rehearsing,
    )
    said = set[str]()

    def say(line: str) -> None:
        if line not in said:  # each round connects again
            said.add(line)
            invocation.report(line)

    def connect(stack: Stack) -> Connection:
        return connect_to(stack, invocation.environ, say, start=False)

    project, output = invocation.project.name, invocation.output
    if seconds is not None:
        looks = watch_all(
            project, known, connect, seconds, without_state=without_state, tunnel=tunnel
        )
        watch(output, looks, partial(show_status_of_all, output))
        return 0
    with working(invocation.report, "Asking the cloud, and the endpoints"):
        found = status_of_all(project, known, connect, without_state=without_state, tunnel=tunnel)
    output.document(found.to_json())
    show_status_of_all(output, found)
    return found.exit_code


def show_status_of_all(output: Output, found: ProjectStatus) -> None:
    """Print ``found``."""
    output.heading(f"Stacks of {found.project}, {found.at.astimezone():%Y-%m-%d %H:%M:%S %Z}")
    if found.up:
        output.table(_HEADER, [_cells(each) for each in found.up])
    absent = (each for each in found.stacks if not each.up)
    output.facts((("together", _together(found)), ("not up", "\n".join(_not_up(absent)))))
    reasons = ((row.name, reason) for row in found.up for reason in _reasons(row))
    for reason, names in _by_reason(reasons).items():
        output.result(f"{names}: {reason}", hanging="  ")


def _not_up(rows: Iterable[StackRow]) -> Iterator[str]:
    """The stacks that are not up; those together whose cloud cannot be asked for one reason."""
    reasons = (
        (row.name, "" if row.error is None or row.reached else row.error.brief) for row in rows
    )
    for reason, names in sorted(_by_reason(reasons).items()):
        yield f"{names}: {reason}" if reason else names


def _by_reason(reasons: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The names that share a reason, by that reason."""
    found = dict[str, list[str]]()
    for name, reason in reasons:
        found.setdefault(one_line(reason, _REASON), []).append(name)
    return {reason: ", ".join(names) for reason, names in found.items()}


def _cells(row: StackRow) -> tuple[str, ...]:
    status = row.status
    if status is None:
        return (row.name, "not known", "", "", "", "", "?")
    slice_, rate = status.slice, row.tokens_per_second
    tokens = "?" if rate is None else f"{rate:,.1f}"
    return (
        row.name,
        f"{_state(row, status)} (stale)" if row.stale else _state(row, status),
        slice_.zone,
        "" if slice_.expires is None else format_age(slice_.expires - status.at),
        _spent(status),
        tokens if slice_.ready else "",
        _alerts(row, status),
    )


def _alerts(row: StackRow, status: EndpointStatus) -> str:
    """How many fire; of an endpoint that was not asked, or does not say, "none" is not known."""
    if row.alerts:
        return str(len(row.alerts))
    return "?" if row.alerts is None or row.unmeasured or status.slice.unread else "none"


def _state(row: StackRow, status: EndpointStatus) -> str:
    """The state in a word or two; while a host boots, its phase."""
    slice_ = status.slice
    if slice_.ready:
        return "READY" if status.ready else "NOT READY"
    if slice_.lifecycle is not Lifecycle.ACTIVE:
        return slice_.condition.value
    if serving_of(slice_) is not None:
        return row.phase
    if slice_.host is not None and slice_.host.error:
        return "boot failed"
    return f"boot: {row.phase}" if row.phase else "boots"


def _spent(status: EndpointStatus) -> str:
    if status.stack.embedded:
        return ""
    return "?" if status.spent is None else f"${status.spent}"


def _together(found: ProjectStatus) -> str:
    """What all of them have cost so far."""
    statuses = [each.status for each in found.up if each.status is not None]
    spent = [each.spent for each in statuses if not each.stack.embedded]
    known = sum((each for each in spent if each is not None), Decimal("0.00"))
    more = ", and what is not known" if None in spent else ""
    return f"${known} so far{more}" if len(spent) > 1 else ""


def _reasons(row: StackRow) -> Iterator[str]:
    """What of a stack needs more words than its row has."""
    status = row.status
    if row.error is not None:
        yield f"STALE, {row.age:.0f} s old: {row.error.brief}" if row.stale else row.error.brief
        return
    if status is None:
        return
    slice_ = status.slice
    if row.exit_code == BootError.exit_code:
        host = "" if slice_.host is None else slice_.host.reason
        serving, health = serving_of(slice_), status.health
        unasked = health.why if health is not None and health.answers is None else ""
        why = (slice_.error, host, "" if serving is None else serving.reason, unasked)
        yield "; ".join((headline(slice_, health), *filter(None, why)))
    elif slice_.unread:
        yield f"its host's report cannot be read: {slice_.unread}"
    elif row.unmeasured:
        yield f"tokens/s are not known: {row.unmeasured}"
    for rule in row.alerts or ():
        yield f"{rule.name} ({rule.severity}): {rule.summary}"
    if status.foreign:
        yield f"another state has made it ({slice_.state_id})"
    yield from (f"also {each}" for each in slice_.others)
