"""The status of all stacks of a project, on an embedded cloud whose hosts run nothing."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from embedded_cloud.core.clock import ManualClock
from embedded_cloud.server import EmbeddedCloud
from tests.cli.typing import NOON, stack_file
from tests.embedded_cloud.api import AT_ONCE, TOKEN, Api, flex_start
from tests.measure.fake_server import AFTER, BEFORE, FakeServer
from tpuflex.deploy import project_status
from tpuflex.deploy.known_stacks import KnownStack
from tpuflex.deploy.project_status import ProjectStatus, StackRow, status_of_all, watch_all
from tpuflex.errors import AccessError, NotFoundError, SettingsError
from tpuflex.measure import watched
from tpuflex.operate.endpoint_status import status
from tpuflex.project import open_project
from tpuflex.stack.connection import Connection
from tpuflex.stack.emulator import Daemon
from tpuflex.stack.stack import Stack, read_stack

ZONES = ("us-east5-a", "us-east5-b")
Serve = Callable[[Stack, FakeServer], None]
LISTS = ("tpu.projects.locations.queuedResources.list", "tpu.projects.locations.nodes.list")
#: A port where no host serves anything: tests put a server there.
PORT = 8123


@dataclass
class Rig:
    """A project with stacks, and a cloud."""

    project: Path
    cloud: EmbeddedCloud

    def stack(self, name: str, *zones: str) -> Stack:
        """A stack that asks for capacity in ``zones``."""
        text = stack_file(self.project, "dev").read_text()
        text = text.replace("[us-east5-a]", f"[{', '.join(zones or ZONES[:1])}]")
        text = text.replace("  tpuflex:serving:\n", f"  tpuflex:serving:\n    port: {PORT}\n")
        stack_file(self.project, name).write_text(text)
        return read_stack(open_project(self.project, {}), name)

    def connect(self, stack: Stack) -> Connection:
        return Connection(stack, dict(self.cloud.environ()), now=lambda: NOON)

    def api(self, zone: str = ZONES[0]) -> Api:
        return Api(self.cloud.url, project=self.cloud.project, zone=zone)

    def request(self, stack: Stack, zone: str = ZONES[0]) -> None:
        """Ask for the slice of ``stack``."""
        name = f"{stack.name}-g1"
        body = flex_start(metadata={}, labels={"tpuflex-owner": stack.names.owner})
        (spec,) = body["tpu"]["nodeSpec"]
        spec |= {"nodeId": name, "parent": f"projects/{self.cloud.project}/locations/{zone}"}
        assert self.api(zone).create(name, body).status_code == 200
        self.cloud.advance(1)

    def look(self, *stacks: Stack, **others: KnownStack) -> dict[str, StackRow]:
        known = (*(KnownStack(each.name, each) for each in stacks), *others.values())
        return rows(status_of_all("tpuflex", known, self.connect))

    def calls(self) -> list[str]:
        """Methods that were called, with the zone of a list."""
        return [
            f"{call['method_id']} {str(call['path']).split('/')[5]}"
            for call in self.cloud.cloud.history.entries()
        ]


def rows(found: ProjectStatus) -> dict[str, StackRow]:
    return {each.name: each for each in found.stacks}


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second look comes at once; and the embedded cloud is one of the project's."""
    monkeypatch.setattr(watched, "SOON_S", 0.01)
    monkeypatch.setattr(Daemon, "address", lambda _: "http://127.0.0.1:1")


@pytest.fixture
def rig(project: Path, tmp_path: Path) -> Iterator[Rig]:
    """Capacity is granted at once in the first zone, and never in the second."""
    capacity = {**AT_ONCE, "zones": {ZONES[1]: {"never": True}}}
    with EmbeddedCloud(
        tmp_path / "emulator",
        project="tpuflex-dev",
        token=TOKEN,
        stub_hosts=True,
        capacity=capacity,
        clock=ManualClock(NOON.timestamp()),
    ) as cloud:
        yield Rig(project, cloud)


@pytest.fixture
def serve(rig: Rig) -> Iterator[Serve]:
    """Serve where the host of a stack should."""
    with ExitStack() as servers:

        def serving(stack: Stack, fake: FakeServer) -> None:
            cloud = rig.connect(stack)
            parent, _, name = cloud.secret("api-key").rpartition("/")
            made = rig.api().call(
                "POST", f"v1/{parent}", secretId=name, body={"replication": {"automatic": {}}}
            )
            assert made.status_code == 200
            cloud.secrets.add_version(f"{parent}/{name}", fake.key)
            address = status(cloud, tunnel=False).slice.address
            servers.enter_context(fake.running((address, PORT)))

        yield serving


def counting(*metrics: str | int) -> FakeServer:
    """A server that says this of what it counts, one after the other."""
    fake = FakeServer()
    fake.documents["/metrics"] = list(metrics)
    return fake


class Hanging(FakeServer):
    """A server that takes every question and answers none."""

    def __init__(self) -> None:
        super().__init__()
        self.over = threading.Event()

    def answer(self, path: str, key: str | None) -> tuple[int, bytes]:
        self.over.wait(60)
        return super().answer(path, key)


