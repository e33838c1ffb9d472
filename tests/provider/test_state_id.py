"""The resource `tpuflex:tpu:StateId`: drawn once, kept, importable; no cloud is asked. And the id
of a slice that a program makes without an endpoint."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.struct_pb2 import Struct

from pulumi_plugin.protocol import provider_pb2
from pulumi_plugin.values import UNKNOWN
from pulumi_plugin.wire import decode, encode
from tests.provider.direct import CallFailedError, Provider
from tests.provider.fakes import INPUTS, Cloud, missing, node, queued, sequence
from tpuflex.errors import TpuflexError
from tpuflex.naming import LABEL_STATE, QUEUED_RESOURCE, STATE_ID, Names, is_state_id
from tpuflex.provider.state_id import StateIds
from tpuflex.queued_resource.check import parse

URN = f"urn:pulumi:dev::shop::{STATE_ID}::chat-state"
GIVEN = "0123456789abcdef0123"
TYPE = StateIds()
SLICE = f"urn:pulumi:dev::shop::{QUEUED_RESOURCE}::slice"
#: A program's, which says nothing of whose the slice is.
BARE = {key: value for key, value in INPUTS.items() if key != "labels"}


def created(*, preview: bool = False) -> provider_pb2.CreateResponse:
    return TYPE.create(provider_pb2.CreateRequest(urn=URN, preview=preview))


def test_each_creation_draws_an_id_of_its_own() -> None:
    """Id and output are the same 20 hex digits, and no two are alike."""
    answers = [created() for _ in range(50)]

    assert all(is_state_id(answer.id) for answer in answers)
    assert all(decode(answer.properties) == {"value": answer.id} for answer in answers)
    assert len({answer.id for answer in answers}) == 50


def test_a_preview_draws_none() -> None:
    """What a preview showed would not be what is made."""
    assert (created(preview=True).id, decode(created(preview=True).properties)) == (
        "",
        {"value": UNKNOWN},
    )


def test_a_refresh_and_an_import_take_the_id_as_it_is() -> None:
    """The id is all there is."""
    answer = TYPE.read(provider_pb2.ReadRequest(urn=URN, id=GIVEN))

    assert (answer.id, decode(answer.properties)) == (GIVEN, {"value": GIVEN})
    assert answer.inputs == Struct()


@pytest.mark.parametrize("id_", ["", "dev", GIVEN.upper(), f"{GIVEN}0", f"{GIVEN}\n"])
def test_an_import_of_anything_else_is_refused(id_: str) -> None:
    """A label of another form would mark nothing."""
    with pytest.raises(TpuflexError, match="is not the id of a state"):
        TYPE.read(provider_pb2.ReadRequest(urn=URN, id=id_))


NAMED = {"project": "shop", "stack": "dev", "name": "chat"}


@pytest.mark.parametrize(
    ("news", "olds", "refused"),
    [
        ({"value": GIVEN}, {}, "there is no such input"),
        ({"names": {"project": "shop"}}, {}, "it has project, stack and name"),
        ({"names": {**NAMED, "name": "new"}}, {"names": NAMED}, 'Names("shop", "dev", "chat")'),
        ({"names": {**NAMED, "stack": "prod"}}, {"names": NAMED}, 'Names("shop", "dev", "chat")'),
        ({"names": {**NAMED, "project": "b"}}, {"names": NAMED}, 'Names("shop", "dev", "chat")'),
        ({"names": NAMED}, {"names": NAMED}, ""),
        ({"names": NAMED}, {}, ""),
        ({}, {"names": NAMED}, ""),
        ({}, {}, ""),
    ],
)
def test_an_endpoint_keeps_the_names_that_its_state_has(
    news: dict[str, Any], olds: dict[str, Any], refused: str
) -> None:
    """Whatever it, its stack and its project are called now: others are refused before anything is
    replaced, with the line that keeps them. A state that does not know them takes those given."""
    answer = TYPE.check(provider_pb2.CheckRequest(urn=URN, news=encode(news), olds=encode(olds)))
    difference = TYPE.diff(provider_pb2.DiffRequest(urn=URN, id=GIVEN, news=encode(news)))

    assert [refused in failure.reason for failure in answer.failures] == [True] * bool(refused)
    assert decode(answer.inputs) == news
    assert difference.changes == provider_pb2.DiffResponse.DIFF_NONE


def test_nothing_is_asked_of_a_cloud() -> None:
    """Through the servicer, too: a client is not even made."""
    provider = Provider()

    answer = provider.call("Create", provider_pb2.CreateRequest(urn=URN))
    provider.call("Delete", provider_pb2.DeleteRequest(urn=URN, id=answer.id))

    assert is_state_id(answer.id)
    assert provider.connected == []


def checked(provider: Provider, seed: bytes, olds: dict[str, Any] | None = None) -> dict[str, Any]:
    """The inputs of the slice, checked with the engine's ``seed``."""
    request = provider_pb2.CheckRequest(urn=SLICE, news=encode(BARE), randomSeed=seed)
    if olds is not None:
        request.olds.CopyFrom(encode(olds))
    answer = provider.call("Check", request)
    assert not answer.failures
    return decode(answer.inputs)


def state_id(inputs: dict[str, Any]) -> str:
    return str(inputs["labels"][LABEL_STATE])


def test_a_slice_without_an_endpoint_has_an_id_of_its_own() -> None:
    """One per state, the same in a plan and the update that follows it; kept from then on, by what
    replaces the slice as well."""
    ours = Provider()
    first = checked(ours, b"ours")

    assert is_state_id(state_id(first))
    assert state_id(checked(Provider(), b"ours")) == state_id(first)
    assert state_id(checked(Provider(), b"theirs")) != state_id(first)
    assert state_id(checked(ours, b"next", first)) == state_id(first)
    assert state_id(checked(ours, b"replaced")) == state_id(first)


@pytest.mark.parametrize(("owner", "kept"), [("slice", True), ("other", False)])
def test_an_import_keeps_the_id_of_the_same_slice(owner: str, kept: bool) -> None:
    """Of what another program has made it does not become this one's."""
    found = Names("shop", "dev", owner).labels(GIVEN)
    imported = {**BARE, "labels": found}

    assert (state_id(checked(Provider(), b"ours", imported)) == GIVEN) is kept


@pytest.mark.parametrize("state", ["WAITING_FOR_RESOURCES", "ACTIVE", "SUSPENDED"])
def test_a_second_clone_neither_adopts_nor_clears_a_slice_without_an_endpoint(state: str) -> None:
    """P4: owner, project and stack are the same there. Its preview says so, its `up` is refused,
    and both name the import for a state that was lost."""
    there = parse(checked(Provider(), b"ours"))
    cloud = Cloud(
        request=sequence(queued(state, there)),
        node=sequence(node(of=there)) if state == "ACTIVE" else sequence(missing()),
    )
    clone = Provider(cloud)
    inputs = encode(checked(clone, b"theirs"))

    clone.call("Create", provider_pb2.CreateRequest(urn=SLICE, properties=inputs, preview=True))
    with pytest.raises(CallFailedError) as refused:
        clone.call("Create", provider_pb2.CreateRequest(urn=SLICE, properties=inputs))

    (warned,) = [text for _, text, _, warning in clone.log.lines if warning]
    for text in (warned, str(refused.value)):
        assert "Another state of this project and stack has made it" in text
        assert f"pulumi import {QUEUED_RESOURCE} NAME projects/cloud-project/" in text
    assert {sent.method for sent in clone.script.sent} == {"GET"}
