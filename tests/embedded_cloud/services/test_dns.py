"""Cloud DNS over HTTP: zones, record sets and changes, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from tests.embedded_cloud.api import PROJECT, Api
from tests.embedded_cloud.compute_api import refusal

ZONES = f"dns/v1/projects/{PROJECT}/managedZones"
ZONE = f"{ZONES}/apis"
NETWORK_URL = f"https://www.googleapis.com/compute/v1/projects/{PROJECT}/global/networks/net-1"
PRIVATE = {
    "name": "apis",
    "dnsName": "googleapis.com.",
    "description": "why",
    "visibility": "private",
    "privateVisibilityConfig": {"networks": [{"networkUrl": NETWORK_URL}]},
    "labels": {"a": "b", "c": "d"},
}
ADDRESSES = {
    "name": "private.googleapis.com.",
    "type": "A",
    "ttl": 300,
    "rrdatas": ["199.36.153.8", "199.36.153.9"],
}
WILDCARD = {
    "name": "*.googleapis.com.",
    "type": "CNAME",
    "ttl": 300,
    "rrdatas": ["private.googleapis.com."],
}


@pytest.fixture
def zone(net: Api) -> Api:
    """An API with one private zone, ``apis``, on the network ``net-1``."""
    answer = net.call("POST", ZONES, body=PRIVATE)
    assert answer.status_code == 200, answer.text
    return net


def change(api: Api, **parts: Any) -> Any:
    """Make a change, which must be accepted."""
    answer = api.call("POST", f"{ZONE}/changes", body=parts)
    assert answer.status_code == 200, answer.text
    return answer.json()


def record_sets(api: Api, **query: str) -> list[tuple[str, str]]:
    """Name and type of the record sets of the zone."""
    found = api.call("GET", f"{ZONE}/rrsets", **query).json().get("rrsets", [])
    return [(each["name"], each["type"]) for each in found]


def test_a_zone_comes_with_its_own_record_sets_and_goes_with_them(zone: Api) -> None:
    """NS and SOA are there from the start, and do not keep the zone from being deleted."""
    assert record_sets(zone) == [("googleapis.com.", "NS"), ("googleapis.com.", "SOA")]
    made = zone.call("GET", ZONE).json()
    assert made.items() >= PRIVATE.items()
    assert made["nameServers"] == ["ns-gcp-private.googledomains.com."]

    gone = zone.call("DELETE", ZONE)

    assert (gone.status_code, gone.content) == (204, b"")
    assert zone.call("GET", ZONE).status_code == 404
    assert "managedZones" not in zone.call("GET", ZONES).json()


def test_a_zone_is_named_by_its_id_too(zone: Api) -> None:
    """What was made anew under the name has another id, and is not meant."""
    made = zone.call("GET", ZONE).json()
    by_id = f"{ZONES}/{made['id']}"
    zone.call("POST", f"{by_id}/changes", body={"additions": [ADDRESSES]})

    assert zone.call("GET", by_id).json() == made
    assert len(zone.call("GET", f"{by_id}/rrsets").json()["rrsets"]) == 3
    assert refusal(zone.call("DELETE", by_id)) == (400, "containerNotEmpty")
    zone.call("POST", f"{by_id}/changes", body={"deletions": [ADDRESSES]})
    assert zone.call("DELETE", by_id).status_code == 204
    assert zone.call("GET", ZONE).status_code == 404


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("name", "Apis", "invalid"),
        ("name", "", "required"),
        ("dnsName", "googleapis.com", "invalid"),
        ("dnsName", "*.googleapis.com.", "invalid"),
        ("dnsName", "", "required"),
        ("privateVisibilityConfig", {"networks": [{"networkUrl": "net-1"}]}, "invalid"),
        (
            "privateVisibilityConfig",
            {"networks": [{"networkUrl": f"{NETWORK_URL}-other"}]},
            "invalid",
        ),
    ],
)
def test_a_zone_that_is_wrong_is_refused(net: Api, field: str, value: Any, reason: str) -> None:
    """Names in Cloud DNS's form, and networks that exist, by their link."""
    answer = net.call("POST", ZONES, body=PRIVATE | {field: value})

    assert refusal(answer) == (400, reason)


def test_a_name_is_taken_once(zone: Api) -> None:
    """A second zone with the name is refused, whatever its domain is."""
    answer = zone.call("POST", ZONES, body=PRIVATE | {"dnsName": "gcr.io."})

    assert refusal(answer) == (409, "alreadyExists")


