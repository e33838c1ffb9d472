"""What the cloud says about one queued resource, and how the state shows it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from pydantic.alias_generators import to_camel

from tpuflex.gcp.queued_resources import RequestName
from tpuflex.gcp.tpu_models import Node, QueuedResource
from tpuflex.lifecycle import Lifecycle, describe, lifecycle
from tpuflex.naming import LABEL_OWNER, LABEL_PROJECT, LABEL_SPEC, LABEL_STACK
from tpuflex.provider.codec import Properties, Value


@dataclass(frozen=True, slots=True)
class Observation:
    """One look at a queued resource and its node.

    Attributes:
        name: the name that was looked up.
        queued_resource: what was found, or None.
        node: its node, or None if there is none (yet, or any more).
    """

    name: RequestName
    queued_resource: QueuedResource | None
    node: Node | None

    @property
    def gone(self) -> bool:
        """Whether neither queued resource nor node is left."""
        return self.queued_resource is None and self.node is None

    @property
    def state(self) -> str:
        """Google's word for the queued resource's state."""
        found = self.queued_resource
        return found.state.state if found is not None else "NOT_FOUND"

    @property
    def lifecycle(self) -> Lifecycle:
        """Our word for where it stands."""
        found, node = self.queued_resource, self.node
        return lifecycle(
            found.state.state if found is not None else None,
            node.state if node is not None else None,
        )

    @property
    def labels(self) -> dict[str, str]:
        """Labels that tell whose this is and what it was asked to be."""
        if self.queued_resource is not None:
            return self.queued_resource.spec.node.labels
        return self.node.labels if self.node is not None else {}

    @property
    def owner(self) -> str:
        """Who owns it, in words for people."""
        labels = self.labels
        if LABEL_OWNER not in labels:
            return "someone who does not use tpuflex (it has no owner label)"
        return (
            f"stack {labels.get(LABEL_STACK, '?')} of project {labels.get(LABEL_PROJECT, '?')}"
            f" (owner {labels[LABEL_OWNER]})"
        )

    def belongs_to(self, labels: dict[str, str]) -> bool:
        """Whether its owner marker is the one in ``labels``; unmarked only fits unmarked."""
        return self.labels.get(LABEL_OWNER) == labels.get(LABEL_OWNER)

    def sentence(self) -> str:
        """Google's word and what it means, for a progress line."""
        if self.state == "ACTIVE" and self.lifecycle is not Lifecycle.ACTIVE:
            node = self.node.state if self.node is not None else "missing"
            return f"ACTIVE, but the node is {node}"
        return f"{self.state}: {describe(self.state)}"


def outputs(inputs: Properties, seen: Observation) -> Properties:
    """The resource's output properties: its ``inputs`` and what Google says about it."""
    found = seen.queued_resource or QueuedResource()
    node = seen.node or Node()
    addresses: list[Value] = [item.ip_address for item in node.network_endpoints]
    return {
        **inputs,
        "name": str(seen.name),
        "zone": seen.name.zone,
        "nodeId": seen.name.id,
        "state": seen.state,
        "lifecycle": seen.lifecycle.value,
        "nodeState": node.state if seen.node is not None else None,
        "health": node.health or None,
        "ipAddresses": addresses,
        "createTime": found.create_time or None,
        "activeTime": node.create_time or None,
        "expireTime": expiry(found, seen.node),
        "specHash": seen.labels.get(LABEL_SPEC),
    }


def expiry(found: QueuedResource, node: Node | None) -> str | None:
    """When the run ends at the latest (RFC 3339, UTC); None while no run has begun.

    Google's own word if it gives one, else the node's creation and the run duration: it is not
    documented from when on the run is counted, and the earliest reading is the safe one.
    """
    if node is None:
        return None
    if node.scheduling_config.termination_timestamp:
        return node.scheduling_config.termination_timestamp
    if found.run_duration.termination_time:
        return found.run_duration.termination_time
    length = found.run_duration.max_run_duration.removesuffix("s")
    try:
        begun = datetime.fromisoformat(node.create_time)
        ends = begun + timedelta(seconds=float(length))
    except ValueError:
        return None
    return ends.isoformat(timespec="seconds").replace("+00:00", "Z")


def observed_inputs(known: Properties, seen: Observation) -> Properties:
    """The inputs as the cloud has them.

    Args:
        known: inputs in the state; empty when a resource is imported, in which case all of
            them are read from the cloud.
        seen: what was found.

    For known inputs only what `nodes.patch` could have changed is compared, and of maps only
    the entries that the program sets: Google adds labels and metadata of its own.
    """
    if not known:
        return _imported_inputs(seen)
    node = seen.node
    if node is None:
        return known
    drifted: Properties = {
        **known,
        "labels": _known_entries(known.get("labels"), node.labels),
        "metadata": _known_entries(known.get("metadata"), node.metadata),
        "tags": list(node.tags),
        "externalIps": node.network_config.enable_external_ips,
    }
    if node.description or "description" in known:
        drifted["description"] = node.description
    return drifted


def _known_entries(known: Value, found: dict[str, str]) -> Value:
    if not isinstance(known, dict):
        return known
    return {key: found[key] for key in known if key in found}


def _imported_inputs(seen: Observation) -> Properties:
    found = seen.queued_resource or QueuedResource()
    asked = found.spec.node
    # What can be patched is read from the node as it is; the rest as it was asked for, because
    # the node spells some of it differently (a network by its full path).
    node = seen.node or asked
    labels: Value = {k: v for k, v in node.labels.items() if k != LABEL_SPEC}
    inputs: Properties = {
        "queued_resource_id": seen.name.id,
        "project": seen.name.project,
        "zones": [seen.name.zone],
        "accelerator_type": asked.accelerator_type or node.accelerator_type,
        "runtime_version": asked.runtime_version or node.runtime_version,
        "service_account": asked.service_account.email or node.service_account.email,
        "scopes": list(asked.service_account.scope or node.service_account.scope),
        "network": asked.network_config.network,
        "subnetwork": asked.network_config.subnetwork,
        "secure_boot": asked.shielded_instance_config.enable_secure_boot,
        "max_run_duration": found.run_duration.max_run_duration,
        "valid_until_duration": found.queueing_policy.valid_until_duration,
        "provisioning_model": found.provisioning_model,
        "external_ips": node.network_config.enable_external_ips,
        "tags": list(node.tags),
        "labels": labels,
        "metadata": dict(node.metadata),
        "description": node.description,
    }
    return {to_camel(key): value for key, value in inputs.items() if value not in ("", None)}
