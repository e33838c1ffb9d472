"""Durations as people write them (``4h``, ``90m``, ``7d``, ``1h30m``) and as Google wants them."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

_GOOGLE = re.compile(r"(\d+)s")
_PATTERN = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")


def parse_duration(value: object) -> timedelta:
    """Read ``4h``, ``90m``, ``1h30m``, ``7d`` or ``14400s``.

    Raises:
        ValueError: the text is not such a duration. Bare numbers are refused: their unit
            would be a guess.
    """
    if isinstance(value, timedelta):
        return value
    if not isinstance(value, str):
        # As the file has it: true, and not Python's True.
        written = json.dumps(value, default=str)
        raise ValueError(f"{written} is not a duration; write it with its unit, such as 4h or 90m")
    match = _PATTERN.fullmatch(value.strip())
    if match is None or not any(match.groups()):
        raise ValueError(f"{value!r} is not a duration; write it with its unit, such as 4h or 90m")
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    try:
        return timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    except OverflowError as error:
        raise ValueError(f"{value!r} is too long to be a duration") from error


def format_duration(value: timedelta) -> str:
    """The shortest spelling that :func:`parse_duration` reads back: ``1h30m``, ``7d``, ``0s``."""
    rest = int(value.total_seconds())
    parts = []
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def format_age(age: timedelta) -> str:
    """An age as people say it: to the minute, below a minute to the second."""
    seconds = max(0, int(age.total_seconds()))
    return format_duration(timedelta(seconds=seconds - seconds % (60 if seconds >= 60 else 1)))


def format_roughly(length: timedelta) -> str:
    """A length in hours and minutes, as in ``2 h 05 min``, or in seconds if it is that short."""
    seconds = int(length.total_seconds())
    if seconds < 120:
        return f"{seconds} s"
    hours, minutes = divmod(seconds // 60, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min"


def google_duration(value: timedelta) -> str:
    """The JSON form of ``google.protobuf.Duration``: whole seconds with the suffix ``s``."""
    return f"{int(value.total_seconds())}s"


def google_seconds(value: object) -> int | None:
    """The number in ``14400s``, the way back from :func:`google_duration`; None if ``value`` is
    anything else."""
    match = _GOOGLE.fullmatch(value) if isinstance(value, str) else None
    return None if match is None else int(match[1])


Duration = Annotated[
    timedelta,
    BeforeValidator(parse_duration),
    PlainSerializer(format_duration, return_type=str),
    WithJsonSchema(
        {
            "type": "string",
            "pattern": r"^(\d+d)?(\d+h)?(\d+m)?(\d+s)?$",
            "examples": ["4h", "90m", "7d"],
        },
    ),
]
