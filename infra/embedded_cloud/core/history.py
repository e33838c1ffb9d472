"""The append-only record of every call that the embedded cloud answered.

One JSON object per line: ``seq``, ``time`` (the cloud's clock), ``method``, ``path``
(without query), ``method_id``, ``status`` (0: no answer was sent), ``request_id``; for a
call into which a fault was injected also ``faults`` (ids of the rules) and ``committed``
(whether it was carried out, independent of the answer). Bodies and headers are never recorded, so
neither a secret's payload nor a credential can end up in it.

A line with ``event`` is not a call. ``"event":"fault"`` is written when an injected fault
strikes: ``rule``, ``stage``, ``effect`` and details of the fault.
"""

from __future__ import annotations

import json
import threading
from pathlib import Path

from embedded_cloud.core.clock import Clock, rfc3339
from embedded_cloud.core.json_types import JsonObject, JsonValue


class History:
    """Calls in the order in which they were answered, numbered across restarts."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._lock = threading.Lock()
        path.parent.mkdir(parents=True, exist_ok=True)
        self._seq = _last_seq(path)
        self._file = path.open("a", encoding="utf-8", buffering=1)

    def append(
        self,
        *,
        method: str,
        path: str,
        method_id: str,
        status: int,
        request_id: str,
        committed: bool | None = None,
        faults: tuple[str, ...] = (),
    ) -> None:
        """Record one call."""
        entry: JsonObject = {
            "method": method,
            "path": path,
            "method_id": method_id,
            "status": status,
            "request_id": request_id,
        }
        if committed is not None:
            entry |= {"committed": committed, "faults": list[JsonValue](faults)}
        self._write(entry)

    def note(self, event: str, **about: JsonValue) -> None:
        """Record something other than a call."""
        self._write({"event": event, **about})

    def entries(self, after: int = 0) -> list[JsonObject]:
        """The calls numbered above ``after``."""
        return [entry for entry in self._lines(after) if "event" not in entry]

    def events(self, after: int = 0) -> list[JsonObject]:
        """What else was recorded, numbered above ``after``."""
        return [entry for entry in self._lines(after) if "event" in entry]

    @property
    def seq(self) -> int:
        """The number of the last line."""
        return self._seq

    def _write(self, entry: JsonObject) -> None:
        with self._lock:
            if self._file.closed:
                return
            self._seq += 1
            numbered = {"seq": self._seq, "time": rfc3339(self._clock.now()), **entry}
            self._file.write(json.dumps(numbered, separators=(",", ":")) + "\n")

    def _lines(self, after: int) -> list[JsonObject]:
        entries: list[JsonObject] = []
        with self._lock:
            lines = self._path.read_text(encoding="utf-8").splitlines()
        for line in lines:
            entry = _entry(line)
            if entry is not None and _seq(entry) > after:
                entries.append(entry)
        return entries

    def clear(self) -> None:
        """Forget all calls and number from 1 again."""
        with self._lock:
            self._file.truncate(0)
            self._seq = 0

    def close(self) -> None:
        """Release the file."""
        with self._lock:
            self._file.close()


def _last_seq(path: Path) -> int:
    if not path.exists():
        return 0
    entries = (_entry(line) for line in path.read_text(encoding="utf-8").splitlines())
    return max((_seq(entry) for entry in entries if entry is not None), default=0)


def _entry(line: str) -> JsonObject | None:
    """The entry on ``line``, or ``None`` for a line that a kill cut short."""
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    return entry if isinstance(entry, dict) else None


def _seq(entry: JsonObject) -> int:
    seq = entry.get("seq")
    return seq if isinstance(seq, int) else 0
