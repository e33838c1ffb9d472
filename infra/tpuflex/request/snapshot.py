"""What the cloud says about one queued resource, and how the state shows it. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from pulumi_plugin.values import Properties, Value
from tpuflex.naming import LABEL_OWNER, LABEL_PROJECT, LABEL_SPEC, LABEL_STACK
from tpuflex.request.importing import imported_inputs
from tpuflex.request.model import Node, QueuedResource
from tpuflex.request.name import RequestName
from tpuflex.request.nodes import Nodes
from tpuflex.request.outcomes import TABLE, Condition, condition_of
from tpuflex.request.states import NOT_FOUND, Lifecycle, describe, lifecycle

#: Of the nodes of one request, the one that counts.
_LEAST = (Lifecycle.LOST, Lifecycle.PROVISIONING)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One look at a queued resource and its nodes.

    Attributes:
        name: the name that was looked up.
        queued_resource: what was found, or None.
        nodes: its nodes, as far as there are any (yet, or any more).
        at: when, in seconds since the epoch.
        also: further requests, in other zones, that exist or may exist.
        known_ended: the state remembers that the run is over; its leftover may be gone.
    """

    name: RequestName
    queued_resource: QueuedResource | None = None
    nodes: Nodes = field(default_factory=Nodes)
    at: float = 0.0
    also: tuple[RequestName, ...] = ()
    known_ended: bool = False

    @property
    def gone(self) -> bool:
        """Whether neither queued resource nor any node is left."""
        return self.queued_resource is None and not self.nodes.found

    @property
    def state(self) -> str:
        """Google's word for the queued resource's state."""
        found = self.queued_resource
        return found.state.state if found is not None else NOT_FOUND

    @property
    def lifecycle(self) -> Lifecycle:
        """Our word for where it stands: it is as far along as the last of its nodes, and lost
        with any one of them."""
        found = self.queued_resource
        if self.known_ended and self.gone:
            return Lifecycle.ENDED
        state = found.state.state if found is not None else None
        cut_short = found is not None and found.cut_short(self.at)
        too_early = found is not None and found.too_early(self.at)
        states = self.nodes.states or (None,)
        each = [lifecycle(state, node, cut_short=cut_short, too_early=too_early) for node in states]
        return next((where for where in _LEAST if where in each), each[0])

    @property
    def created(self) -> str:
        """When it was asked for (`createTime`), which tells it from a namesake; or empty."""
        if self.queued_resource is not None:
            return self.queued_resource.create_time
        return ""

    def condition(self, labels: dict[str, str], created: str = "") -> Condition:
        """Its row in the refresh table.

        Args:
            labels: labels that say whose it should be.
            created: `createTime` of the one that is meant: labels may be changed, that cannot.
        """
        same = bool(created) and created == self.created
        return condition_of(
            self.lifecycle,
            queued_resource=self.queued_resource is not None or self.known_ended,
            node=bool(self.nodes.found),
            ours=same or self.belongs_to(labels),
        )

    @property
    def labels(self) -> dict[str, str]:
        """Labels that tell whose this is and what it was asked to be."""
        if self.queued_resource is not None:
            return self.queued_resource.spec.node.labels
        return self.nodes.first.labels if self.nodes.first is not None else {}

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
        """Whether its owner marker is the one in ``labels``; unmarked only fits unmarked. Of
        nodes without a queued resource, one of ours is enough."""
        if self.queued_resource is None and self.nodes.found:
            return bool(self.orphans(labels))
        return self.labels.get(LABEL_OWNER) == labels.get(LABEL_OWNER)

    def orphans(self, labels: dict[str, str]) -> tuple[Node, ...]:
        """The nodes that their queued resource has left behind and that carry the owner marker
        in ``labels``."""
        if self.queued_resource is not None:
            return ()
        owner = labels.get(LABEL_OWNER)
        return tuple(n for n in self.nodes.found if n.labels.get(LABEL_OWNER) == owner)

    def describe(self) -> str:
        """Google's word and what it means, for a progress line."""
        if self.state == "ACTIVE" and self.lifecycle is not Lifecycle.ACTIVE:
            return f"ACTIVE, but {self.nodes.trouble()}"
        if self.state == "SUSPENDED" and self.lifecycle is Lifecycle.LOST:
            return f"SUSPENDED: {TABLE[Condition.NODE_MISSING].meaning}"
        if self.queued_resource is None and self.nodes.found:
            if self.nodes.several:
                left = self.nodes.left_over()
                return f"{NOT_FOUND}: {left}, and billed, but the queued resource is gone"
            return f"{NOT_FOUND}: {TABLE[Condition.ORPHANED].meaning}"
        return f"{self.state}: {describe(self.state)}"


