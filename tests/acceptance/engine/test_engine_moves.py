"""A slice that runs while its URN, its stack or its state changes: nothing happens to it."""

from __future__ import annotations

import pulumi
import pytest

from tests.engine.quick_stack import QuickStack, StackInitMode
from tests.provider.deployment import NAME, Rig, command, live, urn

pytestmark = [pytest.mark.engine, pytest.mark.usefixtures("served")]


@pytest.mark.pulumi_feature("alias by type", "alias by parent", "stack rename")
def test_a_slice_stays_through_every_alias(rig: Rig) -> None:
    """Another type of the component around it, then none at all, then another name of the stack:
    the URN is another each time, and the slice is the same."""
    rig.inside = "shop:index:Old"
    rig.up()
    (made,) = live(rig)

    rig.inside = "shop:index:New"
    rig.opts = pulumi.ResourceOptions(aliases=[pulumi.Alias(type_="shop:index:Old")])
    assert rig.preview() == {"same": 4}
    rig.up()
    assert "shop:index:New$" in urn(rig)

    parent = urn(rig).replace("$tpuflex:tpu:QueuedResource::slice", "::part")
    rig.inside, rig.opts = "", pulumi.ResourceOptions(aliases=[pulumi.Alias(parent=parent)])
    assert rig.preview() == {"same": 3, "delete": 1}
    rig.up()
    assert "$" not in urn(rig)

    rig.opts = pulumi.ResourceOptions()
    rig.stack.rename("prod")
    assert rig.preview() == {"same": 3}
    assert "urn:pulumi:prod::" in urn(rig)
    assert live(rig) == [made]
    assert len(rig.calls("POST")) == 1


@pytest.mark.pulumi_feature("state move", "StackReference", "export and import of the state")
def test_a_slice_moves_to_another_stack(rig: Rig) -> None:
    """`pulumi state move` takes the slice into the state of another stack, whose program then has
    nothing to change; a state that was exported and imported says the same."""
    rig.up()
    moved, here = urn(rig), rig.stack.workspace
    rig.stack = QuickStack("other", here, StackInitMode.CREATE)
    here.program = reads_the_first
    assert rig.up().outputs["seen"].value == "active"

    where = ["--source=organization/shop/dev", "--dest=organization/shop/other"]
    here.pulumi_command.run(["state", "move", "--yes", *where, moved], here.work_dir, {})
    here.program = rig.program
    moved_from = QuickStack("dev", here, StackInitMode.SELECT)
    shown = moved_from.preview().stdout
    assert "1 to create" in shown
    assert f"{NAME} is there already, made at " in shown

    assert rig.preview() == {"same": 3, "discard": 1}  # the reference
    held = rig.stack.export_stack()
    command(rig, "state", "delete", "--force", urn(rig))
    rig.stack.import_stack(held)
    assert rig.preview() == {"same": 3, "discard": 1}
    assert live(rig) == [NAME]
    rig.destroy()
    assert rig.tpu() == {}
    assert len(rig.calls("POST")) == 1


def reads_the_first() -> None:
    """A program that reads an output of the stack `dev`."""
    first = pulumi.StackReference("organization/shop/dev")
    pulumi.export("seen", first.get_output("lifecycle"))
