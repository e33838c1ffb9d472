"""Changes under the real engine: what is patched, what is replaced, and by which generation."""

from __future__ import annotations

import pulumi
import pytest
from pulumi.automation.errors import CommandError

from tests.provider.deployment import CUT_SHORT, NAME, Rig, outputs, urn

pytestmark = [*CUT_SHORT, pytest.mark.usefixtures("served")]
NEXT = NAME.removesuffix("-g1") + "-g2"


def names(rig: Rig) -> list[str]:
    """Full names of the queued resources that the cloud has."""
    return [item["name"] for item in rig.tpu().get("queuedResources", [])]


def order(rig: Rig) -> list[tuple[str, str]]:
    """The successful calls that created or deleted queued resources, in their order."""
    text = [*rig.calls("POST"), *rig.calls("DELETE")]
    done = [call for call in text if call["status"] == 200]
    return [
        (call["method"], call["path"].rpartition("/")[2])
        for call in sorted(done, key=lambda call: int(call["seq"]))
    ]


def test_a_replacement_is_made_before_the_old_one_goes(rig: Rig) -> None:
    """What cannot be patched is replaced by the next generation, which every preview announces;
    the old one is deleted when the new one runs, and then nothing is left to do."""
    rig.up()
    rig.args["accelerator_type"] = "v6e-8"

    for _ in range(2):
        assert rig.preview() == {"same": 2, "replace": 1}
    assert names(rig) == [NAME]
    rig.up()

    assert names(rig) == [NEXT]
    assert outputs(rig)["name"] == NEXT
    assert order(rig) == [
        ("POST", "queuedResources"),
        ("POST", "queuedResources"),
        ("DELETE", "shop-dev-slice-g1"),
    ]
    assert rig.preview() == {"same": 3}
    rig.refresh()
    rig.up()
    assert rig.preview() == {"same": 3}
    assert len(rig.calls("POST")) == 2
    rig.destroy()
    assert rig.tpu() == {}


@pytest.mark.pulumi_feature("delete_before_replace")
def test_a_fixed_id_is_never_replaced_by_itself(rig: Rig) -> None:
    """With an id of its own, a replacement on demand could only adopt what is then deleted: it
    is refused, and nothing is touched; with delete_before_replace it is replaced."""
    rig.args["queued_resource_id"] = "shop-dev-slice-g1"
    rig.up()

    with pytest.raises(CommandError, match="by one of the same name while it still exists"):
        rig.stack.up(replace=[urn(rig)])

    assert names(rig) == [NAME]
    assert rig.preview() == {"same": 3}
    rig.opts = pulumi.ResourceOptions(delete_before_replace=True)
    rig.stack.up(replace=[urn(rig)])
    assert names(rig) == [NAME]
    assert [method for method, _ in order(rig)] == ["POST", "DELETE", "POST"]
