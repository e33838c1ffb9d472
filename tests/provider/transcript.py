"""What people read, and what Google is asked to change, while one engine call is handled."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.provider.fakes import Answer, Cloud, FakeTime, Handler, Script, Sent
from tpuflex.errors import TpuflexError
from tpuflex.google.queued_resources import TpuClient
from tpuflex.provider.call import Call, UnreadyError
from tpuflex.queued_resource.snapshot import Snapshot

A, B = "us-east5-a", "us-east5-b"


@dataclass
class ByZone:
    """One script for each zone, all of them written as if it were for the first."""

    clouds: Mapping[str, Cloud]

    def __call__(self, sent: Sent) -> Answer:
        zone = sent.path.split("/")[3]
        path = sent.path.replace(zone, A)
        answer = self.clouds[zone](Sent(sent.method, path, sent.query, sent.body, sent.at))
        if isinstance(answer, dict) and str(answer["name"]).startswith("operations/"):
            # It is asked for under its own name, which therefore says where.
            return {**answer, "name": f"projects/cloud-project/locations/{zone}/{answer['name']}"}
        return answer


@dataclass
class _Page:
    """Lines in the order in which they came, with the seconds since the beginning."""

    time: FakeTime
    handler: Handler
    lines: list[str] = field(default_factory=list)
    last: str = ""
    times: int = 0

    def add(self, text: str) -> None:
        """One more line; the same again, but for its id, is only counted."""
        plain = text.partition("requestId=")[0]
        if plain == self.last:
            self.times += 1
            self.lines[-1] = f"{self.lines[-1].partition(' (and')[0]} (and {self.times} times more)"
            return
        self.last, self.times = plain, 0
        self.lines.append(f"{self.time.now - 1000:7.0f}s {text}")

    def report(self, text: str, *, passing: bool = False, warning: bool = False) -> None:
        self.add(f"{'~' if passing else '!' if warning else ' '} {text}")

    def answer(self, sent: Sent) -> Answer:
        if sent.method != "GET":
            query = "&".join(f"{key}={value}" for key, value in sorted(sent.query.items()))
            self.add(f"> {sent.method} {sent.path}{'?' if query else ''}{query}")
            if sent.method == "PATCH":
                self.lines.append(f"{'body:':>10} {json.dumps(sent.body)}")
        return self.handler(sent)


def transcript(
    handler: Handler, act: Callable[[Call], Any], *, stop_at: float | None = None
) -> str:
    """All that is said (``~`` passing, ``!`` a warning) and changed (``>``) by ``act``, and what
    comes of it; ``stop_at`` cancels after so many seconds."""
    time = FakeTime(stop_at=None if stop_at is None else 1000 + stop_at)
    page = _Page(time, handler)
    ids = (f"id-{number}" for number in range(1000))
    client = TpuClient(Script(time, page.answer))
    call = Call(client, time.timing(), page.report, lambda: next(ids))
    try:
        page.add(f"= {_result(act(call))}")
    except TpuflexError as error:
        page.add(f"x {type(error).__name__}: {error.message}")
        page.lines += [f"{'hint:':>10} {line}" for line in str(error.hint).splitlines()]
        if error.code is not None:
            page.lines.append(f"{'code:':>10} {error.code}")
        if isinstance(error, UnreadyError):
            page.lines.append(f"{'kept:':>10} {_result(error.snapshot)}")
    return "\n".join([*page.lines, ""])


def _result(found: Any) -> str:
    if isinstance(found, Snapshot):
        return "; ".join([f"{found.name} {found.lifecycle.value}", *map(str, found.also)])
    return "done" if found is None else str(found)
