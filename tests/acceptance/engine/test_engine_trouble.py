"""The provider under the real engine when somebody presses Ctrl-C."""

from __future__ import annotations

import signal

import pytest
from pulumi.automation.errors import CommandError

from tests.provider.deployment import CUT_SHORT, Rig, outputs, until

pytestmark = CUT_SHORT


@pytest.mark.pulumi_feature("cancel")
def test_interrupt_keeps_waiting_request(rig: Rig) -> None:
    """Ctrl-C ends a wait that would never end, and keeps the request; up and destroy then work."""
    rig.capacity(never=True)
    running = rig.background(rig.up)
    until(lambda: len(rig.calls("GET")) > 3)

    # Figure 2 of `make reliability` measures in how many seconds.
    rig.engine().send_signal(signal.SIGINT)
    with pytest.raises(CommandError):
        running.result(timeout=60)

    assert outputs(rig)["lifecycle"] == "waiting"
    rig.capacity()
    rig.up()
    assert outputs(rig)["lifecycle"] == "active"
    assert len(rig.calls("POST")) == 1
    rig.destroy()
    assert rig.tpu() == {}


def test_interrupted_destroy_keeps_the_slice(rig: Rig) -> None:
    """Ctrl-C ends a destroy that waits for an hour; destroy again finishes."""
    rig.up()
    rig.capacity(deleting_s=3600.0)
    running = rig.background(rig.destroy)
    until(lambda: rig.calls("DELETE"))

    # Figure 2 of `make reliability` measures in how many seconds.
    rig.engine().send_signal(signal.SIGINT)
    with pytest.raises(CommandError):
        running.result(timeout=60)
    assert rig.resource() is not None

    rig.cloud.advance(3600.0)
    rig.destroy()
    assert rig.tpu() == {}
