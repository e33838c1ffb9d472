"""What the cloud says about one queued resource, and how the state shows it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from tpuflex.gcp.queued_resources import RequestName
from tpuflex.gcp.tpu_models import Node, QueuedResource
from tpuflex.lifecycle import Lifecycle, describe, lifecycle
from tpuflex.naming import LABEL_OWNER, LABEL_PROJECT, LABEL_SPEC, LABEL_STACK
from tpuflex.provider.codec import Properties, Value
from tpuflex.provider.importing import imported_inputs
from tpuflex.standing import TABLE, Standing, standing


@dataclass(frozen=True, slots=True)
class Observation:
    """One look at a queued resource and its node.

    Attributes:
        name: the name that was looked up.
        queued_resource: what was found, or None.
        node: its node, or None if there is none (yet, or any more).
        at: when, in seconds since the epoch.
        also: further requests, in other zones, that exist or may exist.
        known_ended: the state remembers that the run is over; its leftover may be gone.
    """

    name: RequestName
    queued_resource: QueuedResource | None
    node: Node | None
    at: float = 0.0
    also: tuple[RequestName, ...] = ()
    known_ended: bool = False

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
        if self.known_ended and self.gone:
            return Lifecycle.ENDED
        return lifecycle(
            found.state.state if found is not None else None,
            node.state if node is not None else None,
            cut_short=found is not None and found.cut_short(self.at),
            too_early=found is not None and found.too_early(self.at),
        )

    @property
    def born(self) -> str:
        """When it was asked for (`createTime`), which tells it from a namesake; or empty."""
        if self.queued_resource is not None:
            return self.queued_resource.create_time
        return ""

    def standing(self, labels: dict[str, str], born: str = "") -> Standing:
        """Its row in the refresh table.

        Args:
            labels: labels that say whose it should be.
            born: `createTime` of the one that is meant: labels may be changed, that cannot.
        """
        same = bool(born) and born == self.born
        return standing(
            self.lifecycle,
            queued_resource=self.queued_resource is not None or self.known_ended,
            node=self.node is not None,
            ours=same or self.belongs_to(labels),
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
        if self.state == "SUSPENDED" and self.lifecycle is Lifecycle.LOST:
            return f"SUSPENDED: {TABLE[Standing.NODE_MISSING].meaning}"
        if self.queued_resource is None and self.node is not None:
            return f"NOT_FOUND: {TABLE[Standing.ORPHANED].meaning}"
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
        "requests": [str(name) for name in (seen.name, *seen.also)],
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
        return imported_inputs(seen.name, seen.queued_resource, seen.node)
    node = seen.node
    if node is None:
        return known
    drifted: Properties = {
        **known,
        "labels": _known_entries(known.get("labels"), node.labels),
        "metadata": _known_entries(known.get("metadata"), node.metadata),
        "tags": list(node.tags),
    }
    if not known.get("networkConfigs"):
        drifted["externalIps"] = node.network_config.enable_external_ips
    if node.description or "description" in known:
        drifted["description"] = node.description
    return drifted


def _known_entries(known: Value, found: dict[str, str]) -> Value:
    if not isinstance(known, dict):
        return known
    return {key: found[key] for key in known if key in found}
