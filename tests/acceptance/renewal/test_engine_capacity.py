"""Renewal, protection, import and loss under the real engine, against the embedded cloud."""

from __future__ import annotations

import pulumi
import pytest
from pulumi.automation.errors import CommandError

from tests.provider.deployment import (
    CUT_SHORT,
    NAME,
    Rig,
    live,
    outputs,
)

pytestmark = [*CUT_SHORT, pytest.mark.usefixtures("served")]


def test_protected_endpoint_is_neither_replaced_nor_deleted(rig: Rig) -> None:
    """Protection is refused by name in preview, up and destroy; after an up with false it goes."""
    rig.args["deletion_protection"] = True
    rig.up()
    rig.args["accelerator_type"] = "v6e-8"
    for attempt in (rig.preview, rig.up, rig.destroy):
        with pytest.raises(CommandError, match="deletion_protection is on"):
            attempt()
    assert live(rig) == [NAME]

    rig.args |= {"accelerator_type": "v6e-4", "deletion_protection": False}
    assert rig.preview() == {"same": 2, "update": 1}
    rig.up()
    assert rig.calls("PATCH", "nodes") == []
    rig.destroy()
    assert rig.tpu() == {}


def test_ended_run_is_renewed_only_when_asked(rig: Rig) -> None:
    """A run that is over stays over, even when its leftover is gone; `rerun` asks for another."""
    rig.args["on_run_end"] = "delete"
    rig.up()
    rig.cloud.advance(14400 + 60)

    for _ in range(2):
        with pytest.raises(CommandError, match="nothing is bought again unasked"):
            rig.up()
        assert outputs(rig)["lifecycle"] == "ended"
        assert rig.tpu() == {}
        assert rig.preview() == {"same": 2, "update": 1}
        rig.refresh()
    assert len(rig.calls("POST")) == 1
    assert outputs(rig)["lifecycle"] == "ended"

    rig.args["rerun"] = "2"
    rig.up()
    assert outputs(rig)["lifecycle"] == "active"
    assert len(rig.calls("POST")) == 2
    rig.destroy()
    assert rig.tpu() == {}


@pytest.mark.pulumi_feature("protect")
def test_pulumi_protect_is_respected(rig: Rig) -> None:
    """Pulumi's own protection keeps the slice."""
    rig.opts = pulumi.ResourceOptions(protect=True)
    rig.up()

    with pytest.raises(CommandError, match="protect"):
        rig.destroy()

    assert live(rig) == [NAME]
