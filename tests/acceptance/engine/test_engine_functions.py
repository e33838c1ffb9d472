"""The package's functions under the real engine, answered by the embedded cloud."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pulumi
import pytest

from tests.provider.deployment import CUT_SHORT, NAME, PROJECT, ZONE, Rig
from tpuflex import tpu

pytestmark = [*CUT_SHORT, pytest.mark.usefixtures("served")]


def exports(rig: Rig, program: Callable[[tpu.Provider], dict[str, Any]]) -> dict[str, Any]:
    """What ``program`` exports, run on its own with a provider for the rig's project."""

    def run() -> None:
        provider = tpu.Provider("cloud", project=PROJECT, embedded=True)
        for key, value in program(provider).items():
            pulumi.export(key, value)

    rig.stack.workspace.program = run
    return {key: output.value for key, output in rig.up().outputs.items()}


@pytest.mark.pulumi_feature("functions")
def test_what_a_zone_offers(rig: Rig) -> None:
    """Accelerator types with their shapes, and runtime versions, in the provider's project."""

    def program(provider: tpu.Provider) -> dict[str, Any]:
        opts = pulumi.InvokeOutputOptions(provider=provider)
        types = tpu.get_accelerator_types_output(zone=ZONE, opts=opts)
        versions = tpu.get_runtime_versions_output(zone=ZONE, opts=opts)
        plain = tpu.get_runtime_versions(zone=ZONE, opts=pulumi.InvokeOptions(provider=provider))
        return {
            "types": types.apply(lambda found: [each.type for each in found.accelerator_types]),
            "shape": types.apply(
                lambda found: next(
                    each.accelerator_configs[0].topology
                    for each in found.accelerator_types
                    if each.type == "v6e-4"
                )
            ),
            "versions": versions.runtime_versions,
            "at once": plain.runtime_versions,
        }

    seen = exports(rig, program)

    assert seen["types"] == sorted(seen["types"])
    assert "v6e-4" in seen["types"]
    assert seen["shape"] == "2x2"
    assert "v2-alpha-tpuv6e" in seen["versions"]
    assert seen["at once"] == seen["versions"]
    listed = rig.calls("GET", "acceleratorTypes") + rig.calls("GET", "runtimeVersions")
    assert {call["status"] for call in listed} == {200}
    assert rig.tpu() == {}


def test_a_slice_is_looked_up(rig: Rig) -> None:
    """Whoever manages it: where it stands and its nodes, as its own state has them."""
    made = rig.up().outputs

    def program(provider: tpu.Provider) -> dict[str, Any]:
        found = tpu.get_queued_resource_output(
            zone=pulumi.Output.from_input(ZONE),
            queued_resource_id="shop-dev-slice-g1",
            opts=pulumi.InvokeOutputOptions(provider=provider),
        )
        return {
            "name": found.name,
            "lifecycle": found.lifecycle,
            "addresses": found.apply(lambda answer: answer.nodes[0].ip_addresses),
            "type": found.accelerator_type,
        }

    # The slice leaves the stack with the program that made it: it is looked up before that.
    rig.opts = pulumi.ResourceOptions(retain_on_delete=True)
    rig.up()
    seen = exports(rig, program)

    assert seen == {
        "name": NAME,
        "lifecycle": "active",
        "addresses": made["addresses"].value,
        "type": "v6e-4",
    }
