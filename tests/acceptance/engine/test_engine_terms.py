"""The time to give up under the real engine, against the embedded cloud."""

from __future__ import annotations

import pytest
from pulumi.automation.errors import CommandError

from tests.provider.deployment import CUT_SHORT, Rig, outputs, until
from tpuflex.codes import Code

pytestmark = [*CUT_SHORT, pytest.mark.usefixtures("served")]


def test_m7_a_request_that_is_given_up_costs_nothing_later(rig: Rig) -> None:
    """Google fails it, `up` ends for want of capacity, and no grant comes when nobody is there;
    the next `up` asks anew. What runs does not care for the time any more."""
    rig.args["valid_until_duration"] = "3600s"
    rig.capacity(never=True)
    failed = rig.background(rig.up)
    until(lambda: "gives up at" in "".join(rig.lines))
    rig.cloud.advance(3601)

    with pytest.raises(CommandError, match="cause: expired"):
        failed.result(60)

    assert Code.CAPACITY in {note.code for note in rig.notes if note.severity == "error"}
    rig.capacity()
    rig.cloud.advance(3600)
    assert outputs(rig)["lifecycle"] == "failed"
    rig.up()
    assert outputs(rig)["lifecycle"] == "active"
    rig.args["valid_until_duration"] = "7200s"
    assert rig.preview() == {"same": 2, "update": 1}
    rig.up()
    assert rig.preview() == {"same": 3}
    assert len(rig.calls("POST")) == 2
    rig.destroy()
    assert rig.tpu() == {}
