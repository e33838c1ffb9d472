"""Queued resources through the HTTP API."""

from __future__ import annotations

from typing import Any

import pytest

from embedded_cloud.server import EmbeddedCloud
from tests.embedded_cloud.api import PROJECT, RUN_S, ZONE, Api, error_of, flex_start

_PLACE = f"projects/{PROJECT}/locations/{ZONE}"


def test_a_request_lives_from_the_queue_to_the_end_of_its_run(
    api: Api, cloud: EmbeddedCloud
) -> None:
    """Every state in order, with its node; the request stays SUSPENDED after its run."""
    assert api.create().status_code == 200
    seen = []
    for step in (0, 0.3, 2.0, 1.0, RUN_S, 1.0, 86400):
        cloud.advance(step)
        seen.append((api.state(), api.node_state()))
    assert seen == [
        ("CREATING", "GONE"),
        ("WAITING_FOR_RESOURCES", "GONE"),
        ("PROVISIONING", "CREATING"),
        ("ACTIVE", "READY"),
        ("SUSPENDING", "DELETING"),
        ("SUSPENDED", "GONE"),
        ("SUSPENDED", "GONE"),
    ]


def test_the_wire_form_of_an_active_request(api: Api, cloud: EmbeddedCloud) -> None:
    """What was requested, plus name, creation time and the state with its data field."""
    api.create()
    cloud.advance(10)
    queued = api.get("queuedResources/q1")
    asked = flex_start()
    assert {key: queued[key] for key in asked} == asked
    assert queued["name"] == f"{_PLACE}/queuedResources/q1"
    assert queued["createTime"] == "2026-11-21T12:00:00.000000000Z"
    assert queued["state"] == {
        "state": "ACTIVE",
        "stateInitiator": "SERVICE",
        "activeData": {},
    }


def test_a_node_deleted_by_its_user_suspends_the_request(api: Api, cloud: EmbeddedCloud) -> None:
    """SUSPENDED by USER; the request keeps its id, and reset does not revive it."""
    api.create()
    cloud.advance(10)
    assert api.tpu("DELETE", "nodes/n1").status_code == 200
    assert (api.state(), api.node_state()) == ("SUSPENDING", "DELETING")
    cloud.advance(1)
    assert api.node_state() == "GONE"
    assert api.get("queuedResources/q1")["state"] == {
        "state": "SUSPENDED",
        "stateInitiator": "USER",
        "suspendedData": {},
    }
    assert error_of(api.create())[:2] == (409, "ALREADY_EXISTS")
    answer = api.tpu("POST", "queuedResources/q1:reset", body={})
    assert error_of(answer)[:2] == (400, "FAILED_PRECONDITION")
    assert api.tpu("DELETE", "queuedResources/q1").status_code == 200
    cloud.advance(1)
    assert api.create().status_code == 200


def test_a_request_that_expires_in_the_queue_fails_and_stays_listed(
    api: Api, cloud: EmbeddedCloud
) -> None:
    """validUntilDuration is over: FAILED with an error, until it is deleted."""
    api.capacity(never=True)
    body = {**flex_start(), "queueingPolicy": {"validUntilDuration": "600s"}}
    api.create(body=body)
    cloud.advance(599)
    assert api.state() == "WAITING_FOR_RESOURCES"
    cloud.advance(1)
    state = api.get("queuedResources/q1")["state"]
    assert (state["state"], state["stateInitiator"]) == ("FAILED", "SERVICE")
    assert state["failedData"]["error"]["code"] == 4
    assert [q["name"] for q in api.get("queuedResources")["queuedResources"]] == [
        f"{_PLACE}/queuedResources/q1"
    ]


def test_a_provisioning_that_fails_ends_in_failed_without_a_node(
    api: Api, cloud: EmbeddedCloud
) -> None:
    """PROVISIONING -> SUSPENDING -> FAILED with the service's error."""
    message = "You have reached IN_USE_ADDRESSES limit"
    api.capacity(failure={"code": "RESOURCE_EXHAUSTED", "message": message})
    api.create()
    seen = []
    for step in (2.3, 1.0, 1.0):
        cloud.advance(step)
        seen.append(api.state())
    assert seen == ["PROVISIONING", "SUSPENDING", "FAILED"]
    error = api.get("queuedResources/q1")["state"]["failedData"]["error"]
    assert error == {"code": 8, "message": message}
    assert api.node_state() == "GONE"


