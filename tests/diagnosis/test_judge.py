"""What evidence of a server that was READY shows, and which command comes next."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.cli.samples import status
from tests.cli.typing import NOON
from tpuflex.diagnosis.classes import CLASSES, UNKNOWN
from tpuflex.diagnosis.evidence import Evidence
from tpuflex.diagnosis.judge import State, judge
from tpuflex.diagnosis.signs import Line
from tpuflex.errors import AccessError, ApiError, NotFoundError
from tpuflex.host.report import HostReport
from tpuflex.host.serving import Serving, ServingPhase
from tpuflex.operate.health import Health

OOM = Line("server log", "RuntimeError: RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm")


def slugs(evidence: Evidence) -> list[str]:
    return [each.failure.slug for each in judge("dev", evidence).findings]


def test_a_server_that_serves() -> None:
    """Nothing is wrong, whatever its logs once said; that it was started again is said."""
    serving = Serving(ServingPhase.SERVING, restarts=2, restarted_why="it died with status 1")
    seen = status(host=HostReport("READY", serving=serving))
    found = judge("dev", Evidence(seen, NOON, health=Health(True), lines=(OOM,)), "`{ask}`")

    assert (found.state, found.findings, found.exit_code) == (State.SERVES, (), 0)
    assert found.sentence == (
        "it serves: it was asked, and answered; its server was started again 2 times: it died with"
        " status 1"
    )
    failing = judge("dev", Evidence(refusal=ApiError("500: backend error"))).to_json()
    assert found.to_json().keys() == failing.keys()
    assert found.to_json()["class"] is None


def test_a_successor_that_does_not_come_to_serve() -> None:
    """What serves is well; what was to take over is named, with why it does not."""
    other = "x-g2 in us-east5-a: ACTIVE, has hosts and is billed; its boot has failed: docker: none"
    found = judge("dev", Evidence(status(others=(other,)), NOON, health=Health(True)))

    assert (found.findings, found.exit_code) == ((), 0)
    assert found.sentence.endswith(f"; further requests: {other}")


def test_a_server_that_cannot_be_asked_from_here_serves_as_its_host_says() -> None:
    """That nobody could ask says nothing against it."""
    found = judge("dev", Evidence(status(), NOON, health=Health(None, why="no gcloud")))

    assert (found.state, found.exit_code, found.sentence) == (
        State.SERVES,
        0,
        "it serves, as its host says",
    )


@pytest.mark.parametrize(
    ("health", "expected", "code"),
    [
        (Health.no("direct", "no token came within 10 s", frozen=True), "frozen-engine", 7),
        (Health.no("direct", "no connection"), "target-down", 7),
        (Health(False, problem=AccessError("refused", hint="mend it")), "secrets", 6),
        (Health(None, problem=NotFoundError("gone", hint="make it")), "secrets", 6),
    ],
)
def test_a_server_that_does_not_answer(health: Health, expected: str, code: int) -> None:
    """By what came of asking it; a cause in its log comes before that, but for a key."""
    evidence = Evidence(status(), NOON, health=health)
    found = judge("dev", evidence)

    assert [each.failure.slug for each in found.findings] == [expected]
    assert (found.state, found.exit_code) == (State.FAILS, code)
    with_log = slugs(Evidence(status(), NOON, health=health, lines=(OOM,)))
    symptom = CLASSES[expected].symptom
    assert with_log == (
        ["hbm-out-of-memory", expected] if symptom else [expected, "hbm-out-of-memory"]
    )


def test_an_engine_that_makes_no_step() -> None:
    """By its metrics, where nothing else says it."""
    health = Health.no("direct", "it broke off a completion")
    evidence = Evidence(status(), NOON, health=health, stalled="3 requests in flight, and no step")

    assert slugs(evidence) == ["frozen-engine", "target-down"]


def test_a_host_that_has_said_nothing_for_long() -> None:
    """It was serving, and its machine or its watch is gone."""
    at = (NOON - timedelta(minutes=10)).timestamp()
    seen = status(host=HostReport("READY", serving=Serving(ServingPhase.SERVING, at=at)))
    health = Health.no("direct", "no connection")

    assert slugs(Evidence(seen, NOON, health=health)) == ["target-down"]


def test_what_could_not_be_read_is_unknown() -> None:
    """An honest answer, with the error, and what was looked at."""
    evidence = Evidence(refusal=ApiError("500: backend error", hint="ask again"))
    found = judge("dev", evidence)

    assert [each.failure for each in found.findings] == [UNKNOWN]
    assert found.findings[0].lines[0].text == "500: backend error"
    assert (found.state, found.exit_code) == (State.UNREAD, 1)


def test_a_class_comes_before_what_is_of_none() -> None:
    """A code that tells no class hides none that a log tells."""
    host = HostReport("completion", error="completion: the server answers 500")
    found = judge("dev", Evidence(status(host=host), NOON, lines=(OOM,)))

    assert [each.failure.slug for each in found.findings] == ["hbm-out-of-memory", "unknown"]
    assert found.findings[1].lines[0].text == host.error


def test_every_next_command_is_about_the_stack() -> None:
    """Commands in remedies are completed with the stack's name."""
    for row in (*CLASSES.values(), UNKNOWN):
        shown = row.remedy.for_stack("prod", {})
        assert "{" not in shown
        assert "tpuflex" in shown, row.slug
        for command in ("up", "doctor", "reboot", "logs", "sweep", "events", "restart"):
            assert f"`tpuflex {command}`" not in shown


def test_lines_are_few_and_short() -> None:
    """Of many lines the first ones and the last stand in the answer, each cut; what the host says
    of its server's words, and the server itself, stands once."""
    said = [
        Line("server log", f"ValueError: {number} GiB KV cache is needed {'x' * 900}")
        for number in range(50)
    ]
    begin = "container-died: the server died with status 1 of its memory (see `tpuflex memory`): "
    seen = status(host=HostReport("health", error=f"{begin}{said[0].text}"))
    found = judge("dev", Evidence(seen, NOON, lines=tuple(said)))

    shown = found.findings[0].lines
    assert [line.source for line in shown] == ["host report", "server log", "server log"]
    assert shown[1].text.startswith("ValueError: 1 GiB")
    assert shown[2].text.startswith("ValueError: 49 GiB")
    assert all(len(line.text) <= 301 for line in shown)
