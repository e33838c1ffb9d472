"""The embedded cloud's control API as the rigs use it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import requests

from reliability.projects import SWIFT

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Control:
    """The control API of an embedded cloud.

    Attributes:
        url: address of the embedded cloud.
        token: its access token.
    """

    url: str
    token: str

    def call(self, method: str, path: str, body: Json | None = None) -> Json:
        """Make one call; an error response means a bug in the rig."""
        answer = requests.request(
            method,
            f"{self.url}/_emulator/{path}",
            json=body,
            headers={"Authorization": f"Bearer {self.token}"},
            timeout=60,
        )
        assert answer.ok, f"{method} {path}: {answer.text}"
        found: Json = answer.json()
        return found

    def speed(self, factor: float) -> None:
        """Make the cloud's clock run ``factor`` times as fast as the machine's."""
        self.call("POST", "clock", {"speed": factor})

    def advance(self, seconds: float) -> None:
        """Move the cloud's clock forward."""
        self.call("POST", "clock", {"advance": seconds})

    def capacity(self, **rule: Any) -> None:
        """Set the capacity rules: :data:`SWIFT`, overridden by ``rule``."""
        self.call("POST", "capacity", {**SWIFT, **rule})

    def strict(self) -> None:
        """Make the cloud as strict as Google, also after each reset."""
        self.call("POST", "strictness?preset=strict")

    def faults(self) -> Json:
        """The rules with their counters (``seen``, ``fired``), and the total ``firings``."""
        return self.call("GET", "faults")

    def set_faults(self, *rules: Json) -> None:
        """Replace all rules and reset the counters."""
        self.call("DELETE", "faults")
        if rules:
            self.call("POST", "faults", {"rules": list(rules)})

    def history(self, after: int = 0) -> tuple[Json, ...]:
        """The calls numbered above ``after``."""
        return tuple(self.call("GET", f"history?after={after}")["calls"])

    def strikes(self, after: int = 0) -> tuple[Json, ...]:
        """The faults that struck after line ``after`` of the history."""
        return self.events("fault", after)

    def events(self, kind: str, after: int = 0) -> tuple[Json, ...]:
        """What of that kind was recorded beside the calls after line ``after`` of the history."""
        found = self.call("GET", f"history?after={after}")["events"]
        return tuple(event for event in found if event["event"] == kind)

    def seq(self) -> int:
        """The number of the history's last line."""
        return int(self.call("GET", "history?after=999999999")["seq"])

    def inventory(self) -> Json:
        """Everything that exists: service -> kind -> resources."""
        return self.call("GET", "inventory")
