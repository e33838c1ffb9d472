"""States that an earlier version has written: nothing of them changes, and every slice keeps its
name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pulumi
import pytest
from pulumi.automation import Deployment

from tests.provider.deployment import PROJECT, TYPE, Rig, live, until
from tpuflex.request.body import request_body
from tpuflex.request.check import parse
from tpuflex.tpu import Provider, QueuedResource

pytestmark = [pytest.mark.engine, pytest.mark.usefixtures("served")]

#: Of the program below, as the engine and the provider of commit 3c2c510 wrote it: the last one for
#: which an owner did not tell the types of the components around a slice (docs/adr/0024).
EARLIER = Path(__file__).parent / "earlier" / "slices.json"


@pytest.mark.pulumi_feature("a state of an earlier version")
def test_a_state_of_an_earlier_version_has_no_changes(rig: Rig) -> None:
    """A slice by itself and one within a component: preview and `up` find nothing to do, nobody
    asks for another, and their nodes are left alone."""
    rig.stack.workspace.program = lambda: program(rig.args)
    text = EARLIER.read_text("utf-8")
    slices = [found for found in json.loads(text) if found["type"] == TYPE]
    for found in slices:
        made = there(rig, found["id"], found["inputs"])
        text = text.replace(found["outputs"]["createTime"], made)
    held = rig.stack.export_stack().deployment or {}
    rig.stack.import_stack(
        Deployment(version=3, deployment={**held, "resources": json.loads(text)})
    )

    assert rig.preview() == {"same": 5}
    rig.up()

    assert live(rig) == sorted(found["id"] for found in slices)
    assert rig.preview() == {"same": 5}
    assert (len(rig.calls("POST")), rig.calls("PATCH", "nodes"), rig.calls("DELETE")) == (2, [], [])
    rig.destroy()
    assert rig.tpu() == {}


def program(args: dict[str, Any]) -> None:
    """A slice, and a component with another one."""
    provider = Provider("cloud", project=PROJECT, embedded=True)
    QueuedResource("slice", **args, opts=pulumi.ResourceOptions(provider=provider))
    chat = pulumi.ComponentResource("shop:index:Chat", "chat")
    within = pulumi.ResourceOptions(parent=chat, provider=provider)
    QueuedResource("part", **{**args, "zones": ["us-east5-b"]}, opts=within)


def there(rig: Rig, name: str, inputs: dict[str, Any]) -> str:
    """When the request of ``inputs`` was made, which is ACTIVE."""
    parent, _, id_ = name.partition("/queuedResources/")
    path = f"{parent}/queuedResources?queuedResourceId={id_}"
    rig.call("POST", path, request_body(parse(inputs)))
    until(lambda: rig.call("GET", name)["state"]["state"] == "ACTIVE")
    return str(rig.call("GET", name)["createTime"])
