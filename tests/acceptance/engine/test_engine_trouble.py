"""The provider under the real engine when things go wrong: slow queues, Ctrl-C, other owners."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pulumi
import pytest
import requests
from pulumi.automation.errors import CommandError

from tests.provider.deployment import CUT_SHORT, NAME, Rig, outputs, until
from tpuflex.codes import Code
from tpuflex.request.outcomes import RUN_ACCEPTED, TABLE, Condition

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


@pytest.mark.usefixtures("served")
def test_destroy_outwaits_provisioning(rig: Rig) -> None:
    """A slice in PROVISIONING cannot be deleted; destroy asks again until it can be."""
    rig.capacity(provisioning_s=1000.0)
    rig.opts = pulumi.ResourceOptions(custom_timeouts=pulumi.CustomTimeouts(create="1s"))
    with pytest.raises(CommandError):
        rig.up()
    assert outputs(rig)["lifecycle"] == "provisioning"

    destroyed = rig.background(rig.destroy)
    until(lambda: "cannot be deleted yet" in "".join(rig.lines))
    rig.cloud.advance(1000.0)
    destroyed.result()

    assert rig.tpu() == {}


@pytest.mark.usefixtures("served")
def test_stockout_is_kept_and_replaced(rig: Rig) -> None:
    """A request that FAILED stays in the state with its cause, and the next up replaces it."""
    rig.capacity(
        failure={"code": "RESOURCE_EXHAUSTED", "message": "There is no more capacity in the zone"}
    )
    with pytest.raises(CommandError, match="stock-out"):
        rig.up()
    assert outputs(rig)["lifecycle"] == "failed"

    rig.capacity()
    rig.up()

    assert outputs(rig)["lifecycle"] == "active"
    assert len(rig.tpu()["queuedResources"]) == 1


@pytest.mark.usefixtures("served")
def test_foreign_owner_is_refused_by_name(rig: Rig) -> None:
    """A request of the same name that another stack owns is left alone and its owner is named."""
    body = {
        "provisioningModel": "FLEX_START",
        "runDuration": {"maxRunDuration": "3600s"},
        "tpu": {
            "nodeSpec": [
                {
                    "parent": "projects/cloud-project/locations/us-east5-a",
                    "nodeId": "shop-dev-slice-g1",
                    "node": {
                        "acceleratorType": "v6e-4",
                        "runtimeVersion": "v2-alpha-tpuv6e",
                        "labels": {"tpuflex-owner": "0123", "tpuflex-stack": "prod"},
                    },
                }
            ]
        },
    }
    answer = requests.post(
        f"{rig.cloud.url}/v2alpha1/projects/cloud-project/locations/us-east5-a/queuedResources",
        params={"queuedResourceId": "shop-dev-slice-g1"},
        headers={"Authorization": f"Bearer {rig.cloud.token}"},
        json=body,
        timeout=60,
    )
    assert answer.status_code == 200, answer.text

    with pytest.raises(CommandError, match="belongs to stack prod"):
        rig.up()

    assert rig.resource() is None
    rig.destroy()
    assert len(rig.tpu()["queuedResources"]) == 1
    assert rig.calls("DELETE") == []


@pytest.mark.usefixtures("served")
def test_queued_resource_deleted_behind_our_back_is_made_anew(rig: Rig) -> None:
    """What someone deleted by hand is noticed by the next up and requested again."""
    rig.up()
    answer = requests.delete(
        f"{rig.cloud.url}/v2alpha1/{NAME}",
        params={"force": "true"},
        headers={"Authorization": f"Bearer {rig.cloud.token}"},
        timeout=60,
    )
    assert answer.status_code == 200, answer.text
    until(lambda: rig.tpu() == {})

    rig.up()

    assert outputs(rig)["lifecycle"] == "active"


@pytest.mark.usefixtures("served")
def test_ended_run_is_reported_and_not_bought_again(rig: Rig) -> None:
    """After the run duration, up says that the run is over, buys nothing and fails; where
    `on_run_end` accepts that it warns instead, every time, and succeeds."""
    rig.up()
    rig.cloud.advance(14400 + 60)
    rig.lines.clear()

    with pytest.raises(CommandError, match="nothing is bought again unasked"):
        rig.up()

    assert outputs(rig)["lifecycle"] == "ended"
    assert "the run is over" in "".join(rig.lines)
    over = {note.severity: note.text for note in rig.notes if note.code is Code.RUN_OVER}
    assert over["info"] == TABLE[Condition.ENDED].preview.text
    assert over["error"].endswith(TABLE[Condition.ENDED].up.text)
    assert len(rig.calls("POST")) == 1

    rig.args["on_run_end"] = "accept"
    for planned in ({"same": 2, "update": 1}, {"same": 3}):
        rig.notes.clear()
        assert rig.preview() == planned
        rig.up()
        told = {(note.severity, note.text) for note in rig.notes if note.code is Code.RUN_OVER}
        assert told == {("warning", RUN_ACCEPTED.text)}
    assert outputs(rig)["lifecycle"] == "ended"
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


def test_attached_provider_serves_several_runs(rig: Rig) -> None:
    """A provider attached by port works without the plugin folder, run after run."""
    plugin = [sys.executable, "-m", "tpuflex.provider.main"]
    environ = {**os.environ, **rig.cloud.environ()}
    with subprocess.Popen(plugin, stdout=subprocess.PIPE, text=True, env=environ) as process:
        assert process.stdout is not None
        port = process.stdout.readline().strip()
        with rig.attached(int(port)):
            rig.up()
            assert "WAITING_FOR_RESOURCES: in the queue" in "".join(rig.lines)
            rig.capacity(never=True)
            rig.args["accelerator_type"] = "v6e-8"
            running = rig.background(rig.up)
            until(lambda: len(rig.calls("POST")) == 2)
            rig.engine().send_signal(signal.SIGINT)
            with pytest.raises(CommandError):
                running.result(timeout=30)
            rig.capacity()
            rig.up()
            assert outputs(rig)["acceleratorType"] == "v6e-8"
            rig.destroy()
        process.terminate()
    assert rig.tpu() == {}
