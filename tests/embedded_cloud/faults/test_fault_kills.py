"""Kill points: who is found, what is sent, and what becomes of the call. Real processes."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
import requests

from embedded_cloud.faults.processes import Roles, find
from embedded_cloud.server import EmbeddedCloud
from reliability.control import Control
from tests.embedded_cloud.api import TOKEN, Api, eventually
from tests.embedded_cloud.families import FAMILY, POLITE, Spawn

CREATE = "tpu.projects.locations.queuedResources.create"


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[EmbeddedCloud]:
    with EmbeddedCloud(tmp_path / "emulator", token=TOKEN) as running:
        yield running


def kill_at_create(stage: str, **effect: Any) -> dict[str, Any]:
    """A kill point at the creation of a queued resource."""
    return {"where": {"method_id": CREATE}, "stage": stage, "effect": {"kind": "kill", **effect}}


def dead(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.mark.parametrize(
    ("stage", "state", "answered"),
    [
        ("before-commit", "GONE", False),
        ("after-commit", "CREATING", False),
        ("mid-body", "CREATING", False),
        ("after-response", "CREATING", True),
    ],
)
def test_a_kill_strikes_at_its_stage(
    api: Api, control: Control, spawn: Spawn, stage: str, state: str, answered: bool
) -> None:
    """Before the commit nothing was done, after it everything; only the last one answers."""
    control.capacity(admission_s=3600)
    victim = spawn(FAMILY)
    control.set_faults(kill_at_create(stage, roles=["cli"]))
    control.call("POST", "faults", {"roles": {"cli": victim.pid}})

    if answered:
        assert api.create().status_code == 200
    else:
        with pytest.raises((requests.ConnectionError, requests.exceptions.ChunkedEncodingError)):
            api.create()

    eventually(lambda: dead(victim))
    assert api.state() == state
    (strike,) = control.strikes()
    assert strike["processes"][0]["pid"] == victim.pid


def test_the_call_is_held_until_they_are_dead(api: Api, control: Control, spawn: Spawn) -> None:
    """When the client hears of it, the victims are gone."""
    victim = spawn(FAMILY)
    control.set_faults(kill_at_create("before-commit", roles=["family"]))
    control.call("POST", "faults", {"roles": {"root": victim.pid}})
    members = victim.children()

    with pytest.raises(requests.ConnectionError):
        api.create()

    assert all(dead(process) for process in (victim, *members))
    assert len(members) == 2


def test_the_provider_is_found_among_the_descendants(
    api: Api, control: Control, spawn: Spawn
) -> None:
    """By its command line; nobody else of the family is touched, nor a stranger."""
    family, stranger = spawn(FAMILY), spawn(FAMILY)
    control.set_faults(kill_at_create("before-commit", roles=["provider"], then="proceed"))
    control.call("POST", "faults", {"roles": {"root": family.pid}})

    assert api.create().status_code == 200

    assert [dead(child) for child in family.children()].count(True) == 1
    assert not dead(family)
    assert not any(dead(process) for process in (stranger, *stranger.children()))


def test_signals_that_ask_let_the_call_go_on(api: Api, control: Control, spawn: Spawn) -> None:
    """SIGTERM and SIGINT: the process decides, the answer comes."""
    for name, code in (("TERM", 15), ("INT", 2)):
        victim = spawn(POLITE)
        control.set_faults(kill_at_create("after-commit", roles=["cli"], signal=name))
        control.call("POST", "faults", {"roles": {"cli": victim.pid}})
        assert api.create(f"q{code}").status_code in (200, 409)
        eventually(partial(dead, victim))


def test_a_stopped_process_goes_on_when_the_clouds_time_has_come(
    api: Api, control: Control, spawn: Spawn
) -> None:
    """SIGSTOP for two minutes of the cloud's time, then SIGCONT."""
    victim = spawn(POLITE)
    stop = kill_at_create("after-commit", roles=["cli"], signal="STOP", resume_after_s=120)
    control.set_faults(stop)
    control.call("POST", "faults", {"roles": {"cli": victim.pid}})

    assert api.create().status_code == 200
    eventually(lambda: victim.status() == psutil.STATUS_STOPPED)
    control.advance(60)
    time.sleep(0.1)
    assert victim.status() == psutil.STATUS_STOPPED
    control.advance(60)
    eventually(lambda: victim.status() != psutil.STATUS_STOPPED)


def test_a_kill_that_finds_nobody_says_so(api: Api, control: Control) -> None:
    """The history shows an empty list: the checker's R0 reports it."""
    control.set_faults(kill_at_create("before-commit", roles=["engine"], then="proceed"))

    assert api.create().status_code == 200

    (strike,) = control.strikes()
    assert strike["processes"] == []


def test_kills_do_not_hold_up_other_calls(api: Api, control: Control, spawn: Spawn) -> None:
    """While one call waits for a process to end, others are answered."""
    victim = spawn(POLITE)
    wait = kill_at_create("before-commit", roles=["cli"], signal="STOP", hold_s=60, then="proceed")
    control.set_faults(wait)
    control.call("POST", "faults", {"roles": {"cli": victim.pid}})
    held = threading.Thread(target=api.create)
    held.start()
    while not control.strikes():
        time.sleep(0.01)
    assert api.state("other") == "GONE"
    assert held.is_alive()
    victim.kill()
    held.join(timeout=60)


def test_neither_the_emulator_nor_who_started_it_is_ever_meant(spawn: Spawn) -> None:
    """Whatever root is registered: this process and its ancestors are spared."""
    child = spawn(FAMILY)
    roles = Roles(root=psutil.Process().pid)

    found = {process.pid for _, process in find(roles, ["family"])}

    assert child.pid in found
    assert not found & {os.getpid(), os.getppid(), 1}


def test_a_mark_finds_processes_whose_parents_are_dead(
    monkeypatch: pytest.MonkeyPatch, spawn: Spawn
) -> None:
    """The environment outlives the parent."""
    monkeypatch.setenv("RIG_TEST_MARK", "here")
    family = spawn(FAMILY)
    children = family.children()
    roles = Roles.from_json({"root": family.pid, "mark": "RIG_TEST_MARK=here"})
    family.kill()
    family.wait()

    found = {process.pid for _, process in find(roles, ["family"])}

    assert {child.pid for child in children} <= found
    for child in children:
        child.kill()
