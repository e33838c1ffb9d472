"""No change without a plan, its hash, and the stack's name typed by a person."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.embedded_cloud.api import eventually
from tests.mcp_server.serving import Person, add_key, called, document, error, workspace
from tpuflex.engine.events import Step
from tpuflex.mcp_server.changes import Changes, Planned, step_lines
from tpuflex.mcp_server.server import CHANGING, ProjectServer
from tpuflex.naming import API_KEY
from tpuflex.stack.connection import Connection

CANARY = "sk-Canary+4TnB/8vRkE3s"


@pytest.fixture
def server(project: Path, cloud: Connection) -> ProjectServer:
    """A server that may change, on a stack whose API key is there."""
    add_key(cloud, CANARY)
    return ProjectServer(workspace(project, cloud), allow_changes=True)


def started(server: ProjectServer) -> int:
    """How many operations there are."""
    return len(server.changes.operations.newest(100))


def issued(server: ProjectServer, action: str, digest: str = "1") -> str:
    """The hash of a plan that the server has made."""
    plan = Planned(action, "dev", "39 to create.", {}, {"digest": digest}, (action, "--yes"))
    return server.changes.issue(lambda: plan).hash


def plan_of_rotation(server: ProjectServer, **arguments: Any) -> str:
    return str(document(called(server, "rotate_secret", arguments))["plan_hash"])


@pytest.mark.parametrize("action", CHANGING)
def test_every_change_wants_hash_and_name(action: str, server: ProjectServer) -> None:
    """Each changing tool refuses a hash that nobody gave it, a client that can ask nobody, a person
    who declines or types another name; nothing is started, whatever the protocol's version."""
    for mode in ("auto", "legacy"):
        for plan_hash in (secrets.token_hex(32), issued(server, "another")):
            person = Person("dev")
            said = error(called(server, action, {"plan_hash": plan_hash}, person, mode))
            assert (said["kind"], person.asked) == ("PlanChangedError", [])

        asked = {"plan_hash": issued(server, action)}
        assert error(called(server, action, asked, None, mode))["kind"] == "AccessError"
        for answer in (None, "prod", "", "DEV"):
            person = Person(answer)
            said = error(called(server, action, asked, person, mode))
            assert (said["kind"], said["exit_code"]) == ("InterruptedByUser", 130)
            (question,) = person.asked
            assert "39 to create. " in question.replace("\n", " ")
            assert "(dev)" in question
    assert started(server) == 0


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_plan_that_was_approved_runs_once(mode: str, server: ProjectServer) -> None:
    """With its hash and the typed name the command starts that is held to the plan; the handle
    tells how it ended, also to a server that was started again. The same hash starts no second."""
    plan_hash = plan_of_rotation(server)
    handle = document(
        called(server, "rotate_secret", {"plan_hash": plan_hash}, Person("dev"), mode)
    )
    again = called(server, "rotate_secret", {"plan_hash": plan_hash}, Person("dev"), mode)
    restarted = ProjectServer(server.workspace)

    def read() -> Any:
        return document(called(restarted, "get_operation", {"operation": handle["operation"]}))

    handles = restarted.changes.operations
    eventually(lambda: handles.read(handle["operation"]).state != "running")
    found = read()
    assert error(again)["kind"] == "PlanChangedError"
    assert (found["state"], found["exit_code"]) == ("succeeded", 0)
    assert found["result"]["words"][-6:] == [
        *("secrets", "rotate", "api-key", "--yes", "--expect", "2")
    ]
    assert found["progress"] == ["working on 2"]
    listed = document(called(restarted, "get_operation"))["operations"]
    assert [each["operation"] for each in listed] == [handle["operation"]]


def test_a_plan_that_is_another_by_now(server: ProjectServer, cloud: Connection) -> None:
    """It is made again just before, and nothing runs where it differs."""
    plan_hash = plan_of_rotation(server)
    cloud.secrets.add_version(cloud.secret(API_KEY), "somebody-elses")
    said = error(called(server, "rotate_secret", {"plan_hash": plan_hash}, Person("dev")))

    assert said["kind"] == "PlanChangedError"
    assert "Version 3 of" in said["message"]
    assert started(server) == 0


