"""Compute: networks, subnetworks, routers, firewalls, addresses, operations."""

from __future__ import annotations

from typing import Any

import pytest
import requests

from emulator_api import PROJECT, Api
from tpuflex.emulator.server import EmbeddedCloud

_ROOT = f"compute/v1/projects/{PROJECT}"
_GLOBAL = f"{_ROOT}/global"
_REGION = f"{_ROOT}/regions/us-east5"
_NETWORK = {"name": "net-1", "autoCreateSubnetworks": False}
_SUBNETWORK = {"name": "sub-1", "network": "global/networks/net-1", "ipCidrRange": "10.0.0.0/24"}
_NAT = {
    "name": "nat-1",
    "natIpAllocateOption": "AUTO_ONLY",
    "sourceSubnetworkIpRangesToNat": "ALL_SUBNETWORKS_ALL_IP_RANGES",
}
_FIREWALL = {
    "name": "fw-1",
    "network": "global/networks/net-1",
    "allowed": [{"IPProtocol": "TCP", "ports": ["22", "8000-8010"]}],
    "sourceRanges": ["35.235.240.0/20"],
    "targetTags": ["tpu"],
}


def _insert(api: Api, collection: str, body: dict[str, Any], **query: str) -> Any:
    answer = api.call("POST", collection, body=body, **query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def _refusal(answer: requests.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["errors"][0]["reason"]


@pytest.fixture
def net(api: Api) -> Api:
    """An API with one custom mode network, ``net-1``."""
    _insert(api, f"{_GLOBAL}/networks", _NETWORK)
    return api


def test_an_operation_is_done_and_leads_to_its_target(api: Api, cloud: EmbeddedCloud) -> None:
    """Insert answers an operation; get, wait and list show the same one."""
    operation = _insert(api, f"{_GLOBAL}/networks", _NETWORK)
    assert (operation["kind"], operation["status"]) == ("compute#operation", "DONE")
    network = api.call("GET", f"{_GLOBAL}/networks/net-1").json()
    assert operation["targetLink"] == network["selfLink"]
    assert operation["targetId"] == network["id"]
    assert network["selfLink"] == f"{cloud.url}/{_GLOBAL}/networks/net-1"
    path = f"{_GLOBAL}/operations/{operation['name']}"
    assert api.call("GET", path).json() == operation
    assert api.call("POST", f"{path}/wait").json() == operation
    assert api.call("GET", f"{_GLOBAL}/operations").json()["items"] == [operation]


def test_a_network_has_googles_defaults(net: Api) -> None:
    """Custom mode, regional routing, MTU 1460."""
    network = net.call("GET", f"{_GLOBAL}/networks/net-1").json()
    assert network["autoCreateSubnetworks"] is False
    assert network["mtu"] == 1460
    assert network["routingConfig"]["routingMode"] == "REGIONAL"


def test_an_auto_mode_network_is_refused_by_name(api: Api) -> None:
    """What would need a subnetwork in every region is 501, not half done."""
    answer = api.call("POST", f"{_GLOBAL}/networks", body={"name": "n"})
    assert answer.status_code == 501
    assert "autoCreateSubnetworks" in answer.json()["error"]["message"]


def test_names_are_taken_once(net: Api) -> None:
    """A second insert is 409; the same requestId is the same operation."""
    again = net.call("POST", f"{_GLOBAL}/networks", body=_NETWORK)
    assert _refusal(again) == (409, "alreadyExists")
    body = {**_NETWORK, "name": "net-2"}
    request_id = "6f1f7b2e-0d3c-4a1b-9a55-0f7f4a3a2b11"
    first = _insert(net, f"{_GLOBAL}/networks", body, requestId=request_id)
    assert _insert(net, f"{_GLOBAL}/networks", body, requestId=request_id) == first


@pytest.mark.parametrize("name", ["Upper", "1x", "x-", "x" * 64, "a_b"])
def test_names_that_google_refuses(api: Api, name: str) -> None:
    """RFC 1035 names."""
    answer = api.call("POST", f"{_GLOBAL}/networks", body={**_NETWORK, "name": name})
    assert _refusal(answer) == (400, "invalid")


def test_a_missing_resource_is_named(api: Api) -> None:
    """404 with the path, in Compute's words."""
    answer = api.call("GET", f"{_GLOBAL}/networks/nothing")
    assert _refusal(answer) == (404, "notFound")
    assert answer.json()["error"]["message"] == (
        f"The resource 'projects/{PROJECT}/global/networks/nothing' was not found"
    )


def test_a_network_in_use_cannot_be_deleted(net: Api) -> None:
    """Subnetworks, firewalls and routers each hold it until they are gone."""
    users: dict[str, dict[str, Any]] = {
        f"{_GLOBAL}/firewalls": _FIREWALL,
        f"{_REGION}/routers": {"name": "r-1", "network": "global/networks/net-1"},
        f"{_REGION}/subnetworks": _SUBNETWORK,
    }
    for collection, body in users.items():
        _insert(net, collection, body)
        refused = net.call("DELETE", f"{_GLOBAL}/networks/net-1")
        assert _refusal(refused) == (400, "resourceInUseByAnotherResource")
        assert f"/{body['name']}'" in refused.json()["error"]["message"]
        assert net.call("DELETE", f"{collection}/{body['name']}").status_code == 200
    assert net.call("DELETE", f"{_GLOBAL}/networks/net-1").status_code == 200
    assert net.call("GET", "_emulator/inventory").json() == {}


def test_a_subnetwork_with_a_tpu_node_cannot_be_deleted(net: Api) -> None:
    """A node still being deleted holds addresses in its subnetwork."""
    _insert(net, f"{_REGION}/subnetworks", _SUBNETWORK)
    subnetwork = f"projects/{PROJECT}/regions/us-east5/subnetworks/sub-1"
    config = {"network": f"projects/{PROJECT}/global/networks/net-1", "subnetwork": subnetwork}
    node = {
        "acceleratorType": "v6e-4",
        "runtimeVersion": "v2-alpha-tpuv6e",
        "networkConfig": config,
    }
    assert net.tpu("POST", "nodes", body=node, nodeId="n1").status_code == 200
    refused = net.call("DELETE", f"{_REGION}/subnetworks/sub-1")
    assert _refusal(refused) == (400, "resourceInUseByAnotherResource")
    assert "nodes/n1" in refused.json()["error"]["message"]


def test_a_subnetwork_lies_in_its_network(net: Api, cloud: EmbeddedCloud) -> None:
    """Links are full, the gateway is the first address, the network lists it."""
    _insert(net, f"{_REGION}/subnetworks", _SUBNETWORK)
    subnetwork = net.call("GET", f"{_REGION}/subnetworks/sub-1").json()
    network = net.call("GET", f"{_GLOBAL}/networks/net-1").json()
    assert subnetwork["network"] == network["selfLink"]
    assert subnetwork["region"] == f"{cloud.url}/{_REGION}"
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
    """Ranges must be ranges, large enough and apart; the network must be there."""
    _insert(net, f"{_REGION}/subnetworks", _SUBNETWORK)
    body = {**_SUBNETWORK, "name": "sub-2", "ipCidrRange": "10.2.0.0/24", **change}
    assert _refusal(net.call("POST", f"{_REGION}/subnetworks", body=body)) == reason


def test_an_unknown_region_is_refused(net: Api) -> None:
    """Regions are Google's."""
    path = f"{_ROOT}/regions/moon-east1/subnetworks"
    assert _refusal(net.call("POST", path, body=_SUBNETWORK)) == (400, "invalid")


def test_a_subnetworks_patch_needs_its_fingerprint(net: Api) -> None:
    """412 without the present fingerprint; the custom methods need none."""
    _insert(net, f"{_REGION}/subnetworks", _SUBNETWORK)
    path = f"{_REGION}/subnetworks/sub-1"
    stale = net.call("PATCH", path, body={"privateIpGoogleAccess": True})
    assert _refusal(stale) == (412, "conditionNotMet")
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
    assert _refusal(shrink) == (400, "invalid")
    grow = net.call("POST", f"{path}/expandIpCidrRange", body={"ipCidrRange": "10.0.0.0/20"})
    assert grow.status_code == 200
    final = net.call("GET", path).json()
    assert (final["privateIpGoogleAccess"], final["ipCidrRange"]) == (False, "10.0.0.0/20")


def test_nats_live_in_their_router(net: Api) -> None:
    """A patch with nats adds them, one without leaves them, an empty list removes them."""
    path = f"{_REGION}/routers"
    _insert(net, path, {"name": "r-1", "network": "global/networks/net-1"})
    assert "nats" not in net.call("GET", f"{path}/r-1").json()
    assert net.call("PATCH", f"{path}/r-1", body={"nats": [_NAT]}).status_code == 200
    nat = net.call("GET", f"{path}/r-1").json()["nats"][0]
    assert (nat["type"], nat["endpointTypes"]) == ("PUBLIC", ["ENDPOINT_TYPE_VM"])
    net.call("PATCH", f"{path}/r-1", body={"description": "d"})
    assert len(net.call("GET", f"{path}/r-1").json()["nats"]) == 1
    net.call("PATCH", f"{path}/r-1", body={"nats": []})
    assert net.call("GET", f"{path}/r-1").json()["nats"] == []


@pytest.mark.parametrize(
    ("nats", "reason"),
    [
        ([_NAT, _NAT], (400, "invalid")),
        ([{**_NAT, "sourceSubnetworkIpRangesToNat": "LIST_OF_SUBNETWORKS"}], (400, "invalid")),
        ([{**_NAT, "natIpAllocateOption": "MANUAL_ONLY"}], (400, "invalid")),
        ([{"name": "nat-1"}], (400, "required")),
    ],
)
def test_nats_that_google_refuses(
    net: Api, nats: list[dict[str, Any]], reason: tuple[int, str]
) -> None:
    """Doubled names, lists without subnetworks, manual addresses without addresses."""
    body = {"name": "r-1", "network": "global/networks/net-1", "nats": nats}
    assert _refusal(net.call("POST", f"{_REGION}/routers", body=body)) == reason


def test_a_firewall_rule_is_filled_in(net: Api) -> None:
    """Ingress, priority 1000, protocols in lower case; a change keeps the rest."""
    _insert(net, f"{_GLOBAL}/firewalls", _FIREWALL)
    path = f"{_GLOBAL}/firewalls/fw-1"
    rule = net.call("GET", path).json()
    assert (rule["direction"], rule["priority"], rule["disabled"]) == ("INGRESS", 1000, False)
    assert rule["allowed"] == [{"IPProtocol": "tcp", "ports": ["22", "8000-8010"]}]
    net.call("PATCH", path, body={"priority": 900})
    rule = net.call("GET", path).json()
    assert (rule["priority"], rule["sourceRanges"]) == (900, ["35.235.240.0/20"])
    open_rule = {**_FIREWALL, "name": "fw-2"}
    del open_rule["sourceRanges"]
    _insert(net, f"{_GLOBAL}/firewalls", open_rule)
    assert net.call("GET", f"{_GLOBAL}/firewalls/fw-2").json()["sourceRanges"] == ["0.0.0.0/0"]


@pytest.mark.parametrize(
    "change",
    [
        {"allowed": []},
        {"denied": [{"IPProtocol": "all"}]},
        {"sourceRanges": ["1.2.3.4/8"]},
        {"priority": 70_000},
        {"allowed": [{"IPProtocol": "icmp", "ports": ["1"]}]},
        {"allowed": [{"IPProtocol": "tcp", "ports": ["http"]}]},
        {"targetServiceAccounts": ["a@b"]},
        {"direction": "EGRESS", "sourceTags": ["x"]},
    ],
)
def test_firewall_rules_that_google_refuses(net: Api, change: dict[str, Any]) -> None:
    """Exactly one action, real ranges and ports, tags or accounts but not both."""
    answer = net.call("POST", f"{_GLOBAL}/firewalls", body={**_FIREWALL, **change})
    assert _refusal(answer) == (400, "invalid")


def test_addresses_are_reserved_once(net: Api) -> None:
    """External ones from a documentation range, internal ones from their subnetwork."""
    _insert(net, f"{_REGION}/addresses", {"name": "a-1"})
    _insert(net, f"{_REGION}/addresses", {"name": "a-2"})
    found = net.call("GET", f"{_REGION}/addresses").json()["items"]
    assert len({each["address"] for each in found}) == 2
    _insert(net, f"{_REGION}/subnetworks", _SUBNETWORK)
    subnetwork = "regions/us-east5/subnetworks/sub-1"
    inside = {"name": "a-3", "addressType": "INTERNAL", "subnetwork": subnetwork}
    _insert(net, f"{_REGION}/addresses", inside)
    assert net.call("GET", f"{_REGION}/addresses/a-3").json()["address"] == "10.0.0.2"
    held = net.call("DELETE", f"{_REGION}/subnetworks/sub-1")
    assert _refusal(held) == (400, "resourceInUseByAnotherResource")
    _insert(net, f"{_GLOBAL}/addresses", {"name": "g-1"})
    assert "region" not in net.call("GET", f"{_GLOBAL}/addresses/g-1").json()


def test_lists_are_filtered_paged_and_aggregated(net: Api) -> None:
    """By name in both syntaxes, page after page, and over all regions."""
    for name in ("net-2", "other"):
        _insert(net, f"{_GLOBAL}/networks", {**_NETWORK, "name": name})
    path = f"{_GLOBAL}/networks"
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
    assert _refusal(net.call("GET", path, filter="name >")) == (400, "invalid")
    first = net.call("GET", path, maxResults="2").json()
    rest = net.call("GET", path, maxResults="2", pageToken=first["nextPageToken"]).json()
    assert [each["name"] for each in first["items"] + rest["items"]] == ["net-1", "net-2", "other"]
    _insert(net, f"{_REGION}/subnetworks", _SUBNETWORK)
    everywhere = net.call("GET", f"{_ROOT}/aggregated/subnetworks").json()["items"]
    assert list(everywhere) == ["regions/us-east5"]
    assert everywhere["regions/us-east5"]["subnetworks"][0]["name"] == "sub-1"


def test_places(api: Api) -> None:
    """Projects, regions and zones are Google's."""
    assert api.call("GET", _ROOT).json()["name"] == PROJECT
    region = api.call("GET", _REGION).json()
    assert any(zone.endswith("/us-east5-a") for zone in region["zones"])
    zone = api.call("GET", f"{_ROOT}/zones/us-east5-a").json()
    assert zone["region"] == region["selfLink"]
    assert _refusal(api.call("GET", f"{_ROOT}/zones/us-east5-z")) == (404, "notFound")
    zones = api.call("GET", f"{_ROOT}/zones", filter="name=us-east5-*").json()["items"]
    assert len(zones) == 3


def test_machines_are_not_emulated(api: Api) -> None:
    """Instances answer 501 with the method's name."""
    answer = api.call("GET", f"{_ROOT}/zones/us-east5-a/instances")
    assert answer.status_code == 501
    assert "compute.instances.list" in answer.json()["error"]["message"]
