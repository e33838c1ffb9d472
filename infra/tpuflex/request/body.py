"""The request body that asks for a slice, and the fingerprint by which it is recognised.

Names and places of the fields: `QueuedResource` and `Node` of `tpu.v2alpha1`, revision 20261001.
Nothing is sent for what the program leaves to Google.
"""

from __future__ import annotations

import json

from pydantic import JsonValue

from tpuflex.naming import LABEL_SPEC, digest
from tpuflex.request.arguments import QueuedResourceArgs
from tpuflex.request.disk_args import BootDisk, DataDisk
from tpuflex.request.name import RequestName
from tpuflex.request.network_args import NetworkArgs, NetworkConfig
from tpuflex.request.nodes import ids_of
from tpuflex.request.queue_args import Interval

JsonObject = dict[str, JsonValue]

#: Metadata that only takes effect at a boot: changing it in place would change nothing that runs.
BOOT_METADATA = frozenset({"startup-script", "tpuflex-config"})


def request_name(args: QueuedResourceArgs) -> RequestName:
    """The full name of the queued resource that ``args`` ask for, in the first of their zones."""
    return RequestName(args.project, args.zones[0], args.queued_resource_id, node_ids(args))


def request_body(args: QueuedResourceArgs) -> JsonObject:
    """The `QueuedResource` that is posted in the first zone, with the spec hash among the node's
    labels."""
    node = _node(args)
    node["labels"] = {**args.labels, LABEL_SPEC: spec_hash(args)}
    parent = request_name(args).parent
    return {**_terms(args), "tpu": {"nodeSpec": [{"parent": parent, **_nodes(args), "node": node}]}}


def spec_hash(args: QueuedResourceArgs) -> str:
    """Fingerprint of all that cannot be changed in place: two requests of one name with the same
    one are the same request. What can be patched is left out, so patching does not make a
    stranger."""
    node = _node(args)
    for field in ("description", "labels", "tags", "metadata"):
        node.pop(field, None)
    if args.on_boot_change == "replace":
        node["metadata"] = {key: args.metadata.get(key) for key in sorted(BOOT_METADATA)}
    network = node.get("networkConfig")
    if isinstance(network, dict):
        network.pop("enableExternalIps")
    asked = {**_terms(args), **_nodes(args), "node": node}
    return digest(json.dumps(asked, sort_keys=True, separators=(",", ":")))


def node_ids(args: QueuedResourceArgs) -> tuple[str, ...]:
    """The ids that the nodes will have: one, or PREFIX-0, PREFIX-1, … of several."""
    several = args.multi_node
    asked = None if several is None else several.model_dump(by_alias=True)
    return ids_of(args.queued_resource_id, asked)


def _terms(args: QueuedResourceArgs) -> JsonObject:
    """On what terms, for how long, valid from and until."""
    terms: JsonObject = {"provisioningModel": args.provisioning_model}
    if args.provisioning_model == "SPOT":
        # gcloud 528 sends both for --provisioning-model=spot; with the model alone, the tier
        # would be left open.
        terms["spot"] = {}
    if args.best_effort:
        terms["bestEffort"] = {}
    if args.guaranteed is not None:
        terms["guaranteed"] = _said(
            minDuration=args.guaranteed.min_duration, reserved=args.guaranteed.reserved or None
        )
    run = _said(maxRunDuration=args.max_run_duration, terminationTime=args.termination_time)
    if run:
        terms["runDuration"] = run
    interval = args.valid_interval
    policy = _said(
        validUntilDuration=args.valid_until_duration,
        validUntilTime=args.valid_until_time,
        validAfterDuration=args.valid_after_duration,
        validAfterTime=args.valid_after_time,
        validInterval=None if interval is None else _interval(interval),
    )
    if policy:
        terms["queueingPolicy"] = policy
    return terms | _said(reservationName=args.reservation_name)


def _interval(interval: Interval) -> JsonObject:
    return _said(startTime=interval.start_time, endTime=interval.end_time)


def _nodes(args: QueuedResourceArgs) -> JsonObject:
    """How many nodes, and what they are called."""
    several = args.multi_node
    if several is None:
        return {"nodeId": args.queued_resource_id}
    return {
        "multiNodeParams": _said(
            nodeCount=several.node_count,
            nodeIdPrefix=several.node_id_prefix,
            workloadType=several.workload_type,
        )
    }


def _node(args: QueuedResourceArgs) -> JsonObject:
    config = args.accelerator_config
    node = _said(
        acceleratorType=args.accelerator_type,
        acceleratorConfig=(
            None if config is None else {"type": config.type, "topology": config.topology}
        ),
        runtimeVersion=args.runtime_version,
        serviceAccount={"email": args.service_account, "scope": [*args.scopes]},
        shieldedInstanceConfig={"enableSecureBoot": args.secure_boot},
        labels={**args.labels},
        metadata={**args.metadata},
        tags=[*args.tags] or None,
        description=args.description,
        autocheckpointEnabled=args.autocheckpoint_enabled or None,
        cidrBlock=args.cidr_block,
        dataDisks=[_data_disk(disk) for disk in args.data_disks] or None,
        bootDiskConfig=None if args.boot_disk is None else _boot_disk(args.boot_disk),
    )
    if args.network_configs:
        node["networkConfigs"] = [_interface(one) for one in args.network_configs]
    else:
        node["networkConfig"] = _interface(args)
    return node


def _interface(one: NetworkArgs | NetworkConfig) -> JsonObject:
    return {
        "enableExternalIps": one.external_ips,
        **_said(
            network=one.network,
            subnetwork=one.subnetwork,
            canIpForward=one.can_ip_forward or None,
            queueCount=one.queue_count,
        ),
    }


def _data_disk(disk: DataDisk) -> JsonObject:
    return _said(sourceDisk=disk.source_disk, mode=disk.mode, workerIds=[*disk.worker_ids] or None)


def _boot_disk(disk: BootDisk) -> JsonObject:
    return _said(
        diskSizeGb=_int64(disk.disk_size_gb),
        sourceImage=disk.source_image,
        provisionedIops=_int64(disk.provisioned_iops),
        provisionedThroughput=_int64(disk.provisioned_throughput),
        storagePool=disk.storage_pool,
        enableConfidentialCompute=disk.enable_confidential_compute or None,
        customerEncryptionKey=disk.kms_key_name and {"kmsKeyName": disk.kms_key_name},
    )


def _int64(number: int | None) -> str | None:
    """A 64-bit number travels as text in Google's JSON."""
    return None if number is None else str(number)


def _said(**fields: JsonValue) -> JsonObject:
    return {name: value for name, value in fields.items() if value is not None}
