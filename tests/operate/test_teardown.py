"""What a teardown keeps, and how that is said."""

from __future__ import annotations

from typing import Any

import pytest

from tests.provider.fakes import FakeTime
from tpuflex.deploy.teardown_proof import Keeper, kept_resources, prove_empty, refuse_unknown
from tpuflex.errors import IncompleteTeardownError
from tpuflex.inventory.inventory import Inventory, Item
from tpuflex.naming import QUEUED_RESOURCE

BUCKET = "gcp:storage/bucket:Bucket"


def resource(kind: str = BUCKET, **more: Any) -> dict[str, Any]:
    return {"custom": True, "type": kind, "urn": f"urn::{kind}::x", "id": "x", **more}


def slice_(lifecycle: str, *, protected: bool) -> dict[str, Any]:
    inputs, outputs = {"deletionProtection": protected}, {"lifecycle": lifecycle}
    return resource(QUEUED_RESOURCE, inputs=inputs, outputs=outputs)


def test_each_keeper_is_told_apart() -> None:
    """Our protection, Pulumi's protection, and what is only forgotten, each with its remedy."""
    found = kept_resources(
        [
            resource(),
            resource(protect=True),
            resource(retainOnDelete=True),
            slice_("active", protected=True),
            slice_("waiting", protected=True),
            slice_("active", protected=False),
            resource("pulumi:providers:gcp", protect=True),
            {"type": "tpuflex:index:VllmEndpoint", "urn": "u", "protect": True},
        ]
    )

    assert [each.keeper for each in found] == [
        Keeper.PROTECT,
        Keeper.RETAIN_ON_DELETE,
        Keeper.DELETION_PROTECTION,
    ]
    assert "pulumi state unprotect" in str(found[0])
    assert "by hand" in str(found[1])
    assert "tpuflex:slice.deletion_protection" in str(found[2])


def test_what_is_kept_is_reported_with_its_keeper() -> None:
    """Something left on request is still left: exit code 10, what it is, and that it is billed."""
    not_deleted = kept_resources([resource(protect=True)])
    left = Inventory((Item("bucket", "weights", "us-east5", ""),), ())
    time = FakeTime(now=0.0)

    with pytest.raises(IncompleteTeardownError) as ended:
        prove_empty(lambda: left, timing=time.timing(), project="p", kept=not_deleted)

    assert ended.value.exit_code == 10
    assert "left, and still billed" in ended.value.message
    assert "left: bucket weights (us-east5)" in ended.value.message
    assert "pulumi state unprotect" in str(ended.value.hint)
    assert time.now == 5.0


def test_a_slice_that_the_state_does_not_know_is_not_stripped_of_its_network() -> None:
    """Nothing is deleted around a slice that the engine would not delete first."""
    there = Inventory((Item("queued resource", "q", "z"), Item("network", "n", "global")))

    with pytest.raises(IncompleteTeardownError, match="nothing was deleted") as refused:
        refuse_unknown(there, {"projects/p/global/networks/n"})

    assert "queued resource q" in refused.value.message
    assert "network n" not in refused.value.message
    assert "tpuflex recover" in str(refused.value.hint)
    assert "--slice q" in str(refused.value.hint)


def test_of_a_lost_state_nothing_can_be_destroyed() -> None:
    """Everything that is not in the state is named, and what brings it back."""
    there = Inventory((Item("network", "n", "global"), Item("bucket", "theirs", "r", foreign="?")))

    with pytest.raises(IncompleteTeardownError, match="network n") as refused:
        refuse_unknown(there, ())

    assert "theirs" not in refused.value.message
    assert "recover --take-over" in str(refused.value.hint)


def test_a_node_whose_request_is_gone_goes_with_the_request_in_the_state() -> None:
    """The provider deletes it: `down` is not held up."""
    there = Inventory((Item("node", "q", "z"), Item("queued resource", "q", "z", known=True)))

    refuse_unknown(there, {"projects/p/locations/z/queuedResources/q"})
