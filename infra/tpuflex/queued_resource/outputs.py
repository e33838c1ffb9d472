"""The resource's properties as the state shows them: made of a snapshot, and read back. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from pulumi_plugin.values import Properties, Value
from tpuflex.errors import TpuflexError
from tpuflex.naming import LABEL_SPEC
from tpuflex.queued_resource.body import imported_inputs
from tpuflex.queued_resource.fields import MAPS
from tpuflex.queued_resource.model import Node
from tpuflex.queued_resource.name import Nodes, RequestName
from tpuflex.queued_resource.ownership import OWNER_LABELS
from tpuflex.queued_resource.rows import rfc3339
from tpuflex.queued_resource.snapshot import Snapshot, parse_time
from tpuflex.queued_resource.states import Lifecycle

#: What it is to take over from, while it does not serve itself.
TAKES_OVER_FROM = "takesOverFrom"
#: Until when its hosts were given time to end what they have begun.
DRAINS_UNTIL = "drainsUntil"


def outputs(inputs: Properties, seen: Snapshot, known: Properties | None = None) -> Properties:
    """The output properties: the ``inputs`` and what Google says about the resource.

    Args:
        inputs: its inputs, as the cloud has them.
        seen: the resource as the cloud has it.
        known: its inputs in the state, if they may differ.
    """
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
        "createTime": seen.created or None,
        "activeTime": seen.active_since or None,
        "expireTime": None if seen.expires is None else rfc3339(seen.expires),
        "specHash": seen.labels.get(LABEL_SPEC),
        "requests": [str(name) for name in (seen.name, *seen.also)],
        **_handing_over(seen),
    }


def _handing_over(seen: Snapshot) -> Properties:
    """What is only there while one slice hands over to another, or ends."""
    found: Properties = {}
    if seen.takes_over_from:
        found[TAKES_OVER_FROM] = [str(name) for name in seen.takes_over_from]
    if seen.drains_until:
        found[DRAINS_UNTIL] = seen.drains_until
    return found


def predecessor(recorded: Properties) -> tuple[RequestName, ...]:
    """What serves until that serves which the state records as ``recorded``; empty once it does,
    and where it takes over from nothing."""
    names = recorded.get(TAKES_OVER_FROM)
    found = []
    for text in names if isinstance(names, list) else []:
        with suppress(TpuflexError):  # a state may have been edited
            found.append(RequestName.parse(str(text)))
    return tuple(found)


def with_run_times(found: Properties, recorded: Properties) -> Properties:
    """The outputs ``found``, of a run that is over with its times: the cloud forgets them with the
    node, the outputs ``recorded`` in the state have them."""
    same = found.get("createTime") in (None, recorded.get("createTime"))
    if recorded_lifecycle(found) is not Lifecycle.ENDED or not same:
        return found
    times = {key: found.get(key) or recorded.get(key) for key in ("activeTime", "expireTime")}
    return {**found, **times}


def recorded_lifecycle(outputs: Mapping[str, object]) -> Lifecycle | None:
    """The lifecycle when the state was written; None if it does not say."""
    value = outputs.get("lifecycle")
    return Lifecycle(value) if value in {item.value for item in Lifecycle} else None


def remaining(outputs: Properties, now: float) -> float | None:
    """Seconds until the run ends, below zero once it has; None while that is not known.

    Args:
        outputs: what the state says about the run.
        now: seconds since the epoch.
    """
    expires = parse_time(outputs.get("expireTime"))
    return None if expires is None else expires.timestamp() - now


def observed_inputs(known: Properties, seen: Snapshot) -> Properties:
    """The inputs as the cloud has them, which shows drift.

    Args:
        known: inputs in the state; empty when a resource is imported, in which case all of
            them are read from the cloud.
        seen: the resource as the cloud has it.

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
    for key in MAPS if each else ():  # in which Google keeps entries of its own
        before, found = known.get(key), [there[key] for there in each]
        if isinstance(before, dict):
            drifted[key] = _entries(before, [map_ for map_ in found if isinstance(map_, dict)])
    labels = known.get("labels")
    if each and seen.queued_resource is not None and isinstance(labels, dict):
        # Whose it is, the request says, which nobody can relabel: not a node that it holds.
        own = {
            k: labels[k] for k in OWNER_LABELS if k in labels and seen.labels.get(k) == labels[k]
        }
        found_labels = drifted["labels"]
        drifted["labels"] = {**(found_labels if isinstance(found_labels, dict) else {}), **own}
    return drifted


def _entries(before: Properties, found: list[Properties]) -> Properties:
    """Of ``before``, the entries that any of ``found`` has, as the first has it that differs."""
    values = {key: [map_[key] for map_ in found if key in map_] for key in before}
    return {
        key: next((value for value in there if value != before[key]), before[key])
        for key, there in values.items()
        if there
    }


def _drifted(given: Properties, known: Properties, nodes: Nodes) -> dict[str, tuple[str, ...]]:
    """By node, in which inputs it differs from ``given``. One node only does in its owner labels,
    which are given as the request has them; of several, some may have been patched before a run
    was killed, and the first one's are given. Entries of maps that are only in ``known`` count as
    well: they may be what was taken away."""
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
    }
    if node.tags or "tags" in known:  # an import says nothing of what there is not
        there["tags"] = list(node.tags)
    if not known.get("networkConfigs"):
        there["externalIps"] = node.network_config.enable_external_ips
    if node.description or "description" in known:
        there["description"] = node.description
    return there


def _known_entries(known: Value, found: dict[str, str]) -> Value:
    if not isinstance(known, dict):
        return known
    return {key: found[key] for key in known if key in found}