def test_the_same_request_id_is_the_same_operation(api: Api, cloud: EmbeddedCloud) -> None:
    """A retried create or delete answers with the operation that its first try began."""
    first = api.create(requestId="r-1").json()
    assert api.create(requestId="r-1").json() == first
    assert error_of(api.create(requestId="r-2"))[:2] == (409, "ALREADY_EXISTS")
    cloud.advance(10)
    deleted = api.tpu("DELETE", "queuedResources/q1", force="true", requestId="r-1").json()
    again = api.tpu("DELETE", "queuedResources/q1", force="true", requestId="r-1").json()
    assert again["name"] == deleted["name"] != first["name"]
    cloud.advance(1)
    late = api.tpu("DELETE", "queuedResources/q1", requestId="r-1").json()
    assert (late["name"], late["done"]) == (deleted["name"], True)


def test_a_node_id_that_is_taken_is_refused(api: Api, cloud: EmbeddedCloud) -> None:
    """Two requests cannot promise the same node; an ended request frees its node's id."""
    api.create("q1")
    node = flex_start()["tpu"]["nodeSpec"][0]["node"]
    assert error_of(api.tpu("POST", "nodes", body=node, nodeId="n1"))[0] == 409
    assert error_of(api.create("q2"))[:2] == (409, "ALREADY_EXISTS")
    cloud.advance(RUN_S + 60)
    assert api.state("q1") == "SUSPENDED"
    assert api.create("q2").status_code == 200


def _without(key: str) -> dict[str, Any]:
    body = flex_start()
    del body[key]
    return body


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"tpu": {}}, "at least one node spec"),
        (_without("runDuration"), "run_duration is required"),
        (_without("provisioningModel"), "run_duration is only valid with FLEX_START"),
        ({**flex_start(), "runDuration": {"maxRunDuration": "604801s"}}, "at most 604800s"),
        ({**flex_start(), "runDuration": {"maxRunDuration": "0s"}}, "above 0"),
        ({**flex_start(), "spot": {}}, "incompatible with spot requests"),
        ({**flex_start(), "reservationName": "r"}, "incompatible with a reservation"),
        (flex_start(acceleratorType="v6e-3"), 'Accelerator "v6e-3" was not found in zone'),
        (flex_start(acceleratorType="v5litepod-4"), 'Accelerator "v5litepod-4" was not found'),
        (flex_start(acceleratorType=None), "Exactly one of accelerator_type"),
        (flex_start(runtimeVersion="tpu-vm-base"), "Runtime version 'tpu-vm-base' was not"),
        (flex_start(networkConfigs=[{}]), "Only one of network_config and network_configs"),
        (flex_start(description="x" * 513), "at most 512 characters"),
        (flex_start(labels={"A": "b"}), "Invalid label 'A'='b'"),
        (flex_start(metadata={"a b": "c"}), "Invalid metadata key 'a b'"),
        (flex_start(metadata={"a": "é" * 131_073}), "262146 bytes; at most 262144"),
        (flex_start(metadata=dict.fromkeys("ab", "x" * 262144)), "Metadata is 524290 bytes"),
    ],
)
def test_an_invalid_request_is_refused_at_once(
    api: Api, body: dict[str, Any], expected: str
) -> None:
    """400 INVALID_ARGUMENT before anything is queued."""
    status, code, message = error_of(api.create(body=body))
    assert (status, code) == (400, "INVALID_ARGUMENT")
    assert expected in message
    assert api.state() == "GONE"


def test_an_unknown_zone_is_refused(cloud: EmbeddedCloud) -> None:
    """400 naming the zone, for every call."""
    api = Api(cloud.url, zone="mars-north1-a")
    for answer in (api.create(), api.tpu("GET", "queuedResources"), api.tpu("GET", "nodes/n")):
        status, code, message = error_of(answer)
        assert (status, code) == (400, "INVALID_ARGUMENT")
        assert "mars-north1-a is not supported" in message


def test_lists_over_all_zones(api: Api, cloud: EmbeddedCloud) -> None:
    """Location ``-`` means every zone."""
    api.create()
    body = flex_start()
    body["tpu"]["nodeSpec"][0]["parent"] = f"projects/{PROJECT}/locations/us-east5-b"
    assert Api(cloud.url, zone="us-east5-b").create(body=body).ok
    everywhere = Api(cloud.url, zone="-")
    assert len(everywhere.get("queuedResources")["queuedResources"]) == 2
    assert len(everywhere.get("operations")["operations"]) == 2
