"""The request body that asks for a slice, and the fingerprint by which it is recognised."""

from __future__ import annotations

import json

from pydantic import JsonValue

from tpuflex.gcp.queued_resources import RequestName
from tpuflex.naming import LABEL_SPEC, digest
from tpuflex.provider.arguments import QueuedResourceArgs

JsonObject = dict[str, JsonValue]

#: Metadata that only takes effect at a boot: changing it in place would change nothing that runs.
BOOT_METADATA = frozenset({"startup-script", "tpuflex-config"})


def request_name(args: QueuedResourceArgs) -> RequestName:
    """The full name of the queued resource that ``args`` ask for."""
    return RequestName(args.project, args.zones[0], args.queued_resource_id)


def request_body(args: QueuedResourceArgs) -> JsonObject:
    """The `QueuedResource` that is posted, with the spec hash among the node's labels."""
    body = _body(args)
    node = _node(args)
    node["labels"] = {**args.labels, LABEL_SPEC: spec_hash(args)}
    body["tpu"] = {"nodeSpec": [_node_spec(args, node)]}
    return body


def spec_hash(args: QueuedResourceArgs) -> str:
    """Fingerprint of all that cannot be changed in place: two requests with the same one are
    the same request. What can be patched is left out, so patching does not make a stranger."""
    node = _node(args)
    for field in ("description", "labels", "tags"):
        node.pop(field, None)
    node["metadata"] = {key: args.metadata.get(key) for key in sorted(BOOT_METADATA)}
    network = node["networkConfig"]
    assert isinstance(network, dict)  # noqa: S101 - built below
    network.pop("enableExternalIps")
    body = _body(args)
    body["tpu"] = {"nodeSpec": [_node_spec(args, node)]}
    return digest(json.dumps(body, sort_keys=True, separators=(",", ":")))


def _body(args: QueuedResourceArgs) -> JsonObject:
    body: JsonObject = {
        "provisioningModel": args.provisioning_model,
        "runDuration": {"maxRunDuration": args.max_run_duration},
    }
    if args.valid_until_duration is not None:
        body["queueingPolicy"] = {"validUntilDuration": args.valid_until_duration}
    return body


def _node_spec(args: QueuedResourceArgs, node: JsonObject) -> JsonObject:
    return {
        "parent": request_name(args).parent,
        "nodeId": args.queued_resource_id,
        "node": node,
    }


def _node(args: QueuedResourceArgs) -> JsonObject:
    network: JsonObject = {"enableExternalIps": args.external_ips}
    if args.network is not None:
        network["network"] = args.network
    if args.subnetwork is not None:
        network["subnetwork"] = args.subnetwork
    node: JsonObject = {
        "acceleratorType": args.accelerator_type,
        "runtimeVersion": args.runtime_version,
        "networkConfig": network,
        "serviceAccount": {"email": args.service_account, "scope": [*args.scopes]},
        "shieldedInstanceConfig": {"enableSecureBoot": args.secure_boot},
        "labels": {**args.labels},
        "metadata": {**args.metadata},
    }
    if args.tags:
        node["tags"] = [*args.tags]
    if args.description is not None:
        node["description"] = args.description
    return node
