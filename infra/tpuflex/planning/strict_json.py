"""One JSON object from a foreign file, read within bounds. Pure.

A checkpoint is foreign data. What two readers could take for two different things (a key given
twice, a number that no float can hold) is refused, as is what would exhaust this process.
"""

from __future__ import annotations

import json
import math
from typing import NoReturn

from pydantic import JsonValue

from tpuflex.errors import WeightsError

#: Containers in containers: what is nested deeper cannot be shown or checked by recursion safely.
_MOST_NESTED = 64
#: Digits of the largest integer that is read: all of 64 bits.
_MOST_DIGITS = 19


def json_object(document: bytes, where: str) -> dict[str, JsonValue]:
    """The JSON object that ``document`` is.

    Args:
        document: the file's bytes; the caller has bounded their number.
        where: names the file in errors.

    Raises:
        WeightsError: it is not a JSON object, or is ambiguous, nested too deeply, or holds a number
            that is not finite or longer than 64 bits.
    """
    try:
        value = json.loads(
            document.decode("utf-8"),
            object_pairs_hook=_unambiguous,
            parse_constant=_no_constant,
            parse_float=_finite,
            parse_int=_bounded,
        )
    except UnicodeDecodeError as error:
        raise WeightsError(f"{where} is not UTF-8 text (byte {error.start})") from error
    except RecursionError:
        # Without its cause, whose traceback is as deep as the document.
        raise _too_deep(where) from None
    except ValueError as error:
        raise WeightsError(f"{where} is not JSON that can be read: {error}") from error
    if not isinstance(value, dict):
        raise WeightsError(f"{where} holds no JSON object")
    if _is_deep(value):
        raise _too_deep(where)
    return value


def _is_deep(value: dict[str, JsonValue]) -> bool:
    level: list[dict[str, JsonValue] | list[JsonValue]] = [value]
    for _ in range(_MOST_NESTED):
        inside = (outer.values() if isinstance(outer, dict) else outer for outer in level)
        level = [each for values in inside for each in values if isinstance(each, dict | list)]
    return bool(level)


def _too_deep(where: str) -> WeightsError:
    return WeightsError(f"{where} is nested too deeply to be read")


def _unambiguous(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    result: dict[str, JsonValue] = {}
    for key, value in pairs:
        if key in result:
            raise ValueError(f"the key {key[:80]!r} is given twice")
        result[key] = value
    return result


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"{digits[:40]} is too large a number")
    return value


def _bounded(digits: str) -> int:
    if len(digits.lstrip("-")) > _MOST_DIGITS:
        raise ValueError(f"{digits[:40]} is too large a number")
    return int(digits)
