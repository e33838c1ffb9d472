"""Calls of the engine, made directly: what happens between the wire and the operations."""

from __future__ import annotations

import re
from typing import Any

import pytest
from google.protobuf.empty_pb2 import Empty

from pulumi_plugin.protocol import plugin_pb2, provider_pb2
from pulumi_plugin.values import UNKNOWN
from pulumi_plugin.wire import decode, encode, secret_keys
from tests.loopback import overrides
from tests.provider.direct import CallFailedError, Provider
from tests.provider.fakes import (
    INPUTS,
    NAME,
    Cloud,
    args,
    missing,
    node,
    queued,
    sequence,
)
from tpuflex import __version__
from tpuflex.errors import AccessError, ApiError
from tpuflex.naming import QUEUED_RESOURCE
from tpuflex.provider.configuration import Configuration
from tpuflex.provider.queued_resource import ADOPTS, CLEARS
from tpuflex.queued_resource.fields import DEFAULTS

URN = f"urn:pulumi:dev::shop::{QUEUED_RESOURCE}::slice"
TOKEN = "ya29.a0Canary_token-123"
STATE: dict[str, Any] = {**INPUTS, **DEFAULTS, "name": NAME, "zone": "us-east5-a"}


@pytest.fixture
def provider() -> Provider:
    return Provider()


def test_handshake_and_attach_say_where_the_engine_listens(provider: Provider) -> None:
    """Progress goes to the engine that made contact last; secrets may be sent as such."""
    answer = provider.call("Handshake", provider_pb2.ProviderHandshakeRequest(engine_address="a:1"))
    provider.call("Attach", plugin_pb2.PluginAttach(address="b:2"))

    assert answer.accept_secrets
    assert provider.log.addresses == ["a:1", "b:2"]
    assert provider.call("GetPluginInfo", Empty()).version == __version__


def test_configuration_reaches_the_connection(provider: Provider) -> None:
    """Each run connects once, when it first needs to, with what it was configured with."""
    given = encode({"project": "p", "embedded": "true"})
    answer = provider.call("Configure", provider_pb2.ConfigureRequest(args=given))
    provider.call("Check", provider_pb2.CheckRequest(urn=URN, news=encode(INPUTS)))
    assert provider.connected == []
    for _ in range(2):
        provider.call("Read", provider_pb2.ReadRequest(urn=URN, id=NAME))

    assert (answer.acceptSecrets, answer.supportsPreview) == (True, True)
    assert provider.connected == [Configuration("p", embedded=True)]


def previewed(provider: Provider, urn: str = URN, **inputs: Any) -> list[str]:
    """What the preview of a creation warns of."""
    before = len(provider.log.lines)
    properties = encode({**INPUTS, **inputs})
    asked = provider_pb2.CreateRequest(urn=urn, properties=properties, preview=True)
    assert decode(provider.call("Create", asked).properties)["name"] == NAME
    return [text for _, text, _, warning in provider.log.lines[before:] if warning]


def test_a_preview_of_what_is_new_needs_no_cloud(provider: Provider) -> None:
    """It looks once whether its name is free, and works without network and credentials."""
    assert previewed(provider) == []
    assert [sent.method for sent in provider.script.sent] == ["GET", "GET"]

    for error in (ApiError("no answer", status=0), AccessError("no credentials")):
        provider.cloud.request = sequence(error)
        assert previewed(provider) == []


@pytest.mark.parametrize(
    ("state", "labels", "says"),
    [
        ("ACTIVE", INPUTS["labels"], ADOPTS),
        ("WAITING_FOR_RESOURCES", UNKNOWN, ADOPTS),
        ("ACTIVE", {**INPUTS["labels"], "tpuflex-state": UNKNOWN}, ADOPTS),
        ("SUSPENDED", INPUTS["labels"], CLEARS),
        ("ACTIVE", {"tpuflex-owner": "fedcba9876543210"}, "it belongs to stack dev of project ?"),
    ],
)
def test_a_preview_says_whose_name_it_takes(
    provider: Provider, state: str, labels: Any, says: str
) -> None:
    """`up` would take what has its name, and its marks as far as they are known, delete its
    leftover, or be refused: each is a warning with the time at which that was made."""
    provider.cloud.request, provider.cloud.node = sequence(queued(state)), sequence(node())

    (told,) = previewed(provider, labels=labels)

    assert f"{NAME} is there already, made at 2026-11-21T08:00:00.123456789Z, " in told
    assert says in told
    assert provider.script.count("GET") == len(provider.script.sent)


