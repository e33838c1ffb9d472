"""What a state knows and somebody else has made anew: found by its marks, and forgotten."""

from __future__ import annotations

from typing import Any

import pytest

from tpuflex.engine.foreign import foreign_in, forgotten
from tpuflex.engine.recovery.look import LookResult, Presence
from tpuflex.gcp.kinds import Inputs
from tpuflex.naming import QUEUED_RESOURCE

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

    def __init__(self, *foreign: str, described: bool = True) -> None:
        self._foreign = foreign
        self._described = described

    def __call__(self, type_: str, inputs: Inputs) -> LookResult:
        del type_
        name = str(inputs["name"])
        if name in self._foreign:
            return LookResult(Presence.FOREIGN, name, "another state", described=self._described)
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
    assert sorted(foreign_in(STATE, Look(*foreign))) == expected


def test_a_slice_that_was_asked_for_elsewhere() -> None:
    """What else was asked for only its provider finds."""
    asked = {**entry(QUEUED_RESOURCE, "slice"), "outputs": {"requests": ["in another zone"]}}

    assert foreign_in({"resources": [asked]}, Look("slice")) == {}


def test_a_refusal_proves_nothing() -> None:
    """What may not be read may be ours all the same: its deletion will tell."""
    assert foreign_in(STATE, Look("secret", described=False)) == {}


def test_what_is_forgotten() -> None:
    """The engine neither has it nor misses it: nothing depends on it, nothing is pending."""
    left = forgotten(STATE, {"secret", "role"})

    assert [one["urn"] for one in left["resources"]] == ["component", "net", "subnet", "slice"]
    assert left["resources"][-1]["dependencies"] == ["subnet"]
    assert left["resources"][-1]["propertyDependencies"] == {"network": ["subnet"]}
    assert left["pending_operations"] == []
    assert forgotten(STATE, ()) == STATE
