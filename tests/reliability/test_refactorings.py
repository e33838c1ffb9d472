"""Random refactorings of a slice that runs: a preview shows each replacement; nothing is lost."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pulumi_plugin.log import EngineLog
from pulumi_plugin.protocol import provider_pb2
from pulumi_plugin.wire import encode
from reliability.direct import DirectCloud, DirectSession
from reliability.projects import SWIFT, slice_arguments
from reliability.small_engine import SmallEngine
from tpuflex.gcp.queued_resources import TpuClient
from tpuflex.gcp.timing import Timing
from tpuflex.gcp.transport import Transport
from tpuflex.naming import QUEUED_RESOURCE
from tpuflex.provider.configuration import Configuration
from tpuflex.provider.servicer import Servicer

#: More by TPUFLEX_REFACTORINGS=2000.
EXAMPLES = int(os.environ.get("TPUFLEX_REFACTORINGS", "25"))
CHIPS = ("v6e-1", "v6e-4", "v6e-8")
NAMES, PARENTS, STACKS = (
    ("slice", "chat", "a-b"),
    ("", "shop:index:A$", "shop:index:B$"),
    ("dev", "b"),
)


class Told:
    """The provider, told another URN than the small engine's own, and another configuration: all
    that it sees of a rename, a move and a changed provider."""

    def __init__(self, servicer: Servicer, urn: str, configured: dict[str, Any]) -> None:
        self._servicer, self._urn, self._configured = servicer, urn, configured

    def __getattr__(self, method: str) -> Any:
        def call(request: Any, context: Any) -> Any:
            if method == "Configure":
                request = provider_pb2.ConfigureRequest(args=encode(self._configured))
            else:
                request.urn = self._urn
            return getattr(self._servicer, method)(request, context)

        return call


class World:
    """A cloud, a slice under whatever URN, and a neighbour that nobody touches."""

    def __init__(self, path: Path) -> None:
        self.cloud = DirectCloud(path, SWIFT)

    def begin(self) -> None:
        self.cloud.reset(0)
        self.engine = SmallEngine(cast("Any", None))
        self.engine.program = slice_arguments()
        self.at = {"name": "slice", "parent": "", "stack": "dev", "project": "cloud-project"}
        neighbour = SmallEngine(self.provider(name="neighbour"))
        neighbour.program = slice_arguments()
        assert neighbour.up()
        (self.neighbour,) = self.ids()

    def provider(self, **other: str) -> Any:
        """A provider process of its own, as each command of the engine has."""
        at = {**self.at, **other}

        def connect(_: Configuration, timing: Timing) -> TpuClient:
            session = DirectSession(self.cloud)
            return TpuClient(Transport(session, self.cloud.cloud.base_url, timing))

        servicer = Servicer(EngineLog(), connect, lambda _: self.cloud.timing())
        urn = f"urn:pulumi:{at['stack']}::shop::{at['parent']}{QUEUED_RESOURCE}::{at['name']}"
        return Told(servicer, urn, {"project": at["project"]})

    def ids(self) -> set[str]:
        found = self.cloud.cloud.inventory().get("tpu", {}).get("queuedResources", [])
        return {str(each["name"]) for each in found}

    def held(self) -> list[str]:
        return [
            str(r["id"])
            for r in self.engine.deployment()["resources"]
            if r["type"] == QUEUED_RESOURCE
        ]

    def preview(self) -> str:
        self.engine.servicer = self.provider()
        self.cloud.begin()
        (step,) = self.engine.preview().steps
        return str(step.operation)

    def up(self) -> None:
        self.engine.servicer = self.provider()
        self.cloud.begin()
        assert self.engine.up(), self.engine.said[-1:]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(tmp_path_factory.mktemp("refactorings"))
    yield made
    made.cloud.close()


_moves = st.fixed_dictionaries(
    {},
    optional={
        "name": st.sampled_from(NAMES),
        "parent": st.sampled_from(PARENTS),
        "stack": st.sampled_from(STACKS),
        "project": st.sampled_from(("cloud-project", "other-project")),
        "chips": st.sampled_from(CHIPS),
        "team": st.sampled_from(("search", "ads")),
        "refresh": st.booleans(),
    },
)


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(_moves, min_size=1, max_size=6))
def test_a_refactoring_changes_nothing(world: World, moves: list[dict[str, Any]]) -> None:
    """Whatever its URN, its stack and its provider become, the slice stays as it is; only other
    chips replace it, which the preview has said; and there is always one, which the state holds."""
    world.begin()
    world.up()
    for move in moves:
        (before,) = world.held()
        program = dict(world.engine.program or {})
        chips = move.get("chips", program["acceleratorType"])
        replaces = chips != program["acceleratorType"]
        changes = move.get("team", program["labels"]["team"]) != program["labels"]["team"]
        world.at |= {key: value for key, value in move.items() if key in world.at}
        world.engine.program = {
            **program,
            "acceleratorType": chips,
            "labels": {"team": move.get("team", program["labels"]["team"])},
        }
        if move.get("refresh"):
            world.engine.servicer = world.provider()
            assert world.engine.refresh()

        expected = "replace" if replaces else "update" if changes else "same"
        assert world.preview() == expected
        assert world.held() == [before]
        world.up()

        (after,) = world.held()
        assert (after != before) == replaces
        assert world.ids() == {world.neighbour, after}
        assert world.preview() == "same"
    world.engine.program = None
    world.up()
    assert world.ids() == {world.neighbour}
