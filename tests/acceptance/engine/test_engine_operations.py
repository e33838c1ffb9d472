"""The engine's own commands beside `up`: what is named, planned, imported, or run without it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pulumi
import pytest
from pulumi.automation.errors import CommandError

from tests.acceptance.plain_pulumi import plain_pulumi
from tests.provider.deployment import CUT_SHORT, NAME, PROJECT, TYPE, Rig, command, live, name, urn
from tpuflex.tpu import Provider, QueuedResource

pytestmark = [*CUT_SHORT, pytest.mark.usefixtures("served")]
NEXT = name("us-east5-a", 2)
SECOND = NAME.replace("slice", "second")


@pytest.mark.pulumi_feature("taint", "plan", "drift", "refresh with the program")
def test_a_plan_holds_what_up_does(rig: Rig, tmp_path: Path) -> None:
    """A tainted slice is replaced, as the saved plan says; what the plan does not say is refused.
    A label that somebody changed is drift: a refresh finds it, with the program too."""
    rig.up()
    node = NAME.replace("queuedResources", "nodes")
    plan = str(tmp_path / "plan.json")
    rig.call("PATCH", f"{node}?updateMask=labels", {"labels": {**labels(rig), "team": "ads"}})
    rig.cloud.advance(5)

    drift = rig.stack.preview_refresh(run_program=True).change_summary
    assert {str(kind): count for kind, count in drift.items()} == {"same": 2, "update": 1}
    rig.stack.refresh(run_program=True)
    assert rig.preview() == {"same": 2, "update": 1}
    rig.stack.preview(plan=plan)
    rig.args["accelerator_type"] = "v6e-8"
    with pytest.raises(CommandError, match="violates plan"):
        rig.stack.up(plan=plan)
    assert live(rig) == [NAME]
    rig.args["accelerator_type"] = "v6e-4"
    rig.stack.up(plan=plan)
    assert labels(rig)["team"] == "search"

    command(rig, "state", "taint", urn(rig))
    rig.stack.preview(plan=plan)
    rig.stack.up(plan=plan)
    assert live(rig) == [NEXT]


def labels(rig: Rig) -> dict[str, str]:
    return dict(rig.call("GET", NAME.replace("queuedResources", "nodes"))["labels"])


@pytest.mark.pulumi_feature("target", "import: bulk", "import: missing")
def test_two_slices_of_which_one_is_meant(rig: Rig) -> None:
    """Of two slices only the targeted one is changed and deleted. Both are imported at once into a
    state that lost them; what does not exist is not imported."""
    rig.stack.workspace.program = lambda: two(rig)
    rig.up()
    first, second = (u for u in sorted(urns(rig), reverse=True) if TYPE in u)
    rig.args["labels"] = {"team": "ads"}

    rig.stack.up(target=[first])

    (patched,) = rig.calls("PATCH", "nodes")
    assert patched["path"].endswith("/shop-dev-slice-g1")
    for each in (first, second):
        command(rig, "state", "delete", each)
    with pytest.raises(AssertionError, match="does not exist"):
        take_in(rig, third=NAME.replace("slice", "third"))
    take_in(rig, slice=NAME, second=SECOND)
    rig.up()
    assert len(rig.calls("PATCH", "nodes")) == 2  # the label of the second
    rig.stack.preview(expect_no_changes=True)
    rig.stack.destroy(target=[first])
    assert live(rig) == [SECOND]


def two(rig: Rig) -> None:
    """A program with two slices."""
    opts = pulumi.ResourceOptions(provider=Provider("cloud", project=PROJECT, embedded=True))
    for each in ("slice", "second"):
        QueuedResource(each, **rig.args, opts=opts)


def take_in(rig: Rig, **ids: str) -> None:
    """`pulumi import --file` of these ids, by their logical names."""
    (provider,) = (u for u in urns(rig) if "pulumi:providers" in u)
    workspace = rig.stack.workspace
    work, engine = Path(workspace.work_dir), Path(workspace.pulumi_command.command)
    rows = [{"type": TYPE, "name": n, "id": i, "provider": "cloud"} for n, i in ids.items()]
    file = work / "import.json"
    file.write_text(json.dumps({"resources": rows, "nameTable": {"cloud": provider}}))
    environ = {**os.environ, **workspace.env_vars}
    with plain_pulumi(engine, work, environ, lambda: two(rig)) as pulumi_command:
        options = ["--stack=dev", "--yes", "--generate-code=false", "--protect=false"]
        pulumi_command("import", *options, "--file", str(file))


def urns(rig: Rig) -> list[str]:
    """Of everything in the state."""
    return [str(r["urn"]) for r in (rig.stack.export_stack().deployment or {})["resources"]]
