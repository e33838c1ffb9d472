"""Raw values of a stack file as plain JSON values; encrypted values are refused.

YAML can express more than a stack file may contain (dates, numbers as keys, values that contain
themselves), and Pulumi adds ``secure:``. All of that is reported here.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from pydantic import BaseModel

from tpuflex.catalog.catalog import Catalog
from tpuflex.errors import Finding
from tpuflex.settings.stack_yaml import join

JsonValue: TypeAlias = "str | int | float | bool | list[JsonValue] | dict[str, JsonValue] | None"

_DEEPEST = 32
_LARGEST = 2**63

SECURE_REMEDY = (
    "This file holds no secrets, and secrets never pass through Pulumi: remove it. "
    "`tpuflex up` makes the API key and keeps it in Secret Manager."
)


@dataclass(frozen=True, slots=True)
class Refused:
    """What a caller puts in the place of a value that it refuses.

    Attributes:
        problem: what is wrong with the value.
        remedy: what to write instead.
    """

    problem: str
    remedy: str


def make_plain(value: object, key: str) -> tuple[JsonValue, list[Finding]]:
    """``value`` as JSON types, and findings about what JSON cannot express: None in its place."""
    reader = _Reader()
    return reader.read(value, key, 0), reader.findings


class _Reader:
    def __init__(self) -> None:
        self.findings: list[Finding] = []

    def read(self, value: object, key: str, depth: int) -> JsonValue:
        if isinstance(value, Refused):
            return self._refuse(key, value.problem, value.remedy)
        if isinstance(value, Catalog):
            value = value.own.model_dump(mode="json", exclude_defaults=True)
        if isinstance(value, BaseModel):
            value = value.model_dump(mode="json", exclude_none=True)
        if depth > _DEEPEST:
            return self._refuse(key, "nested too deeply (or contains itself)", "Write it flat.")
        if isinstance(value, Mapping):
            return self._mapping(value, key, depth)
        if isinstance(value, (list, tuple)):
            return [
                self.read(item, f"{key}[{index}]", depth + 1) for index, item in enumerate(value)
            ]
        problem = _scalar_problem(value)
        if problem is not None:
            return self._refuse(key, *problem)
        if value is None or isinstance(value, (str, int, float, bool)):
            return value
        kind = type(value).__name__
        return self._refuse(key, f"{str(value)!r} was read as a {kind}", "Write it in quotes.")

    def _mapping(self, value: Mapping[object, object], key: str, depth: int) -> JsonValue:
        if set(value) == {"secure"}:
            return self._refuse(key, "is an encrypted value", SECURE_REMEDY)
        result: dict[str, JsonValue] = {}
        for name, item in value.items():
            if isinstance(name, str) and _encodable(name):
                result[name] = self.read(item, join(key, name), depth + 1)
            else:
                self._refuse(key, f"{name!r} cannot be a key", "Write it in quotes.")
        return result

    def _refuse(self, key: str, problem: str, remedy: str) -> JsonValue:
        self.findings.append(Finding(key, problem, remedy))
        return None


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
