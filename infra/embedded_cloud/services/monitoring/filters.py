"""Filters of Cloud Monitoring: comparisons that all have to hold.

https://cloud.google.com/monitoring/api/v3/filters. A filter that is not understood is refused,
never ignored: what Google reads besides (OR, NOT, numbers, groups) is answered with 501.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from embedded_cloud.core.errors import CloudError, invalid_argument, unimplemented

_STRING = r'"(?:[^"\\]|\\.)*"'
_TERM = re.compile(
    rf"""(?P<path>[a-z_]+(?:\.(?:[\w-]+|{_STRING}))*)\s*
        (?P<op>!=|=)\s*
        (?:(?P<value>{_STRING})
          |(?P<function>[a-z_]+(?:\.[a-z_]+)*)\s*\((?P<arguments>\s*{_STRING}(?:\s*,\s*{_STRING})*\s*)\))""",
    re.VERBOSE,
)
_GAP = re.compile(r"\s*(?:AND\b\s*)?")
_UNBUILT = re.compile(r"\b(?:OR|NOT)\b|[()<>]|group\.id|metadata\.")

#: Names of functions -> whether a value passes, by their arguments.
_FUNCTIONS: Mapping[str, Callable[[str, list[str]], bool]] = {
    "starts_with": lambda value, words: value.startswith(words[0]),
    "ends_with": lambda value, words: value.endswith(words[0]),
    "has_substring": lambda value, words: words[0] in value,
    "one_of": lambda value, words: value in words,
    "monitoring.regex.full_match": lambda value, words: bool(re.fullmatch(words[0], value)),
}


@dataclass(frozen=True, slots=True)
class _Term:
    """One comparison.

    Attributes:
        field: what is compared, such as ``metric.type`` or ``resource.labels.node_id``.
        holds_if: whether a value passes.
        wanted: whether passing is what is wanted: not with ``!=``.
        value: the one value that passes; empty where a function decides.
    """

    field: str
    holds_if: Callable[[str], bool]
    wanted: bool
    value: str


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter that has been understood."""

    terms: tuple[_Term, ...]

    @classmethod
    def parse(cls, expression: str) -> Filter:
        """Read ``expression``; an empty one passes everything.

        Raises:
            CloudError: 400, it is no filter; 501, it is one that is not built here.
        """
        terms: list[_Term] = []
        at = _skip(expression, 0)
        while at < len(expression):
            found = _TERM.match(expression, at)
            if found is None:
                raise _refused(expression, at)
            terms.append(_term(found))
            at = _skip(expression, found.end())
        return cls(tuple(terms))

    def value_of(self, field: str) -> str:
        """The one value that the filter lets ``field`` have; empty where it says none."""
        given = (term.value for term in self.terms if term.field == field and term.wanted)
        return next(given, "")

    def matches(self, fields: Mapping[str, str]) -> bool:
        """Whether what has these fields passes; one that it lacks is empty."""
        return all(term.holds_if(fields.get(term.field, "")) == term.wanted for term in self.terms)


def _term(found: re.Match[str]) -> _Term:
    # `metric.label.x` is another way to write `metric.labels.x`.
    field = re.sub(r"^(metric|resource|user)\.label\.", r"\1.labels.", found["path"])
    field = ".".join(_text(part) for part in re.findall(rf"{_STRING}|[^.]+", field))
    wanted = found["op"] == "="
    if found["value"] is not None:
        value = _text(found["value"])
        return _Term(field, lambda each: each == value, wanted, value)
    function = _FUNCTIONS.get(found["function"])
    if function is None:
        raise unimplemented(f"the filter function {found['function']}")
    words = [_text(word) for word in re.findall(_STRING, found["arguments"])]
    return _Term(field, lambda each: function(each, words), wanted, "")


def _skip(expression: str, at: int) -> int:
    gap = _GAP.match(expression, at)
    return at if gap is None else gap.end()


def _text(written: str) -> str:
    if not written.startswith('"'):
        return written
    try:
        return str(json.loads(written))
    except ValueError:
        raise invalid_argument(f"Could not parse filter {written}; syntax error") from None


def _refused(expression: str, at: int) -> CloudError:
    rest = re.sub(_STRING, '""', expression[at:])
    if _UNBUILT.search(rest):
        return unimplemented(f"more than comparisons joined by AND: {expression[at:]}")
    return invalid_argument(
        f'Field filter had an invalid value of "{expression}": Could not parse filter;'
        f' syntax error at line 1, column {at + 1}, token "{expression[at:].split()[0]}"'
    )
