"""Several zones under the real engine, raced or in order, against the embedded cloud."""

from __future__ import annotations

import pytest
from pulumi.automation.errors import CommandError

from tests.provider.deployment import CUT_SHORT, NEVER, A, B, Rig, live, name, outputs

pytestmark = [*CUT_SHORT, pytest.mark.usefixtures("served")]


def test_race_without_capacity_is_kept_whole_and_goes_on(rig: Rig) -> None:
    """When the time is over, the state knows both requests; the next up waits on for both, and
    destroy finds both."""
    rig.capacity(never=True)
    rig.args |= {"zones": [A, B], "queue_timeout": "2s"}
    with pytest.raises(CommandError, match="is not active after 2s in the queue"):
        rig.up()
    assert sorted(outputs(rig)["requests"]) == [name(A), name(B)]
    rig.refresh()
    assert sorted(outputs(rig)["requests"]) == [name(A), name(B)]

    rig.capacity(zones={A: NEVER})
    rig.up()
    assert live(rig) == [name(B)]
    assert len(rig.calls("POST")) == 2
    rig.refresh()
    assert rig.preview() == {"same": 3}

    rig.capacity(never=True)
    rig.args["accelerator_type"] = "v6e-8"
    with pytest.raises(CommandError):
        rig.up()
    rig.destroy()
    assert rig.tpu() == {}
