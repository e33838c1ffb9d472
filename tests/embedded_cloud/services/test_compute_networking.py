"""Compute: networks, subnetworks, operations, lists, places."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from embedded_cloud.server import EmbeddedCloud
from tests.embedded_cloud.api import PROJECT, Api
from tests.embedded_cloud.compute_api import (
    FIREWALL,
    GLOBAL,
    NETWORK,
    REGION,
    ROOT,
    SUBNETWORK,
    insert,
    refusal,
)


def test_an_operation_is_done_and_leads_to_its_target(api: Api, cloud: EmbeddedCloud) -> None:
    """Insert answers with an operation; get and wait show the same one."""
    operation = insert(api, f"{GLOBAL}/networks", NETWORK)
    assert (operation["kind"], operation["status"]) == ("compute#operation", "DONE")
    network = api.call("GET", f"{GLOBAL}/networks/net-1").json()
    assert operation["targetLink"] == network["selfLink"]
    assert operation["targetId"] == network["id"]
    assert network["selfLink"] == f"{cloud.url}/{GLOBAL}/networks/net-1"
    path = f"{GLOBAL}/operations/{operation['name']}"
    assert api.call("GET", path).json() == operation
    assert api.call("POST", f"{path}/wait").json() == operation


def test_a_network_has_googles_defaults(net: Api) -> None:
    """Custom mode, regional routing, MTU 1460."""
    network = net.call("GET", f"{GLOBAL}/networks/net-1").json()
    assert network["autoCreateSubnetworks"] is False
    assert network["mtu"] == 1460
    assert network["routingConfig"]["routingMode"] == "REGIONAL"


def test_an_auto_mode_network_is_refused_by_name(api: Api) -> None:
    """It would need a subnetwork in every region: 501, not half an implementation."""
    answer = api.call("POST", f"{GLOBAL}/networks", body={"name": "n"})
    assert answer.status_code == 501
    assert "autoCreateSubnetworks" in answer.json()["error"]["message"]


def test_names_are_taken_once(net: Api) -> None:
    """A second insert is 409; the same requestId is the same operation."""
    again = net.call("POST", f"{GLOBAL}/networks", body=NETWORK)
    assert refusal(again) == (409, "alreadyExists")
    body = {**NETWORK, "name": "net-2"}
    request_id = "6f1f7b2e-0d3c-4a1b-9a55-0f7f4a3a2b11"
    first = insert(net, f"{GLOBAL}/networks", body, requestId=request_id)
    assert insert(net, f"{GLOBAL}/networks", body, requestId=request_id) == first


@pytest.mark.parametrize("name", ["Upper", "1x", "x-", "x" * 64, "a_b"])
def test_names_that_google_refuses(api: Api, name: str) -> None:
    """RFC 1035 names."""
    answer = api.call("POST", f"{GLOBAL}/networks", body={**NETWORK, "name": name})
    assert refusal(answer) == (400, "invalid")


def test_a_missing_resource_is_named(api: Api) -> None:
    """404 with the path, in Compute's words."""
    answer = api.call("GET", f"{GLOBAL}/networks/nothing")
    assert refusal(answer) == (404, "notFound")
    assert answer.json()["error"]["message"] == (
        f"The resource 'projects/{PROJECT}/global/networks/nothing' was not found"
    )


def test_a_network_in_use_cannot_be_deleted(net: Api) -> None:
    """Each subnetwork, firewall and router keeps it in use."""
    users: dict[str, dict[str, Any]] = {
        f"{GLOBAL}/firewalls": FIREWALL,
        f"{REGION}/routers": {"name": "r-1", "network": "global/networks/net-1"},
        f"{REGION}/subnetworks": SUBNETWORK,
    }
    for collection, body in users.items():
        insert(net, collection, body)
        refused = net.call("DELETE", f"{GLOBAL}/networks/net-1")
        assert refusal(refused) == (400, "resourceInUseByAnotherResource")
        assert f"/{body['name']}'" in refused.json()["error"]["message"]
        assert net.call("DELETE", f"{collection}/{body['name']}").status_code == 200
    assert net.call("DELETE", f"{GLOBAL}/networks/net-1").status_code == 200
    assert net.call("GET", "_emulator/inventory").json() == {}


def test_a_subnetwork_with_a_tpu_node_cannot_be_deleted(net: Api) -> None:
    """A node still being deleted holds addresses in its subnetwork."""
    insert(net, f"{REGION}/subnetworks", SUBNETWORK)
    subnetwork = f"projects/{PROJECT}/regions/us-east5/subnetworks/sub-1"
    config = {"network": f"projects/{PROJECT}/global/networks/net-1", "subnetwork": subnetwork}
    node = {
        "acceleratorType": "v6e-4",
        "runtimeVersion": "v2-alpha-tpuv6e",
        "networkConfig": config,
    }
    assert net.tpu("POST", "nodes", body=node, nodeId="n1").status_code == 200
    refused = net.call("DELETE", f"{REGION}/subnetworks/sub-1")
    assert refusal(refused) == (400, "resourceInUseByAnotherResource")
    assert "nodes/n1" in refused.json()["error"]["message"]


