"""What a request for TPUs must satisfy beyond its schema, with the service's refusals."""

from __future__ import annotations

import re

from embedded_cloud.core.clock import parse_duration, parse_rfc3339
from embedded_cloud.core.errors import CloudError, invalid_argument
from embedded_cloud.core.json_types import (
    JsonObject,
    child,
    children,
    flag,
    number,
    string_map,
    text,
)
from embedded_cloud.services.tpu.records import Place
from embedded_cloud.services.tpu.zones import (
    ACCELERATORS,
    RUNTIME_VERSIONS,
    ZONES,
    Accelerator,
    by_config,
)

#: https://cloud.google.com/tpu/docs/request-using-flex-start: seven days at most.
MAX_RUN_S = 7 * 24 * 3600.0

#: https://cloud.google.com/compute/docs/metadata/setting-custom-metadata#limitations
MAX_METADATA_VALUE = 256 * 1024
MAX_METADATA_TOTAL = 512 * 1024

#: The emulator's own limit: every worker of every node has an address and a directory.
MAX_NODES = 64

_ID = re.compile(r"[A-Za-z0-9_.~+%-]+")
_METADATA_KEY = re.compile(r"[a-zA-Z0-9_-]{1,127}")
_LABEL_KEY = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_LABEL_VALUE = re.compile(r"[a-z0-9_-]{0,63}")


def check_zone(place: Place) -> None:
    """The TPU API exists in the zone."""
    if place.zone not in ZONES:
        raise invalid_argument(f"The requested zone {place.zone} is not supported.")


def check_id(kind: str, value: str) -> None:
    """``value`` can be the id of a queued resource or node."""
    if not _ID.fullmatch(value):
        raise invalid_argument(f"Invalid {kind} {value!r}: must match the regex '^{_ID.pattern}$'.")


def check_queued_resource(place: Place, spec: JsonObject) -> None:
    """The body of ``queuedResources.create``."""
    specs = children(child(spec, "tpu"), "nodeSpec")
    if not specs:
        raise invalid_argument("tpu.node_spec: at least one node spec is required.")
    for node_spec in specs:
        _check_node_spec(place, node_spec)
    _check_tier(spec)
    _check_policy(child(spec, "queueingPolicy"))


def check_node(place: Place, node: JsonObject) -> None:
    """A node, alone or inside a node spec."""
    accelerator_of(place, node)
    runtime = text(node, "runtimeVersion")
    if runtime not in RUNTIME_VERSIONS:
        raise invalid_argument(
            f"Runtime version {runtime!r} was not found in location {place.zone}."
        )
    if "networkConfig" in node and "networkConfigs" in node:
        raise invalid_argument("Only one of network_config and network_configs may be set.")
    if len(text(node, "description")) > 512:
        raise invalid_argument("description must be at most 512 characters long.")
    check_labels(string_map(node, "labels"))
    check_metadata(string_map(node, "metadata"))


def check_labels(labels: dict[str, str]) -> None:
    """Label keys and values are well formed."""
    for key, value in labels.items():
        if not _LABEL_KEY.fullmatch(key) or not _LABEL_VALUE.fullmatch(value):
            raise invalid_argument(
                f"Invalid label {key!r}={value!r}: keys start with a lower-case letter; keys and "
                "values have at most 63 lower-case letters, digits, underscores and hyphens."
            )


def check_metadata(metadata: dict[str, str]) -> None:
    """Metadata keys and sizes are within Compute Engine's limits."""
    total = 0
    for key, value in metadata.items():
        size = len(value.encode())
        total += len(key) + size
        if not _METADATA_KEY.fullmatch(key):
            raise invalid_argument(f"Invalid metadata key {key!r}.")
        if size > MAX_METADATA_VALUE:
            raise invalid_argument(
                f"Metadata value of {key!r} is {size} bytes; at most {MAX_METADATA_VALUE}."
            )
    if total > MAX_METADATA_TOTAL:
        raise invalid_argument(f"Metadata is {total} bytes; at most {MAX_METADATA_TOTAL}.")


def accelerator_of(place: Place, node: JsonObject) -> Accelerator:
    """The accelerator that ``node`` asks for.

    Raises:
        CloudError: 400 if it does not exist in the zone, or is given twice or not at all.
    """
    name = text(node, "acceleratorType")
    config = child(node, "acceleratorConfig")
    if bool(name) == bool(config):
        raise invalid_argument(
            "Exactly one of accelerator_type and accelerator_config must be set."
        )
    if config:
        accelerator = by_config(text(config, "type"), text(config, "topology"))
        name = f"{text(config, 'type')} {text(config, 'topology')}"
    else:
        accelerator = ACCELERATORS.get(name)
    if accelerator is None or accelerator.family not in ZONES[place.zone].families:
        raise invalid_argument(f'Accelerator "{name}" was not found in zone "{place.zone}".')
    return accelerator


