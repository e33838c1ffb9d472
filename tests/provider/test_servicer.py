"""The gRPC face: the provider's process, its configuration, its answers."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import grpc
import pytest
from google.protobuf.empty_pb2 import Empty
from google.rpc import status_pb2

from pulumi_plugin.log import EngineLog
from pulumi_plugin.protocol import plugin_pb2, provider_pb2, provider_pb2_grpc
from pulumi_plugin.values import UNKNOWN
from pulumi_plugin.wire import decode, encode, secret_keys
from tests.provider.direct import CallFailedError, Context, Provider
from tests.provider.fakes import (
    INPUTS,
    NAME,
    Cloud,
    FakeTime,
    Script,
    missing,
    node,
    queued,
    sequence,
)
from tpuflex import __version__
from tpuflex.codes import Code, split_code
from tpuflex.google.queued_resources import TpuClient
from tpuflex.google.timing import Timing
from tpuflex.naming import QUEUED_RESOURCE
from tpuflex.provider.configuration import Configuration
from tpuflex.provider.servicer import Servicer
from tpuflex.queued_resource.outcomes import TABLE, Condition

PLUGIN = Path(__file__).parents[2] / "infra" / "plugin" / "pulumi-resource-tpuflex"
URN = f"urn:pulumi:dev::shop::{QUEUED_RESOURCE}::slice"
TOKEN = "ya29.a0Canary_token-123"


class Served:
    """A servicer behind a real gRPC server, with a scripted API."""

    def __init__(
        self, stub: provider_pb2_grpc.ResourceProviderStub, cloud: Cloud, said: list[str]
    ) -> None:
        self.stub = stub
        self.cloud = cloud
        self.said = said


class KeptLog(EngineLog):
    """A log that keeps its lines, for want of an engine."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def write(self, urn: str, text: str, *, passing: bool = False, warning: bool = False) -> None:
        del urn, passing, warning
        self.said.append(text)


@pytest.fixture
def served() -> Iterator[Served]:
    cloud = Cloud()

    def connect(_configured: Configuration, _timing: Timing) -> TpuClient:
        return TpuClient(Script(FakeTime(), cloud))

    log = KeptLog()
    servicer = Servicer(log, connect)
    server = grpc.server(ThreadPoolExecutor(100))
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield Served(provider_pb2_grpc.ResourceProviderStub(channel), cloud, log.said)
    servicer.stop()
    server.stop(1).wait()


def detail(error: grpc.RpcError) -> provider_pb2.ErrorResourceInitFailed:
    """The partial state inside a failed call."""
    assert isinstance(error, grpc.Call)
    (data,) = [
        value for key, value in error.trailing_metadata() if key == "grpc-status-details-bin"
    ]
    status = status_pb2.Status.FromString(data)
    found = provider_pb2.ErrorResourceInitFailed()
    assert status.details[0].Unpack(found)
    return found


def test_check_config_keeps_only_the_providers_own_keys(served: Served) -> None:
    """The engine hands the default provider every key of the stack file; only two are its own,
    so no changed stack setting ever touches the provider."""
    everything = encode(
        {"project": "p", "cloud": "embedded", "slice": '{"zones":["us-east5-a"]}', "version": "1"}
    )

    urn = "urn:pulumi:dev::shop::pulumi:providers:tpuflex::default_0_1_0"
    answer = served.stub.CheckConfig(provider_pb2.CheckRequest(urn=urn, news=everything))

    assert decode(answer.inputs) == {"project": "p", "version": "1"}
    assert not answer.failures
    other = provider_pb2.DiffRequest(
        olds=everything, news=encode({"project": "p", "slice": "{}", "version": "2"})
    )
    assert served.stub.DiffConfig(other).changes == provider_pb2.DiffResponse.DIFF_NONE


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [
        ({"project": "p"}, {"project": "q"}, ["project"]),
        ({"project": "p"}, {}, ["project"]),
        ({"embedded": "true"}, {"embedded": False}, ["embedded"]),
        ({"embedded": "true"}, {"embedded": True}, []),
        ({"project": "p"}, {"project": UNKNOWN}, ["project"]),
        ({"project": "p", "embedded": True}, {"project": "q"}, ["embedded", "project"]),
    ],
)
def test_p4_a_changed_provider_is_configured_anew(
    served: Served, old: dict[str, Any], new: dict[str, Any], changed: list[str]
) -> None:
    """P4: the engine goes on with the old configuration unless it is told that it differs; a
    resource is never replaced for it."""
    answer = served.stub.DiffConfig(
        provider_pb2.DiffRequest(olds=encode(old), old_inputs=encode(old), news=encode(new))
    )

    assert sorted(answer.diffs) == changed
    assert not answer.replaces
    some = provider_pb2.DiffResponse.DIFF_SOME
    assert answer.changes == (some if changed else provider_pb2.DiffResponse.DIFF_NONE)


