"""What is wrong with the inputs of a request, each finding with its property path. Pure.

Single inputs are held against their rows (:mod:`tpuflex.request.fields`); rules across inputs
are in :mod:`tpuflex.request.rules`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from pulumi_plugin.values import UNKNOWN, Properties, has_unknown
from tpuflex.request import rules
from tpuflex.request.fields import ROWS
from tpuflex.request.inputs import parse
from tpuflex.request.rows import Input

#: Inputs whose keys are the program's own words.
_MAPS = frozenset({"labels", "metadata"})
_NO_ROW = Input(shown=False)


def failures(
    inputs: Properties, *, before: Properties | None = None, now: datetime | None = None
) -> list[tuple[str, str]]:
    """Everything wrong with ``inputs``, as (property path, reason); unknown values pass.

    Args:
        inputs: what the program said, with defaults.
        before: inputs as they are in the state.
        now: the time; None leaves out what depends on it.
    """
    malformed = list(_malformed(inputs))
    wrong = {re.split(r"[.\[]", path)[0] for path, _ in malformed}
    sound = {key: UNKNOWN if key in wrong else value for key, value in inputs.items()}
    return malformed + list(rules.conflicts(sound, before=before or {}, now=now))


def _malformed(inputs: Properties) -> Iterator[tuple[str, str]]:
    unknown = {key for key, value in inputs.items() if has_unknown(value)}
    try:
        parse({key: value for key, value in inputs.items() if key not in unknown})
    except ValidationError as error:
        errors = [item for item in error.errors(include_url=False) if item["loc"][0] not in unknown]
        # A wrong item does not count as an item: only the wrong item is worth a word.
        wrong_inside = {item["loc"][0] for item in errors if len(item["loc"]) > 1}
        for item in errors:
            if item["type"] != "too_short" or item["loc"][0] not in wrong_inside:
                yield _path(item["loc"]), _reason(item)


def _path(location: tuple[int | str, ...]) -> str:
    head = str(location[0])
    parts = [head]
    for part in location[1:]:
        if isinstance(part, int):
            parts.append(f"[{part}]")
        elif part != "[key]":
            parts.append(f'["{part}"]' if head in _MAPS else f".{part}")
    return "".join(parts)


def _reason(item: ErrorDetails) -> str:
    row = ROWS.get(str(item["loc"][0]), _NO_ROW)
    if item["type"] == "extra_forbidden":
        return "there is no such input"
    if item["type"] == "missing":
        return f"it is required. {row.example}".strip()
    text = re.sub(r"^Value error, ", "", item["msg"])
    shown = f", but it is {item['input']!r}" if row.shown else ""
    return f"{text}{shown}. {row.example}".strip()
