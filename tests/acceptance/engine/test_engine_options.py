"""Options of a resource under the real engine: what a program says beside the inputs."""

from __future__ import annotations

from pathlib import Path

import pulumi
import pytest
from pulumi.automation.errors import CommandError

from tests.provider.deployment import CUT_SHORT, NAME, PROJECT, Rig, live, metadata, outputs
from tpuflex.tpu import Provider, QueuedResource, StateId

pytestmark = [*CUT_SHORT, pytest.mark.usefixtures("served")]
HUSH = "hush-4711"


@pytest.mark.pulumi_feature(
    "hooks", "transforms", "secrets", "default provider", "destroy with the program"
)
def test_what_is_around_the_inputs(rig: Rig) -> None:
    """A transform's label reaches the node, a secret note is not in the state in clear, the
    provider may be the default one, and hooks run around creation, change and deletion."""
    ran: list[str] = []
    rig.stack.workspace.program = lambda: decorated(rig, ran)
    rig.stack.set_config("tpuflex:project", pulumi.automation.ConfigValue(PROJECT))

    rig.up()

    (node,) = rig.tpu()["nodes"]
    assert node["labels"]["from"] == "transform"
    assert metadata(rig)["note"] == HUSH
    assert all(HUSH not in text for text in backend(rig))
    rig.args["labels"] = {"team": "ads"}
    rig.up()
    assert HUSH not in rig.stack.preview(diff=True).stdout
    rig.stack.destroy(run_program=True)
    assert rig.tpu() == {}
    assert ran == [
        f"{when}_{what}" for what in ("create", "update", "delete") for when in ("before", "after")
    ]


def decorated(rig: Rig, ran: list[str]) -> None:
    """A slice with hooks, a transform, a secret, and no provider of its own."""
    QueuedResource(
        "slice",
        **{**rig.args, "metadata": {"note": pulumi.Output.secret(HUSH)}},
        opts=pulumi.ResourceOptions(
            hooks=pulumi.ResourceHookBinding(
                before_create=[hook("before_create", ran)],
                after_create=[hook("after_create", ran)],
                before_update=[hook("before_update", ran)],
                after_update=[hook("after_update", ran)],
                before_delete=[hook("before_delete", ran)],
                after_delete=[hook("after_delete", ran)],
            ),
            transforms=[labelled],
        ),
    )


def hook(moment: str, ran: list[str]) -> pulumi.ResourceHook:
    """A hook that notes that it ran."""

    def run(_: pulumi.ResourceHookArgs) -> None:
        ran.append(moment)

    return pulumi.ResourceHook(moment, run)


def labelled(given: pulumi.ResourceTransformArgs) -> pulumi.ResourceTransformResult:
    """Another label."""
    props = dict(given.props)
    assert isinstance(props["labels"], dict)
    props["labels"] = {**props["labels"], "from": "transform"}
    return pulumi.ResourceTransformResult(props, given.opts)


def backend(rig: Rig) -> list[str]:
    """Every file of the engine's backend."""
    where = rig.stack.workspace.env_vars["PULUMI_BACKEND_URL"].removeprefix("file://")
    return [path.read_text() for path in Path(where).rglob("*.json*")]


@pytest.mark.pulumi_feature("ignore_changes", "deleted_with")
def test_what_an_option_leaves_alone(rig: Rig) -> None:
    """An ignored change is none, and what is deleted with something else is not deleted by
    itself: nobody asks the cloud, and the slice runs on until its end."""
    rig.stack.workspace.program = lambda: held_by_another(rig)
    rig.up()
    rig.args["accelerator_type"] = "v6e-8"
    rig.stack.preview(expect_no_changes=True)
    rig.destroy()
    assert live(rig) == [NAME]


def held_by_another(rig: Rig) -> None:
    """A slice that is deleted with another resource."""
    provider = Provider("cloud", project=PROJECT, embedded=True)
    QueuedResource(
        "slice",
        **rig.args,
        opts=pulumi.ResourceOptions(
            provider=provider,
            ignore_changes=["accelerator_type"],
            deleted_with=StateId("holder", opts=pulumi.ResourceOptions(provider=provider)),
        ),
    )


@pytest.mark.pulumi_feature(
    "custom_timeouts: create", "custom_timeouts: update", "custom_timeouts: delete"
)
def test_each_timeout_ends_what_it_is_for(rig: Rig) -> None:
    """Creating, changing and deleting each end after the time that the program gives them; what
    is there stays in the state, and the next run goes on with it."""
    rig.capacity(never=True)
    rig.opts = timeouts(create="1s")
    with pytest.raises(CommandError, match="is not active after"):
        rig.up()
    rig.opts = timeouts(update="1s")
    with pytest.raises(CommandError, match="is not active after"):
        rig.up()
    assert outputs(rig)["lifecycle"] == "waiting"
    rig.opts = timeouts(delete="1s")
    rig.capacity(deleting_s=3600.0)
    rig.up()
    with pytest.raises(CommandError, match="is not gone after"):
        rig.destroy()
    assert rig.resource() is not None
    rig.cloud.advance(3600.0)
    rig.refresh()
    assert rig.resource() is None
    assert rig.tpu() == {}


def timeouts(**seconds: str) -> pulumi.ResourceOptions:
    return pulumi.ResourceOptions(custom_timeouts=pulumi.CustomTimeouts(**seconds))
