"""What a program may say about a queued resource: parsed once, at the border.

The field texts are also the texts of the package schema.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails

from tpuflex.naming import LABEL_OWNER, LABEL_SPEC, Names
from tpuflex.provider.codec import Properties, Value, has_unknown

CLOUD_PLATFORM_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
#: Compute metadata limits in bytes, which TPU hosts share
#: (https://cloud.google.com/compute/docs/metadata/setting-custom-metadata).
_METADATA_VALUE_LIMIT = 256 * 1024
_METADATA_LIMIT = 512 * 1024
_SHORTEST_RUN = 600
_LONGEST_RUN = 7 * 24 * 3600

_LabelKey = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,62}$")]
_LabelValue = Annotated[str, Field(pattern=r"^[a-z0-9_-]{0,63}$")]
_MetadataKey = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,127}$")]
_Tag = Annotated[str, Field(pattern=r"^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$")]
_Zone = Annotated[str, Field(pattern=r"^[a-z]+-[a-z]+\d+-[a-z0-9]+$")]
_Seconds = Annotated[str, Field(pattern=r"^[1-9]\d{0,9}s$")]


def _run_length(value: str) -> str:
    seconds = int(value.removesuffix("s"))
    if not _SHORTEST_RUN <= seconds <= _LONGEST_RUN:
        raise ValueError("a Flex-start run lasts at least 600s (10m) and at most 604800s (7d)")
    return value


def _within_limits(value: dict[str, str]) -> dict[str, str]:
    sizes = {key: len(text.encode()) for key, text in value.items()}
    for key, size in sizes.items():
        if size > _METADATA_VALUE_LIMIT:
            raise ValueError(f"the value of {key!r} has {size} bytes, at most 262144 are allowed")
    total = sum(sizes.values()) + sum(len(key) for key in value)
    if total > _METADATA_LIMIT:
        raise ValueError(f"keys and values have {total} bytes together, at most 524288 are allowed")
    return value


def _not_reserved(value: dict[str, str]) -> dict[str, str]:
    if LABEL_SPEC in value:
        raise ValueError(f"the label {LABEL_SPEC} is written by the provider itself")
    if not value.get(LABEL_OWNER):
        raise ValueError(f"the label {LABEL_OWNER} must say whose this is (leave it out for ours)")
    return value


class QueuedResourceArgs(BaseModel):
    """Inputs of `tpuflex:tpu:QueuedResource`."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        alias_generator=to_camel,
        use_attribute_docstrings=True,
    )

    queued_resource_id: str = Field(pattern=r"^[a-z]([a-z0-9-]{0,58}[a-z0-9])?$")
    """Id of the queued resource within its zone; the node gets the same id. Made from Pulumi
    project, stack and logical name unless given."""

    project: str = Field(pattern=r"^[a-z][a-z0-9-]{4,28}[a-z0-9]$")
    """Google Cloud project id; the provider's project unless given."""

    zones: tuple[_Zone, ...] = Field(min_length=1, max_length=1)
    """Zone in which capacity is asked for, such as us-east5-a. Exactly one."""

    accelerator_type: str = Field(pattern=r"^[a-z0-9]+-[1-9]\d*$")
    """Accelerator type such as v6e-4 (four v6e chips)."""

    runtime_version: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    """TPU software version, such as v2-alpha-tpuv6e."""

    service_account: str = Field(pattern=r"^[^@\s]+@[^@\s]+$")
    """Email address of the service account that the hosts run as."""

    max_run_duration: Annotated[_Seconds, AfterValidator(_run_length)]
    """After this time Google deletes the hosts, whatever they do: seconds with the suffix s,
    600s to 604800s (7 days)."""

    network: str | None = Field(default=None, min_length=1)
    """VPC network, by name or full path; the project's default network unless given."""

    subnetwork: str | None = Field(default=None, min_length=1)
    """Subnetwork, by name or full path. Without external IPs it needs Private Google Access."""

    scopes: tuple[str, ...] = Field(default=(CLOUD_PLATFORM_SCOPE,), min_length=1)
    """OAuth scopes of the hosts' service account; cloud-platform unless given."""

    tags: tuple[_Tag, ...] = ()
    """Network tags of the hosts, by which firewall rules find them."""

    labels: Annotated[
        dict[_LabelKey, _LabelValue], Field(max_length=63), AfterValidator(_not_reserved)
    ]
    """Labels of the node. `tpuflex-owner` marks whose it is; made from Pulumi project, stack and
    logical name unless given."""

    metadata: Annotated[dict[_MetadataKey, str], AfterValidator(_within_limits)] = {}
    """Metadata of the hosts, at most 256 KiB per value and 512 KiB in all. Never a secret:
    everyone who may read the node may read it. `startup-script` runs at every boot."""

    description: str | None = Field(default=None, max_length=512)
    """Text for people, at most 512 characters."""

    provisioning_model: Literal["FLEX_START"] = "FLEX_START"
    """How capacity is obtained. Only FLEX_START for now."""

    external_ips: bool = False
    """Whether the hosts get external IP addresses. Off by default."""

    valid_until_duration: _Seconds | None = None
    """Give the request up after this time in the queue: seconds with the suffix s. By default it
    waits until it is granted or deleted."""

    secure_boot: bool = True
    """Whether the hosts verify what they boot. On by default."""