def test_check_fills_in_and_keeps_secrets_and_unknowns(served: Served) -> None:
    """Inputs come back as they went in, with names made of the URN added."""
    given = {k: v for k, v in INPUTS.items() if k not in ("queuedResourceId", "labels")}
    news = encode({**given, "network": UNKNOWN, "metadata": {"k": "v"}}, secrets=["metadata"])

    answer = served.stub.Check(provider_pb2.CheckRequest(urn=URN, news=news))

    assert not answer.failures
    inputs = decode(answer.inputs)
    assert inputs["queuedResourceId"] == "shop-dev-slice-g1"
    assert inputs["network"] is UNKNOWN
    assert secret_keys(answer.inputs) == {"metadata"}


def test_a_diff_speaks_only_of_what_is_planned(served: Served) -> None:
    """Refresh and destroy request a diff after their read, without a program: no purchase is
    announced there."""
    inputs = encode(INPUTS)
    lost = encode({**INPUTS, "lifecycle": "lost", "state": "ACTIVE", "name": NAME})
    diff = provider_pb2.DiffRequest(id=NAME, urn=URN, olds=lost, news=inputs, old_inputs=inputs)

    served.stub.Diff(diff)
    assert served.said == []
    served.stub.Check(provider_pb2.CheckRequest(urn=URN, news=inputs, olds=inputs))
    served.stub.Diff(diff)
    assert served.said == [TABLE[Condition.NODE_MISSING].up.text]
    served.stub.Read(provider_pb2.ReadRequest(id=NAME, urn=URN, inputs=inputs))
    served.said.clear()
    served.stub.Diff(diff)
    assert served.said == []


def test_a_diff_says_with_a_code_that_the_run_is_over(served: Served) -> None:
    """The command line shows that in words of its own, and must recognise it."""
    inputs = encode(INPUTS)
    ended = encode({**INPUTS, "lifecycle": "ended", "state": "SUSPENDED", "name": NAME})

    served.stub.Check(provider_pb2.CheckRequest(urn=URN, news=inputs, olds=inputs))
    served.stub.Diff(
        provider_pb2.DiffRequest(id=NAME, urn=URN, olds=ended, news=inputs, old_inputs=inputs)
    )

    assert [split_code(text)[1] for text in served.said] == [Code.RUN_OVER]


def test_create_gives_id_outputs_and_secrets(served: Served) -> None:
    """Outputs carry the inputs, secret where they were, and what Google says."""
    served.cloud.request = sequence(missing(), queued("ACTIVE"))
    served.cloud.node = sequence(missing(), node())

    answer = served.stub.Create(
        provider_pb2.CreateRequest(
            urn=URN, properties=encode({**INPUTS, "tags": ["a"]}, secrets=["tags"])
        )
    )

    assert answer.id == NAME
    outputs = decode(answer.properties)
    assert outputs["lifecycle"] == "active"
    assert outputs["ipAddresses"] == ["10.0.0.2"]
    assert outputs["expireTime"] == "2026-11-21T12:05:00Z"
    assert secret_keys(answer.properties) == {"tags"}
    assert answer.refresh_before_update


