"""The stack's configuration under the real engine: keys of the provider, and automatic names."""

from __future__ import annotations

from pathlib import Path

import pulumi
import pytest
from pulumi.automation.errors import CommandError

from tests.provider.deployment import CUT_SHORT, Rig, live
from tpuflex.tpu import QueuedResource

pytestmark = [*CUT_SHORT, pytest.mark.usefixtures("served")]
QUEUED = "projects/cloud-project/locations/us-east5-a/queuedResources"


def configure(rig: Rig, *lines: str) -> None:
    """Add ``lines`` to the stack's configuration."""
    file = Path(rig.stack.workspace.work_dir) / "Pulumi.dev.yaml"
    text = file.read_text("utf-8") if file.is_file() else ""
    assert "config:" not in text
    file.write_text(text + "\nconfig:\n" + "".join(f"  {line}\n" for line in lines), "utf-8")


def with_the_default_provider(rig: Rig) -> None:
    """Have the program leave the provider to the engine."""
    opts = pulumi.ResourceOptions()
    rig.stack.workspace.program = lambda: _ignored(QueuedResource("slice", **rig.args, opts=opts))


def _ignored(_: object) -> None:
    return None


@pytest.mark.pulumi_feature("mistyped provider key")
def test_a_mistyped_key_is_refused_with_those_that_exist(rig: Rig) -> None:
    """Before anything is asked for; as it was meant, it works."""
    configure(rig, "tpuflex:projct: cloud-project")
    with_the_default_provider(rig)

    with pytest.raises(CommandError) as refused:
        rig.up()

    assert "projct" in str(refused.value)
    assert "there is no such key: the provider has project and embedded" in str(refused.value)
    assert rig.calls("POST") == []


@pytest.mark.pulumi_feature("pulumi:autonaming")
def test_a_verbatim_name_is_the_id(rig: Rig) -> None:
    """`pulumi:autonaming` in mode verbatim: a slice is called as in the program, and stays so."""
    configure(rig, "pulumi:autonaming:", "  mode: verbatim")

    rig.up()

    assert live(rig) == [f"{QUEUED}/slice"]
    assert rig.preview() == {"same": 3}