def test_labels_are_patched_one_by_one(zone: Api) -> None:
    """A PATCH merges, null removes, and the answer is an operation that is done."""
    operation = zone.call("PATCH", ZONE, body={"labels": {"a": None, "e": "f"}}).json()

    assert (operation["kind"], operation["status"]) == ("dns#operation", "done")
    assert zone.call("GET", ZONE).json()["labels"] == {"c": "d", "e": "f"}
    refused = zone.call("PATCH", ZONE, body={"dnsName": "gcr.io."})
    assert refusal(refused) == (400, "invalid")


def test_a_network_has_googles_link(net: Api) -> None:
    """Whatever address the request named it by: the published plugin sends back what it reads, and
    puts an address of its own before a link that is not https."""
    url = f"{net.url}/compute/v1/projects/{PROJECT}/global/networks/net-1"
    body = PRIVATE | {"privateVisibilityConfig": {"networks": [{"networkUrl": url}]}}
    assert net.call("POST", ZONES, body=body).status_code == 200

    (network,) = net.call("GET", ZONE).json()["privateVisibilityConfig"]["networks"]
    assert network["networkUrl"] == (
        f"https://www.googleapis.com/compute/v1/projects/{PROJECT}/global/networks/net-1"
    )


def test_the_published_plugins_update_sends_the_whole_zone(zone: Api) -> None:
    """PUT with what a GET gave; what only Cloud DNS sets stays as it is."""
    before = zone.call("GET", ZONE).json()

    zone.call("PUT", ZONE, body={**before, "description": "other", "id": "1"})

    assert zone.call("GET", ZONE).json() == {**before, "description": "other"}


def test_a_change_is_made_as_a_whole_or_not_at_all(zone: Api) -> None:
    """The second addition is refused, so the first is not made either."""
    wrong = ADDRESSES | {"name": "private.example.com."}

    answer = zone.call("POST", f"{ZONE}/changes", body={"additions": [ADDRESSES, wrong]})

    assert refusal(answer) == (400, "invalid")
    assert len(record_sets(zone)) == 2
    made = change(zone, additions=[ADDRESSES, WILDCARD])
    assert zone.call("GET", f"{ZONE}/changes/{made['id']}").json() == made
    assert zone.call("GET", f"{ZONE}/changes").json()["changes"] == [made]


@pytest.mark.parametrize(
    ("record_set", "expected"),
    [
        (ADDRESSES, (409, "alreadyExists")),
        (WILDCARD | {"type": "A", "rrdatas": ["10.0.0.1"]}, (409, "alreadyExists")),
        (ADDRESSES | {"name": "x.googleapis.com", "type": "A"}, (400, "invalid")),
        (ADDRESSES | {"name": "x.googleapis.com.", "rrdatas": ["::1"]}, (400, "invalid")),
        (ADDRESSES | {"name": "x.googleapis.com.", "rrdatas": []}, (400, "required")),
        (WILDCARD | {"name": "googleapis.com."}, (400, "invalid")),
        (ADDRESSES | {"name": "x.googleapis.com.", "type": "ANY"}, (400, "invalid")),
    ],
)
def test_an_addition_that_cannot_be(
    zone: Api, record_set: dict[str, Any], expected: tuple[int, str]
) -> None:
    """What exists, what has a CNAME beside it, and what is no record of the zone."""
    change(zone, additions=[ADDRESSES, WILDCARD])

    answer = zone.call("POST", f"{ZONE}/changes", body={"additions": [record_set]})

    assert refusal(answer) == expected


@pytest.mark.parametrize(
    ("record_set", "expected"),
    [
        (ADDRESSES | {"ttl": 5}, (412, "conditionNotMet")),
        (ADDRESSES | {"rrdatas": ["199.36.153.8"]}, (412, "conditionNotMet")),
        (ADDRESSES | {"name": "other.googleapis.com."}, (404, "notFound")),
    ],
)
def test_a_deletion_names_the_present_content(
    zone: Api, record_set: dict[str, Any], expected: tuple[int, str]
) -> None:
    """A stale reader does not delete what another one wrote."""
    change(zone, additions=[ADDRESSES])

    answer = zone.call("POST", f"{ZONE}/changes", body={"deletions": [record_set]})

    assert refusal(answer) == expected


def test_record_sets_one_by_one(zone: Api) -> None:
    """Create, list by name, patch and delete without a change of one's own."""
    assert zone.call("POST", f"{ZONE}/rrsets", body=WILDCARD).status_code == 200
    assert record_sets(zone, name=str(WILDCARD["name"])) == [("*.googleapis.com.", "CNAME")]
    one = f"{ZONE}/rrsets/%2A.googleapis.com./CNAME"

    patched = zone.call("PATCH", one, body={"ttl": 60}).json()

    assert patched["ttl"] == 60
    assert zone.call("GET", one).json() == patched
    assert zone.call("DELETE", one).status_code == 200
    assert zone.call("GET", one).status_code == 404