def test_a_preview_refuses_what_another_resource_holds(provider: Provider) -> None:
    """As the update would, and not only then: also of two that are both new."""
    provider.cloud.request, provider.cloud.node = sequence(queued("ACTIVE")), sequence(node())
    other = URN.replace("::slice", "::other")
    provider.call("Read", provider_pb2.ReadRequest(urn=other, id=NAME))

    with pytest.raises(CallFailedError, match=f"{NAME} is the request of {other}"):
        previewed(provider)

    fresh = Provider()
    previewed(fresh, other)
    with pytest.raises(CallFailedError, match="cannot share it"):
        previewed(fresh)


def test_wrong_configuration_is_refused_by_key(provider: Provider) -> None:
    """Of the provider's own keys, what is wrong is named."""
    news = encode({"project": 7, "embedded": "perhaps"})
    urn = "urn:pulumi:dev::shop::pulumi:providers:tpuflex::cloud"

    answer = provider.call("CheckConfig", provider_pb2.CheckRequest(urn=urn, news=news))

    assert [(found.property, found.reason) for found in answer.failures] == [
        ("project", "it must be the id of a Google Cloud project"),
        ("embedded", "it must be true or false"),
    ]


@pytest.mark.parametrize(
    ("embedded", "environ", "refused"),
    [
        ("false", overrides("http://127.0.0.1:1"), "point to this machine"),
        (True, {}, "point to Google"),
        (False, {}, ""),
        (UNKNOWN, {}, ""),
        (None, overrides("http://127.0.0.1:1"), ""),
    ],
)
def test_the_wrong_cloud_is_refused_before_a_state_has_it(
    embedded: Any, environ: dict[str, str], refused: str
) -> None:
    """Every later command would configure the provider that the state has, and fail."""
    provider = Provider(environ=environ)
    urn = "urn:pulumi:dev::shop::pulumi:providers:tpuflex::default"
    request = provider_pb2.CheckRequest(urn=urn, news=encode({"embedded": embedded}))

    failures = provider.call("CheckConfig", request).failures

    assert [refused in found.reason for found in failures] == [True] * bool(refused)


@pytest.mark.parametrize(
    ("project", "name", "keys", "refused"),
    [
        ("shop", "cloud", {"projct": "p"}, ["projct"]),
        ("shop", "cloud", {"slice": "{}"}, ["slice"]),
        ("tpuflex", "cloud", {"slice": "{}"}, ["slice"]),
        ("shop", "default_0_1_0", {"projct": "p", "slice": "{}"}, ["projct"]),
        ("tpuflex", "default_0_1_0", {"projct": "p"}, []),
        ("shop", "default", {"project": "p", "version": "1", "pluginDownloadURL": "x"}, []),
    ],
)
def test_keys_that_mean_nothing_are_refused(
    provider: Provider, project: str, name: str, keys: dict[str, Any], refused: list[str]
) -> None:
    """With the names that exist. A default provider is handed the keys of a stack file, too, and in
    a project called tpuflex all keys of the namespace are the project's own."""
    urn = f"urn:pulumi:dev::{project}::pulumi:providers:tpuflex::{name}"
    request = provider_pb2.CheckRequest(urn=urn, news=encode(keys))

    failures = provider.call("CheckConfig", request).failures

    assert [found.property for found in failures] == refused
    assert all("project and embedded" in found.reason for found in failures)


@pytest.mark.parametrize(("checked", "said"), [(False, True), (True, False)])
def test_a_diff_before_the_check_is_of_what_is_deleted_first(
    provider: Provider, checked: bool, said: bool
) -> None:
    """The engine asks what a resource that is deleted before it is replaced takes along: from its
    own check on, what is unknown is only not known yet."""
    olds = encode({**STATE, "lifecycle": "active"})
    news = encode({**INPUTS, **DEFAULTS, "network": UNKNOWN})
    if checked:
        checking = provider_pb2.CheckRequest(urn=URN, news=news, olds=encode(STATE))
        provider.call("Check", checking)

    answer = provider.call("Diff", provider_pb2.DiffRequest(urn=URN, id=NAME, olds=olds, news=news))

    assert "network" in answer.replaces
    warnings = [text for _, text, _, warning in provider.log.lines if warning]
    assert any("its network is deleted before it is replaced" in text for text in warnings) is said


