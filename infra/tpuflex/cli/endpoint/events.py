"""How `tpuflex events` shows what has happened to an endpoint."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import zip_longest
from textwrap import wrap
from typing import TYPE_CHECKING

from tpuflex.operate.endpoint_events import Event, events

if TYPE_CHECKING:
    from tpuflex.cli.invocation import Invocation
    from tpuflex.stack.connection import Connection

_HEADER = ("TIME (UTC)", "WHAT", "WHO, WHERE", "DETAIL")
#: Columns of the third at most, and of the last at least.
_WHO, _DETAIL = 22, 24
#: Of an event with more resources, they are counted by kind.
_NAMES = 3


def run_events(invocation: Invocation, cloud: Connection, since: datetime, lines: int) -> None:
    """Print what has happened since then, the last ``lines`` of it."""
    output, found = invocation.output, events(cloud, since)
    shown = found.newest(lines)
    if shown.events:
        for line in event_lines(shown.events, output.columns):
            output.verbatim(line)
    else:
        known = " is known to have" if found.unread else " has"
        moment = f"{since.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
        output.result(f"Nothing{known} happened since {moment}.")
    if left_out := len(found.events) - len(shown.events):
        earlier = "1 earlier event is" if left_out == 1 else f"{left_out} earlier events are"
        output.progress(f"{earlier} left out: --lines {len(found.events)}")
    for each in found.unread:
        output.progress(f"Not read: {each.source}: {each.why}")
    hints = (each.hint.for_stack(cloud.stack.name, invocation.environ) for each in found.unread)
    for hint in dict.fromkeys(filter(None, hints)):
        output.progress(hint)
    output.document(shown.to_json())


def event_lines(shown: Iterable[Event], columns: int) -> Iterator[str]:
    """A table of events, which breaks lines within its last two columns.

    Args:
        shown: the events.
        columns: of the terminal; 0 for one line per event, for `grep`.
    """
    rows = [_HEADER, *map(_cells, shown)]
    sizes = [max(len(row[column]) for row in rows) for column in range(3)]
    if columns:
        sizes[2] = min(sizes[2], _WHO)
    who_width = sizes[2] if columns else 0
    detail_width = columns and max(_DETAIL, columns - sum(sizes) - 2 * len(sizes))
    for time, what, who, detail in rows:
        broken = (_broken(who, who_width), _broken(detail, detail_width, names=True))
        for cells in zip_longest([time], [what], *broken, fillvalue=""):
            padded = (cell.ljust(size) for cell, size in zip(cells, (*sizes, 0), strict=True))
            yield "  ".join(padded).rstrip()


def _broken(text: str, width: int, *, names: bool = False) -> list[str]:
    """``text`` in lines of ``width``, if that is given; ``names`` stay whole, to be copied."""
    if not width:
        return [text]
    return wrap(text, width, break_on_hyphens=False, break_long_words=not names) or [""]


def _cells(event: Event) -> tuple[str, str, str, str]:
    time = f"{event.time.astimezone(UTC):%m-%d %H:%M:%S}"
    return time, event.what, event.who, _detail(event)


def _detail(event: Event) -> str:
    listed = ", ".join(event.resources)
    if len(event.resources) > _NAMES:
        kinds = Counter(name.partition("/")[0] for name in event.resources)
        most = kinds.most_common(_NAMES)
        others = kinds.total() - sum(count for _, count in most)
        listed = ", ".join(f"{kind} {count}" for kind, count in most)
        listed += f", others {others}" if others else ""
    return ": ".join(filter(None, (event.detail, listed)))
