"""Several nodes in one queued resource: created, counted, lost one by one."""

from __future__ import annotations

from typing import Any

import pytest
import requests

from embedded_cloud.core.contract import Contract
from embedded_cloud.server import EmbeddedCloud
from tests.embedded_cloud.api import PROJECT, ZONE, Api, error_of, flex_start

_PLACE = f"projects/{PROJECT}/locations/{ZONE}"


def several(count: int = 3, **params: Any) -> dict[str, Any]:
    """A request for ``count`` nodes."""
    body = flex_start()
    spec = body["tpu"]["nodeSpec"][0]
    del spec["nodeId"]
    spec["multiNodeParams"] = {"nodeCount": count, **params}
    return body


def inflict(cloud: EmbeddedCloud, name: str, mishap: str) -> requests.Response:
    """Inflict an incident on ``name`` below the place."""
    body = {"name": f"{_PLACE}/{name}", "mishap": mishap}
    return Api(cloud.url).call("POST", "_emulator/mishap", body=body)


def names(api: Api) -> list[str]:
    return [node["name"].rpartition("/")[2] for node in api.get("nodes").get("nodes", [])]


def test_quota_counts_the_chips_of_all_nodes(api: Api) -> None:
    """Three nodes of four chips are twelve: a limit of eight refuses them, all or none."""
    rules = {"quota": {"*": 8}}
    api.call("POST", "_emulator/capacity", body=rules).raise_for_status()
    status, code, message = error_of(api.create("multi", several()))
    assert (status, code) == (429, "RESOURCE_EXHAUSTED")
    assert "TPUV6EPreemptible" in message
    assert api.create("multi", several(2)).status_code == 200


@pytest.mark.parametrize(
    ("count", "params", "words"),
    [
        (1, {}, "greater than 1"),
        (65, {}, "at most 64"),
        (2, {"nodeIdPrefix": "a/b"}, "node_id_prefix"),
        (2, {"workloadType": "SERVING"}, "workload_type"),
    ],
)
def test_invalid_nodes_are_refused(
    api: Api, count: int, params: dict[str, Any], words: str
) -> None:
    """Count, prefix and workload type are checked before anything is made."""
    status, code, message = error_of(api.create("multi", several(count, **params)))
    assert (status, code) == (400, "INVALID_ARGUMENT")
    assert words in message


def test_every_node_has_an_identity(api: Api, cloud: EmbeddedCloud) -> None:
    """Each node has the requested labels and metadata, an address and an identity of
    its own, and Google's own schema allows what it shows."""
    api.create("multi", several(nodeIdPrefix="pod", workloadType="AVAILABILITY_OPTIMIZED"))
    cloud.advance(10)
    nodes = api.get("nodes")["nodes"]
    assert names(api) == ["pod-0", "pod-1", "pod-2"]
    for node in nodes:
        assert node["labels"] == {"tpuflex-owner": "me"}
        assert node["metadata"] == {"x": "y"}
        assert node["queuedResource"] == f"{_PLACE}/queuedResources/multi"
        assert Contract.load("tpu", "v2alpha1").visible("Node", node) == node
    assert len({node["id"] for node in nodes}) == 3
    hosts = {host.tpu.node_id: host for host in cloud.cloud.tpu.desired_hosts() if host.tpu}
    assert [*hosts] == ["pod-0", "pod-1", "pod-2"]
    assert len({host.key for host in hosts.values()}) == 3
    assert len({host.address for host in hosts.values()}) == 3


def test_one_patch_changes_one_node(api: Api, cloud: EmbeddedCloud) -> None:
    """The metadata of the others stays."""
    api.create("multi", several(2))
    cloud.advance(10)
    body = {"metadata": {"x": "z"}}
    api.tpu("PATCH", "nodes/multi-1", body=body, updateMask="metadata").raise_for_status()
    assert [n["metadata"]["x"] for n in api.get("nodes")["nodes"]] == ["y", "z"]


def test_deleting_one_node_ends_the_request(api: Api, cloud: EmbeddedCloud) -> None:
    """As with one node: the request is suspended, and takes the other nodes with it."""
    api.create("multi", several(2))
    cloud.advance(10)
    assert api.tpu("DELETE", "nodes/multi-0").status_code == 200
    cloud.advance(60)
    assert (api.state("multi"), names(api)) == ("SUSPENDED", [])


def test_incidents_strike_single_nodes(api: Api, cloud: EmbeddedCloud) -> None:
    """One node is preempted, another lost; the request stays ACTIVE, and the third node READY."""
    api.create("multi", several())
    cloud.advance(10)
    inflict(cloud, "nodes/multi-0", "preempted").raise_for_status()
    inflict(cloud, "nodes/multi-1", "lost").raise_for_status()
    assert api.state("multi") == "ACTIVE"
    assert [api.node_state(f"multi-{n}") for n in range(3)] == ["PREEMPTED", "GONE", "READY"]
    assert "networkEndpoints" not in api.get("nodes/multi-0")
    assert [host.tpu and host.tpu.node_id for host in cloud.cloud.tpu.desired_hosts()] == [
        "multi-2"
    ]
    api.tpu("DELETE", "queuedResources/multi", force="true").raise_for_status()
    cloud.advance(60)
    assert (api.state("multi"), names(api)) == ("GONE", [])


def test_lost_request_leaves_nodes_that_can_be_deleted(api: Api, cloud: EmbeddedCloud) -> None:
    """Orphaned nodes keep running until each is deleted."""
    api.create("multi", several(2))
    cloud.advance(10)
    inflict(cloud, "queuedResources/multi", "lost").raise_for_status()
    assert (api.state("multi"), names(api)) == ("GONE", ["multi-0", "multi-1"])
    assert api.tpu("DELETE", "nodes/multi-0").status_code == 200
    cloud.advance(60)
    assert names(api) == ["multi-1"]


@pytest.mark.parametrize(
    ("name", "mishap", "status"),
    [
        ("nodes/n1", "stolen", 400),
        ("queuedResources/q1", "preempted", 400),
        ("operations/o", "lost", 400),
        ("nodes/none", "lost", 404),
    ],
)
def test_other_incidents_are_refused(
    api: Api, cloud: EmbeddedCloud, name: str, mishap: str, status: int
) -> None:
    """An incident the resource cannot have, and a resource that does not exist."""
    api.create()
    cloud.advance(10)
    assert inflict(cloud, name, mishap).status_code == status
    assert (api.state(), api.node_state()) == ("ACTIVE", "READY")