def test_a_node_names_the_subnetwork_of_its_own_region(net: Api, cloud: EmbeddedCloud) -> None:
    """By a bare name it is in the one of that name in the region of its zone: that one is in use,
    gives it its address, and one of the same name elsewhere can go."""
    far = f"{ROOT}/regions/europe-west4/subnetworks"
    insert(net, f"{REGION}/subnetworks", SUBNETWORK)
    insert(net, far, {**SUBNETWORK, "ipCidrRange": "10.0.1.0/24"})
    node = {
        "acceleratorType": "v6e-4",
        "runtimeVersion": "v2-alpha-tpuv6e",
        "networkConfig": {"network": "net-1", "subnetwork": "sub-1"},
    }
    there = replace(net, zone="europe-west4-a")
    assert there.tpu("POST", "nodes", body=node, nodeId="n1").status_code == 200
    refused = net.call("DELETE", f"{far}/sub-1")
    elsewhere = net.call("DELETE", f"{REGION}/subnetworks/sub-1")
    cloud.cloud.strictness.change({"network": {"private_addresses": True}})
    cloud.advance(60)
    (endpoint,) = there.get("nodes/n1")["networkEndpoints"]

    assert refused.status_code == 400
    assert "nodes/n1" in refused.json()["error"]["message"]
    assert elsewhere.status_code == 200, elsewhere.text
    assert endpoint["ipAddress"].startswith("10.0.1.")


def test_a_subnetwork_is_listed_in_its_network(net: Api, cloud: EmbeddedCloud) -> None:
    """Links are full, the gateway is the first address, the network lists it."""
    insert(net, f"{REGION}/subnetworks", SUBNETWORK)
    subnetwork = net.call("GET", f"{REGION}/subnetworks/sub-1").json()
    network = net.call("GET", f"{GLOBAL}/networks/net-1").json()
    assert subnetwork["network"] == network["selfLink"]
    assert subnetwork["region"] == f"{cloud.url}/{REGION}"
    assert subnetwork["gatewayAddress"] == "10.0.0.1"
    assert subnetwork["privateIpGoogleAccess"] is False
    assert network["subnetworks"] == [subnetwork["selfLink"]]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"ipCidrRange": "10.0.0.128/25"}, (400, "invalidResourceUsage")),
        ({"ipCidrRange": "10.1.0.1/24"}, (400, "invalid")),
        ({"ipCidrRange": "10.1.0.0/30"}, (400, "invalid")),
        ({"network": "global/networks/nothing"}, (404, "notFound")),
        ({"network": None}, (400, "required")),
    ],
)
def test_subnetworks_that_google_refuses(
    net: Api, change: dict[str, Any], reason: tuple[int, str]
) -> None:
    """Ranges must be ranges, large enough and apart; the network must exist."""
    insert(net, f"{REGION}/subnetworks", SUBNETWORK)
    body = {**SUBNETWORK, "name": "sub-2", "ipCidrRange": "10.2.0.0/24", **change}
    assert refusal(net.call("POST", f"{REGION}/subnetworks", body=body)) == reason


def test_an_unknown_region_is_refused(net: Api) -> None:
    """Regions are Google's."""
    path = f"{ROOT}/regions/moon-east1/subnetworks"
    assert refusal(net.call("POST", path, body=SUBNETWORK)) == (400, "invalid")


def test_a_subnetworks_patch_needs_its_fingerprint(net: Api) -> None:
    """412 without the present fingerprint; the custom methods need none."""
    insert(net, f"{REGION}/subnetworks", SUBNETWORK)
    path = f"{REGION}/subnetworks/sub-1"
    stale = net.call("PATCH", path, body={"privateIpGoogleAccess": True})
    assert refusal(stale) == (412, "conditionNotMet")
    before = net.call("GET", path).json()
    body = {"privateIpGoogleAccess": True, "fingerprint": before["fingerprint"]}
    assert net.call("PATCH", path, body=body).status_code == 200
    after = net.call("GET", path).json()
    assert after["privateIpGoogleAccess"] is True
    assert after["fingerprint"] != before["fingerprint"]
    assert after["id"] == before["id"]
    off = {"privateIpGoogleAccess": False}
    assert net.call("POST", f"{path}/setPrivateIpGoogleAccess", body=off).status_code == 200
    shrink = net.call("POST", f"{path}/expandIpCidrRange", body={"ipCidrRange": "10.0.0.0/25"})
    assert refusal(shrink) == (400, "invalid")
    grow = net.call("POST", f"{path}/expandIpCidrRange", body={"ipCidrRange": "10.0.0.0/20"})
    assert grow.status_code == 200
    final = net.call("GET", path).json()
    assert (final["privateIpGoogleAccess"], final["ipCidrRange"]) == (False, "10.0.0.0/20")


def test_lists_are_filtered_and_aggregated(net: Api) -> None:
    """By name in both syntaxes, and over all regions."""
    for name in ("net-2", "other"):
        insert(net, f"{GLOBAL}/networks", {**NETWORK, "name": name})
    path = f"{GLOBAL}/networks"
    for expression, expected in {
        'name="net-2"': ["net-2"],
        "name=net-*": ["net-1", "net-2"],
        "name eq net-.*": ["net-1", "net-2"],
        "name ne net-.*": ["other"],
        "(name = net-*) AND (mtu = 1460)": ["net-1", "net-2"],
        'name eq ".*(^other$).*"': ["other"],
    }.items():
        found = net.call("GET", path, filter=expression).json().get("items", [])
        assert [each["name"] for each in found] == expected, expression
    assert refusal(net.call("GET", path, filter="name >")) == (400, "invalid")
    insert(net, f"{REGION}/subnetworks", SUBNETWORK)
    everywhere = net.call("GET", f"{ROOT}/aggregated/subnetworks").json()["items"]
    assert list(everywhere) == ["regions/us-east5"]
    assert everywhere["regions/us-east5"]["subnetworks"][0]["name"] == "sub-1"
