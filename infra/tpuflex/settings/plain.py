"""Raw values of a stack file as plain JSON values; encrypted values are refused.

YAML can express more than a stack file may contain (dates, numbers as keys, values that contain
themselves), and Pulumi adds ``secure:``. All of that is reported here.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import TypeAlias

from pydantic import BaseModel

from tpuflex.errors import Finding

JsonValue: TypeAlias = "str | int | float | bool | list[JsonValue] | dict[str, JsonValue] | None"

_DEEPEST = 32
_LARGEST = 2**63

SECURE_REMEDY = (
    "This file holds no secrets, and secrets never pass through Pulumi: remove it. "
    "`tpuflex up` makes the API key and keeps it in Secret Manager."
)


def make_plain(value: object, key: str, findings: list[Finding], depth: int = 0) -> JsonValue:
    """``value`` as JSON types; what JSON cannot express becomes None, with a finding added."""
    if isinstance(value, BaseModel):
        return make_plain(value.model_dump(mode="json", exclude_none=True), key, findings, depth)
    if depth > _DEEPEST:
        findings.append(Finding(key, "nested too deeply (or contains itself)", "Write it flat."))
        return None
    if isinstance(value, Mapping):
        return _plain_mapping(value, key, findings, depth)
    if isinstance(value, (list, tuple)):
        return [
            make_plain(item, f"{key}[{index}]", findings, depth + 1)
            for index, item in enumerate(value)
        ]
    problem = _scalar_problem(value)
    if problem is not None:
        findings.append(Finding(key, *problem))
        return None
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    findings.append(
        Finding(key, f"{str(value)!r} was read as a {type(value).__name__}", "Write it in quotes.")
    )
    return None


def _plain_mapping(
    value: Mapping[object, object], key: str, findings: list[Finding], depth: int
) -> JsonValue:
    if set(value) == {"secure"}:
        findings.append(Finding(key, "is an encrypted value", SECURE_REMEDY))
        return None
    result: dict[str, JsonValue] = {}
    for name, item in value.items():
        if not isinstance(name, str) or not _encodable(name):
            findings.append(Finding(key, f"{name!r} cannot be a key", "Write it in quotes."))
            continue
        result[name] = make_plain(item, join(key, name), findings, depth + 1)
    return result


def join(key: str, name: str) -> str:
    """``key.name``; the namespace ``tpuflex:`` takes no dot."""
    return f"{key}{name}" if key.endswith(":") else f"{key}.{name}"


def _scalar_problem(value: object) -> tuple[str, str] | None:
    if isinstance(value, float) and not math.isfinite(value):
        return f"{value} is not a number that can be used", "Write a finite number."
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= _LARGEST:
        return "the number is too large", "Write a smaller number."
    if isinstance(value, str) and not _encodable(value):
        return "the text has characters that UTF-8 cannot hold", "Write plain text."
    return None


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def shown(value: object) -> str:
    """``value`` for a message: JSON, truncated to a readable length."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else f"{text[:57]}…"
