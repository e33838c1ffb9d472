"""What the stack's `pulumi:autonaming` does to a resource that names itself nowhere."""

from __future__ import annotations

from typing import Any

import pytest

from pulumi_plugin.protocol import provider_pb2
from pulumi_plugin.wire import decode, encode
from tests.provider.direct import Provider
from tests.provider.fakes import INPUTS

URN = "urn:pulumi:dev::shop::tpuflex:tpu:QueuedResource::slice"
OPTIONS = provider_pb2.CheckRequest.AutonamingOptions
NAMELESS = {k: v for k, v in INPUTS.items() if not k.startswith("queuedResourceId")}


def checked(
    mode: Any,
    proposed: str = "chosen-x1",
    *,
    given: dict[str, Any] | None = None,
    before: dict[str, Any] | None = None,
) -> tuple[dict[str, Any], dict[str, str]]:
    """Inputs as checked, and what is refused."""
    request = provider_pb2.CheckRequest(
        urn=URN,
        news=encode({**NAMELESS, **(given or {})}),
        olds=encode({**NAMELESS, **before} if before else {}),
        autonaming=OPTIONS(proposed_name=proposed, mode=mode),
    )
    answer = Provider().call("Check", request)
    inputs: dict[str, Any] = decode(answer.inputs)
    return inputs, {found.property: found.reason for found in answer.failures}


def test_a_proposal_is_what_ids_begin_with() -> None:
    """Each generation has an id of its own."""
    inputs, refused = checked(OPTIONS.PROPOSE)

    assert refused == {}
    assert inputs["queuedResourceIdPrefix"] == "chosen-x1"
    assert inputs["queuedResourceId"] == "chosen-x1-g1"


def test_an_enforced_name_is_the_id() -> None:
    """Exactly, so there are no generations."""
    inputs, refused = checked(OPTIONS.ENFORCE)

    assert refused == {}
    assert inputs["queuedResourceId"] == "chosen-x1"
    assert "queuedResourceIdPrefix" not in inputs


def test_where_it_is_disabled_a_name_has_to_be_given() -> None:
    """The refusal says which inputs give one."""
    _, refused = checked(OPTIONS.DISABLE, "")
    _, accepted = checked(OPTIONS.DISABLE, "", given={"queuedResourceIdPrefix": "mine"})

    assert "Write one of them" in refused["queuedResourceId"]
    assert accepted == {}


def test_what_cannot_be_a_name_is_refused() -> None:
    """A proposal that Google would not take is not mended in silence."""
    _, refused = checked(OPTIONS.PROPOSE, "Slice_1")

    assert "'Slice_1'" in refused["queuedResourceIdPrefix"]


@pytest.mark.parametrize("mode", [OPTIONS.PROPOSE, OPTIONS.ENFORCE, OPTIONS.DISABLE])
@pytest.mark.parametrize(
    "held",
    [
        {"queuedResourceId": "shop-dev-slice-g3", "queuedResourceIdPrefix": "shop-dev-slice"},
        {"queuedResourceId": "by-hand"},
    ],
)
def test_what_has_a_name_keeps_it(mode: Any, held: dict[str, str]) -> None:
    """A setting that comes later changes no slice that there is."""
    inputs, refused = checked(mode, before=held)

    assert refused == {}
    assert {key: inputs[key] for key in held} == held