def test_a_row_says_what_status_says(rig: Rig) -> None:
    """Of one that serves, one that waits, and one that is not up; with one list of each kind for
    each zone, and one question for each host."""
    serves, waits, absent = rig.stack("a"), rig.stack("b", *ZONES), rig.stack("c")
    rig.request(serves)
    rig.request(waits, ZONES[1])
    single = {each.name: status(rig.connect(each), tunnel=False) for each in (serves, waits)}
    before = len(rig.calls())

    found = rig.look(serves, waits, absent)

    calls = rig.calls()[before:]
    assert sorted(each for each in calls if ".list " in each) == sorted(
        f"{kind} {zone}" for kind in LISTS for zone in (*ZONES, "-")
    )
    assert sum("getGuestAttributes" in each for each in calls) == 1
    assert not any(".get " in each for each in calls)
    for name, alone in single.items():
        shown = found[name].status
        assert shown is not None
        assert replace(shown, health=alone.health) == alone
        assert found[name].exit_code == alone.exit_code
    assert isinstance(found["c"].error, NotFoundError)
    assert [each.up for each in found.values()] == [True, True, False]


def test_tokens_a_second(rig: Rig, serve: Serve) -> None:
    """By two looks at what the server counts; without a token that it would have to make."""
    stack = rig.stack("a")
    rig.request(stack)
    fake = counting(BEFORE, AFTER)
    serve(stack, fake)

    row = rig.look(stack)["a"]

    assert row.tokens_per_second is not None
    assert row.usage is not None
    assert row.usage.interval is not None
    assert row.usage.interval.generation_tokens == 356
    assert (row.exit_code, row.phase, row.unmeasured) == (0, "READY", "")
    assert "/v1/completions" not in fake.asked
    document = row.to_json()
    assert document["tokens_per_second"] == row.tokens_per_second
    assert (document["ready"], document["zone"], document["stale"]) == (True, ZONES[0], False)


def test_an_engine_that_makes_no_step_is_not_ready(rig: Rig, serve: Serve) -> None:
    """A row whose server answers and whose requests get no token says so by its exit code, too."""
    stack = rig.stack("a")
    rig.request(stack)
    fake = counting(BEFORE)
    fake.documents["/tpuflex/requests"] = [json.dumps({"in_flight": 1})]
    serve(stack, fake)

    row = rig.look(stack)["a"]

    assert (row.exit_code, row.to_json()["ready"]) == (7, False)
    assert row.status is not None
    assert row.status.health is not None
    assert row.status.health.why == "1 in flight, and the engine has made no step"


def test_an_endpoint_that_hangs_costs_its_own_cell(
    rig: Rig, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others are shown with their figures; of itself all is known that the cloud knows."""
    monkeypatch.setattr(project_status, "_LOOKS_WITHIN_S", 0.0)
    hangs, answers = rig.stack("a"), rig.stack("b")
    for each in (hangs, answers):
        rig.request(each)
    hanging = Hanging()
    serve(hangs, hanging)
    serve(answers, counting(BEFORE, AFTER))

    known = (KnownStack("a", hangs), KnownStack("b", answers))
    with closing(watch_all("p", known, rig.connect, 0.01)) as looks:
        found = next(each for each in map(rows, looks) if each["b"].tokens_per_second is not None)
        hanging.over.set()

    hung = found["a"]
    assert hung.tokens_per_second is None
    assert hung.unmeasured
    assert hung.status is not None
    assert (hung.status.slice.zone, hung.status.slice.ready) == (ZONES[0], True)


def test_what_cannot_be_read_is_a_row(rig: Rig) -> None:
    """With its reason and exit code, of which the highest counts; but a stack that no state has, in
    a cloud that cannot be reached, is not up. The others are read."""
    serves = rig.stack("a")
    rig.request(serves)
    broken = KnownStack("b", None, SettingsError("Pulumi.b.yaml", ()))
    elsewhere = rig.stack("c")
    elsewhere = replace(
        elsewhere, settings=elsewhere.settings.model_copy(update={"project": "not-mine"})
    )

    def connect(stack: Stack) -> Connection:
        if stack.settings.project == "not-mine":
            raise AccessError("no credentials")
        return rig.connect(stack)

    known = (KnownStack("a", serves), broken)
    other = (KnownStack("c", elsewhere),)

    without = status_of_all("p", known, connect, without_state=other, tunnel=False)
    found = status_of_all("p", (*known, *other), connect, tunnel=False)

    assert [(each.exit_code, each.up) for each in without.stacks] == [
        (7, True),
        (5, True),
        (4, False),
    ]
    assert [(each.exit_code, each.up) for each in found.stacks] == [(7, True), (5, True), (6, True)]
    assert (without.exit_code, found.exit_code) == (7, 7)
    assert not rows(without)["c"].reached


def test_what_cannot_be_read_any_more_stays_as_it_was(rig: Rig) -> None:
    """With its age, until it can be read again; what is gone does not."""
    stack = rig.stack("a")
    rig.request(stack)
    refusals = iter((None, AccessError("not now"), None, NotFoundError("gone")))

    def connect(stack: Stack) -> Connection:
        refusal = next(refusals)
        if refusal is not None:
            raise refusal
        return rig.connect(stack)

    known = (KnownStack("a", stack),)
    with closing(watch_all("p", known, connect, 5.0, pause=lambda _seconds: None)) as looks:
        found = [rows(next(looks))["a"] for _ in range(4)]

    assert [(each.stale, each.up) for each in found] == [
        *((False, True), (True, True), (False, True), (False, False)),
    ]
    assert found[1].status is found[0].status
    assert found[1].age > 0
    assert found[1].exit_code == 6
