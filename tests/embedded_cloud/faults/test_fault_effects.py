"""Every effect at every stage, as a client over HTTP meets it."""

from __future__ import annotations

import email.utils
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from embedded_cloud.core.clock import ManualClock
from embedded_cloud.server import EmbeddedCloud
from reliability.control import Control
from tests.embedded_cloud.api import TOKEN, Api

CREATE = "tpu.projects.locations.queuedResources.create"
Rule = dict[str, Any]


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[EmbeddedCloud]:
    """An embedded cloud whose clock stands still."""
    with EmbeddedCloud(tmp_path / "emulator", token=TOKEN, clock=ManualClock()) as running:
        yield running


def at_create(effect: Rule, stage: str = "before-commit", **more: Any) -> Rule:
    """A rule at the creation of a queued resource."""
    return {"where": {"method_id": CREATE}, "stage": stage, "effect": effect, **more}


LOST = (requests.ConnectionError, requests.exceptions.ChunkedEncodingError)


@pytest.mark.parametrize("stage", ["before-commit", "after-commit"])
@pytest.mark.parametrize(
    ("effect", "status", "content_type", "starts"),
    [
        ({"kind": "answer", "status": 503}, 503, "application/json", b'{"error":{"code":503'),
        ({"kind": "html"}, 200, "text/html", b"<!DOCTYPE html>"),
        ({"kind": "empty"}, 200, "application/json", b""),
    ],
)
def test_an_answer_is_replaced_and_the_stage_says_whether_it_was_done(
    api: Api,
    control: Control,
    stage: str,
    effect: Rule,
    status: int,
    content_type: str,
    starts: bytes,
) -> None:
    """Before the commit nothing happens, after it everything has; the answer is the same."""
    control.set_faults(at_create(effect, stage, id="mine"))

    answer = api.create()

    assert answer.status_code == status
    assert answer.headers["Content-Type"].startswith(content_type)
    assert answer.content.startswith(starts)
    assert bool(answer.content) is bool(starts)
    assert api.state() == ("GONE" if stage == "before-commit" else "CREATING")
    (strike,) = control.strikes()
    assert (strike["rule"], strike["stage"], strike["effect"]) == ("mine", stage, effect["kind"])
    call = control.history()[0]
    assert call["committed"] is (stage == "after-commit")
    assert (call["faults"], call["status"]) == (["mine"], status)


@pytest.mark.parametrize("stage", ["before-commit", "after-commit"])
def test_a_connection_is_reset(api: Api, control: Control, stage: str) -> None:
    """No answer; the history says so, and whether it was done."""
    control.set_faults(at_create({"kind": "reset"}, stage))

    with pytest.raises(LOST):
        api.create()

    assert api.state() == ("GONE" if stage == "before-commit" else "CREATING")
    assert control.history()[0]["status"] == 0


def test_an_answer_that_never_comes_is_bounded(api: Api, control: Control) -> None:
    """Without patience of the client's own the connection is reset at the bound."""
    control.set_faults(at_create({"kind": "timeout", "hold_s": 0.2}))
    began = time.monotonic()

    with pytest.raises(LOST):
        api.create()

    assert 0.2 <= time.monotonic() - began < 5


def test_a_body_is_cut_in_the_middle(api: Api, control: Control) -> None:
    """The headers promise more bytes than come."""
    control.set_faults(at_create({"kind": "truncated"}, "mid-body"))

    with pytest.raises(LOST):
        api.create()

    assert api.state() == "CREATING"


@pytest.mark.parametrize("stage", ["before-commit", "after-commit", "mid-body"])
def test_a_delay_lasts_on_the_clouds_clock(api: Api, control: Control, stage: str) -> None:
    """The answer comes whole once the cloud's time has come."""
    control.set_faults(at_create({"kind": "delay", "seconds": 3600}, stage))
    answers: list[int] = []
    waiting = threading.Thread(target=lambda: answers.append(api.create().status_code))
    waiting.start()
    while not control.strikes():
        time.sleep(0.01)
    assert not answers
    control.advance(3600)
    waiting.join(timeout=60)

    assert answers == [200]


