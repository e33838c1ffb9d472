"""Version v1 of the TPU API, read-only."""

from __future__ import annotations

import pytest

from embedded_cloud.server import EmbeddedCloud
from tests.embedded_cloud.api import PROJECT, Api, error_of


@pytest.fixture
def old(cloud: EmbeddedCloud) -> Api:
    """Calls of v1."""
    return Api(cloud.url, version="v1")


def test_places_and_what_they_offer(old: Api) -> None:
    """Locations and accelerator types in v1's form; there are no TensorFlow versions."""
    listed = old.call("GET", f"v1/projects/{PROJECT}/locations").json()["locations"]
    assert "us-east5-a" in [location["locationId"] for location in listed]
    assert old.get("")["locationId"] == "us-east5-a"
    types = old.get("acceleratorTypes")["acceleratorTypes"]
    assert {frozenset(entry) for entry in types} == {frozenset({"name", "type"})}
    assert old.get("acceleratorTypes/v6e-8")["type"] == "v6e-8"
    assert old.get("tensorflowVersions") == {}
    assert error_of(old.tpu("GET", "tensorflowVersions/2.0"))[0] == 404


def test_nodes_of_later_versions_are_seen(old: Api, api: Api, cloud: EmbeddedCloud) -> None:
    """A node that a queued resource made, with v1's fields only."""
    api.create()
    cloud.advance(10)
    (node,) = old.get("nodes")["nodes"]
    assert node == old.get("nodes/n1")
    assert (node["apiVersion"], node["acceleratorType"]) == ("V2_ALPHA1", "v6e-4")
    assert (node["network"], node["serviceAccount"]) == ("n", "sa@x")
    assert not {"metadata", "queuedResource", "runtimeVersion"} & node.keys()


@pytest.mark.parametrize(
    ("method", "path", "verb"),
    [
        ("POST", "nodes", "create"),
        ("DELETE", "nodes/n1", "delete"),
        ("POST", "nodes/n1:stop", "stop"),
        ("POST", "nodes/n1:start", "start"),
        ("POST", "nodes/n1:reimage", "reimage"),
    ],
)
def test_changes_are_not_found(old: Api, method: str, path: str, verb: str) -> None:
    """404, which no client retries, with the method's id and the alternative."""
    needed = {"acceleratorType": "v2-8", "tensorflowVersion": "2.12.0"}
    body = needed if path == "nodes" else {}
    status, _, message = error_of(old.tpu(method, path, body=body))
    assert status == 404
    assert f"tpu.projects.locations.nodes.{verb}" in message
    assert "use v2" in message
