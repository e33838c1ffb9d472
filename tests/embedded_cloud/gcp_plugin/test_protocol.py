"""The gcp stand-in and the engine: handshake, provider settings, refusals by name."""

from __future__ import annotations

import json
from collections.abc import Iterator

import grpc
import pytest
from google.protobuf import empty_pb2
from pulumi.runtime.proto import plugin_pb2, provider_pb2

from embedded_cloud.gcp_plugin.provider import serve
from pulumi_plugin.values import Properties
from pulumi_plugin.wire import decode, encode
from tests.embedded_cloud.api import TOKEN
from tests.embedded_cloud.gcp_plugin.calls import REGION, TOKENS, Calls, connected, refusal, urn

CUSTOM: Properties = {"name": "net", "autoCreateSubnetworks": False}

#: No server listens there: nothing in this file may call the cloud.
NO_CLOUD = "http://127.0.0.1:9"


@pytest.fixture
def calls() -> Iterator[Calls]:
    """A provider without a cloud."""
    plugin = serve(NO_CLOUD, token=TOKEN, environ={})
    with connected(plugin.port) as provider:
        yield provider
    plugin.stop()


@pytest.mark.parametrize(
    "token", ["gcp:compute/instance:Instance", "gcp:tpu/v2QueuedResource:V2QueuedResource"]
)
def test_other_types_are_refused_by_name(calls: Calls, token: str) -> None:
    """Every call on a type that is not served names the type and what is served."""
    with pytest.raises(grpc.RpcError) as caught:
        calls.check(token, {})
    message = refusal(caught.value)
    assert f"does not serve {token}; it serves: " in message
    assert "gcp:storage/bucket:Bucket" in message


def test_functions_methods_and_components_are_refused_by_name(calls: Calls) -> None:
    """The stand-in serves resources only."""
    tok = "gcp:organizations/getProject:getProject"
    with pytest.raises(grpc.RpcError, match=f"the function {tok}"):
        calls.stub.Invoke(provider_pb2.InvokeRequest(tok=tok))
    with pytest.raises(grpc.RpcError, match="the method gcp:x"):
        calls.stub.Call(provider_pb2.CallRequest(tok="gcp:x"))
    with pytest.raises(grpc.RpcError, match="the component gcp:y"):
        calls.stub.Construct(provider_pb2.ConstructRequest(type="gcp:y"))


def test_the_handshake(calls: Calls) -> None:
    """The plugin accepts secrets and an attaching engine, and has the published version."""
    shake = calls.stub.Handshake(provider_pb2.ProviderHandshakeRequest())
    assert shake.accept_secrets
    calls.stub.Attach(plugin_pb2.PluginAttach(address="127.0.0.1:1"))
    assert calls.stub.GetPluginInfo(empty_pb2.Empty()).version == "10.2.0"
    schema = json.loads(calls.stub.GetSchema(provider_pb2.GetSchemaRequest()).schema)
    assert "gcp:storage/bucket:Bucket" in schema["resources"]


def test_provider_settings_that_would_be_ignored_are_refused(calls: Calls) -> None:
    """Credentials and endpoints cannot be honoured on the embedded cloud."""
    news: Properties = {"credentials": "x", "computeCustomEndpoint": "y", "project": "p"}
    answer = calls.stub.CheckConfig(provider_pb2.CheckRequest(news=encode(news)))
    assert {one.property for one in answer.failures} == {"credentials", "computeCustomEndpoint"}
    wrong: Properties = {"defaultLabels": "{"}
    answer = calls.stub.CheckConfig(provider_pb2.CheckRequest(news=encode(wrong)))
    assert [one.reason for one in answer.failures] == ["not JSON: {"]


def test_a_changed_provider_replaces_nothing(calls: Calls) -> None:
    """DiffConfig reports a change, and never a replacement."""
    request = provider_pb2.DiffRequest(
        olds=encode({"project": "a", "version": "1"}), news=encode({"project": "b"})
    )
    answer = calls.stub.DiffConfig(request)
    assert (list(answer.diffs), list(answer.replaces)) == (["project"], [])


def test_project_and_region_are_taken_from_the_environment() -> None:
    """The same variables as with the published plugin."""
    environ = {"GOOGLE_CLOUD_PROJECT": "from-env", "CLOUDSDK_COMPUTE_REGION": REGION}
    plugin = serve(NO_CLOUD, token=TOKEN, environ=environ)
    with connected(plugin.port) as calls:
        answer = calls.stub.CheckConfig(provider_pb2.CheckRequest(news=encode({})))
    plugin.stop()
    assert decode(answer.inputs) == {"project": "from-env", "region": REGION}


def test_a_resource_without_a_project_is_refused() -> None:
    """The published plugin's message, and the command that sets one."""
    plugin = serve(NO_CLOUD, token=TOKEN, environ={})
    with connected(plugin.port, project="") as calls, pytest.raises(grpc.RpcError) as caught:
        calls.create("Network", CUSTOM)
    plugin.stop()
    assert refusal(caught.value).splitlines() == [
        "project: required field is not set",
        "set it on the resource or on the provider: pulumi config set gcp:project VALUE",
    ]


def test_the_type_is_read_from_the_urn_for_older_engines(calls: Calls) -> None:
    """Engines before the ``type`` field say it within the URN, after the parents' types."""
    token = f"pkg:index:Parent${TOKENS['Network']}"
    answer = calls.stub.Check(provider_pb2.CheckRequest(urn=urn(token), news=encode(CUSTOM)))
    assert not answer.failures
