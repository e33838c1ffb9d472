"""A project that was made a minute ago: no API is on, and nothing of the stack is there."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from reliability.rig import StackRig

pytestmark = [pytest.mark.engine, pytest.mark.timeout(400)]

REQUEST = "tpu.projects.locations.queuedResources.create"
ACCOUNT = "iam.projects.serviceAccounts.create"
#: As the strict cloud has it: `strictness.STRICT`.
HOSTS_KNOW_ACCOUNT = timedelta(seconds=60)


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[StackRig]:
    """The dev stack without a source of weights, in a new project of a cloud that is as strict as
    Google in everything, only that a minute of its clock passes in three seconds."""
    with StackRig(tmp_path / "project", speed=20) as rig:
        file = rig.home / "stacks" / "Pulumi.dev.yaml"
        document = yaml.safe_load(file.read_text())
        document["config"]["tpuflex:model"]["weights"] = {"revision": "1"}
        file.write_text(yaml.safe_dump(document))
        rig.control.strict()
        yield rig


def made(rig: StackRig) -> set[str]:
    """The methods that have made something so far."""
    ids = (str(call["method_id"]) for call in rig.control.history())
    return {each for each in ids if each.endswith((".insert", ".create"))}


def times(rig: StackRig, method: str) -> list[datetime]:
    """When a method was called, by the cloud's clock."""
    calls = [call for call in rig.control.history() if call["method_id"] == method]
    return [datetime.fromisoformat(str(call["time"])) for call in calls]


def run(rig: StackRig, *words: str, code: int = 0) -> str:
    """What a command said on standard error."""
    ended = rig.run(*words)
    assert ended.exit_code == code, rig.said[-1]
    return str(rig.said[-1].stderr)


def bucket(rig: StackRig) -> dict[str, Any]:
    (found,) = [
        item
        for kinds in rig.control.inventory().values()
        for kind, items in kinds.items()
        for item in items
        if kind == "buckets"
    ]
    return dict(found)


def test_the_first_up_in_a_new_project_succeeds_by_itself(rig: StackRig) -> None:
    """B2, B3, M2, M5: APIs and the service account are waited for; without weights nothing is made;
    `weights push` makes the bucket that `up` then finds as it would have made it."""
    refused = run(rig, "up", code=7)
    made_without_weights = made(rig)
    pushed = run(rig, "weights", "push", "model")
    before, made_by_push = bucket(rig), made(rig)
    run(rig, "up")
    unchanged = run(rig, "up")

    assert (
        "that are needed, and that are off in tpuflex-dev: artifactregistry, cloudresourceman"
        in refused
    )
    # Service Usage is the twelfth that the stack needs: it has just answered what is enabled.
    assert "Enabling 11 APIs in project tpuflex-dev" in refused
    assert "serviceusage" not in refused
    assert "Waiting for 7 APIs to answer" in refused
    assert "the stack names no source. No chips were requested" in refused
    assert "tpuflex weights push DIRECTORY --stack dev`, which makes the bucket" in refused
    assert made_without_weights == set()
    assert "Enabling" not in pushed
    assert made_by_push == {"storage.buckets.insert", "storage.objects.insert"}
    assert bucket(rig) == before
    # A request that came before hosts know the account was refused, and made again; on a slow
    # machine the first may come later.
    account, requests = times(rig, ACCOUNT)[0], times(rig, REQUEST)
    assert len(requests) > 1 or requests[0] >= account + HOSTS_KNOW_ACCOUNT
    assert "No changes" in unchanged
    assert rig.check() == []
