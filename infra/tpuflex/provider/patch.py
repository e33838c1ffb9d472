"""Changes running nodes in place, as far as the API can."""

from __future__ import annotations

from pydantic import JsonValue

from pulumi_plugin.values import Properties, Value
from tpuflex.codes import Code
from tpuflex.errors import AccessError, ApiError, NotFoundError, TpuflexError
from tpuflex.host.report import DRAIN_KEY
from tpuflex.naming import LABEL_SPEC
from tpuflex.provider.call import Call, UnreadyError
from tpuflex.queued_resource.body import BOOT_METADATA, spec_hash
from tpuflex.queued_resource.causes import FAILURE_CODES, classify, remedy
from tpuflex.queued_resource.diff import PATCHABLE
from tpuflex.queued_resource.fields import RequestArgs
from tpuflex.queued_resource.model import Node, Operation
from tpuflex.queued_resource.snapshot import Snapshot

JsonObject = dict[str, JsonValue]
_POLL = 1.0


def node_patch(args: RequestArgs, old: Properties, asked: Node, node: Node) -> JsonObject:
    """The fields of ``node`` that differ from ``args``, by input name.

    Map entries that neither ``old`` nor ``asked`` had are Google's own, and stay."""
    # What is kept is not being deleted: a drain that a deletion has begun is called off.
    applied = _keys(old, "metadata") | {DRAIN_KEY}
    wanted: JsonObject = {
        "description": args.description or "",
        "labels": _merged(node.labels, {*asked.labels, *_keys(old, "labels")}, _labels(args)),
        "tags": [*args.tags],
        "metadata": _merged(node.metadata, {*asked.metadata, *applied}, args.metadata),
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
    call: Call, args: RequestArgs, old: Properties, seen: Snapshot, *, deadline: float
) -> Snapshot:
    """Bring every node of ``seen`` in line with ``args`` and look at them again.

    All patches are sent before any is waited for, and a failure does not stop the others: the next
    `up` only has to do the rest.

    Raises:
        UnreadyError: a patch had not ended by the deadline, or the engine cancelled.
        AccessError, ApiError: the API refused patches; names the nodes.
    """
    wanted = _wanted(args, old, seen)
    if any("metadata" in changed for changed in wanted.values()):
        # A patch of metadata is one of all of it: what others wrote since that look stays, too.
        seen = call.look(seen.name)
        wanted = _wanted(args, old, seen)
    if not wanted:
        return seen
    _report(call, args, seen, wanted)
    failures: dict[str, TpuflexError] = {}
    operations: dict[str, Operation] = {}
    for id_, changed in wanted.items():
        mask = [PATCHABLE[key] for key in changed]
        try:
            operations[id_] = call.client.patch_node(seen.name.node(id_), _body(changed), mask=mask)
        except (AccessError, ApiError, NotFoundError) as error:
            failures[id_] = error
    for id_, operation in operations.items():
        failure = _result(call, seen, id_, operation, deadline)
        if failure is not None:
            failures[id_] = failure
    if failures:
        raise _failure(failures, len(seen.nodes.ids))
    return call.look(seen.name)


def _wanted(args: RequestArgs, old: Properties, seen: Snapshot) -> dict[str, JsonObject]:
    """By node, what to change; nothing of nodes without a queued resource."""
    if seen.queued_resource is None:
        return {}
    asked = seen.queued_resource.spec.node
    each = {node.id: node_patch(args, old, asked, node) for node in seen.nodes.found}
    return {id_: changed for id_, changed in each.items() if changed}


def _report(call: Call, args: RequestArgs, seen: Snapshot, wanted: dict[str, JsonObject]) -> None:
    changed = dict.fromkeys(key for each in wanted.values() for key in each)
    which = f"{len(wanted)} of {len(seen.nodes.ids)} nodes" if seen.nodes.several else "the node"
    call.report(f"changing {', '.join(changed)} of {which}", passing=True)
    stale = [
        key
        for key in sorted(BOOT_METADATA)
        if any(args.metadata.get(key) != node.metadata.get(key) for node in seen.nodes.found)
    ]
    if stale:
        call.report(
            f"{' and '.join(stale)} changed: it takes effect when the hosts boot the next time",
            warning=True,
        )


def _result(
    call: Call, seen: Snapshot, id_: str, operation: Operation, deadline: float
) -> TpuflexError | None:
    """Wait for one patch to end; return its failure, if it failed."""
    while operation.name and not operation.done:
        if call.timing.monotonic() >= deadline or call.timing.pause(_POLL):
            raise UnreadyError(f"the change of {seen.name.node(id_)} is not over", snapshot=seen)
        found = call.client.get_operation(operation.name)
        if found is None:
            break
        operation = found
    if operation.error is None:
        return None
    failure = operation.error
    cause = classify(failure.code, failure.message)
    # A change waits for no capacity, whatever its code says.
    code = FAILURE_CODES.get(cause)
    return ApiError(
        f"{seen.name.node(id_)} could not be changed (code {failure.code}): {failure.message}",
        hint=remedy(cause, project=seen.name.project),
        code=None if code is Code.CAPACITY else code,
    )


def _failure(failures: dict[str, TpuflexError], nodes: int) -> TpuflexError:
    """The first failure; of several nodes, also which failed and how many."""
    first = next(iter(failures.values()))
    if nodes == 1:
        return first
    which = ", ".join(failures)
    message = f"{len(failures)} of {nodes} nodes could not be changed ({which}): {first.message}"
    kind = AccessError if isinstance(first, AccessError) else ApiError
    hint = first.hint or "Run `pulumi up` again: it changes the rest."
    return kind(message, hint=hint, code=first.code)


def _body(changed: JsonObject) -> JsonObject:
    body = {key: value for key, value in changed.items() if key != "externalIps"}
    if "externalIps" in changed:
        body["networkConfig"] = {"enableExternalIps": changed["externalIps"]}
    return body


def _labels(args: RequestArgs) -> dict[str, str]:
    return {**args.labels, LABEL_SPEC: spec_hash(args)}


def _merged(found: dict[str, str], ours: set[str], wanted: dict[str, str]) -> JsonObject:
    theirs = {key: value for key, value in found.items() if key not in ours}
    return {**theirs, **wanted}


def _keys(inputs: Properties, name: str) -> set[str]:
    value: Value = inputs.get(name)
    return set(value) if isinstance(value, dict) else set()
