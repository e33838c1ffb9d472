"""List filters of Secret Manager: ``name:api AND labels.env=prod``, ``state:ENABLED``.

https://cloud.google.com/secret-manager/docs/filtering. A filter that is not
understood is refused, never ignored.
"""

from __future__ import annotations

import re

from embedded_cloud.errors import unimplemented
from embedded_cloud.json_types import JsonObject, JsonValue

_TERM = re.compile(r'(?P<field>[\w.-]+)\s*(?P<op>!=|=|:)\s*(?P<value>"[^"]*"|\S+)')


def matches(expression: str, resource: JsonObject) -> bool:
    """Whether ``resource`` (as answered) passes the filter.

    Raises:
        CloudError: 501 for a filter that is more than terms joined by AND.
    """
    return all(_holds(term, resource) for term in _terms(expression))


def _terms(expression: str) -> list[re.Match[str]]:
    parts = [part.strip() for part in re.split(r"\s+AND\s+|\s+(?=[\w.-]+\s*[:=!])", expression)]
    parsed = [_TERM.fullmatch(part) for part in parts if part]
    terms = [term for term in parsed if term]
    if len(terms) != len(parsed):
        raise unimplemented(f"the filter {expression!r}")
    return terms


def _holds(term: re.Match[str], resource: JsonObject) -> bool:
    value: JsonValue = resource
    for key in term["field"].split("."):
        value = value.get(key) if isinstance(value, dict) else None
    operand = term["value"].strip('"')
    if operand == "*":
        return value is not None
    if term["op"] == ":" and isinstance(value, dict):
        return operand in value
    shown = "" if value is None else str(value)
    if term["op"] == ":":
        return operand.lower() in shown.lower()
    return (shown == operand) == (term["op"] == "=")
