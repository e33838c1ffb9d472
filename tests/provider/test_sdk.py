"""The class that programs use: the same names, texts and types as the provider's own model."""

from __future__ import annotations

import inspect
from typing import Any

import pulumi
import pytest
from pulumi import _types
from pulumi.runtime import rpc
from pydantic.alias_generators import to_camel

from tests.components.pulumi_plan import run_program
from tests.queued_resource.inputs import OTHER
from tpuflex import tpu
from tpuflex.provider.schema import FILLED
from tpuflex.queued_resource.fields import REQUIRED, RequestArgs
from tpuflex.tpu import QueuedResource

SLICE = "tpuflex:tpu:QueuedResource slice"
PARAMETERS = {
    name: parameter
    for name, parameter in inspect.signature(QueuedResource.__init__).parameters.items()
    if name not in ("self", "resource_name", "opts")
}
#: The least that a queued resource takes.
SMALL: dict[str, Any] = {
    "project": "cloud-project",
    "zones": ["us-east5-a"],
    "runtime_version": "v2-alpha-tpuv6e",
    "service_account": "a@b",
    "queued_resource_id_prefix": "slice",
}
#: The same value said with the argument classes.
NESTED: dict[str, Any] = {
    "accelerator_config": tpu.AcceleratorConfigArgs(type="V6E", topology="2x4"),
    "network_configs": [
        tpu.NetworkConfigArgs(
            network="a", subnetwork="b", external_ips=True, can_ip_forward=True, queue_count=2
        ),
        {"network": "c"},
    ],
    "data_disks": [
        tpu.DataDiskArgs(
            source_disk="projects/p/zones/us-east5-a/disks/d", mode="READ_ONLY", worker_ids=["0"]
        )
    ],
    "boot_disk": tpu.BootDiskArgs(
        disk_size_gb=200,
        source_image="projects/p/global/images/i",
        provisioned_iops=3000,
        provisioned_throughput=140,
        storage_pool="projects/p/zones/us-east5-a/storagePools/s",
        enable_confidential_compute=True,
        kms_key_name="projects/p/locations/us-east5/keyRings/r/cryptoKeys/k",
    ),
    "valid_interval": tpu.IntervalArgs(
        start_time="2026-11-29T08:00:00Z", end_time="2026-11-29T09:00:00Z"
    ),
    "guaranteed": tpu.GuaranteedArgs(min_duration="3600s", reserved=True),
    "multi_node": tpu.MultiNodeArgs(
        node_count=3, node_id_prefix="np", workload_type="AVAILABILITY_OPTIMIZED"
    ),
}


def registered(**arguments: Any) -> dict[str, Any]:
    """What reaches the engine of a queued resource with these arguments."""
    return run_program(lambda: QueuedResource("slice", **SMALL, **arguments)).inputs[SLICE]


def test_every_input_is_a_keyword() -> None:
    """The class takes exactly the model's inputs; required is what nothing can be made of."""
    assert set(PARAMETERS) == set(RequestArgs.model_fields)
    required = {name for name, p in PARAMETERS.items() if p.default is p.empty}
    assert {to_camel(name) for name in required} == REQUIRED - FILLED


def test_every_keyword_is_explained() -> None:
    """The documentation of the constructor has an entry for each."""
    text = inspect.getdoc(QueuedResource.__init__) or ""

    for name in PARAMETERS:
        assert f"\n    {name}: " in text, name


@pytest.mark.parametrize("key", sorted(NESTED))
def test_nested_arguments_reach_the_engine(key: str) -> None:
    """What the argument classes say arrives in the provider's spelling."""
    wire = to_camel(key)

    assert registered(**{key: NESTED[key]})[wire] == OTHER[wire][wire]


def test_keys_of_the_program_are_not_translated() -> None:
    """A label or metadata key with an underscore stays as it is, in and out."""
    said = registered(
        labels={"cost_center": "x", "queue_count": "y"}, metadata={"SOME_KEY": "1", "someKey": "2"}
    )

    assert said["labels"] == {"cost_center": "x", "queue_count": "y"}
    assert said["metadata"] == {"SOME_KEY": "1", "someKey": "2"}


def test_outputs_keep_the_keys_too() -> None:
    """What a program reads has the keys that it wrote."""
    seen: list[Any] = []

    def program() -> None:
        made = QueuedResource(
            "slice",
            **SMALL,
            metadata={"someKey": "1"},
            boot_disk={"disk_size_gb": 10},  # type: ignore[arg-type] # Pulumi takes dicts, too
        )
        pulumi.Output.all(made.metadata, made.boot_disk, made.ip_addresses).apply(seen.extend)

    run_program(program)

    assert seen == [{"someKey": "1"}, {"diskSizeGb": 10}, ["10.128.0.2"]]


def test_nested_outputs_have_attributes() -> None:
    """A node, a disk: by Python's names, and by the provider's as a mapping, which equals what the
    state holds."""
    seen: list[Any] = []

    def program() -> None:
        made = QueuedResource(
            "slice",
            **SMALL,
            boot_disk=tpu.BootDiskArgs(disk_size_gb=10),
            network_configs=[{"network": "a", "external_ips": True}],  # type: ignore[list-item]
        )
        made.boot_disk.apply(seen.append)
        made.network_configs.apply(seen.extend)

    run_program(program)

    disk, interface = sorted(seen, key=lambda found: str(type(found)))
    assert isinstance(disk, tpu.BootDisk)
    assert (disk.disk_size_gb, disk["diskSizeGb"], disk.kms_key_name) == (10, 10, None)
    assert (interface.network, interface.external_ips) == ("a", True)
    assert disk == {"diskSizeGb": 10}


def test_nodes_have_attributes() -> None:
    """What the provider answers with becomes a class, as Pulumi's own SDKs do it."""
    answered: list[dict[str, object]] = [{"id": "slice-0", "ipAddresses": ["10.0.0.2"]}]
    type_ = _types.resource_types(QueuedResource)["nodes"]

    (node,) = rpc.translate_output_properties(answered, lambda name: name, type_, True)

    assert isinstance(node, tpu.NodeStatus)
    assert (node.id, node.ip_addresses, node.state) == ("slice-0", ["10.0.0.2"], None)
    assert [node] == answered


def test_what_was_not_given_is_what_the_provider_says() -> None:
    """Every property can be read, whether the program gave it or not: a value, or nothing."""
    seen: dict[str, Any] = {}

    def program() -> None:
        made = QueuedResource("slice", **SMALL)
        names = _types.resource_py_to_pulumi_names(QueuedResource)
        pulumi.Output.all(**{name: getattr(made, name) for name in names}).apply(seen.update)

    run_program(program)

    assert set(seen) >= set(PARAMETERS)
    assert {name: seen[name] for name in PARAMETERS if seen[name] is not None} == SMALL