def test_failed_request_is_kept_in_the_state(served: Served) -> None:
    """A request that exists but is not ready travels to the state inside the error."""
    failed = queued("FAILED", failedData={"error": {"code": 8, "message": f"no {TOKEN}"}})
    served.cloud.request = sequence(missing(), missing(), failed)

    with pytest.raises(grpc.RpcError) as raised:
        served.stub.Create(provider_pb2.CreateRequest(urn=URN, properties=encode(INPUTS)))

    kept = detail(raised.value)
    assert kept.id == NAME
    assert decode(kept.properties)["lifecycle"] == "failed"
    assert decode(kept.inputs) == INPUTS
    assert TOKEN not in str(kept.reasons)
    assert [split_code(reason)[1] for reason in kept.reasons] == [Code.CAPACITY]


def test_cancel_ends_waits_and_configure_allows_new_ones(served: Served) -> None:
    """Cancel stops a wait that never ends; an attached provider serves the next run too."""
    served.stub.Configure(provider_pb2.ConfigureRequest())
    served.cloud.request = sequence(queued("WAITING_FOR_RESOURCES"))
    create = served.stub.Create.future(
        provider_pb2.CreateRequest(urn=URN, properties=encode(INPUTS))
    )
    while not served.said:  # bounded by pytest-timeout
        time.sleep(0.01)
    served.stub.Cancel(Empty())

    with pytest.raises(grpc.RpcError, match="stopped waiting"):
        create.result(timeout=60)

    served.stub.Configure(provider_pb2.ConfigureRequest())
    served.cloud.request = sequence(queued("ACTIVE"))
    served.cloud.node = sequence(node())
    assert served.stub.Create(provider_pb2.CreateRequest(urn=URN, properties=encode(INPUTS))).id


def test_a_second_instance_does_not_make_the_first_forget(served: Served) -> None:
    """Several instances may be attached to one process: what one of them was shown of the state
    still decides the next generation's id when another one was configured meanwhile."""
    served.stub.Configure(provider_pb2.ConfigureRequest())
    news = encode({key: value for key, value in INPUTS.items() if key != "queuedResourceId"})
    first = served.stub.Check(provider_pb2.CheckRequest(urn=URN, news=news))
    served.stub.Check(provider_pb2.CheckRequest(urn=URN, news=news, olds=first.inputs))
    served.stub.Configure(provider_pb2.ConfigureRequest())

    again = served.stub.Check(provider_pb2.CheckRequest(urn=URN, news=news))

    ids = [str(decode(answer.inputs)["queuedResourceId"]) for answer in (first, again)]
    assert [id_.rpartition("-")[2] for id_ in ids] == ["g1", "g2"]


def test_waits_do_not_starve_other_calls(served: Served) -> None:
    """With 32 requests that wait for ever, another call is answered."""
    served.stub.Configure(provider_pb2.ConfigureRequest())
    served.cloud.request = sequence(queued("WAITING_FOR_RESOURCES"))
    lock = threading.Lock()
    plain, served.cloud.request = served.cloud.request, iter(())

    def locked() -> Iterator[Any]:
        while True:
            with lock:
                yield next(plain)

    served.cloud.request = locked()
    request = provider_pb2.CreateRequest(urn=URN, properties=encode(INPUTS))
    waits = [served.stub.Create.future(request) for _ in range(32)]
    served.stub.Check(provider_pb2.CheckRequest(urn=URN, news=encode(INPUTS)), timeout=60)
    served.stub.Cancel(Empty())
    for wait in waits:
        with pytest.raises(grpc.RpcError):
            wait.result(timeout=60)


def test_read_of_nothing_is_an_empty_answer(served: Served) -> None:
    """404 from both, twice, means gone."""
    answer = served.stub.Read(provider_pb2.ReadRequest(id=NAME, urn=URN))

    assert answer.id == ""


