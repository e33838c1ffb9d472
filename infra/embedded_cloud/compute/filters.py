"""List filters of Compute Engine: both syntaxes, one comparison after another.

https://cloud.google.com/compute/docs/reference/rest/v1/networks/list (parameter filter).
A filter that is not understood is refused, never ignored.
"""

from __future__ import annotations

import re

from embedded_cloud.errors import CloudError
from embedded_cloud.json_types import JsonObject, JsonValue

_TERM = re.compile(
    r"""\(?\s*(?P<field>[\w.]+)\s*
        (?P<op>!=|<=|>=|=|:|<|>|\beq\b|\bne\b)\s*
        (?P<value>"[^"]*"|'[^']*'|[^\s()]+)
        \s*\)?""",
    re.VERBOSE,
)


def matches(expression: str, resource: JsonObject) -> bool:
    """Whether ``resource`` (as answered) passes the filter; an empty one passes all.

    Raises:
        CloudError: 400, the filter is not one that is understood here.
    """
    return all(_holds(term, resource) for term in _terms(expression))


def _terms(expression: str) -> list[re.Match[str]]:
    terms: list[re.Match[str]] = []
    at = 0
    text = expression.strip()
    while at < len(text):
        term = _TERM.match(text, at)
        if not term:
            raise _not_understood(expression)
        terms.append(term)
        gap = re.compile(r"\s*(?:AND\s+)?").match(text, term.end())
        at = gap.end() if gap else term.end()
    return terms


def _holds(term: re.Match[str], resource: JsonObject) -> bool:
    value: JsonValue = resource
    for key in term["field"].split("."):
        value = value.get(key) if isinstance(value, dict) else None
    shown = _shown(value)
    operand = term["value"].strip("\"'")
    operator = term["op"]
    if operator in ("eq", "ne"):
        # The older syntax compares with a regular expression over the whole value.
        try:
            matched = re.fullmatch(operand, shown) is not None
        except re.error as error:
            raise _not_understood(operand) from error
        return matched == (operator == "eq")
    if operator in ("=", "!="):
        pattern = ".*".join(re.escape(part) for part in operand.split("*"))
        return (re.fullmatch(pattern, shown) is not None) == (operator == "=")
    if operator == ":":
        return value is not None if operand == "*" else operand.lower() in shown.lower()
    raise _not_understood(term[0])


def _shown(value: JsonValue) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def _not_understood(expression: str) -> CloudError:
    return CloudError(
        400,
        "INVALID_ARGUMENT",
        f"Invalid value for field 'filter': '{expression}'. Invalid list filter expression.",
        legacy_reason="invalid",
    )