def test_protection_of_what_is_tainted_names_the_way_back() -> None:
    """Protection cannot be switched off first where every `up` replaces."""
    there = Cloud(request=sequence(queued("ACTIVE")), node=sequence(node()))
    provider = Provider(there)
    olds, news = ({**INPUTS, **more} for more in ({"deletionProtection": True}, {}))
    held = provider_pb2.CheckRequest(urn=URN, news=encode(news), olds=encode(olds))
    provider.call("Check", held)
    inputs = encode({**news, "queuedResourceId": "slice-g2"})
    request = provider_pb2.CreateRequest(urn=URN, properties=inputs, preview=True)

    with pytest.raises(CallFailedError, match=f"pulumi state untaint '{re.escape(URN)}'"):
        provider.call("Create", request)


def test_check_uses_the_providers_project_and_the_old_id(provider: Provider) -> None:
    """What is left out is filled from the configuration, and from what the state holds."""
    provider.call("Configure", provider_pb2.ConfigureRequest(args=encode({"project": "mine-1"})))
    news = {k: v for k, v in INPUTS.items() if k not in ("project", "queuedResourceId")}
    olds = {**news, "queuedResourceIdPrefix": "shop-dev-slice"}

    def checked(before: dict[str, Any]) -> dict[str, Any]:
        request = provider_pb2.CheckRequest(urn=URN, news=encode(news), olds=encode(before))
        return decode(provider.call("Check", request).inputs)

    assert checked({**olds, "queuedResourceId": "shop-dev-slice-g4"})["project"] == "mine-1"
    assert checked({**olds, "queuedResourceId": "shop-dev-slice-g4"})["queuedResourceId"].endswith(
        "-g4"
    )
    assert checked({})["queuedResourceId"] == "shop-dev-slice-g5"


@pytest.mark.parametrize(("own", "replaced"), [("mine-1", []), (None, ["project"])])
def test_a_provider_of_another_project_replaces_what_has_none_of_its_own(
    own: str | None, replaced: list[str]
) -> None:
    """The next preview says so; a slice that names its project stays where it is."""
    news = {key: value for key, value in INPUTS.items() if key != "project"}
    if own:
        news["project"] = own

    def checked(project: str, olds: dict[str, Any]) -> Any:
        asked = Provider()
        given = encode({"project": project})
        asked.call("Configure", provider_pb2.ConfigureRequest(args=given))
        request = provider_pb2.CheckRequest(urn=URN, news=encode(news), olds=encode(olds))
        return asked.call("Check", request).inputs

    held = decode(checked("mine-1", {}))
    inputs, now = encode(held), checked("mine-2", held)
    state = encode({**held, "lifecycle": "active", "zone": "us-east5-a"})
    request = provider_pb2.DiffRequest(urn=URN, id=NAME, olds=state, old_inputs=inputs, news=now)

    changed = Provider().call("Diff", request)

    assert [key for key in changed.replaces if key != "queuedResourceId"] == replaced
    assert list(changed.diffs) == list(changed.replaces)


def test_check_marks_what_it_adds_to_a_secret(provider: Provider) -> None:
    """Labels that were secret are secret with the owner's label among them, too."""
    news = encode({**INPUTS, "labels": {"team": "x"}}, secrets=["labels"])

    answer = provider.call("Check", provider_pb2.CheckRequest(urn=URN, news=news))

    assert decode(answer.inputs)["labels"]["team"] == "x"  # type: ignore[index,call-overload]
    assert "tpuflex-owner" in decode(answer.inputs)["labels"]  # type: ignore[operator]
    assert secret_keys(answer.inputs) == {"labels"}


def test_check_holds_times_against_the_clock(provider: Provider) -> None:
    """A time that has passed is refused, unless the state has it already."""
    over = {**INPUTS, "maxRunDuration": None, "terminationTime": "2026-11-27T08:00:00Z"}

    def refused(olds: dict[str, Any]) -> list[str]:
        request = provider_pb2.CheckRequest(urn=URN, news=encode(over), olds=encode(olds))
        return [found.property for found in provider.call("Check", request).failures]

    assert refused({}) == ["terminationTime"]
    assert refused(over) == []


