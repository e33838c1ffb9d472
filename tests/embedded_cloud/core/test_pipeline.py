"""What happens to every call, in any service."""

from __future__ import annotations

import http.client
import json
import socket
import struct
from urllib.parse import urlsplit

import pytest
import requests

from embedded_cloud.core.clock import ManualClock
from embedded_cloud.faults.rule import Delay, Rule, Stage, Where
from embedded_cloud.server import EmbeddedCloud
from tests.embedded_cloud.api import TOKEN, Api, error_of, eventually, flex_start


@pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer  ", "Basic dTpw", "ya29.x"])
def test_a_call_without_bearer_token_is_unauthenticated(
    cloud: EmbeddedCloud, header: str | None
) -> None:
    """401 in Google's shape, before anything else is checked."""
    answer = requests.get(
        f"{cloud.url}/v2alpha1/projects/p/locations/us-east5-a/nodes",
        headers={} if header is None else {"Authorization": header},
        timeout=60,
    )
    assert error_of(answer)[:2] == (401, "UNAUTHENTICATED")
    assert answer.headers["WWW-Authenticate"].startswith("Bearer")


def test_a_path_of_no_api_is_not_found(api: Api) -> None:
    """404 names the path."""
    status, code, message = error_of(api.call("GET", "/v9/nothing"))
    assert (status, code) == (404, "NOT_FOUND")
    assert "/v9/nothing" in message


def test_a_method_that_is_not_emulated_names_itself(api: Api, cloud: EmbeddedCloud) -> None:
    """501 with the method's id, never a plausible empty answer; also in the history."""
    answer = api.tpu("GET", "reservations")
    method_id = "tpu.projects.locations.reservations.list"
    assert error_of(answer) == (
        501,
        "UNIMPLEMENTED",
        f"The embedded cloud does not implement {method_id}.",
    )
    entry = cloud.cloud.history.entries()[-1]
    assert (entry["method_id"], entry["status"]) == (method_id, 501)


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        (b"{", "Invalid JSON payload received."),
        (b"[]", "Root element must be a message"),
        (b'{"nope": 1}', 'Unknown name "nope"'),
    ],
)
def test_a_body_that_is_not_the_methods_is_refused(
    cloud: EmbeddedCloud, payload: bytes, expected: str
) -> None:
    """400 INVALID_ARGUMENT in Google's wording."""
    answer = requests.post(
        f"{cloud.url}/v2alpha1/projects/p/locations/us-east5-a/queuedResources",
        data=payload,
        headers={"Authorization": f"Bearer {TOKEN}"},
        timeout=60,
    )
    status, code, message = error_of(answer)
    assert (status, code) == (400, "INVALID_ARGUMENT")
    assert expected in message


@pytest.mark.parametrize("stage", [Stage.BEFORE_COMMIT, Stage.MID_BODY])
def test_a_client_that_disconnects_leaves_no_traceback(
    cloud: EmbeddedCloud, clock: ManualClock, caplog: pytest.LogCaptureFixture, stage: Stage
) -> None:
    """Nothing is logged for a client that is killed while it is being answered."""

    def answered() -> bool:
        clock.advance(1)  # at every look: a fault is counted before its end is set by the clock
        return len(cloud.cloud.history.entries()) > 0

    path = "/v2alpha1/projects/p/locations"
    cloud.cloud.faults.book.add(
        Rule(id="slow", where=Where(path=path), stage=stage, effect=Delay(seconds=1))
    )
    address = urlsplit(cloud.url)
    with socket.create_connection((address.hostname, address.port), timeout=60) as client:
        head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
        client.sendall(head.encode())
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        eventually(lambda: cloud.cloud.faults.book.struck > 0)
    eventually(answered)

    assert cloud.cloud.history.entries()[-1]["path"] == path
    assert Api(cloud.url).call("GET", path).status_code == 200  # and it had time to log
    assert [record for record in caplog.records if record.exc_info] == []


def test_the_standard_parameters_of_googles_clients_are_accepted(api: Api) -> None:
    """``alt``, ``prettyPrint``, ``$.xgafv``, ``key`` and the like are known fields."""
    query = {"alt": "json", "prettyPrint": "false", "$.xgafv": "2", "key": "k", "quotaUser": "u"}
    assert api.tpu("GET", "nodes", **query).status_code == 200


def test_answers_are_compressed_on_demand_and_connections_kept(cloud: EmbeddedCloud) -> None:
    """gzip for clients that accept it, and many calls over one connection."""
    address = urlsplit(cloud.url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=60)
    path = "/v2alpha1/projects/p/locations"
    sockets = set()
    for encoding in ("gzip", "identity"):
        headers = {"Authorization": f"Bearer {TOKEN}", "Accept-Encoding": encoding}
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        body = answer.read()
        assert answer.getheader("Content-Encoding") == (encoding if encoding == "gzip" else None)
        assert answer.getheader("Content-Type") == "application/json; charset=UTF-8"
        assert body.startswith(b"\x1f\x8b" if encoding == "gzip" else b"{")
        sockets.add(connection.sock)
    connection.close()
    assert len(sockets) == 1


def test_the_history_has_every_call_in_order_and_neither_bodies_nor_credentials(
    api: Api, cloud: EmbeddedCloud
) -> None:
    """Method, path, method id, status and request id; nothing that could be secret."""
    body = flex_start(metadata={"canary-key": "canary-value"})
    api.create(body=body, requestId="9b2e", access_token="canary-token")
    api.tpu("GET", "queuedResources/none")
    entries = cloud.cloud.history.entries()
    assert [(entry["seq"], entry["status"], entry["method_id"]) for entry in entries] == [
        (1, 200, "tpu.projects.locations.queuedResources.create"),
        (2, 404, "tpu.projects.locations.queuedResources.get"),
    ]
    assert entries[0]["request_id"] == "9b2e"
    text = (cloud.state_dir / "history.jsonl").read_text()
    assert "canary" not in text
    assert "ya29" not in text


def test_error_bodies_have_both_of_googles_shapes(api: Api) -> None:
    """google.rpc status beside the older list of errors."""
    error = api.tpu("GET", "nodes/none").json()["error"]
    assert error["errors"] == [
        {"message": error["message"], "domain": "global", "reason": "notFound"}
    ]
    assert json.dumps(error)