def outputs(inputs: Properties, seen: Snapshot, known: Properties | None = None) -> Properties:
    """The resource's output properties: its ``inputs`` and what Google says about it.

    Args:
        inputs: its inputs, as the cloud has them.
        seen: what was found.
        known: its inputs as the state had them before, if they may be others.
    """
    found = seen.queued_resource or QueuedResource()
    nodes = seen.nodes.status() or Nodes(seen.name.node_ids).status()
    drifted = _drifted(inputs, known or {}, seen.nodes)
    addresses: list[Value] = [address for node in nodes for address in node.ip_addresses]
    each: list[Value] = [
        node.model_copy(update={"drifted": drifted.get(node.id)}).model_dump(
            mode="json", by_alias=True, exclude_none=True
        )
        for node in nodes
    ]
    return {
        **inputs,
        "name": str(seen.name),
        "zone": seen.name.zone,
        "nodeId": nodes[0].id,
        "state": seen.state,
        "lifecycle": seen.lifecycle.value,
        "nodeState": seen.nodes.state if seen.nodes.found else None,
        "health": seen.nodes.health or None,
        "nodes": each,
        "ipAddresses": addresses,
        "createTime": found.create_time or None,
        "activeTime": max((n.create_time for n in seen.nodes.found), default="") or None,
        "expireTime": min(filter(None, (expiry(found, n) for n in seen.nodes.found)), default=None),
        "specHash": seen.labels.get(LABEL_SPEC),
        "requests": [str(name) for name in (seen.name, *seen.also)],
    }


def expiry(found: QueuedResource, node: Node) -> str | None:
    """When the run of ``node`` ends at the latest (RFC 3339, UTC); None if that is not known.

    Google's own word if it gives one, else the node's creation and the run duration: it is not
    documented from when on the run is counted, and the earliest reading is the safe one.
    """
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


def observed_inputs(known: Properties, seen: Snapshot) -> Properties:
    """The inputs as the cloud has them.

    Args:
        known: inputs in the state; empty when a resource is imported, in which case all of
            them are read from the cloud.
        seen: what was found.

    For known inputs only what `nodes.patch` could have changed is compared, and of maps only
    the entries that the program sets: Google adds labels and metadata of its own. Of several
    nodes the first that differs is shown; an entry that only some have stays shown, because what
    no input ever had is not ours to take away.
    """
    if not known:
        return imported_inputs(seen.name, seen.queued_resource, seen.nodes)
    each = [_patchable(known, node) for node in seen.nodes.found]
    drifted = {**known}
    for there in reversed(each):
        drifted |= {key: value for key, value in there.items() if value != known.get(key)}
    for key in _MAPS if each else ():
        before, found = known.get(key), [there[key] for there in each]
        if isinstance(before, dict):
            drifted[key] = _entries(before, [map_ for map_ in found if isinstance(map_, dict)])
    return drifted


#: Inputs that are maps, in which Google keeps entries of its own.
_MAPS = ("labels", "metadata")


def _entries(before: Properties, found: list[Properties]) -> Properties:
    """Of ``before``, the entries that any of ``found`` has, as the first has it that differs."""
    values = {key: [map_[key] for map_ in found if key in map_] for key in before}
    return {
        key: next((value for value in there if value != before[key]), before[key])
        for key, there in values.items()
        if there
    }


def _drifted(given: Properties, known: Properties, nodes: Nodes) -> dict[str, tuple[str, ...]]:
    """By node, in which inputs it differs from ``given``. One node never does: its own are given;
    of several, some may have been patched before a run was killed, and the first one's are given.
    Entries of maps that are only in ``known`` count, too: they may be what was taken away."""
    if not nodes.several:
        return {}
    basis = {**given, **known}
    each = {node.id: _patchable(basis, node) for node in nodes.found}
    found = {
        id_: tuple(key for key, value in there.items() if value != given.get(key))
        for id_, there in each.items()
    }
    return {id_: keys for id_, keys in found.items() if keys}


def _patchable(known: Properties, node: Node) -> Properties:
    """What `nodes.patch` could have changed of the inputs ``known``, as ``node`` has it."""
    there: Properties = {
        "labels": _known_entries(known.get("labels"), node.labels),
        "metadata": _known_entries(known.get("metadata"), node.metadata),
        "tags": list(node.tags),
    }
    if not known.get("networkConfigs"):
        there["externalIps"] = node.network_config.enable_external_ips
    if node.description or "description" in known:
        there["description"] = node.description
    return there


def _known_entries(known: Value, found: dict[str, str]) -> Value:
    if not isinstance(known, dict):
        return known
    return {key: found[key] for key in known if key in found}
