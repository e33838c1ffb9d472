"""The provider under the real engine, against the embedded cloud: the ordinary path."""

from __future__ import annotations

import pulumi
import pytest
from pulumi.automation import CommandError

from tests.provider.deployment import CUT_SHORT, NAME, Rig, command, outputs, until, urn
from tpuflex.naming import QUEUED_RESOURCE

pytestmark = CUT_SHORT


@pytest.mark.pulumi_feature("explicit provider")
def test_up_waits_until_active_and_destroy_leaves_nothing(rig: Rig) -> None:
    """Up ends with an ACTIVE slice, preview then sees no change, destroy empties the cloud."""
    rig.capacity(never=True)
    going = rig.background(rig.up)
    until(lambda: "WAITING_FOR_RESOURCES: in the queue" in "".join(rig.lines))
    rig.capacity()
    made = going.result(timeout=60).outputs

    assert made["lifecycle"].value == "active"
    assert len(made["addresses"].value) == 1
    seen = outputs(rig)
    assert seen["name"] == NAME
    assert seen["nodeState"] == "READY"
    assert seen["expireTime"] > seen["createTime"]

    assert rig.preview() == {"same": 3}
    rig.stack.refresh(expect_no_changes=True)
    rig.stack.preview(expect_no_changes=True)
    rig.stack.up(expect_no_changes=True)
    assert len(rig.calls("POST")) == 1

    rig.destroy()
    assert rig.tpu() == {}
    assert rig.resource() is None


def test_preview_creates_nothing(rig: Rig) -> None:
    """A preview makes no call that changes anything, and knows the names already."""
    assert rig.preview() == {"create": 3}

    assert rig.calls("POST") == []


@pytest.mark.usefixtures("served")
def test_label_changes_in_place(rig: Rig) -> None:
    """A changed label, tag and note are patched on the node; nothing is replaced."""
    rig.up()
    rig.args["labels"] = {"team": "ads"}
    rig.args["tags"] = ["vllm"]
    rig.args["metadata"] = {"startup-script": "exit 0"}

    assert rig.preview() == {"same": 2, "update": 1}
    rig.up()

    (node,) = rig.tpu()["nodes"]
    assert node["labels"]["team"] == "ads"
    assert len(rig.calls("POST")) == 1
    (patch,) = rig.calls("PATCH", "nodes")
    assert patch["status"] == 200
    rig.refresh()
    assert rig.preview() == {"same": 3}


@pytest.mark.usefixtures("served")
@pytest.mark.pulumi_feature("import: ours")
@pytest.mark.usefixtures("served")
def test_import_by_name_then_no_changes(rig: Rig) -> None:
    """A slice that the state has lost is refused, as another clone's would be, and comes back by
    the import that is named then: it fits the program."""
    rig.up()
    command(rig, "state", "delete", "--force", urn(rig))
    with pytest.raises(CommandError, match=f"pulumi import {QUEUED_RESOURCE} NAME {NAME}"):
        rig.up()
    rig.opts = pulumi.ResourceOptions(import_=NAME)

    assert rig.up().summary.resource_changes == {"same": 2, "import": 1}

    assert outputs(rig)["lifecycle"] == "active"
    assert len(rig.calls("POST")) == 1
    rig.opts = pulumi.ResourceOptions()
    rig.stack.preview(expect_no_changes=True)
