"""What a program may say about a queued resource: parsed once, at the border.

The arguments come in groups, one module each. The field texts are also the texts of the package
schema.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Annotated

from pydantic import Field, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails

from pulumi_plugin.values import UNKNOWN, Properties, Value, has_unknown
from tpuflex.naming import LABEL_OWNER, Names, generation_id
from tpuflex.request import combinations
from tpuflex.request import provider_options as capacity_args
from tpuflex.request.network_args import NetworkArgs
from tpuflex.request.node_args import NodeArgs
from tpuflex.request.provider_options import CapacityArgs
from tpuflex.request.queue_args import QueueArgs
from tpuflex.request.values import Zone, defaults, object_type


class QueuedResourceArgs(CapacityArgs, QueueArgs, NetworkArgs, NodeArgs):
    """Inputs of `tpuflex:tpu:QueuedResource`."""

    queued_resource_id: str = Field(pattern=r"^[a-z]([a-z0-9-]{0,58}[a-z0-9])?$")
    """Id of the queued resource within its zone; the node gets the same id. While it is given,
    old and new cannot exist together: a replacement deletes first. Made from
    `queuedResourceIdPrefix` unless given."""

    queued_resource_id_prefix: Annotated[
        str | None, Field(pattern=r"^[a-z]([a-z0-9-]{0,198}[a-z0-9])?$")
    ] = None
    """What ids are made of: PREFIX-g1, and PREFIX-g2 for what replaces it. Made from Pulumi
    project, stack and logical name unless given."""

    project: str = Field(pattern=r"^[a-z][a-z0-9-]{4,28}[a-z0-9]$")
    """Google Cloud project id; the provider's project unless given."""

    zones: tuple[Zone, ...] = Field(min_length=1)
    """Zones in which capacity is asked for, such as us-east5-a. The first that grants it has the
    slice (see `strategy`)."""


#: Names on the wire of all inputs.
INPUTS = frozenset(to_camel(name) for name in QueuedResourceArgs.model_fields)
#: Inputs without which nothing can be asked for.
REQUIRED = frozenset(
    to_camel(name) for name, field in QueuedResourceArgs.model_fields.items() if field.is_required()
)
#: What an input that is left out means, where that is not "nothing".
DEFAULTS: Mapping[str, Value] = defaults(QueuedResourceArgs)
#: The same for what is inside of an input.
INNER_DEFAULTS: Mapping[str, Mapping[str, Value]] = {
    to_camel(name): defaults(group)
    for name, field in QueuedResourceArgs.model_fields.items()
    if (group := object_type(field.annotation)) is not None
}
_EXAMPLES = {
    "queuedResourceId": "Write 1 to 60 lower-case letters, digits and hyphens, a letter first.",
    "queuedResourceIdPrefix": "Write lower-case letters, digits and hyphens, a letter first.",
    "project": "Write the id of a Google Cloud project, or set it on the provider.",
    "zones": "Write zones, such as [us-east5-a, us-east5-b].",
    "acceleratorType": "Write a type and its size, such as v6e-4.",
    "acceleratorConfig": "Write a type and a topology, such as {type: V6E, topology: 2x2}.",
    "runtimeVersion": "Write a runtime version, such as v2-alpha-tpuv6e.",
    "serviceAccount": "Write the email address of a service account.",
    "maxRunDuration": "Write seconds with the suffix s, such as 14400s.",
    "terminationTime": "Write a time such as 2026-12-01T08:00:00Z.",
    "validUntilDuration": "Write seconds with the suffix s, such as 14400s.",
    "validUntilTime": "Write a time such as 2026-12-01T08:00:00Z.",
    "validAfterDuration": "Write seconds with the suffix s, such as 14400s.",
    "validAfterTime": "Write a time such as 2026-12-01T08:00:00Z.",
    "validInterval": "Write {startTime, endTime}, times such as 2026-12-01T08:00:00Z.",
    "provisioningModel": "Write FLEX_START, STANDARD, SPOT or RESERVATION_BOUND.",
    "reservationName": "Write projects/P/locations/Z/reservations/R.",
    "labels": "Label keys and values: lower-case letters, digits, - and _, at most 63.",
    "tags": "Network tags: lower-case letters, digits and hyphens, at most 63.",
    "onBootChange": "Write replace or update.",
    "dataDisks": "Write {sourceDisk: projects/P/zones/Z/disks/D, mode: READ_WRITE or READ_ONLY}.",
    "networkConfigs": "Write {network, subnetwork} for each interface.",
    "cidrBlock": "Write a block such as 10.240.0.0/29.",
    "multiNode": "Write {nodeCount}, 2 to 256.",
    **capacity_args.EXAMPLES,
}
#: Inputs whose keys are the program's own words.
_MAPS = frozenset({"labels", "metadata"})
#: Values that are shown in a refusal. Metadata is not: it may be long, or hold what it should not.
_SHOWN = frozenset(_EXAMPLES)


