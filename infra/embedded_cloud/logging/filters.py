"""Filters of log entries: comparisons joined by AND.

https://cloud.google.com/logging/docs/view/logging-query-language. A filter that is not understood
is refused, never ignored.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass

from embedded_cloud.clock import parse_rfc3339
from embedded_cloud.errors import CloudError, invalid_argument
from embedded_cloud.json_types import JsonObject, JsonValue

_TERM = re.compile(
    r"""(?P<field>(?:[\w-]+|"[^"]*")(?:\.(?:[\w-]+|"[^"]*"))*)\s*
        (?P<op>!=|<=|>=|=|:|<|>)\s*
        (?P<value>"(?:[^"\\]|\\.)*"|[^\s()"]+)""",
    re.VERBOSE,
)
_GAP = re.compile(r"[\s()]*(?:AND\b[\s()]*)?")
_KEY = re.compile(r'"([^"]*)"|([\w-]+)')
_ORDER: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_SEVERITIES = (
    *("DEFAULT", "DEBUG", "INFO", "NOTICE", "WARNING"),
    *("ERROR", "CRITICAL", "ALERT", "EMERGENCY"),
)


@dataclass(frozen=True, slots=True)
class _Term:
    path: tuple[str, ...]
    op: str
    value: str

    def holds(self, entry: JsonObject) -> bool:
        value: JsonValue = entry
        for key in self.path:
            value = value.get(key) if isinstance(value, dict) else None
        shown = "" if value is None else str(value)
        if self.op in _ORDER:
            return value is not None and _ORDER[self.op](self._rank(shown), self._rank(self.value))
        if self.op == ":":
            return value is not None if self.value == "*" else self.value.lower() in shown.lower()
        if self.path == ("timestamp",):
            same = value is not None and self._rank(shown) == self._rank(self.value)
        else:
            same = shown == self.value
        return same == (self.op == "=")

    def _rank(self, shown: str) -> float:
        """What times, severities and numbers are ordered by. Raises CloudError 400."""
        try:
            if self.path in (("timestamp",), ("receiveTimestamp",)):
                return parse_rfc3339(shown)
            if self.path == ("severity",):
                return _SEVERITIES.index(shown)
            return float(shown)
        except ValueError:
            raise _unparseable(shown) from None


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter that has been understood."""

    terms: tuple[_Term, ...]

    @classmethod
    def parse(cls, expression: str) -> Filter:
        """Read ``expression``; an empty one passes every entry.

        Raises:
            CloudError: 400, it is more than comparisons joined by AND.
        """
        terms: list[_Term] = []
        at = _skip(expression, 0)
        while at < len(expression):
            found = _TERM.match(expression, at)
            if found is None or _is_word(found["field"]):
                raise _unparseable(expression)
            path = tuple(quoted or bare for quoted, bare in _KEY.findall(found["field"]))
            terms.append(_Term(path, found["op"], _value(found["value"])))
            at = _skip(expression, found.end())
        return cls(tuple(terms))

    def matches(self, entry: JsonObject) -> bool:
        """Whether ``entry`` passes. Raises CloudError 400 for what cannot be compared."""
        return all(term.holds(entry) for term in self.terms)


def _skip(expression: str, at: int) -> int:
    gap = _GAP.match(expression, at)
    return at if gap is None else gap.end()


def _is_word(field: str) -> bool:
    return field in ("OR", "NOT")


def _value(written: str) -> str:
    if not written.startswith('"'):
        return written
    try:
        return str(json.loads(written))
    except ValueError:
        raise _unparseable(written) from None


def _unparseable(expression: str) -> CloudError:
    return invalid_argument(f"Unparseable filter: {expression}")
