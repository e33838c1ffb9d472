"""Waits, conflicts and failures of the gcp stand-in, on a scripted cloud."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import grpc
import pytest
from google.protobuf import any_pb2
from google.rpc import status_pb2
from pulumi.runtime.proto import provider_pb2

from embedded_cloud.core.json_types import JsonObject, JsonValue
from embedded_cloud.gcp_plugin.provider import Timing, serve
from pulumi_plugin.values import Properties
from pulumi_plugin.wire import decode
from tests.embedded_cloud.api import TOKEN
from tests.embedded_cloud.gcp_plugin.calls import (
    NETWORK_ID,
    PROJECT,
    SAMPLES,
    TOKENS,
    Calls,
    Held,
    connected,
    refusal,
)
from tests.embedded_cloud.gcp_plugin.scripted_cloud import Script, error, scripted

NETWORK = f"/compute/v1/{NETWORK_ID}"
POLICY = "/storage/v1/b/plugin-bucket-1/iam"
CUSTOM: Properties = {"name": "net", "autoCreateSubnetworks": False}


def operation(status: str, **more: JsonValue) -> JsonObject:
    """A Compute Engine operation as the API returns it."""
    link = f"https://compute/compute/v1/projects/{PROJECT}/global/operations/op-1"
    body: JsonObject = {"name": "op-1", "status": status, "selfLink": link}
    return body | more


@pytest.fixture
def script() -> Iterator[Script]:
    """A scripted cloud."""
    with scripted() as cloud:
        yield cloud


@pytest.fixture
def paused() -> list[float]:
    """The seconds of every pause that the plugin made."""
    return []


@pytest.fixture
def calls(script: Script, paused: list[float]) -> Iterator[Calls]:
    """A provider on the scripted cloud; its clock moves only when it pauses."""

    def pause(_session: object, seconds: float) -> bool:
        paused.append(seconds)
        return False

    timing = Timing(now=lambda: sum(paused), pause=pause)
    plugin = serve(script.url, token=TOKEN, environ={}, timing=timing)
    with connected(plugin.port) as provider:
        yield provider
    plugin.stop()


def test_an_operation_is_polled_until_it_is_done(
    calls: Calls, script: Script, paused: list[float]
) -> None:
    """Create returns only after the operation is DONE, and reads the resource back."""
    poll = f"GET /compute/v1/projects/{PROJECT}/global/operations/op-1"
    script.on(f"POST /compute/v1/projects/{PROJECT}/global/networks", operation("PENDING"))
    script.on(poll, operation("RUNNING"), operation("RUNNING"), operation("DONE"))
    script.on(f"GET {NETWORK}", {"name": "net", "selfLink": "the-link"})
    assert calls.create("Network", CUSTOM).state["selfLink"] == "the-link"
    assert script.count(poll) == len(paused) == 3
    assert paused == sorted(paused) or max(paused) <= 2


def test_a_failed_operation_is_reported_and_nothing_is_kept(calls: Calls, script: Script) -> None:
    """An operation that ends with an error has created nothing: a plain failure."""
    failed = operation("DONE", error={"errors": [{"code": "QUOTA_EXCEEDED", "message": "full"}]})
    script.on(f"POST /compute/v1/projects/{PROJECT}/global/networks", failed)
    with pytest.raises(grpc.RpcError) as caught:
        calls.create("Network", CUSTOM)
    assert refusal(caught.value) == "Error waiting for Creating Network: QUOTA_EXCEEDED: full"
    assert kept(caught.value) is None


def kept(caught: grpc.RpcError) -> Held | None:
    """The resource that the engine is told to keep in its state, if any."""
    assert isinstance(caught, grpc.Call)
    metadata = dict(caught.trailing_metadata() or ())
    packed = metadata.get("grpc-status-details-bin")
    assert isinstance(packed, bytes)
    details: list[any_pb2.Any] = list(status_pb2.Status.FromString(packed).details)
    if not details:
        return None
    failed = provider_pb2.ErrorResourceInitFailed()
    assert details[0].Unpack(failed)
    inputs = decode(failed.inputs)
    return Held(TOKENS["Network"], failed.id, decode(failed.properties), inputs)


def test_a_create_that_runs_out_of_time_keeps_the_resource(calls: Calls, script: Script) -> None:
    """The operation may still succeed, so the engine must know the resource."""
    script.on(f"POST /compute/v1/projects/{PROJECT}/global/networks", operation("RUNNING"))
    poll = f"GET /compute/v1/projects/{PROJECT}/global/operations/op-1"
    script.on(poll, operation("RUNNING"))
    with pytest.raises(grpc.RpcError) as caught:
        calls.create("Network", CUSTOM)
    assert refusal(caught.value) == "timeout while waiting for Creating Network"
    held = kept(caught.value)
    assert held is not None
    assert held.id == NETWORK_ID
    assert held.inputs["name"] == "net"
    assert held.state["deletionPolicy"] == "DELETE"


def test_a_create_that_cannot_be_read_back_keeps_the_resource(calls: Calls, script: Script) -> None:
    """A resource that was created but cannot be read must stay in the state."""
    script.on(f"POST /compute/v1/projects/{PROJECT}/global/networks", operation("DONE"))
    script.on(f"GET {NETWORK}", error(403, "forbidden"))
    with pytest.raises(grpc.RpcError) as caught:
        calls.create("Network", CUSTOM)
    assert "googleapi: Error 403: no, forbidden" in refusal(caught.value)
    assert kept(caught.value) is not None


def test_only_not_found_means_gone(calls: Calls, script: Script) -> None:
    """A refresh drops a resource on 404 alone; every other error is an error."""
    held = Held(TOKENS["Network"], NETWORK_ID, {"name": "net"}, CUSTOM)
    assert calls.read(held) is None
    script.on(f"GET {NETWORK}", error(403, "forbidden"))
    with pytest.raises(grpc.RpcError, match="Error when reading or editing Network"):
        calls.read(held)


def test_transient_errors_are_retried(calls: Calls, script: Script, paused: list[float]) -> None:
    """Transient errors are retried a few times, then reported."""
    script.on(f"GET {NETWORK}", error(503, "backendError"), {"name": "net"})
    held = Held(TOKENS["Network"], NETWORK_ID, {"name": "net"}, CUSTOM)
    assert calls.read(held) is not None
    assert len(paused) == 1
    script.on(f"GET {NETWORK}", error(429, "rateLimitExceeded"))
    with pytest.raises(grpc.RpcError, match="Error 429: no, rateLimitExceeded"):
        calls.read(held)
    assert script.count(f"GET {NETWORK}") == 2 + 5


def test_a_policy_changed_by_another_writer_is_read_again(calls: Calls, script: Script) -> None:
    """A write against an old etag is refused; the plugin reads, merges and writes again."""
    theirs: JsonObject = {"role": "roles/x", "members": ["user:them@example.com"]}
    script.on(f"GET {POLICY}", {"etag": "one"}, {"etag": "two", "bindings": [theirs]})
    script.on(f"PUT {POLICY}", error(412, "conditionNotMet"), {"etag": "three"})
    calls.create("BucketIAMMember", SAMPLES["BucketIAMMember"])
    written = [body for request, body in script.asked if request == f"PUT {POLICY}"]
    assert [body["etag"] for body in written] == ["one", "two"]
    mine: JsonObject = {
        "role": "roles/storage.objectViewer",
        "members": [str(SAMPLES["BucketIAMMember"]["member"])],
    }
    assert written[-1] == {"etag": "two", "bindings": [theirs, mine], "version": 3}


def test_revoking_leaves_the_other_members(calls: Calls, script: Script) -> None:
    """Only the one member is removed, and a binding that is empty afterwards."""
    mine = str(SAMPLES["BucketIAMMember"]["member"])
    role = "roles/storage.objectViewer"
    held = Held(
        TOKENS["BucketIAMMember"],
        f"b/plugin-bucket-1/{role}/{mine}",
        SAMPLES["BucketIAMMember"],
        SAMPLES["BucketIAMMember"],
    )
    conditional: JsonObject = {
        "role": role,
        "members": [mine],
        "condition": {"title": "t", "expression": "true"},
    }
    both: JsonObject = {"role": role, "members": [mine, "user:you@example.com"]}
    script.on(f"GET {POLICY}", {"etag": "e", "bindings": [both, conditional]})
    script.on(f"PUT {POLICY}", {"etag": "f"})
    calls.delete(held)
    left: JsonObject = {"role": role, "members": ["user:you@example.com"]}
    assert script.asked[-1][1]["bindings"] == [left, conditional]


def test_cancel_ends_the_waits_of_one_connection_only(script: Script) -> None:
    """Ctrl-C in one program ends its waits; another program on the same plugin goes on."""
    post = f"POST /compute/v1/projects/{PROJECT}/global/networks"
    poll = f"GET /compute/v1/projects/{PROJECT}/global/operations/op-1"
    script.on(post, operation("RUNNING"))
    script.on(poll, operation("RUNNING"))
    plugin = serve(script.url, token=TOKEN, environ={})
    with connected(plugin.port) as mine, connected(plugin.port) as theirs:
        timer = threading.Timer(0.05, mine.cancel)
        timer.start()
        with pytest.raises(grpc.RpcError) as caught:
            mine.create("Network", CUSTOM)
        timer.join()
        assert refusal(caught.value) == "cancelled while waiting for Creating Network"
        assert kept(caught.value) is not None
        script.on(poll, operation("RUNNING"), operation("DONE"))
        script.on(f"GET {NETWORK}", {"name": "net"})
        assert theirs.create("Network", CUSTOM).id == NETWORK_ID
    plugin.stop()


def test_a_bug_is_a_sentence_and_not_a_traceback(
    calls: Calls, script: Script, caplog: pytest.LogCaptureFixture
) -> None:
    """After an answer that no API gives, the log has a traceback and the user one line."""
    script.on(f"GET {NETWORK}", {"mtu": "not-a-number"})
    with pytest.raises(grpc.RpcError) as caught:
        calls.read(Held(TOKENS["Network"], NETWORK_ID, {"name": "net"}, CUSTOM))
    assert caught.value.code() is grpc.StatusCode.INTERNAL
    assert refusal(caught.value).startswith(
        "internal error in the gcp stand-in plugin: ValueError at"
    )
    assert "Traceback" not in refusal(caught.value)
    assert "Traceback" in caplog.text


def test_a_cloud_that_does_not_run_is_named_with_the_remedy() -> None:
    """Without the embedded cloud the message says how to start it."""
    plugin = serve("http://127.0.0.1:9", token=TOKEN, environ={})
    with connected(plugin.port) as calls, pytest.raises(grpc.RpcError) as caught:
        calls.create("Network", CUSTOM)
    plugin.stop()
    assert "http://127.0.0.1:9 does not answer" in refusal(caught.value)
    assert refusal(caught.value).endswith("start it: tpuflex emulator start")
