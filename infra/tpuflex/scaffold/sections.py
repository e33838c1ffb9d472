"""The sections of a stack file as plain values, changed key by key. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tpuflex.settings.serving import flag_name

#: Sections whose own keys may hold dots: what follows is one key.
_FLAGS = "serving.flags"
_NAMES_FOLLOW = ("serving.env", _FLAGS)


def put(sections: dict[str, Any], key: str, value: object) -> None:
    """Set ``key``, such as ``serving.flags.max_num_seqs``, to ``value``.

    Raises:
        KeyError: something on the way to the key is no section.
    """
    place = sections
    *parents, last = _parts(key)
    for number, name in enumerate(parents):
        place = place.setdefault(name, {})
        if not isinstance(place, dict):
            raise KeyError(".".join(parents[: number + 1]))
    place[last] = value


def value_at(sections: Mapping[str, Any], key: str) -> object:
    """The value at ``key``; None if there is none."""
    value: object = sections
    for name in _parts(key):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _parts(key: str) -> list[str]:
    for section in _NAMES_FOLLOW:
        if key.startswith(f"{section}."):
            name = key[len(section) + 1 :]
            return [*section.split("."), flag_name(name) if section == _FLAGS else name]
    return key.split(".")
