"""The rules in force, what each has counted, and which process has which role."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from embedded_cloud.faults.processes import Roles
from embedded_cloud.faults.rule import CallFacts, Rule
from embedded_cloud.json_types import JsonObject, JsonValue


@dataclass(slots=True)
class _Entry:
    """One rule and its memory."""

    rule: Rule
    seen: int = 0
    chosen: int = 0
    struck: int = 0
    done: set[tuple[str, str]] = field(default_factory=set)

    def to_json(self) -> JsonObject:
        return {**self.rule.to_json(), "seen": self.seen, "fired": self.struck}


class FaultBook:
    """Rules and counters. Nothing in it is random: the same calls meet the same faults.

    Attributes:
        roles: which processes a kill point may mean.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: dict[str, _Entry] = {}
        self._given = 0
        self._struck = 0
        self.roles = Roles()

    def add(self, rule: Rule) -> Rule:
        """Put ``rule`` in force, with an id if it has none; one of the same id is replaced."""
        with self._lock:
            if not rule.id:
                self._given += 1
                rule = rule.model_copy(update={"id": f"r{self._given}"})
            self._entries[rule.id] = _Entry(rule)
            return rule

    def remove(self, rule_id: str | None = None) -> None:
        """Forget one rule, or all of them and the counters."""
        with self._lock:
            if rule_id is not None:
                self._entries.pop(rule_id, None)
                return
            self._entries.clear()
            self._given = self._struck = 0

    def set_roles(self, roles: Roles) -> None:
        """Set which process has which role."""
        self.roles = roles

    @property
    def struck(self) -> int:
        """How many faults have struck since the last :meth:`remove` of all."""
        return self._struck

    def arrived(self, facts: CallFacts) -> tuple[Rule, ...]:
        """Count a call; returns the rules that strike in it, in the order of their setting."""
        with self._lock:
            return tuple(entry.rule for entry in self._entries.values() if _chooses(entry, facts))

    def done(self, facts: CallFacts) -> None:
        """Remember a call that succeeded, for rules with ``after``."""
        with self._lock:
            for entry in self._entries.values():
                entry.done.add((facts.method_id, facts.resource))

    def strike(self, rule: Rule) -> None:
        """Count that ``rule`` has had its effect."""
        with self._lock:
            self._struck += 1
            entry = self._entries.get(rule.id)
            if entry is not None:
                entry.struck += 1

    def to_json(self) -> JsonObject:
        """Rules with their counters (``seen`` matching calls, ``fired`` times) and the sum."""
        with self._lock:
            rules: list[JsonValue] = [entry.to_json() for entry in self._entries.values()]
            return {"rules": rules, "firings": self._struck, "roles": self.roles.to_json()}


def _chooses(entry: _Entry, facts: CallFacts) -> bool:
    if not entry.rule.where.matches(facts, entry.done):
        return False
    entry.seen += 1
    if not entry.rule.strikes_at(entry.seen, entry.chosen):
        return False
    entry.chosen += 1
    return True