def test_retry_after_comes_as_seconds_or_as_a_date(
    api: Api, control: Control, cloud: EmbeddedCloud
) -> None:
    """The date is by the cloud's clock."""
    answer = {"kind": "answer", "status": 429, "retry_after_s": 7, "reason": "rateLimitExceeded"}
    control.set_faults(at_create(answer), at_create({**answer, "retry_after_date": True}, nth=2))

    first, second = api.create(), api.create()

    assert first.headers["Retry-After"] == "7"
    date = email.utils.parsedate_to_datetime(second.headers["Retry-After"])
    assert date.timestamp() == pytest.approx(cloud.clock.now() + 7, abs=1)
    assert first.json()["error"]["errors"][0]["reason"] == "rateLimitExceeded"


def test_an_operation_fails_when_it_is_asked_about_and_nothing_was_done(
    api: Api, control: Control
) -> None:
    """Before the commit: an operation under way, then done with the code; no resource."""
    failure = {"kind": "operation-error", "code": 8, "message": "no more capacity"}
    control.set_faults(at_create(failure))

    begun = api.create().json()
    assert begun["done"] is False
    asked = api.call("GET", f"/v2alpha1/{begun['name']}").json()

    assert asked["done"] is True
    assert asked["error"] == {"code": 8, "message": "no more capacity"}
    assert api.state() == "GONE"


def test_an_operation_that_was_done_says_that_it_failed(api: Api, control: Control) -> None:
    """After the commit: the resource is there all the same."""
    failure = {"kind": "operation-error", "code": 13}
    polls = {"method_id": "tpu.projects.locations.operations.get"}
    control.set_faults({"where": polls, "stage": "after-commit", "effect": failure})

    begun = api.create().json()
    asked = api.call("GET", f"/v2alpha1/{begun['name']}").json()

    assert (asked["name"], asked["done"], asked["error"]["code"]) == (begun["name"], True, 13)
    assert api.state() == "CREATING"


def test_services_without_operations_are_left_alone(api: Api, control: Control) -> None:
    """A fault that makes no sense for a call does not count as one that struck."""
    control.set_faults({"effect": {"kind": "operation-error", "code": 13}, "times": 0})

    answer = api.call("GET", "/storage/v1/b", project="p")

    assert answer.status_code == 200
    assert control.faults()["firings"] == 0


def test_rules_reach_every_service(api: Api, control: Control) -> None:
    """Storage as well as the TPU API; bodies name what is created."""
    control.set_faults(
        {
            "where": {"service": "storage", "resource": "/b/weights$"},
            "effect": {"kind": "answer", "status": 503},
        }
    )

    def create(name: str) -> int:
        body = {"name": name, "location": "US-EAST5"}
        return api.call("POST", "/storage/v1/b", body=body, project="p").status_code

    assert [create("other"), create("weights"), create("weights")] == [200, 503, 200]


@pytest.mark.parametrize(
    "body",
    [
        {"rule": []},
        {"rules": {}},
        {"rules": [{"effect": {"kind": "reset"}}, {"effect": {}}]},
        {"roles": {"cli": 0}},
        {"roles": {"cli": []}},
    ],
)
def test_what_is_not_understood_changes_nothing(api: Api, body: Rule) -> None:
    """400, and not one of the rules is in force."""
    assert api.call("POST", "_emulator/faults", body=body).status_code == 400
    assert api.call("GET", "_emulator/faults").json()["rules"] == []


def test_removing_tells_what_there_was(api: Api, control: Control) -> None:
    """DELETE answers the last counters; one rule can go alone; a reset forgets all."""
    control.set_faults(at_create({"kind": "empty"}, id="a"), at_create({"kind": "empty"}, id="b"))
    api.create()

    before = control.call("DELETE", "faults?id=a")
    assert (before["firings"], len(before["rules"])) == (2, 2)
    assert [rule["id"] for rule in control.faults()["rules"]] == ["b"]
    control.call("POST", "reset", {})
    assert control.faults()["rules"] == []
    assert api.create().status_code == 200