def first_generation(prefix: str) -> str:
    """The id of what replaces nothing."""
    return generation_id(prefix, 1)


def with_defaults(
    inputs: Properties,
    *,
    urn: str,
    project: str | None,
    id_for: Callable[[str], str] = first_generation,
) -> Properties:
    """``inputs`` and, for what they leave out, a value made from the URN or the provider.

    A pure function of its arguments: the same resource gets the same names in every run.

    Args:
        inputs: what the program said.
        urn: the resource's URN.
        project: the provider's project.
        id_for: makes the id from its prefix where the program gives none.
    """
    names = _names(urn)
    labels = inputs.get("labels", {})
    filled: Properties = {**DEFAULTS}
    if project:
        filled["project"] = project
    filled |= inputs
    if "queuedResourceId" not in inputs:
        prefix = filled.setdefault("queuedResourceIdPrefix", names.prefix)
        filled["queuedResourceId"] = id_for(prefix) if isinstance(prefix, str) else UNKNOWN
    if isinstance(labels, dict):
        owned: dict[str, Value] = dict(names.labels()) if LABEL_OWNER not in labels else {}
        filled["labels"] = {**owned, **labels}
    return filled


def parse(inputs: Mapping[str, object]) -> QueuedResourceArgs:
    """The typed arguments.

    Raises:
        pydantic.ValidationError: something is missing or wrong.
    """
    return QueuedResourceArgs.model_validate(inputs)


def input_properties(args: QueuedResourceArgs) -> Properties:
    """``args`` under their names on the wire, without what was left out."""
    dumped: Properties = args.model_dump(mode="json", by_alias=True, exclude_none=True)
    return dumped


def failures(
    inputs: Properties, *, before: Properties | None = None, now: datetime | None = None
) -> list[tuple[str, str]]:
    """Everything wrong with ``inputs``, as (property path, reason); unknown values pass.

    Args:
        inputs: what the program said, with defaults.
        before: inputs as they are in the state.
        now: the time; None leaves out what depends on it.
    """
    found = list(_malformed(inputs))
    wrong = {re.split(r"[.\[]", path)[0] for path, _ in found}
    sound = {key: UNKNOWN if key in wrong else value for key, value in inputs.items()}
    found += combinations.conflicts(sound, before=before or {}, now=now)
    found += capacity_args.conflicts(sound)
    return found


def _malformed(inputs: Properties) -> Iterator[tuple[str, str]]:
    unknown = {key for key, value in inputs.items() if has_unknown(value)}
    try:
        parse({key: value for key, value in inputs.items() if key not in unknown})
    except ValidationError as error:
        found = [item for item in error.errors(include_url=False) if item["loc"][0] not in unknown]
        # A wrong item does not count as an item: only the wrong item is worth a word.
        wrong_inside = {item["loc"][0] for item in found if len(item["loc"]) > 1}
        for item in found:
            if item["type"] != "too_short" or item["loc"][0] not in wrong_inside:
                yield _path(item["loc"]), _reason(item)


def _names(urn: str) -> Names:
    # urn:pulumi:<stack>::<project>::<parent types>$<type>::<name>
    stack, project, _, name = urn.removeprefix("urn:pulumi:").split("::", 3)
    return Names(project=project, stack=stack, name=name)


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
    key = str(item["loc"][0])
    if item["type"] == "extra_forbidden":
        return "there is no such input"
    if item["type"] == "missing":
        return f"it is required. {_EXAMPLES.get(key, '')}".strip()
    text = re.sub(r"^Value error, ", "", item["msg"])
    shown = f", but it is {item['input']!r}" if key in _SHOWN else ""
    return f"{text}{shown}. {_EXAMPLES.get(key, '')}".strip()
