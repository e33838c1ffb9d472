"""Entries as they are received, as a stream of answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from embedded_cloud.clock import Clock
from embedded_cloud.errors import CloudError
from embedded_cloud.json_types import JsonObject, JsonValue, text
from embedded_cloud.logging.filters import Filter
from embedded_cloud.logging.state import Entries

if TYPE_CHECKING:
    from aiohttp import web

#: Seconds of real time between two looks at the clock and at the client.
_LOOK_S = 0.05


@dataclass(slots=True)
class Tail:
    """One session.

    Attributes:
        projects: whose entries.
        wanted: which of them.
        window_s: how long an entry is held back, so that one that comes later can be sent before.
        clock: the cloud's time.
    """

    projects: frozenset[str]
    wanted: Filter
    window_s: float
    clock: Clock
    _held: list[tuple[float, JsonObject]] = field(default_factory=list)

    def see(self, project: str, entry: JsonObject) -> None:
        """An entry has been written."""
        if project in self.projects:
            self._held.append((self.clock.now() + self.window_s, entry))

    def due(self) -> list[JsonObject]:
        """What is to be sent now, in order of time. Raises CloudError 400 for what the filter
        cannot compare."""
        now = self.clock.now()
        due = [entry for at, entry in self._held if at <= now]
        self._held = [(at, entry) for at, entry in self._held if at > now]
        return sorted(
            filter(self.wanted.matches, due),
            key=lambda entry: (text(entry, "timestamp"), text(entry, "insertId")),
        )


async def answers(tail: Tail, entries: Entries, request: web.Request) -> AsyncIterator[bytes]:
    """The elements of a JSON array, of which the last is an error if there is one, until the
    client disconnects."""
    entries.readers.append(tail.see)
    try:
        yield b"["
        between = ""
        while request.transport is not None and not request.transport.is_closing():
            try:
                due = tail.due()
            except CloudError as error:
                yield f"{between}{json.dumps(error.body())}]".encode()
                return
            if due:
                answer: JsonObject = {"entries": list[JsonValue](due)}
                yield f"{between}{json.dumps(answer, ensure_ascii=False)}\n".encode()
                between = ","
            await asyncio.sleep(_LOOK_S)
    finally:
        entries.readers.remove(tail.see)