def test_import_reads_all_inputs(served: Served) -> None:
    """Imported by name, the inputs are those that would have made it."""
    served.cloud.request = sequence(queued("ACTIVE"))
    served.cloud.node = sequence(node())

    answer = served.stub.Read(provider_pb2.ReadRequest(id=NAME, urn=URN))

    inputs = decode(answer.inputs)
    assert inputs.pop("scopes") == ["https://www.googleapis.com/auth/cloud-platform"]
    assert {k: v for k, v in inputs.items() if k in INPUTS} == INPUTS
    check = served.stub.Check(provider_pb2.CheckRequest(urn=URN, news=answer.inputs))
    assert not check.failures


def test_malformed_id_is_explained(served: Served) -> None:
    """An import id that is no resource name is refused with the form that is."""
    with pytest.raises(grpc.RpcError, match="projects/PROJECT/locations/ZONE"):
        served.stub.Read(provider_pb2.ReadRequest(id="slice", urn=URN))


def test_a_component_is_made_by_who_makes_its_type() -> None:
    """It is told where the engine's log is; a type that there is not is named with those that
    there are."""
    asked: list[tuple[str, str]] = []

    def construct(
        request: provider_pb2.ConstructRequest, address: str
    ) -> provider_pb2.ConstructResponse:
        asked.append((request.name, address))
        return provider_pb2.ConstructResponse(urn=f"urn:{request.name}")

    direct = Provider()
    servicer = Servicer(
        EngineLog("127.0.0.1:7"),
        lambda *_: TpuClient(direct.script),
        lambda _: direct.time.timing(),
        {"tpuflex:index:VllmEndpoint": construct},
    )
    request = provider_pb2.ConstructRequest(type="tpuflex:index:VllmEndpoint", name="chat")

    context = cast("grpc.ServicerContext", Context())
    assert servicer.Construct(request, context).urn == "urn:chat"
    assert asked == [("chat", "127.0.0.1:7")]
    request.type = "tpuflex:index:Reservation"
    with pytest.raises(CallFailedError, match=r"Reservation\.\nIt has tpuflex:"):
        servicer.Construct(request, context)


def test_own_mistakes_are_one_line_without_a_traceback(served: Served) -> None:
    """A bug of ours shows where it is, and leaks neither traceback nor token."""

    def broken() -> Iterator[Any]:
        raise KeyError(f"Bearer {TOKEN}")
        yield

    served.cloud.request = broken()
    with pytest.raises(grpc.RpcError) as raised:
        served.stub.Read(provider_pb2.ReadRequest(id=NAME, urn=URN))

    text = str(raised.value.details())
    assert "internal error in the tpuflex provider: KeyError at" in text
    assert "Traceback" not in text
    assert TOKEN not in text


def test_a_package_that_is_missing_is_named(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of an installation that is not whole it is said what is missing, and to install it again."""
    for name in ("resources", "schema"):
        monkeypatch.setitem(sys.modules, f"tpuflex.provider.{name}", None)
    with pytest.raises(grpc.RpcError) as read:
        served.stub.Read(provider_pb2.ReadRequest(id=NAME, urn=URN))
    with pytest.raises(grpc.RpcError) as schema:
        served.stub.GetSchema(provider_pb2.GetSchemaRequest())
    for raised in (read, schema):
        text = str(raised.value.details())
        assert text.startswith("the installation of tpuflex is not whole: ")
        assert "Install it again" in text


def test_version_and_schema_are_served(served: Served) -> None:
    """Plugin info carries our version; the schema describes the one resource."""
    assert served.stub.GetPluginInfo(Empty()).version == __version__
    assert served.stub.Attach(plugin_pb2.PluginAttach(address="127.0.0.1:1")) == Empty()
    schema = json.loads(served.stub.GetSchema(provider_pb2.GetSchemaRequest()).schema)
    resource = schema["resources"][QUEUED_RESOURCE]
    everything = {**resource["properties"], **resource["inputProperties"]}
    assert all(text["description"] for text in everything.values())
