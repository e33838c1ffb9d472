"""Filters of metrics and time series: comparisons joined by AND.

https://cloud.google.com/monitoring/api/v3/filters. A filter that is not understood is refused,
never ignored.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from embedded_cloud.json_types import JsonObject, child, text
from embedded_cloud.monitoring.errors import invalid_field

_STRING = r'"(?:[^"\\]|\\.)*"'
_TERM = re.compile(
    rf"""\s*(?P<field>(?:metric|resource)\.(?:type|labels?\.(?:\w+|"[^"]*"))|project)
        \s*(?P<op>!=|=|:)\s*
        (?:(?P<function>starts_with|ends_with|has_substring|one_of|monitoring\.regex\.full_match)
           \(\s*(?P<arguments>{_STRING}(?:\s*,\s*{_STRING})*)\s*\)
         | (?P<value>{_STRING}|[\w./-]+))
        \s*(?:AND\b|$|(?=\S))""",
    re.VERBOSE,
)
#: Words that join comparisons in a way that is not spoken here.
_JOINTS = ("OR", "NOT")

_FUNCTIONS: Mapping[str, Callable[[str, tuple[str, ...]], bool]] = {
    "": lambda shown, values: shown == values[0],
    ":": lambda shown, values: values[0] in shown,
    "starts_with": lambda shown, values: shown.startswith(values[0]),
    "ends_with": lambda shown, values: shown.endswith(values[0]),
    "has_substring": lambda shown, values: values[0] in shown,
    "one_of": lambda shown, values: shown in values,
    "monitoring.regex.full_match": lambda shown, values: bool(re.fullmatch(values[0], shown)),
}


@dataclass(frozen=True, slots=True)
class Term:
    """One comparison: ``field`` is ``metric.type`` or, say, ``metric.labels.zone``."""

    field: str
    function: str
    values: tuple[str, ...]
    negated: bool

    def holds(self, series: JsonObject) -> bool:
        """Whether a time series (or a descriptor, shown as one) passes."""
        shown = field_of(series, self.field)
        return _FUNCTIONS[self.function](shown, self.values) != self.negated


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter that has been understood."""

    terms: tuple[Term, ...]

    @classmethod
    def parse(cls, expression: str, field: str = "filter") -> Filter:
        """Read ``expression``, which is in ``field`` of the request; an empty one passes all.

        Raises:
            CloudError: 400, it is more than comparisons joined by AND.
        """
        terms: list[Term] = []
        at, end = 0, len(expression.rstrip())
        while at < end:
            found = _TERM.match(expression, at, end)
            if found is None or found["value"] in _JOINTS:
                reason = f"Unparseable filter: syntax error at column {at + 1}"
                raise invalid_field(field, expression, reason)
            terms.append(_term(found, expression, field))
            at = found.end()
        return cls(tuple(terms))

    def matches(self, series: JsonObject) -> bool:
        """Whether ``series`` passes."""
        return all(term.holds(series) for term in self.terms)

    def on(self, field: str) -> tuple[Term, ...]:
        """The comparisons of ``field``."""
        return tuple(term for term in self.terms if term.field == field)


def field_of(series: JsonObject, field: str) -> str:
    """What a time series has in a field of a filter; empty where it has none."""
    part, _, name = field.partition(".")
    if part == "project":
        return text(child(child(series, "resource"), "labels"), "project_id")
    owner = child(series, part)
    return text(owner, "type") if name == "type" else text(child(owner, "labels"), _label(name))


def canonical(field: str) -> str:
    """``metric.label."a"`` as ``metric.labels.a``."""
    part, _, name = field.partition(".")
    return field if name in ("", "type") else f"{part}.labels.{_label(name)}"


def _label(name: str) -> str:
    return name.partition(".")[2].strip('"')


def _term(found: re.Match[str], expression: str, field: str) -> Term:
    function = found["function"] or (":" if found["op"] == ":" else "")
    written = re.findall(_STRING, found["arguments"]) if found["arguments"] else [found["value"]]
    try:
        values = tuple(json.loads(each) if each.startswith('"') else each for each in written)
        if function == "monitoring.regex.full_match":
            re.compile(values[0])
    except (ValueError, re.error) as error:
        raise invalid_field(field, expression, f"Unparseable filter: {error}") from None
    return Term(canonical(found["field"]), function, values, negated=found["op"] == "!=")
