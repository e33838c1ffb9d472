"""A recovery that was not allowed to look everywhere: what it says, and that it claims no more."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.cli.typing import NOON, Captured
from tpuflex.cli.invocation import Invocation
from tpuflex.cli.recover.run import show_recovered
from tpuflex.deploy.state_recovery import Recovered
from tpuflex.engine.events import EnginePlan, Step
from tpuflex.errors import (
    AccessError,
    ApiError,
    EngineError,
    ServiceDisabledError,
    TpuflexError,
)
from tpuflex.google.timing import Timing
from tpuflex.naming import QUEUED_RESOURCE
from tpuflex.recovery.look import LookResult, Presence
from tpuflex.recovery.recover import recover
from tpuflex.recovery.report import Recovery
from tpuflex.stack.stack import Stack

NETWORK = "gcp:compute/network:Network"
URN = f"urn:pulumi:dev::p::{NETWORK}::vllm-net"
DENIED = AccessError("403: Required 'compute.networks.get' permission for 'projects/p/x'")
_TIMING = Timing(lambda: 0.0, lambda: 0.0, lambda _: False, lambda: 0.5)


@dataclass
class Refusing:
    """A stack whose program wants a network, and a cloud that does not say whether it is there."""

    error: TpuflexError
    state: dict[str, Any] = field(default_factory=lambda: {"resources": []})

    def deployment(self) -> dict[str, Any]:
        return self.state

    def replace(self, deployment: dict[str, Any]) -> None:
        self.state = deployment

    def preview(self) -> EnginePlan:
        return EnginePlan((Step("create", NETWORK, "vllm-net", URN),))

    def refresh(self, targets: tuple[str, ...] = ()) -> None:
        del targets

    def __call__(self, type_: str, inputs: Any) -> LookResult:
        del type_, inputs
        return LookResult(Presence.UNKNOWN, "net", self.error.message, error=self.error)

    def generations(self, inputs: Any) -> tuple[LookResult, ...]:
        del inputs
        return ()

    def recovered(self) -> Recovery:
        return recover(self, self, lambda _: None, timing=_TIMING)


@dataclass
class Unlisted(Refusing):
    """One whose program wants a slice, too, and whose zones may not be listed."""

    looked: list[str] = field(default_factory=list)

    def preview(self) -> EnginePlan:
        slice_urn = f"urn:pulumi:dev::p::{QUEUED_RESOURCE}::vllm"
        slice_step = Step("create", QUEUED_RESOURCE, "vllm", slice_urn)
        return EnginePlan((slice_step, *super().preview().steps))

    def __call__(self, type_: str, inputs: Any) -> LookResult:
        del inputs
        self.looked.append(type_)
        return LookResult(Presence.ABSENT)

    def generations(self, inputs: Any) -> tuple[LookResult, ...]:
        del inputs
        raise self.error


def invocation(*, json: bool = False) -> Invocation:
    return Invocation(environ={}, now=lambda: NOON, json=json)


@pytest.mark.parametrize("error", [DENIED, ApiError("no answer")])
def test_what_was_not_looked_for_is_not_complete(
    error: TpuflexError, stack: Stack, capsys: Captured
) -> None:
    """`recover --take-over` called a state complete whose network it had not been allowed to look
    for: the next `up` failed with 409."""
    recovery = Refusing(error).recovered()

    with pytest.raises(type(error), match="vllm-net") as told:
        show_recovered(invocation().output, Recovered(stack, recovery=recovery))

    assert not recovery.clean
    assert error.message in told.value.message
    assert "tpuflex recover" in str(told.value.hint)
    assert "complete" not in capsys.readouterr().out


def test_the_remedy_is_a_role(stack: Stack) -> None:
    """The error says which role has what is missing."""
    with pytest.raises(AccessError) as told:
        show_recovered(invocation().output, Recovered(stack, recovery=Refusing(DENIED).recovered()))

    assert "--role=roles/compute.viewer" in str(told.value.hint)


def test_the_document_tells_it(stack: Stack, capsys: Captured) -> None:
    """For scripts."""
    with pytest.raises(AccessError):
        show_recovered(
            invocation(json=True).output, Recovered(stack, recovery=Refusing(DENIED).recovered())
        )

    document = json.loads(capsys.readouterr().out)
    assert document["clean"] is False
    assert document["not_looked_at"] == [f"vllm-net: {DENIED.message}"]


def test_an_api_that_is_off_hides_nothing() -> None:
    """Before a first `up` most are; a program has nothing that works there."""
    assert Refusing(ServiceDisabledError("off")).recovered().clean


def test_a_series_that_may_not_be_listed_hides_nothing_else(stack: Stack) -> None:
    """Without the right to list slices nothing at all was taken into the state: what a slice needs
    is looked for all the same, and the slice is told."""
    world = Unlisted(DENIED)
    recovery = world.recovered()

    with pytest.raises(AccessError, match="  vllm: "):
        show_recovered(invocation().output, Recovered(stack, recovery=recovery))
    assert world.looked == [NETWORK]


def test_what_was_begun_and_may_not_be_looked_at_stays_pending(stack: Stack) -> None:
    """It is not cleared, and the error names the role."""
    begun = {"urn": URN, "custom": True, "type": NETWORK, "inputs": {"name": "net"}}
    world = Refusing(DENIED)
    world.state["pending_operations"] = [{"resource": begun, "type": "creating"}]

    with pytest.raises(EngineError, match="could not be settled") as told:
        show_recovered(invocation().output, Recovered(stack, recovery=world.recovered()))

    assert world.state["pending_operations"]
    assert "--role=roles/compute.viewer" in str(told.value.hint)
