"""Compute: routers with their NATs, firewall rules, reserved addresses."""

from __future__ import annotations

from typing import Any

import pytest

from tests.embedded_cloud.api import Api
from tests.embedded_cloud.compute_api import FIREWALL, GLOBAL, REGION, SUBNETWORK, insert, refusal

_NAT = {
    "name": "nat-1",
    "natIpAllocateOption": "AUTO_ONLY",
    "sourceSubnetworkIpRangesToNat": "ALL_SUBNETWORKS_ALL_IP_RANGES",
}


def test_nats_belong_to_their_router(net: Api) -> None:
    """A patch with nats adds them, one without leaves them, an empty list removes them."""
    path = f"{REGION}/routers"
    insert(net, path, {"name": "r-1", "network": "global/networks/net-1"})
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
    """Duplicate names, lists without subnetworks, manual allocation without addresses."""
    body = {"name": "r-1", "network": "global/networks/net-1", "nats": nats}
    assert refusal(net.call("POST", f"{REGION}/routers", body=body)) == reason


def test_a_firewall_rule_is_filled_in(net: Api) -> None:
    """Ingress, priority 1000, protocols in lower case; a change keeps the rest."""
    insert(net, f"{GLOBAL}/firewalls", FIREWALL)
    path = f"{GLOBAL}/firewalls/fw-1"
    rule = net.call("GET", path).json()
    assert (rule["direction"], rule["priority"], rule["disabled"]) == ("INGRESS", 1000, False)
    assert rule["allowed"] == [{"IPProtocol": "tcp", "ports": ["22", "8000-8010"]}]
    net.call("PATCH", path, body={"priority": 900})
    rule = net.call("GET", path).json()
    assert (rule["priority"], rule["sourceRanges"]) == (900, ["35.235.240.0/20"])
    open_rule = {**FIREWALL, "name": "fw-2"}
    del open_rule["sourceRanges"]
    insert(net, f"{GLOBAL}/firewalls", open_rule)
    assert net.call("GET", f"{GLOBAL}/firewalls/fw-2").json()["sourceRanges"] == ["0.0.0.0/0"]


@pytest.mark.parametrize(
    "change",
    [
        {"sourceRanges": ["10.0.0.0/8", "fd00::/8"]},
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
    """Exactly one action, real ranges of one IP version, ports, tags or accounts but not both."""
    answer = net.call("POST", f"{GLOBAL}/firewalls", body={**FIREWALL, **change})
    assert refusal(answer) == (400, "invalid")


def test_addresses_are_reserved_once(net: Api) -> None:
    """External ones from a documentation range, internal ones from their subnetwork."""
    insert(net, f"{REGION}/addresses", {"name": "a-1"})
    insert(net, f"{REGION}/addresses", {"name": "a-2"})
    found = net.call("GET", f"{REGION}/addresses").json()["items"]
    assert len({each["address"] for each in found}) == 2
    insert(net, f"{REGION}/subnetworks", SUBNETWORK)
    subnetwork = "regions/us-east5/subnetworks/sub-1"
    inside = {"name": "a-3", "addressType": "INTERNAL", "subnetwork": subnetwork}
    insert(net, f"{REGION}/addresses", inside)
    assert net.call("GET", f"{REGION}/addresses/a-3").json()["address"] == "10.0.0.2"
    held = net.call("DELETE", f"{REGION}/subnetworks/sub-1")
    assert refusal(held) == (400, "resourceInUseByAnotherResource")
