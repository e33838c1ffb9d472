"""A planned resource, and how its inputs are read: what is unknown is never taken for absent."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from pulumi_plugin.values import SIGNATURE_KEY, UNKNOWN_SENTINELS, UNKNOWN_STRING

#: What the engine shows in the place of a value that only the update finds out.
UNKNOWN = UNKNOWN_STRING
#: What the engine shows in the place of a Pulumi secret.
MASKED = "[secret]"
#: https://cloud.google.com/iam/docs/principals-overview; an ACL calls them the same.
_EVERYBODY = frozenset({"allusers", "allauthenticatedusers"})
#: TPUs that pulumi-gcp makes; it knows no run duration for them (10.2.0).
GCP_TPUS = frozenset({"gcp:tpu/v2Vm:V2Vm", "gcp:tpu/v2QueuedResource:V2QueuedResource"})
#: Virtual machines, and the templates of some (pulumi-gcp 10.2.0).
MACHINES = frozenset(
    {
        "gcp:compute/instance:Instance",
        "gcp:compute/instanceFromTemplate:InstanceFromTemplate",
        "gcp:compute/instanceTemplate:InstanceTemplate",
        "gcp:compute/regionInstanceTemplate:RegionInstanceTemplate",
    }
)


@dataclass(frozen=True, slots=True)
class Planned:
    """One resource as it will be.

    Attributes:
        type: Pulumi's type token, such as ``gcp:storage/bucket:Bucket``.
        name: its logical name.
        inputs: its inputs as the program gives them.
        urn: its URN, which tells in which components it stands; may be empty.
        read: whether it is only read: tpuflex does not manage it, and its properties are in the
            place of inputs.
    """

    type: str
    name: str
    inputs: Mapping[str, object] = field(default_factory=dict)
    urn: str = ""
    read: bool = False

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
    return isinstance(value, str) and value in UNKNOWN_SENTINELS


def secret(value: object) -> bool:
    """Whether ``value`` is a Pulumi secret, as an event or a state shows one."""
    if isinstance(value, Mapping):
        return SIGNATURE_KEY in value
    return value == MASKED


def is_true(value: object) -> bool:
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


def everybody(member: object) -> bool:
    """Whether ``member``, of a policy or of an ACL, stands for the whole internet."""
    return str(member).strip().lower() in _EVERYBODY


def json_object(text: object) -> Mapping[str, object] | None:
    """``text`` as a JSON object; None if it is none."""
    try:
        value = json.loads(text) if isinstance(text, str) else text
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, Mapping) else None