def test_a_plan_is_good_for_ten_minutes(server: ProjectServer, clock: list[float]) -> None:
    """After that, the person is not even asked."""
    server.changes = Changes(server.workspace, clock=lambda: clock[0])
    plan_hash, person = issued(server, "rotate_secret"), Person("dev")
    clock[0] += 600.0
    said = error(called(server, "rotate_secret", {"plan_hash": plan_hash}, person))

    assert "older than 10 minutes" in said["message"]
    assert person.asked == []


@pytest.fixture
def clock() -> list[float]:
    return [0.0]


def test_no_answer_has_the_key(server: ProjectServer, cloud: Connection) -> None:
    """Neither the plan nor the operation of a rotation shows a value, old or new."""
    plan = called(server, "rotate_secret")
    plan_hash = document(plan)["plan_hash"]
    done = called(server, "rotate_secret", {"plan_hash": plan_hash}, Person("dev"))

    assert cloud.secrets.access(f"{cloud.secret(API_KEY)}/versions/1") == CANARY
    assert CANARY not in plan.model_dump_json() + done.model_dump_json()


def test_load_wants_a_person(server: ProjectServer) -> None:
    """A benchmark is asked for, with how much load it is; many points are refused."""
    no = Person(types=False)
    said = error(called(server, "run_benchmark", {}, no))

    assert said["kind"] == "InterruptedByUser"
    assert "2 points, 64 requests, up to 4 at a time, on the endpoint of stack dev" in no.asked[0]
    assert error(called(server, "run_benchmark"))["kind"] == "AccessError"
    agreed = error(called(server, "run_benchmark", {}, Person(types=True)))
    assert agreed["kind"] == "NotFoundError"
    many = {"concurrency": "1,2,3,4,5", "context": "8,16,32,64"}
    assert error(called(server, "run_benchmark", many, Person(types=True)))["exit_code"] == 2


@pytest.mark.parametrize(
    "change",
    [
        {"action": "down"},
        {"stack": "prod"},
        {"decisive": {"digest": "2"}},
        {"words": ("up", "--yes", "--new-host")},
    ],
)
def test_the_hash_is_of_all_that_would_be_done(change: dict[str, Any]) -> None:
    """Another action, stack, plan or option has another hash; another text has not."""
    plan: dict[str, Any] = {
        "action": "up",
        "stack": "dev",
        "summary": "",
        "document": {},
        "decisive": {"digest": "1"},
        "words": ("up", "--yes"),
    }
    first = Planned(**plan)

    assert Planned(**{**plan, **change}).hash != first.hash
    assert Planned(**{**plan, "summary": "at noon", "document": {"at": "noon"}}).hash == first.hash


def test_a_question_shows_the_steps() -> None:
    """What goes comes first, with the properties that change; what is left out is counted, and no
    name can add a line."""
    kinds = {"create": 40, "update": 1, "replace": 1, "delete": 1}
    steps = [
        Step(word, "gcp:compute/firewall:Firewall", f"{word}\n{n}", "", changed=("sourceRanges",))
        for word, many in kinds.items()
        for n in range(many)
    ]
    deleted, replaced, updated, created, *_, last = step_lines(steps)

    assert deleted == "delete Firewall delete?0 (sourceRanges)"
    assert replaced == "replace Firewall replace?0"
    assert updated == "update Firewall update?0 (sourceRanges)"
    assert created.startswith("create Firewall create?0")
    assert last == "and 13 more"


def test_nothing_to_do_has_no_hash(project: Path) -> None:
    """Then there is nothing to approve."""
    server = ProjectServer(workspace(project), allow_changes=True)
    make: Callable[[], Planned] = lambda: Planned("down", "dev", "", {}, {}, (), nothing=True)  # noqa: E731
    planned = server.changes.issue(make)

    assert planned.to_json()["plan_hash"] is None
    said = error(called(server, "down", {"plan_hash": planned.hash}, Person("dev")))
    assert said["kind"] == "PlanChangedError"