def test_diff_compares_the_inputs_and_tells_of_renewals(provider: Provider) -> None:
    """Old inputs count where the engine has them, else those among the outputs; what the clock
    asks for is said at the resource, once it was checked: a refresh or a destroy plans nothing."""
    outputs = {**STATE, "lifecycle": "active", "expireTime": "2027-01-15T08:30:00Z"}
    news = {**STATE, "renewBefore": "3600s", "description": "d"}

    def compared(old_inputs: dict[str, Any], new: dict[str, Any]) -> provider_pb2.DiffResponse:
        answer: provider_pb2.DiffResponse = provider.call(
            "Diff",
            provider_pb2.DiffRequest(
                urn=URN, olds=encode(outputs), old_inputs=encode(old_inputs), news=encode(new)
            ),
        )
        return answer

    assert list(compared({}, STATE).diffs) == []
    assert list(compared({**STATE, "description": "d"}, STATE).diffs) == ["description"]
    assert provider.log.lines == []
    assert list(compared({}, news).replaces) == ["expireTime"]
    assert provider.log.lines == []

    provider.call("Check", provider_pb2.CheckRequest(urn=URN, news=encode(INPUTS)))
    assert list(compared({}, news).replaces) == ["expireTime"]
    ((urn, text, *_),) = provider.log.lines
    assert urn == URN
    assert "a new one takes over" in text


def test_an_update_is_previewed_without_a_call(provider: Provider) -> None:
    """A previewed update returns the old outputs with the new inputs, unknown ones included."""
    olds = encode({**STATE, "description": "old", "state": "ACTIVE"}, secrets=["metadata"])
    news = encode({**INPUTS, "description": UNKNOWN})

    answer = provider.call(
        "Update", provider_pb2.UpdateRequest(urn=URN, id=NAME, olds=olds, news=news, preview=True)
    )

    left = decode(answer.properties)
    assert left == {**INPUTS, "name": NAME, "zone": "us-east5-a", "state": "ACTIVE",
                    "description": UNKNOWN}  # fmt: skip
    assert provider.script.sent == []


@pytest.mark.parametrize("with_inputs", [True, False])
def test_an_update_patches_and_reports(provider: Provider, with_inputs: bool) -> None:
    """An update patches the node and answers with what is there then, secret where it was."""
    olds = {**STATE, "lifecycle": "active", "labels": {**INPUTS["labels"], "team": "x"}}
    provider.cloud.request = sequence(queued("ACTIVE"))
    patched = node(tags=["a"])
    provider.cloud.node = sequence(*[node(labels=olds["labels"])] * 3, patched)

    answer = provider.call(
        "Update",
        provider_pb2.UpdateRequest(
            urn=URN,
            id=NAME,
            olds=encode(olds),
            old_inputs=encode(olds if with_inputs else {}),
            news=encode({**INPUTS, "tags": ["a"]}, secrets=["tags"]),
        ),
    )

    (sent,) = [request for request in provider.script.sent if request.method == "PATCH"]
    assert sent.body is not None
    assert sent.body["tags"] == ["a"]
    assert "team" not in sent.body["labels"]  # type: ignore[operator]
    assert decode(answer.properties)["tags"] == ["a"]
    assert secret_keys(answer.properties) == {"tags"}
    assert answer.refresh_before_update


def test_an_update_that_waits_in_vain_is_kept(provider: Provider) -> None:
    """The engine's own timeout ends the wait, and the request stays in the state with the new
    inputs, to be looked at before the next update."""
    provider.cloud.request = sequence(queued("WAITING_FOR_RESOURCES"))
    news = encode({**INPUTS, "description": f"no {TOKEN}"})

    with pytest.raises(CallFailedError, match="not active after 1m40s") as failed:
        provider.call(
            "Update",
            provider_pb2.UpdateRequest(
                urn=URN, id=NAME, olds=encode(STATE), news=news, timeout=100
            ),
        )

    kept = failed.value.kept
    assert kept is not None
    assert kept.id == NAME
    assert decode(kept.inputs)["description"] == f"no {TOKEN}"
    assert decode(kept.properties)["lifecycle"] == "waiting"
    assert kept.refresh_before_update
    assert ["not active after 1m40s" in reason for reason in kept.reasons] == [True]
    assert {urn for urn, *_ in provider.log.lines} == {URN}


