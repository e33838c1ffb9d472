"""Nodes, operations and the tables of the TPU API."""

from __future__ import annotations

from typing import Any

import pytest

from embedded_cloud.machines.hosts.guest_attributes import GuestAttributes
from embedded_cloud.server import EmbeddedCloud
from tests.embedded_cloud.api import PROJECT, ZONE, Api, error_of, flex_start

_PLACE = f"projects/{PROJECT}/locations/{ZONE}"


def _node(**fields: Any) -> dict[str, Any]:
    node: dict[str, Any] = flex_start(**fields)["tpu"]["nodeSpec"][0]["node"]
    return node


def _create(api: Api, node_id: str = "n1", **fields: Any) -> Any:
    answer = api.tpu("POST", "nodes", body=_node(**fields), nodeId=node_id)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_node_created_alone_becomes_ready(api: Api, cloud: EmbeddedCloud) -> None:
    """CREATING, then READY with endpoints; the operation then holds the node."""
    operation = _create(api)
    assert operation["metadata"]["verb"] == "create"
    assert api.node_state() == "CREATING"
    assert "networkEndpoints" not in api.get("nodes/n1")
    cloud.advance(1)
    node = api.get("nodes/n1")
    assert (node["state"], node["health"]) == ("READY", "HEALTHY")
    ended = api.get(f"operations/{operation['name'].rpartition('/')[2]}")
    assert ended["response"] == {
        "@type": "type.googleapis.com/google.cloud.tpu.v2alpha1.Node",
        **node,
    }


def test_the_wire_form_of_a_node(api: Api, cloud: EmbeddedCloud) -> None:
    """Output fields are filled as the service fills them; addresses are loopback."""
    api.create()
    cloud.advance(10)
    node = api.get("nodes/n1")
    assert node["name"] == f"{_PLACE}/nodes/n1"
    assert node["queuedResource"] == f"{_PLACE}/queuedResources/q1"
    assert node["acceleratorConfig"] == {"type": "V6E", "topology": "2x2"}
    assert node["apiVersion"] == "V2_ALPHA1"
    assert node["serviceAccount"] == {
        "email": "sa@x",
        "scope": ["https://www.googleapis.com/auth/cloud-platform"],
    }
    assert int(node["id"]) > 0
    (endpoint,) = node["networkEndpoints"]
    assert endpoint["ipAddress"].startswith("127.")
    assert "accessConfig" not in endpoint
    assert Api(cloud.url, version="v2").get("nodes/n1")["apiVersion"] == "V2"


def test_defaults_are_filled_in(api: Api, cloud: EmbeddedCloud) -> None:
    """Without account, network or accelerator type: the project's defaults."""
    config = {"type": "V6E", "topology": "2x4"}
    _create(
        api, serviceAccount=None, networkConfig=None, acceleratorType=None, acceleratorConfig=config
    )
    cloud.advance(1)
    node = api.get("nodes/n1")
    assert node["acceleratorType"] == "v6e-8"
    assert node["serviceAccount"]["email"].endswith("-compute@developer.gserviceaccount.com")
    assert node["networkConfig"]["network"] == f"projects/{PROJECT}/global/networks/default"


def test_a_slice_has_an_endpoint_per_worker(api: Api, cloud: EmbeddedCloud) -> None:
    """v6e-16 is four VMs; an external address is given only on request."""
    _create(api, acceleratorType="v6e-16", networkConfig={"enableExternalIps": True})
    cloud.advance(1)
    endpoints = api.get("nodes/n1")["networkEndpoints"]
    assert len({endpoint["ipAddress"] for endpoint in endpoints}) == 4
    assert all("externalIp" in endpoint["accessConfig"] for endpoint in endpoints)


def test_a_deleted_node_is_gone_and_its_address_free(api: Api, cloud: EmbeddedCloud) -> None:
    """DELETING for a moment, then 404; the next node gets the address."""
    _create(api)
    cloud.advance(1)
    address = api.get("nodes/n1")["networkEndpoints"][0]["ipAddress"]
    assert error_of(api.tpu("POST", "nodes", body=_node(), nodeId="n1"))[:2] == (
        409,
        "ALREADY_EXISTS",
    )
    assert api.tpu("DELETE", "nodes/n1").status_code == 200
    assert api.node_state() == "DELETING"
    cloud.advance(1)
    assert api.node_state() == "GONE"
    assert error_of(api.tpu("DELETE", "nodes/n1"))[:2] == (404, "NOT_FOUND")
    _create(api, "n2")
    cloud.advance(1)
    assert api.get("nodes/n2")["networkEndpoints"][0]["ipAddress"] == address


def test_without_capacity_the_creation_of_a_node_fails(api: Api, cloud: EmbeddedCloud) -> None:
    """No queue, no waiting: the operation ends with code 8 and there is no node."""
    api.call("POST", "/_emulator/capacity", body={"never": True})
    operation = _create(api)
    cloud.advance(1)
    ended = api.get(f"operations/{operation['name'].rpartition('/')[2]}")
    assert ended["error"]["code"] == 8
    assert f'no more capacity in the zone "{ZONE}"' in ended["error"]["message"]
    assert api.node_state() == "GONE"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("labels", {"k": "v"}),
        ("description", "d"),
        ("tags", ["t"]),
        ("metadata", {"m": "v"}),
    ],
)
def test_what_can_be_patched(api: Api, cloud: EmbeddedCloud, field: str, value: Any) -> None:
    """The fields that updateMask may name, and only those that it names."""
    _create(api)
    cloud.advance(1)
    body = {field: value, "runtimeVersion": "ignored: not in the mask"}
    answer = api.tpu("PATCH", "nodes/n1", body=body, updateMask=field)
    assert answer.status_code == 200, answer.text
    node = api.get("nodes/n1")
    assert node[field] == value
    assert node["runtimeVersion"] == "v2-alpha-tpuv6e"


