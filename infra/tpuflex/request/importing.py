"""The inputs that would have made what exists already: the way back from
:mod:`tpuflex.request.body`. Pure."""

from __future__ import annotations

from pydantic.alias_generators import to_camel

from pulumi_plugin.values import Properties, Value
from tpuflex.naming import LABEL_SPEC
from tpuflex.request.model import BootDiskConfig, NetworkConfig, Node, QueuedResource
from tpuflex.request.name import RequestName
from tpuflex.request.nodes import Nodes


def imported_inputs(name: RequestName, found: QueuedResource | None, nodes: Nodes) -> Properties:
    """The inputs of what was found under ``name``.

    What can be patched is read from the node as it is (of several, from the first that there
    is); the rest as it was asked for, because the node spells some of it differently (a network
    by its full path).
    """
    request = found or QueuedResource()
    asked = request.spec.node
    there = nodes.first or asked
    several = bool(asked.network_configs)
    return _said(
        queued_resource_id=name.id,
        project=name.project,
        zones=[name.zone],
        **({} if found is None else _terms(found)),
        **_accelerator(asked, there),
        runtime_version=asked.runtime_version or there.runtime_version,
        service_account=asked.service_account.email or there.service_account.email,
        scopes=[*(asked.service_account.scope or there.service_account.scope)],
        **({} if several else _interface(asked.network_config)),
        external_ips=not several and there.network_config.enable_external_ips,
        network_configs=[
            _said(**_interface(one), external_ips=one.enable_external_ips)
            for one in asked.network_configs
        ],
        cidr_block=asked.cidr_block,
        secure_boot=asked.shielded_instance_config.enable_secure_boot,
        autocheckpoint_enabled=asked.autocheckpoint_enabled,
        data_disks=[
            _said(source_disk=disk.source_disk, mode=disk.mode, worker_ids=[*disk.worker_ids])
            for disk in asked.data_disks
        ],
        boot_disk=None if asked.boot_disk_config is None else _boot_disk(asked.boot_disk_config),
        tags=[*there.tags],
        labels={key: value for key, value in there.labels.items() if key != LABEL_SPEC},
        metadata={**there.metadata},
        description=there.description,
    )


def _terms(found: QueuedResource) -> dict[str, Value]:
    """On what terms, for how long, valid from and until, and how many nodes."""
    policy, guaranteed = found.queueing_policy, found.guaranteed
    interval, several = policy.valid_interval, found.spec.multi_node_params
    return {
        # Requests from before there were provisioning models say it with a tier, or not at all.
        "provisioning_model": found.provisioning_model
        or ("STANDARD" if found.spot is None else "SPOT"),
        "max_run_duration": found.run_duration.max_run_duration,
        "termination_time": found.run_duration.termination_time,
        "valid_until_duration": policy.valid_until_duration,
        "valid_until_time": policy.valid_until_time,
        "valid_after_duration": policy.valid_after_duration,
        "valid_after_time": policy.valid_after_time,
        "valid_interval": None
        if interval is None
        else _said(start_time=interval.start_time, end_time=interval.end_time),
        "reservation_name": found.reservation_name,
        "best_effort": None if found.best_effort is None else True,
        "guaranteed": None
        if guaranteed is None
        else _said(min_duration=guaranteed.min_duration, reserved=guaranteed.reserved),
        "multi_node": None
        if several is None
        else _said(
            node_count=several.node_count,
            node_id_prefix=several.node_id_prefix,
            workload_type=several.workload_type,
        ),
    }


def _accelerator(asked: Node, there: Node) -> dict[str, Value]:
    config = asked.accelerator_config
    if config is not None and not asked.accelerator_type:
        return {"accelerator_config": {"type": config.type, "topology": config.topology}}
    return {"accelerator_type": asked.accelerator_type or there.accelerator_type}


def _interface(one: NetworkConfig) -> dict[str, Value]:
    return {
        "network": one.network,
        "subnetwork": one.subnetwork,
        "can_ip_forward": one.can_ip_forward or None,
        "queue_count": one.queue_count,
    }


def _boot_disk(disk: BootDiskConfig) -> Properties:
    return _said(
        disk_size_gb=disk.disk_size_gb,
        source_image=disk.source_image,
        provisioned_iops=disk.provisioned_iops,
        provisioned_throughput=disk.provisioned_throughput,
        storage_pool=disk.storage_pool,
        enable_confidential_compute=disk.enable_confidential_compute or None,
        kms_key_name=disk.customer_encryption_key.kms_key_name,
    )


def _said(**values: Value) -> Properties:
    return {to_camel(key): value for key, value in values.items() if value not in ("", None, [])}