@pytest.mark.parametrize("with_inputs", [True, False])
def test_a_deletion_makes_room_for_the_same_name(provider: Provider, with_inputs: bool) -> None:
    """What the state holds is not created again; once it is deleted, it may be."""
    provider.cloud.request = sequence(queued("ACTIVE"), missing())
    provider.cloud.node = sequence(node(), missing())
    properties = encode({**STATE, "createTime": "2026-11-21T08:00:00.123456789Z"})
    read = provider_pb2.ReadRequest(urn=URN, id=NAME, inputs=encode(INPUTS), properties=properties)
    create = provider_pb2.CreateRequest(urn=URN, properties=encode(INPUTS), timeout=5)
    provider.call("Read", read)

    with pytest.raises(CallFailedError, match="slice-g1") as refused:
        provider.call("Create", create)
    assert refused.value.kept is None
    provider.cloud.request = sequence(queued("ACTIVE"), missing())
    provider.cloud.node = sequence(node(), missing())
    gone = provider.call(
        "Delete",
        provider_pb2.DeleteRequest(
            urn=URN,
            id=NAME,
            properties=properties,
            old_inputs=encode(INPUTS if with_inputs else {}),
        ),
    )

    assert gone == Empty()
    assert provider.script.count("DELETE") == 1
    provider.cloud.request = sequence(missing(), missing(), queued("ACTIVE"))
    provider.cloud.node = sequence(missing(), missing(), node())
    assert provider.call("Create", create).id == NAME


def test_a_deletion_keeps_to_the_engines_time(provider: Provider) -> None:
    """`custom_timeouts` bound a deletion; nothing of it is kept as a partial state."""
    provider.cloud.request = sequence(queued("ACTIVE"))
    provider.cloud.node = sequence(node())
    request = provider_pb2.DeleteRequest(
        urn=URN, id=NAME, properties=encode(STATE), old_inputs=encode(INPUTS), timeout=90
    )

    with pytest.raises(CallFailedError, match="not gone after 1m30s") as failed:
        provider.call("Delete", request)

    assert failed.value.kept is None


@pytest.mark.parametrize("method", ["Check", "Diff", "Create", "Read", "Update", "Delete"])
def test_every_call_about_another_type_is_refused(provider: Provider, method: str) -> None:
    """A type that is not ours is named, with the one that is, before anything is looked at."""
    kind = {"Check": "CheckRequest"}.get(method, f"{method}Request")
    request = getattr(provider_pb2, kind)(urn="urn:pulumi:dev::shop::a$tpuflex:tpu:Node::x")

    with pytest.raises(CallFailedError, match="no resource type 'tpuflex:tpu:Node'") as failed:
        provider.call(method, request)

    assert QUEUED_RESOURCE in str(failed.value)
    assert provider.script.sent == []


def test_reads_keep_secrets_and_know_the_owner(provider: Provider) -> None:
    """A refresh answers with inputs and outputs, secret where either was, and asks to be made
    again before the next update."""
    provider.cloud.request = sequence(queued("ACTIVE", of=args(tags=["a"])))
    provider.cloud.node = sequence(node(of=args(tags=["a"])))
    request = provider_pb2.ReadRequest(
        urn=URN,
        id=NAME,
        inputs=encode({**INPUTS, "tags": ["a"]}, secrets=["tags"]),
        properties=encode(STATE, secrets=["labels"]),
    )

    answer = provider.call("Read", request)

    assert answer.id == NAME
    assert answer.refresh_before_update
    assert secret_keys(answer.inputs) == {"tags", "labels"}
    assert secret_keys(answer.properties) == {"tags", "labels"}
    assert decode(answer.properties)["state"] == "ACTIVE"


def test_progress_is_told_at_the_resource(provider: Provider) -> None:
    """Whatever a call says, it says at the resource that the call is about."""
    provider.cloud.request = sequence(missing(), missing(), queued("WAITING_FOR_RESOURCES"))
    with pytest.raises(CallFailedError, match="not active after 30s"):
        provider.call(
            "Create", provider_pb2.CreateRequest(urn=URN, properties=encode(INPUTS), timeout=30)
        )
    provider.cloud.request = sequence(queued("SUSPENDED"), queued("SUSPENDED"), missing())
    for method in ("Read", "Delete"):
        request = getattr(provider_pb2, f"{method}Request")(
            urn=URN, id=NAME, properties=encode(STATE)
        )
        before = len(provider.log.lines)
        provider.call(method, request)
        assert len(provider.log.lines) > before, method

    assert {urn for urn, *_ in provider.log.lines} == {URN}


def test_check_leaves_what_was_said_as_it_was_said(provider: Provider) -> None:
    """A secret inside of an input stays inside; what was not given is all that is added."""
    secret = {"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270", "value": "x"}
    news = encode({**INPUTS, "metadata": {"k": secret}})  # type: ignore[dict-item]

    answer = provider.call("Check", provider_pb2.CheckRequest(urn=URN, news=news))

    assert answer.inputs.fields["metadata"] == news.fields["metadata"]
    assert {*decode(answer.inputs)} == {*INPUTS, "metadata", *DEFAULTS}