@pytest.mark.parametrize("mask", ["", "runtimeVersion", "labels,serviceAccount", "Labels"])
def test_what_cannot_be_patched_is_refused(api: Api, mask: str) -> None:
    """400 naming the field; nothing changes."""
    _create(api)
    answer = api.tpu("PATCH", "nodes/n1", body={"labels": {}}, updateMask=mask)
    assert error_of(answer)[:2] == (400, "INVALID_ARGUMENT")
    assert api.get("nodes/n1")["labels"] == {"tpuflex-owner": "me"}


@pytest.mark.parametrize(
    ("path", "items"),
    [
        ("tpuflex/", ["detail", "phase"]),
        ("tpuflex/phase", ["phase"]),
        ("", ["detail", "phase", "x"]),
        ("none/", []),
    ],
)
def test_guest_attributes_are_answered_by_path(
    api: Api, cloud: EmbeddedCloud, path: str, items: list[str]
) -> None:
    """A namespace, one key, or everything that the host has set."""
    _create(api)
    cloud.advance(1)
    guest = GuestAttributes(cloud.store)
    for namespace, key in (("tpuflex", "phase"), ("tpuflex", "detail"), ("other", "x")):
        guest.put(f"{_PLACE}/nodes/n1", 0, namespace, key, "value")
    answer = api.tpu("POST", "nodes/n1:getGuestAttributes", body={"queryPath": path}).json()
    (worker,) = answer["guestAttributes"]
    assert worker["queryPath"] == path
    assert sorted(item["key"] for item in worker["queryValue"]["items"]) == items
    bad = api.tpu("POST", "nodes/n1:getGuestAttributes", body={"workerIds": ["1"]})
    assert error_of(bad)[0] == 400


def test_another_node_of_the_same_name_starts_without_guest_attributes(
    api: Api, cloud: EmbeddedCloud
) -> None:
    """The attributes of the deleted instance are gone with it: no stale READY."""
    _create(api)
    cloud.advance(1)
    GuestAttributes(cloud.store).put(f"{_PLACE}/nodes/n1", 0, "tpuflex", "phase", "READY")
    api.tpu("DELETE", "nodes/n1")
    cloud.advance(1)
    _create(api)
    answer = api.tpu("POST", "nodes/n1:getGuestAttributes", body={}).json()
    assert answer["guestAttributes"][0]["queryValue"]["items"] == []


def test_operations_have_the_documented_form(api: Api, cloud: EmbeddedCloud) -> None:
    """Name, metadata and end as documented."""
    operation = api.create().json()
    name = operation["name"].rpartition("/")[2]
    assert name.startswith("operation-1795262400000-")
    assert operation["metadata"] == {
        "@type": "type.googleapis.com/google.cloud.tpu.v2alpha1.OperationMetadata",
        "createTime": "2026-11-21T12:00:00.000000000Z",
        "target": f"{_PLACE}/queuedResources/q1",
        "verb": "create",
        "cancelRequested": False,
        "apiVersion": "v2alpha1",
    }
    cloud.advance(1)
    ended = api.get(f"operations/{name}")
    assert ended["done"] is True
    assert ended["metadata"]["endTime"] == "2026-11-21T12:00:00.300000000Z"
    assert ended["response"]["state"]["state"] == "WAITING_FOR_RESOURCES"


def test_an_operation_outlives_its_target(api: Api, cloud: EmbeddedCloud) -> None:
    """The result of a finished create can be read after the resource is gone."""
    name = api.create().json()["name"].rpartition("/")[2]
    cloud.advance(10)
    api.tpu("DELETE", "queuedResources/q1", force="true")
    cloud.advance(10)
    assert api.get(f"operations/{name}")["response"]["name"].endswith("/queuedResources/q1")


def test_the_tables_of_a_zone(api: Api) -> None:
    """Locations, accelerator types and runtime versions, listed and one by one."""
    locations = api.call("GET", f"/v2/projects/{PROJECT}/locations").json()["locations"]
    assert ZONE in [location["locationId"] for location in locations]
    assert api.get("")["labels"] == {"cloud.googleapis.com/region": "us-east5"}
    types = api.get("acceleratorTypes")["acceleratorTypes"]
    assert "v6e-8" in [entry["type"] for entry in types]
    one = api.get("acceleratorTypes/v6e-8")
    assert one["acceleratorConfigs"] == [{"type": "V6E", "topology": "2x4"}]
    versions = api.get("runtimeVersions")["runtimeVersions"]
    assert api.get("runtimeVersions/v2-alpha-tpuv6e") in versions
    for missing in ("acceleratorTypes/v9", "runtimeVersions/v9"):
        assert error_of(api.tpu("GET", missing))[0] == 404


def test_the_service_identity_belongs_to_the_project_number(api: Api) -> None:
    """generateServiceIdentity answers the TPU service agent."""
    answer = api.tpu("POST", ":generateServiceIdentity", body={}).json()
    email = answer["identity"]["email"]
    assert email.startswith("service-")
    assert email.endswith("@cloud-tpu.iam.gserviceaccount.com")
