"""The ids of states that a home remembers, and where a state says that the slice is."""

from __future__ import annotations

import json
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tpuflex.errors import EngineError
from tpuflex.naming import QUEUED_RESOURCE
from tpuflex.stack.connection import Connection
from tpuflex.stack.known_state_ids import KnownStateIds
from tpuflex.stack.stack import Stack

ONE, TWO = "0123456789abcdef0123", "fedcba9876543210fedc"


@pytest.fixture
def seen(tmp_path: Path) -> KnownStateIds:
    return KnownStateIds(tmp_path / "home", "shop")


def files(seen: KnownStateIds) -> list[Path]:
    return sorted((seen.home / "state-ids").iterdir())


def test_what_was_seen_is_remembered(seen: KnownStateIds) -> None:
    """Ids are kept by project and stack, once each; those of another project are not among them."""
    seen.remember("dev", [ONE])
    seen.remember("dev", [ONE, TWO])
    seen.remember("prod", [TWO])
    KnownStateIds(seen.home, "other").remember("dev", [TWO])

    assert KnownStateIds(seen.home, "shop").by_stack() == {"dev": {ONE, TWO}, "prod": {TWO}}
    assert seen.of("staging") == frozenset()
    assert len(files(seen)) == 4


def test_nothing_was_seen(seen: KnownStateIds) -> None:
    """A new home has no files, and gets none by being asked."""
    assert seen.by_stack() == {}
    assert not seen.home.exists()


def test_the_files_are_private(seen: KnownStateIds) -> None:
    """Who could write them could have foreign resources deleted."""
    seen.remember("dev", [ONE])

    assert [stat.S_IMODE(file.stat().st_mode) for file in files(seen)] == [0o600]
    assert stat.S_IMODE((seen.home / "state-ids").stat().st_mode) == 0o700


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"id": "x", "project": "shop", "stack": "dev"}', '{"id": 1}']
)
def test_a_damaged_file(seen: KnownStateIds, text: str) -> None:
    """It is named, with what to do."""
    seen.remember("dev", [ONE])
    (file,) = files(seen)
    file.write_text(text)

    with pytest.raises(EngineError, match="is damaged") as caught:
        seen.by_stack()
    assert "Delete it" in str(caught.value.hint)


def test_what_is_no_id(seen: KnownStateIds) -> None:
    """Nothing becomes part of a path that is not an id."""
    with pytest.raises(ValueError, match="is no state id"):
        seen.remember("dev", ["../../x"])


ZONE = "projects/acme-serving/locations/us-west1-c"


@dataclass(frozen=True)
class Project:
    name: str
    home: Path
    root: Path


def cloud(root: Path, state: str) -> Connection:
    """A cloud whose stack has ``state`` in a backend of files."""
    file = root / ".pulumi" / "stacks" / "shop" / "dev.json"
    file.parent.mkdir(parents=True)
    file.write_text(state)
    stack = SimpleNamespace(project=Project("shop", root, root), name="dev")
    return Connection(cast("Stack", stack), {"PULUMI_BACKEND_URL": f"file://{root}"})


def checkpoint(resource: Mapping[str, Any]) -> str:
    return json.dumps({"version": 3, "checkpoint": {"latest": {"resources": [resource]}}})


def test_d2_the_zones_of_all_requests(tmp_path: Path) -> None:
    """The zone of the slice and those of requests beside it are known without the engine."""
    request = {
        "urn": "urn:pulumi:dev::shop::tpuflex:tpu:QueuedResource::vllm",
        "custom": True,
        "type": QUEUED_RESOURCE,
        "id": f"{ZONE}/queuedResources/g1",
        "outputs": {"requests": [f"{ZONE.replace('-c', '-a')}/queuedResources/g1"]},
    }

    stored = cloud(tmp_path, checkpoint(request))
    assert stored.recorded_zones() == ("us-west1-a", "us-west1-c")
    assert stored.recorded_requests() == ("g1 in us-west1-a", "g1 in us-west1-c")


@pytest.mark.parametrize("state", ["", "[]", "{}", '{"checkpoint": {"latest": null}}'])
def test_d2_a_state_that_cannot_be_read_names_no_zone(tmp_path: Path, state: str) -> None:
    """It is no reason for `status` to fail: the zones of the stack file are left."""
    stored = cloud(tmp_path, state)
    assert stored.recorded_zones() == ()
    assert stored.recorded_requests() == ()