def node_ids(queued_id: str, spec: JsonObject) -> list[str]:
    """The ids of the nodes that the request of id ``queued_id`` will have."""
    ids: list[str] = []
    for node_spec in children(child(spec, "tpu"), "nodeSpec"):
        multi = child(node_spec, "multiNodeParams")
        if multi:
            prefix = text(multi, "nodeIdPrefix") or queued_id
            ids += [f"{prefix}-{index}" for index in range(node_count(node_spec))]
        else:
            ids.append(text(node_spec, "nodeId") or queued_id)
    return ids


def node_count(node_spec: JsonObject) -> int:
    """How many nodes one node spec asks for."""
    return int(number(child(node_spec, "multiNodeParams"), "nodeCount", 1))


def flex_rejection(
    place: Place, spec: JsonObject, unsupported_zones: frozenset[str]
) -> tuple[str, str] | None:
    """The error with which admission will reject a FLEX_START request in this zone, if it will.

    The real service accepts such a call and fails its operation with code 3.
    """
    if text(spec, "provisioningModel") != "FLEX_START":
        return None
    for node_spec in children(child(spec, "tpu"), "nodeSpec"):
        accelerator = accelerator_of(place, child(node_spec, "node"))
        refused = accelerator.family not in ZONES[place.zone].flex
        if refused or place.zone in unsupported_zones:
            return (
                "INVALID_ARGUMENT",
                "FLEX_START provisioning model is not supported for accelerator type "
                f"{accelerator.name} in location {place.zone}",
            )
    return None


def _check_node_spec(place: Place, node_spec: JsonObject) -> None:
    parent = text(node_spec, "parent")
    # The project may be given by number.
    if not re.fullmatch(rf"projects/[^/]+/locations/{re.escape(place.zone)}", parent):
        raise invalid_argument(
            f"tpu.node_spec.parent {parent!r} does not match the location {place.parent!r}."
        )
    if "nodeId" in node_spec and "multiNodeParams" in node_spec:
        raise invalid_argument("Only one of node_id and multi_node_params may be set.")
    if "multiNodeParams" in node_spec and not 1 < node_count(node_spec) <= MAX_NODES:
        raise invalid_argument(
            f"multi_node_params.node_count must be greater than 1 and at most {MAX_NODES}."
        )
    if prefix := text(child(node_spec, "multiNodeParams"), "nodeIdPrefix"):
        check_id("node_id_prefix", prefix)
    if "nodeId" in node_spec:
        check_id("node_id", text(node_spec, "nodeId"))
    check_node(place, child(node_spec, "node"))


_MODELS_OF_TIERS = {
    "bestEffort": ("STANDARD",),
    "guaranteed": ("STANDARD", "RESERVATION_BOUND"),
    "spot": ("SPOT",),
}


def _check_tier(spec: JsonObject) -> None:
    model = text(spec, "provisioningModel")
    tiers = [tier for tier in ("bestEffort", "guaranteed", "spot") if tier in spec]
    if len(tiers) > 1:
        raise invalid_argument(f"Only one of {', '.join(tiers)} may be set.")
    for tier in tiers:
        # The tier is the older form of the model; gcloud sends STANDARD with the other two.
        if model and model not in _MODELS_OF_TIERS[tier]:
            raise invalid_argument(
                f"{model} provisioning model is incompatible with {tier} requests."
            )
    duration = child(spec, "runDuration")
    if model != "FLEX_START":
        if duration:
            raise invalid_argument("run_duration is only valid with FLEX_START.")
        return
    if text(spec, "reservationName"):
        raise invalid_argument("FLEX_START is incompatible with a reservation.")
    if not duration:
        raise invalid_argument("run_duration is required with FLEX_START.")
    run_for = _seconds("run_duration.max_run_duration", text(duration, "maxRunDuration"))
    if run_for is not None and not 0 < run_for <= MAX_RUN_S:
        raise invalid_argument(
            f"run_duration.max_run_duration must be above 0 and at most {MAX_RUN_S:.0f}s."
        )


def _check_policy(policy: JsonObject) -> None:
    for key in ("validUntilDuration", "validAfterDuration"):
        _seconds(f"queueing_policy.{key}", text(policy, key))
    for key in ("validUntilTime", "validAfterTime"):
        moment(f"queueing_policy.{key}", text(policy, key))


def _seconds(field: str, value: str) -> float | None:
    if not value:
        return None
    try:
        return parse_duration(value)
    except ValueError as error:
        raise _bad(field, error) from None


def moment(field: str, value: str) -> float | None:
    """Epoch seconds of the timestamp at ``field``, ``None`` if there is none."""
    if not value:
        return None
    try:
        return parse_rfc3339(value)
    except ValueError as error:
        raise _bad(field, error) from None


def _bad(field: str, error: ValueError) -> CloudError:
    return invalid_argument(f"Invalid value at '{field}': {error}")


def external_ip(node: JsonObject) -> bool:
    """Whether the node asks for an external address."""
    configs = [child(node, "networkConfig"), *children(node, "networkConfigs")]
    return any(flag(config, "enableExternalIps") for config in configs)
