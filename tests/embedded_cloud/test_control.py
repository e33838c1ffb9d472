"""The control API: health, clock, capacity, history, inventory, reset."""

from __future__ import annotations

from pathlib import Path

import pytest
import requests

from embedded_cloud.server import EmbeddedCloud
from tests.embedded_cloud.api import RUN_S, Api, error_of


def _control(cloud: EmbeddedCloud, method: str, name: str, body: object = None) -> object:
    answer = Api(cloud.url).call(method, f"_emulator/{name}", body=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_health_names_the_process_and_its_services(cloud: EmbeddedCloud) -> None:
    """Health names the cloud that answers."""
    health = _control(cloud, "GET", "health")
    assert isinstance(health, dict)
    assert health["status"] == "ok"
    assert health["url"] == cloud.url
    assert {"tpu.v2", "tpu.v2alpha1"} <= set(health["services"])


@pytest.mark.parametrize(
    "headers", [{"Origin": "https://evil.example"}, {"Host": "evil.example:8470"}]
)
def test_a_web_page_cannot_control_the_cloud(
    api: Api, cloud: EmbeddedCloud, headers: dict[str, str]
) -> None:
    """A page that the user visits can send requests to loopback; they change nothing."""
    api.create()
    headers = {**headers, "Authorization": f"Bearer {cloud.token}"}
    answer = requests.post(f"{cloud.url}/_emulator/reset", headers=headers, timeout=60)
    assert error_of(answer)[:2] == (403, "PERMISSION_DENIED")
    assert api.state() == "CREATING"


def test_moving_the_clock_lets_what_is_due_happen(api: Api, cloud: EmbeddedCloud) -> None:
    """A day passes in one call; the answer is the new time."""
    api.create()
    before = _control(cloud, "GET", "clock")
    after = _control(cloud, "POST", "clock", {"advance": 86400})
    assert isinstance(before, dict)
    assert isinstance(after, dict)
    assert after["epoch"] - before["epoch"] == 86400
    assert api.state() == "SUSPENDED"


@pytest.mark.parametrize("body", [{}, {"advance": -1}, {"advance": "1"}, {"advance": True}])
def test_the_clock_refuses_all_but_a_step_forward(cloud: EmbeddedCloud, body: object) -> None:
    """400 that says what is expected."""
    answer = Api(cloud.url).call("POST", "_emulator/clock", body=body)
    assert error_of(answer)[:2] == (400, "INVALID_ARGUMENT")


def test_the_inventory_lists_what_exists_with_its_labels(api: Api, cloud: EmbeddedCloud) -> None:
    """Queued resources and nodes while they exist, with their states; operations never; in the
    end nothing."""
    api.create()
    cloud.advance(10)
    place = f"projects/{api.project}/locations/{api.zone}"
    labels = {"tpuflex-owner": "me"}
    assert _control(cloud, "GET", "inventory") == {
        "tpu": {
            "queuedResources": [
                {"name": f"{place}/queuedResources/q1", "labels": labels, "state": "ACTIVE"}
            ],
            "nodes": [{"name": f"{place}/nodes/n1", "labels": labels, "state": "READY"}],
        }
    }
    assert api.tpu("DELETE", "queuedResources/q1", force="true").status_code == 200
    cloud.advance(1)
    assert _control(cloud, "GET", "inventory") == {}


def test_the_history_can_be_read_from_a_number(api: Api, cloud: EmbeddedCloud) -> None:
    """``after`` gives only what came later."""
    for _ in range(3):
        api.tpu("GET", "nodes")
    answer = _control(cloud, "GET", "history?after=2")
    assert isinstance(answer, dict)
    assert [call["seq"] for call in answer["calls"]] == [3]
    bad = Api(cloud.url).call("GET", "_emulator/history", after="x")
    assert bad.status_code == 400


def test_reset_forgets_everything_but_the_time(api: Api, cloud: EmbeddedCloud) -> None:
    """Resources, capacity rules and history are gone; the clock does not jump back."""
    api.create()
    cloud.advance(10)
    now = cloud.clock.now()
    _control(cloud, "POST", "reset")
    assert _control(cloud, "GET", "inventory") == {}
    assert _control(cloud, "GET", "history") == {"calls": [], "events": [], "seq": 0}
    assert cloud.clock.now() == now
    assert api.create().status_code == 200


def test_state_and_time_survive_a_restart(tmp_path: Path) -> None:
    """The same directory again: the same resources, the same offset, the history continues."""
    state = tmp_path / "emulator"
    with EmbeddedCloud(state, capacity={"grant_after_s": 0, "provisioning_s": 0}) as cloud:
        api = Api(cloud.url, token=cloud.token)
        api.create()
        cloud.advance(RUN_S / 2)
        assert api.state() == "ACTIVE"
        now = cloud.clock.now()
    with EmbeddedCloud(state) as cloud:
        api = Api(cloud.url, token=cloud.token)
        assert now <= cloud.clock.now() < now + 60
        assert api.state() == "ACTIVE"
        cloud.advance(RUN_S / 2 + 5)
        assert api.state() == "SUSPENDED"
        seqs = [entry["seq"] for entry in cloud.cloud.history.entries()]
        assert seqs == list(range(1, len(seqs) + 1))
        assert len(seqs) > 3
