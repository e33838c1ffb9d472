"""Whether an endpoint does what it is there for: every check, over real HTTP on loopback."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.measure.fake_server import AFTER, BEFORE, MODEL, FakeServer, completed
from tpuflex.measure.verify import Standing, Verification, examine


def verified(fake: FakeServer, too_old: Callable[[str], str] = lambda _version: "") -> Verification:
    with fake.running() as server:
        return examine(server, "dev", too_old)


def standings(found: Verification) -> dict[str, str]:
    return {check.name: check.standing for check in found.checks}


def test_one_that_serves() -> None:
    """All checks hold: it has completed text, and its engine has counted it."""
    found = verified(FakeServer())

    assert set(standings(found).values()) == {Standing.OK}
    assert [*standings(found)] == [
        *("health", "model", "version", "key required", "completion", "tokens move")
    ]
    texts = {check.name: check.text for check in found.checks}
    assert texts["model"] == f"{MODEL}, up to 512 tokens"
    assert texts["completion"].endswith('ended by length: "Paris."')
    assert texts["tokens move"] == "the engine counted 356 meanwhile"
    assert (found.exit_code, found.to_json()["ok"]) == (0, True)
    assert found.to_json()["completion"] == {
        "text": " Paris.",
        "finish_reason": "length",
        "tokens": 16,
        "seconds": pytest.approx(found.seconds, abs=1e-4),
    }


@pytest.mark.parametrize(
    ("path", "texts", "failed"),
    [
        ("/health", [503], {"health", "completion"}),
        ("/v1/models", [500], {"model"}),
        ("/v1/models", ['{"data": [{"id": "another"}]}'], {"model"}),
        ("/v1/completions", [500], {"completion"}),
        ("/v1/completions", ["{}"], {"completion"}),
        ("/v1/completions", [completed(0)], {"completion"}),
        ("/v1/completions", [completed(reason=None)], {"completion"}),
        # Nothing is generated meanwhile: what has answered is not the engine that counts.
        ("/metrics", [BEFORE], {"tokens move"}),
    ],
)
def test_one_that_does_not(path: str, texts: list[str | int], failed: set[str]) -> None:
    """Each failure is found by its own check, all others are made, and each says what to do."""
    fake = FakeServer()
    fake.documents[path] = texts

    found = verified(fake)

    assert {name for name, how in standings(found).items() if how == Standing.FAILED} == failed
    assert len(found.checks) == 6
    assert found.exit_code == 7
    assert all(problem.hint for problem in found.problems)


def test_one_that_is_gone() -> None:
    """Its host starts it again by itself: no other remedy comes before waiting for that."""
    with FakeServer().running() as server:
        pass
    found = examine(server, "dev", lambda _version: "")

    assert found.exit_code == 7
    (hint,) = {str(problem.hint) for problem in found.problems}
    assert hint.startswith("If `tpuflex status` says that it is being started again, wait")


def test_a_health_that_is_green_without_a_token() -> None:
    """It is said of a completion that has failed, since the one hides the other."""
    fake = FakeServer()
    fake.documents |= {"/v1/completions": ["{}"], "/metrics": [BEFORE]}

    found = verified(fake)

    texts = {check.name: check.text for check in found.checks}
    assert texts["completion"].startswith("/health answers 200, and a completion was answered")
    assert texts["tokens move"] == "the engine counted none meanwhile"


def test_tokens_that_are_counted_late() -> None:
    """The engine may have answered before it counts: it is asked once more."""
    fake = FakeServer()
    fake.documents["/metrics"] = [BEFORE, BEFORE, AFTER]

    assert standings(verified(fake))["tokens move"] == Standing.OK


def test_one_that_is_open() -> None:
    """Who needs no key is let in: a matter of access, also where all else holds."""
    found = verified(FakeServer(key=""))

    assert [check.name for check in found.checks if check.problem] == ["key required"]
    assert found.exit_code == 6


def test_one_that_refuses_the_key() -> None:
    """All that needs the key says so, each with the one remedy; what needs none goes on."""
    found = verified(FakeServer(key="another"))

    assert (standings(found)["health"], standings(found)["key required"]) == ("ok", "ok")
    assert found.exit_code == 6
    assert len({str(problem.hint) for problem in found.problems}) == 1
    assert "sk-canary" not in json.dumps(found.to_json())


def test_a_version_with_known_holes() -> None:
    """It fails, whatever else holds."""
    found = verified(FakeServer(), lambda version: f"OLDER than {version}.1")

    assert [check.text for check in found.checks if check.problem] == [
        "vLLM 0.32.0, OLDER than 0.32.0.1"
    ]
    assert found.exit_code == 7


@pytest.mark.parametrize(("path", "name"), [("/version", "version"), ("/metrics", "tokens move")])
def test_what_is_not_known_fails_nothing(path: str, name: str) -> None:
    """A server that does not say its version, or counts nothing, may serve all the same."""
    fake = FakeServer()
    fake.documents[path] = [404]

    found = verified(fake)

    assert standings(found)[name] == Standing.UNKNOWN
    assert found.exit_code == 0
