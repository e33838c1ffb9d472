"""Several nodes in one request, under the real engine and against the embedded cloud."""

from __future__ import annotations

import pytest

from embedded_cloud.control import inflict
from tests.provider.deployment import NAME, Rig, outputs

pytestmark = [pytest.mark.engine, pytest.mark.usefixtures("served")]

_PLACE = NAME.partition("/queuedResources/")[0]
_ID = NAME.rpartition("/")[2]


def nodes(rig: Rig) -> list[str]:
    """Ids of the nodes in the cloud."""
    return [node["name"].rpartition("/")[2] for node in rig.tpu().get("nodes", [])]


def test_several_nodes_from_up_to_destroy(rig: Rig) -> None:
    """Made and shown, patched in place, replaced when one is lost, and no orphan left behind."""
    rig.args |= {"multi_node": {"node_count": 2}}
    made = rig.up().outputs
    assert made["lifecycle"].value == "active"
    assert len(set(made["addresses"].value)) == 2
    seen = outputs(rig)
    assert [(node["id"], node["state"]) for node in seen["nodes"]] == [
        (f"{_ID}-0", "READY"),
        (f"{_ID}-1", "READY"),
    ]
    assert seen["nodeId"] == f"{_ID}-0"

    rig.args["tags"] = ["vllm"]
    rig.up()
    patches = rig.calls("PATCH", "nodes")
    assert [call["path"].rpartition("/")[2] for call in patches] == [f"{_ID}-0", f"{_ID}-1"]
    rig.refresh()
    assert rig.preview() == {"same": 3}

    inflict(rig.cloud.cloud.tpu, {"name": f"{_PLACE}/nodes/{_ID}-1", "mishap": "preempted"})
    assert rig.up().summary.resource_changes == {"same": 2, "replace": 1}
    assert f"1 of 2 nodes is not READY: {_ID}-1 is PREEMPTED" in "".join(rig.lines)
    heir = _ID.replace("-g1", "-g2")
    assert nodes(rig) == [f"{heir}-0", f"{heir}-1"]

    inflict(rig.cloud.cloud.tpu, {"name": f"{_PLACE}/queuedResources/{heir}", "mishap": "lost"})
    assert nodes(rig) == [f"{heir}-0", f"{heir}-1"]
    rig.destroy()
    assert rig.tpu() == {}
    assert rig.resource() is None
