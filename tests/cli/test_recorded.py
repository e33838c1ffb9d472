"""Where a stack's state says that its slice is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from tpuflex.cli.cloud import Cloud
from tpuflex.cli.recorded import recorded_requests, recorded_zones
from tpuflex.naming import QUEUED_RESOURCE

ZONE = "projects/acme-serving/locations/us-west1-c"


@dataclass(frozen=True)
class Project:
    name: str
    home: Path
    root: Path


@dataclass(frozen=True)
class Stack:
    project: Project
    name: str = "dev"


@dataclass(frozen=True)
class Stored:
    """The part of a :class:`Cloud` that is read."""

    stack: Stack
    environ: Mapping[str, str]


def cloud(root: Path, state: str) -> Cloud:
    """A cloud whose stack has ``state`` in a backend of files."""
    file = root / ".pulumi" / "stacks" / "shop" / "dev.json"
    file.parent.mkdir(parents=True)
    file.write_text(state)
    stack = Stack(Project("shop", root, root))
    return cast("Cloud", Stored(stack, {"PULUMI_BACKEND_URL": f"file://{root}"}))


def checkpoint(resource: Mapping[str, Any]) -> str:
    return json.dumps({"version": 3, "checkpoint": {"latest": {"resources": [resource]}}})


def test_d2_the_zones_of_all_requests(tmp_path: Path) -> None:
    """D2: the zone of the slice and those of requests beside it are known without the engine."""
    request = {
        "urn": "urn:pulumi:dev::shop::tpuflex:tpu:QueuedResource::vllm",
        "custom": True,
        "type": QUEUED_RESOURCE,
        "id": f"{ZONE}/queuedResources/g1",
        "outputs": {"requests": [f"{ZONE.replace('-c', '-a')}/queuedResources/g1"]},
    }

    stored = cloud(tmp_path, checkpoint(request))
    assert recorded_zones(stored) == ("us-west1-a", "us-west1-c")
    assert recorded_requests(stored) == ("g1 in us-west1-a", "g1 in us-west1-c")


@pytest.mark.parametrize("state", ["", "[]", "{}", '{"checkpoint": {"latest": null}}'])
def test_d2_a_state_that_cannot_be_read_names_no_zone(tmp_path: Path, state: str) -> None:
    """D2: it is no reason for `status` to fail: the zones of the stack file are left."""
    stored = cloud(tmp_path, state)
    assert recorded_zones(stored) == ()
    assert recorded_requests(stored) == ()