#: Inputs without which nothing can be asked for, by their names on the wire.
REQUIRED = frozenset(
    to_camel(name) for name, field in QueuedResourceArgs.model_fields.items() if field.is_required()
)
_EXAMPLES = {
    "queuedResourceId": "Write 1 to 60 lower-case letters, digits and hyphens, a letter first.",
    "project": "Write the id of a Google Cloud project, or set it on the provider.",
    "zones": "Write one zone, such as [us-east5-a]; several zones are not supported yet.",
    "acceleratorType": "Write a type and its size, such as v6e-4.",
    "runtimeVersion": "Write a runtime version, such as v2-alpha-tpuv6e.",
    "serviceAccount": "Write the email address of a service account.",
    "maxRunDuration": "Write seconds with the suffix s, such as 14400s.",
    "validUntilDuration": "Write seconds with the suffix s, such as 14400s.",
    "provisioningModel": "Other models are not supported yet.",
    "labels": "Label keys and values: lower-case letters, digits, - and _, at most 63.",
    "tags": "Network tags: lower-case letters, digits and hyphens, at most 63.",
}
#: Values that are shown in a refusal. Metadata is not: it may be long, or hold what it should not.
_SHOWN = frozenset(_EXAMPLES)


def with_defaults(inputs: Properties, *, urn: str, project: str | None) -> Properties:
    """``inputs`` and, for what they leave out, a value made from the URN or the provider.

    A pure function of its arguments: the same resource gets the same names in every run.
    """
    names = _names(urn)
    labels = inputs.get("labels", {})
    filled: Properties = {"queuedResourceId": names.queued_resource_id()}
    if project:
        filled["project"] = project
    for name, field in QueuedResourceArgs.model_fields.items():
        if not field.is_required() and field.default is not None:
            default = field.default
            filled[to_camel(name)] = list(default) if isinstance(default, tuple) else default
    filled |= inputs
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


def failures(inputs: Properties) -> list[tuple[str, str]]:
    """Everything wrong with ``inputs``, as (property path, reason); unknown values pass."""
    unknown = {key for key, value in inputs.items() if has_unknown(value)}
    try:
        parse({key: value for key, value in inputs.items() if key not in unknown})
    except ValidationError as error:
        found = [item for item in error.errors(include_url=False) if item["loc"][0] not in unknown]
        # A wrong item does not count as an item: only the wrong item is worth a word.
        wrong_inside = {item["loc"][0] for item in found if len(item["loc"]) > 1}
        return [
            (_path(item["loc"]), _reason(item))
            for item in found
            if item["type"] != "too_short" or item["loc"][0] not in wrong_inside
        ]
    return []


def _names(urn: str) -> Names:
    # urn:pulumi:<stack>::<project>::<parent types>$<type>::<name>
    stack, project, _, name = urn.removeprefix("urn:pulumi:").split("::", 3)
    return Names(project=project, stack=stack, name=name)


def _path(location: tuple[int | str, ...]) -> str:
    parts = [str(location[0])]
    for part in location[1:]:
        if part != "[key]":
            parts.append(f"[{part}]" if isinstance(part, int) else f'["{part}"]')
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
