"""A running stack moves: to another region, or into a range of addresses beside its old one."""

from __future__ import annotations

import pytest
import yaml

from embedded_cloud.core.json_types import JsonObject
from tests.acceptance.killed import stack_run
from tests.engine.embedded import Embedded

pytestmark = [pytest.mark.engine, pytest.mark.timeout(180)]


def write(embedded: Embedded, section: str, changes: JsonObject) -> None:
    """Change keys of a section of the stack file."""
    file = embedded.root / "stacks" / "Pulumi.dev.yaml"
    document = yaml.safe_load(file.read_text())
    document["config"].setdefault(f"tpuflex:{section}", {}).update(changes)
    file.write_text(yaml.safe_dump(document))


#: Into another range of the same region, and from there into another region.
MOVES: dict[str, JsonObject] = {
    "network": {"subnetwork_cidr": "10.99.0.0/24"},
    "slice": {"zones": ["us-central1-a"]},
}


def test_d2_a_running_slice_moves(embedded: Embedded) -> None:
    """The subnetwork's replacement takes the slice along: the preview says so, `up` succeeds at
    the first try, one slice is there afterwards, and `down` leaves nothing."""
    run = stack_run(embedded.root, embedded.engine, embedded.environ)
    run.up()
    for section, changes in MOVES.items():
        write(embedded, section, changes)
        run = stack_run(embedded.root, embedded.engine, embedded.environ)

        planned = run.preview()
        run.up()
        there = embedded.cloud.cloud.inventory()["tpu"]

        assert "tpuflex:tpu:QueuedResource" in {
            step.type for step in planned.changes if step.operation == "replace"
        }
        assert run.outputs()["lifecycle"] == "active"
        assert run.preview().changes == ()
        found = {kind: len(each) for kind, each in there.items()}
        assert found == {"nodes": 1, "queuedResources": 1}
    run.destroy()
    assert embedded.remaining() == []
