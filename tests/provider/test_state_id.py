"""The resource `tpuflex:tpu:StateId`: drawn once, kept, importable; no cloud is asked."""

from __future__ import annotations

import pytest
from google.protobuf.struct_pb2 import Struct

from pulumi_plugin.protocol import provider_pb2
from pulumi_plugin.values import UNKNOWN
from pulumi_plugin.wire import decode, encode
from tests.provider.direct import Provider
from tpuflex.errors import TpuflexError
from tpuflex.naming import STATE_ID, is_state_id
from tpuflex.provider.state_id import StateIds

URN = f"urn:pulumi:dev::shop::{STATE_ID}::chat-state"
GIVEN = "0123456789abcdef0123"
TYPE = StateIds()


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


def test_it_has_no_inputs() -> None:
    """Whatever is given is refused, and nothing ever changes."""
    answer = TYPE.check(provider_pb2.CheckRequest(urn=URN, news=encode({"value": GIVEN})))
    difference = TYPE.diff(provider_pb2.DiffRequest(urn=URN, id=GIVEN))

    assert [failure.property for failure in answer.failures] == ["value"]
    assert difference.changes == provider_pb2.DiffResponse.DIFF_NONE


def test_nothing_is_asked_of_a_cloud() -> None:
    """Through the servicer, too: a client is not even made."""
    provider = Provider()

    answer = provider.call("Create", provider_pb2.CreateRequest(urn=URN))
    provider.call("Delete", provider_pb2.DeleteRequest(urn=URN, id=answer.id))

    assert is_state_id(answer.id)
    assert provider.connected == []
