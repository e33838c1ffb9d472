"""A running stack moves: to another region, or into a range of addresses beside its old one."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
import yaml

from embedded_cloud.json_types import JsonObject
from tests.engine.embedded import Embedded
from tpuflex.engine.commands import Target
from tpuflex.engine.failure import ProgramFailures
from tpuflex.engine.run import EngineRun
from tpuflex.program import deploy

pytestmark = [
    pytest.mark.engine,
    pytest.mark.timeout(180),
    # Pulumi's SDK abandons the event loop of an inline program whose engine failed.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture(autouse=True)
def _collected() -> Iterator[None]:
    """Collects what a failed program has left in the test that owns it, and not in a later one."""
    yield
    gc.collect()


def stack_run(embedded: Embedded) -> EngineRun:
    def program() -> None:
        deploy(embedded.settings, project="tpuflex", stack="dev", environ=embedded.environ)

    target = Target(embedded.root, "dev", embedded.engine, embedded.environ)
    return EngineRun(target, program, failures=ProgramFailures())


def write(embedded: Embedded, section: str, changes: JsonObject) -> None:
    """Change keys of a section of the stack file."""
    file = embedded.root / "stacks" / "Pulumi.dev.yaml"
    document = yaml.safe_load(file.read_text())
    document["config"].setdefault(f"tpuflex:{section}", {}).update(changes)
    file.write_text(yaml.safe_dump(document))


@pytest.mark.parametrize(
    ("section", "changes"),
    [
        pytest.param("slice", {"zones": ["us-central1-a"]}, id="region"),
        pytest.param("network", {"subnetwork_cidr": "10.99.0.0/24"}, id="range"),
    ],
)
def test_d2_a_running_slice_moves(embedded: Embedded, section: str, changes: JsonObject) -> None:
    """The subnetwork's replacement takes the slice along: the preview says so, `up` succeeds at
    the first try, one slice is there afterwards, and `down` leaves nothing."""
    run = stack_run(embedded)
    run.up()
    write(embedded, section, changes)

    planned = run.preview()
    run.up()
    outputs = run.outputs()
    again = run.preview()
    there = embedded.cloud.cloud.inventory()["tpu"]
    run.destroy()

    assert "tpuflex:tpu:QueuedResource" in {
        step.type for step in planned.changes if step.operation == "replace"
    }
    assert outputs["lifecycle"] == "active"
    assert again.changes == ()
    assert {kind: len(found) for kind, found in there.items()} == {"nodes": 1, "queuedResources": 1}
    assert embedded.remaining() == []
