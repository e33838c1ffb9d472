"""Labels of the user's on a stack that is up, with the real engine."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest
import requests
import yaml

from tests.engine.embedded import Embedded
from tpuflex.cli.plan import slice_plan
from tpuflex.engine.commands import Target
from tpuflex.engine.failure import ProgramFailures
from tpuflex.engine.run import EngineRun
from tpuflex.naming import LABEL_OWNER, LABEL_SPEC, QUEUED_RESOURCE
from tpuflex.program import deploy

pytestmark = [
    pytest.mark.engine,
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture(autouse=True)
def _collected() -> Iterator[None]:
    yield
    gc.collect()


def write_labels(embedded: Embedded, labels: dict[str, str]) -> None:
    """Put them into the stack file."""
    file = embedded.root / "stacks" / "Pulumi.dev.yaml"
    document = yaml.safe_load(file.read_text())
    document["config"]["tpuflex:labels"] = labels
    file.write_text(yaml.safe_dump(document))


def labels_of_all(embedded: Embedded) -> dict[str, dict[str, str]]:
    """The labels of everything that has an owner's, by where it is."""
    settings = embedded.settings
    project, zone = settings.project, settings.slice.zones[0]
    root = embedded.cloud.url
    lists = {
        "nodes": f"{root}/v2alpha1/projects/{project}/locations/{zone}/nodes",
        "items": f"{root}/storage/v1/b?project={project}",
        "secrets": f"{root}/v1/projects/{project}/secrets",
        "managedZones": f"{root}/dns/v1/projects/{project}/managedZones",
    }
    found: dict[str, dict[str, str]] = {}
    for field, address in lists.items():
        token = {"Authorization": f"Bearer {embedded.cloud.token}"}
        answer: dict[str, Any] = requests.get(address, headers=token, timeout=60).json()
        for each in answer.get(field, ()):
            found[f"{field} {each['name']}"] = each["labels"]
    return found


def test_a_change_of_labels_leaves_the_slice_where_it_is(embedded: Embedded) -> None:
    """What carries labels gets them, loses them and changes them in place: nothing is replaced, the
    running slice is the same one, and the preview says so beforehand."""

    def program() -> None:
        deploy(embedded.settings, project="tpuflex", stack="dev", environ=embedded.environ)

    target = Target(embedded.root, "dev", embedded.engine, embedded.environ)
    run = EngineRun(target, program, failures=ProgramFailures())
    first, second = {"team": "search", "tier": "1"}, {"team": "ranking", "unit": ""}
    write_labels(embedded, first)
    run.up()
    before = labels_of_all(embedded)
    assert {key.split(" ")[0] for key in before} == {"nodes", "items", "secrets", "managedZones"}

    write_labels(embedded, second)
    plan = run.preview()
    run.up()

    changed = {step.type: step.operation for step in plan.changes}
    assert set(changed.values()) == {"update"}
    assert changed[QUEUED_RESOURCE] == "update"
    assert slice_plan(plan) == "is kept: `up` changes it in place, or waits for it"
    after = labels_of_all(embedded)
    assert set(after) == set(before)
    for key, labels in after.items():
        others = {name: value for name, value in before[key].items() if name not in first}
        assert others[LABEL_OWNER]
        # It tells what a node was made with.
        others.pop(LABEL_SPEC, None)
        labels.pop(LABEL_SPEC, None)
        assert labels == {**others, **second}
    assert run.preview().changes == ()
