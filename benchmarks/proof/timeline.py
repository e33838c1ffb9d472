"""When a run's operations and states began and ended, from its recorded requests. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

Entry = Mapping[str, Any]


def states(entries: Iterable[Entry]) -> list[dict[str, str]]:
    """Each state of a queued resource or node that was seen, with the time of its first sight."""
    seen: list[dict[str, str]] = []
    last: dict[str, str] = {}
    for entry in entries:
        for name, state in _stated(entry.get("answer")):
            if last.get(name) != state:
                last[name] = state
                seen.append({"at": entry["at"], "name": name, "state": state})
    return seen


def operations(entries: Iterable[Entry]) -> list[dict[str, Any]]:
    """Each long-running operation: what began it, when, and when it was seen to be done."""
    found: dict[str, dict[str, Any]] = {}
    for entry in entries:
        answer = entry.get("answer")
        if not isinstance(answer, dict) or "/operations/" not in str(answer.get("name", "")):
            continue
        name = str(answer["name"])
        begun = f"{entry['method']} {urlsplit(entry['url']).path}"
        operation = found.setdefault(
            name, {"name": name, "call": begun, "began": entry["at"], "done": None, "error": None}
        )
        if answer.get("done") and operation["done"] is None:
            operation |= {"done": entry["at"], "error": answer.get("error")}
    return list(found.values())


def _stated(answer: Any) -> Iterable[tuple[str, str]]:
    """Names and states of the resources in an answer, alone or in a list."""
    if not isinstance(answer, dict):
        return
    listed = [*answer.get("queuedResources", ()), *answer.get("nodes", ())]
    for one in (answer, *listed):
        state, name = one.get("state"), one.get("name")
        if isinstance(state, dict):
            state = state.get("state")
        if isinstance(name, str) and isinstance(state, str) and "/operations/" not in name:
            yield name, state
