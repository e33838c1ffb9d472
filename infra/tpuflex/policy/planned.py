"""A planned resource, and how its inputs are read: what is unknown is never taken for absent."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

#: What the engine shows in the place of a value that only the update finds out
#: (`pulumi/sdk/go/common/resource/plugin/rpc.go`, engine 3.256.0).
UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
_UNKNOWNS = frozenset(
    {
        UNKNOWN,  # text
        "1c4a061d-8072-4f0a-a4cb-0ff528b18fe7",  # bool
        "3eeb2bf0-c639-47a8-9e75-3b44932eb421",  # number
        "6a19a0b0-7e62-4c92-b797-7f8e31da9cc2",  # list
        "030794c1-ac77-496b-92df-f27374a8bd58",  # asset
        "e48ece36-62e2-4504-bad9-02848725956a",  # archive
        "dd056dcd-154b-4c76-9bd3-c8f88648b5ff",  # object
    }
)
#: What the engine shows in the place of a Pulumi secret.
MASKED = "[secret]"
_SIGNATURE = "4dabf18193072939515e22adb298388d"


@dataclass(frozen=True, slots=True)
class Planned:
    """One resource as it will be.

    Attributes:
        type: Pulumi's type token, such as ``gcp:storage/bucket:Bucket``.
        name: its logical name.
        inputs: its inputs as the program gives them.
        urn: its URN, which tells in which components it stands; may be empty.
    """

    type: str
    name: str
    inputs: Mapping[str, object] = field(default_factory=dict)
    urn: str = ""

    @property
    def ours(self) -> bool:
        """Whether it stands in a component of tpuflex."""
        return "$tpuflex:index:" in self.urn or "::tpuflex:index:" in self.urn

    def text(self, key: str) -> str:
        """The text of the input ``key``; empty if it is absent, unknown or something else."""
        value = self.inputs.get(key)
        return value if isinstance(value, str) and not unknown(value) else ""


def unknown(value: object) -> bool:
    """Whether only the update finds out what ``value`` is."""
    return isinstance(value, str) and value in _UNKNOWNS


def secret(value: object) -> bool:
    """Whether ``value`` is a Pulumi secret, as an event or a state shows one."""
    if isinstance(value, Mapping):
        return _SIGNATURE in value
    return value == MASKED


def switched_on(value: object) -> bool:
    """Whether ``value`` means true, as YAML programs and providers spell it, too."""
    return value is True or (isinstance(value, str) and value.strip().lower() == "true")


def many(value: object) -> tuple[object, ...]:
    """The entries of a list; a single value is a list of one, None is empty."""
    if value is None:
        return ()
    return tuple(value) if isinstance(value, (list, tuple)) else (value,)


def leaves(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Everything in ``value`` that is no mapping and no list, with its path."""
    if isinstance(value, Mapping) and not secret(value):
        for key, inner in value.items():
            yield from leaves(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, (list, tuple)):
        for index, inner in enumerate(value):
            yield from leaves(inner, f"{path}[{index}]")
    else:
        yield path, value


def json_object(text: object) -> Mapping[str, object] | None:
    """``text`` as a JSON object; None if it is none."""
    try:
        value = json.loads(text) if isinstance(text, str) else text
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, Mapping) else None
