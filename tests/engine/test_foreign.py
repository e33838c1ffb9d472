"""What a state knows and somebody else has made anew: found by its marks, and forgotten."""

from __future__ import annotations

from typing import Any

import pytest

from tpuflex.errors import AccessError, ApiError, TpuflexError
from tpuflex.inventory.kinds import Inputs
from tpuflex.naming import QUEUED_RESOURCE
from tpuflex.recovery.foreign import compare, without_resources
from tpuflex.recovery.look import LookResult, Presence

NETWORK, SUBNET = "gcp:compute/network:Network", "gcp:compute/subnetwork:Subnetwork"
SECRET, ROLE = (
    "gcp:secretmanager/secret:Secret",
    "gcp:secretmanager/secretIamMember:SecretIamMember",
)


def entry(type_: str, name: str, *needs: str, custom: bool = True) -> dict[str, Any]:
    return {
        "urn": name,
        "type": type_,
        "custom": custom,
        "id": name,
        "inputs": {"name": name},
        "dependencies": [*needs],
        "propertyDependencies": {"network": [*needs]},
    }


STATE: dict[str, Any] = {
    "resources": [
        entry("tpuflex:index:Network", "component", custom=False),
        entry(NETWORK, "net"),
        entry(SUBNET, "subnet", "net"),
        entry(SECRET, "secret"),
        entry(ROLE, "role", "secret"),
        entry(QUEUED_RESOURCE, "slice", "subnet", "role"),
    ],
    "pending_operations": [{"type": "updating", "resource": entry(SECRET, "secret")}],
}


class Look:
    """Finds what is named to be somebody else's."""

    def __init__(self, *foreign: str, error: TpuflexError | None = None) -> None:
        self._foreign = foreign
        self._error = error

    def __call__(self, type_: str, inputs: Inputs) -> LookResult:
        del type_
        name = str(inputs["name"])
        if name in self._foreign:
            return LookResult(Presence.FOREIGN, name, "another state", error=self._error)
        return LookResult(Presence.OURS, name)

    def generations(self, inputs: Inputs) -> tuple[LookResult, ...]:
        del inputs
        return ()


@pytest.mark.parametrize(
    ("foreign", "expected"),
    [
        ((), []),
        (("net",), ["net"]),
        (("secret",), ["role", "secret"]),
        (("slice",), ["slice"]),
    ],
)
def test_what_is_foreign(foreign: tuple[str, ...], expected: list[str]) -> None:
    """S5: what is marked by somebody else, and what is only a part of that."""
    assert sorted(compare(STATE, Look(*foreign)).foreign) == expected


def test_a_slice_that_was_asked_for_elsewhere() -> None:
    """What else was asked for only its provider finds."""
    asked = {**entry(QUEUED_RESOURCE, "slice"), "outputs": {"requests": ["in another zone"]}}

    assert compare({"resources": [asked]}, Look("slice")).foreign == {}


@pytest.mark.parametrize("error", [AccessError("may not"), ApiError("no answer")])
def test_what_could_not_be_read_is_told(error: TpuflexError) -> None:
    """It proves nothing: what may not be read may be ours all the same. But `down` kept silent
    about it, and it is not known to be ours either."""
    found = compare(STATE, Look("secret", error=error))

    assert found.foreign == {}
    assert found.uncompared == {"secret": error}


def test_what_is_forgotten() -> None:
    """The engine neither has it nor misses it: nothing depends on it, nothing is pending."""
    left = without_resources(STATE, {"secret", "role"})

    assert [one["urn"] for one in left["resources"]] == ["component", "net", "subnet", "slice"]
    assert left["resources"][-1]["dependencies"] == ["subnet"]
    assert left["resources"][-1]["propertyDependencies"] == {"network": ["subnet"]}
    assert left["pending_operations"] == []
    assert without_resources(STATE, ()) == STATE
