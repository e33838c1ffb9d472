"""Changing a running node in place, as far as the API can."""

from __future__ import annotations

from pydantic import JsonValue

from tpuflex.errors import ApiError
from tpuflex.gcp.tpu_models import Node
from tpuflex.lifecycle import classify, remedy
from tpuflex.naming import LABEL_SPEC
from tpuflex.provider.arguments import QueuedResourceArgs
from tpuflex.provider.call import Call, UnreadyError
from tpuflex.provider.codec import Properties, Value
from tpuflex.provider.diff import PATCHABLE
from tpuflex.provider.observation import Observation
from tpuflex.provider.request import BOOT_METADATA, spec_hash

JsonObject = dict[str, JsonValue]
_POLL = 1.0


def node_patch(args: QueuedResourceArgs, old: Properties, asked: Node, node: Node) -> JsonObject:
    """The fields of ``node`` that differ from what ``args`` ask for, by input name.

    Args:
        args: what is asked for now.
        old: inputs as they were last applied.
        asked: the node as it was asked for at first.
        node: the node as it is.

    Entries of maps that neither ``old`` nor ``asked`` had are Google's own, and stay.
    """
    wanted: JsonObject = {
        "description": args.description or "",
        "labels": _merged(node.labels, {*asked.labels, *_keys(old, "labels")}, _labels(args)),
        "tags": [*args.tags],
        "metadata": _merged(
            node.metadata, {*asked.metadata, *_keys(old, "metadata")}, args.metadata
        ),
        "externalIps": args.external_ips,
    }
    if args.network_configs:
        del wanted["externalIps"]  # can only be patched where there is one interface
    present: JsonObject = {
        "description": node.description,
        "labels": {**node.labels},
        "tags": [*node.tags],
        "metadata": {**node.metadata},
        "externalIps": node.network_config.enable_external_ips,
    }
    return {key: value for key, value in wanted.items() if value != present[key]}


def patch(
    call: Call, args: QueuedResourceArgs, old: Properties, seen: Observation, *, deadline: float
) -> Observation:
    """Bring the node of ``seen`` in line with ``args`` and look at it again.

    Raises:
        UnreadyError: the patch was not over at the deadline, or the engine cancelled.
        ApiError: the API refused the patch.
    """
    if seen.node is None or seen.queued_resource is None:
        return seen
    changed = node_patch(args, old, seen.queued_resource.spec.node, seen.node)
    if not changed:
        return seen
    call.report(f"changing {', '.join(changed)} of the node", passing=True)
    stale = [
        key
        for key in sorted(BOOT_METADATA)
        if args.metadata.get(key) != seen.node.metadata.get(key)
    ]
    if stale:
        call.report(
            f"{' and '.join(stale)} changed: it takes effect when the hosts boot the next time",
            warning=True,
        )
    operation = call.client.patch_node(
        seen.name.node, _body(changed), mask=[PATCHABLE[key] for key in changed]
    )
    while operation.name and not operation.done:
        if call.timing.monotonic() >= deadline or call.timing.pause(_POLL):
            raise UnreadyError(f"the change of {seen.name.node} is not over", observation=seen)
        found = call.client.get_operation(operation.name)
        if found is None:
            break
        operation = found
    if operation.error is not None:
        failure = operation.error
        raise ApiError(
            f"{seen.name.node} could not be changed (code {failure.code}): {failure.message}",
            hint=remedy(classify(failure.code, failure.message)),
        )
    return call.look(seen.name)


def _body(changed: JsonObject) -> JsonObject:
    body = {key: value for key, value in changed.items() if key != "externalIps"}
    if "externalIps" in changed:
        body["networkConfig"] = {"enableExternalIps": changed["externalIps"]}
    return body


def _labels(args: QueuedResourceArgs) -> dict[str, str]:
    return {**args.labels, LABEL_SPEC: spec_hash(args)}


def _merged(found: dict[str, str], ours: set[str], wanted: dict[str, str]) -> JsonObject:
    theirs = {key: value for key, value in found.items() if key not in ours}
    return {**theirs, **wanted}


def _keys(inputs: Properties, name: str) -> set[str]:
    value: Value = inputs.get(name)
    return set(value) if isinstance(value, dict) else set()
