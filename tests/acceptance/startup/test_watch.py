"""The watch over a host after READY: the drain, a frozen or dying server, the end of the run. The
script, the watch and its docker commands are real processes; time is what they would have slept."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.startup.cloud import API_KEY, FILES, METRICS, VERSION
from tests.startup.host import StartupHost

#: Of the wall clock, for what takes a fraction of a second.
_WITHIN_S = 60.0
_KEY, _RESTART = "tpuflex-drain", "tpuflex-restart"


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[StartupHost]:
    """A host that has booted and is watched; nothing runs on its server."""
    host = StartupHost(tmp_path)
    host.cloud.put_weights(FILES)
    host.watched()
    computes(host)
    yield host
    host.close()


def boot(host: StartupHost, **changes: Any) -> None:
    """Boot the host until it is READY and watched."""
    host.cloud.config = host.config(**changes)
    run = host.run()
    assert run.status == 0, run.output
    until(host, lambda said: said is not None)


def computes(host: StartupHost, *, running: int = 0, waiting: int = 0, steps: float = 7) -> None:
    """Let the server have so many requests, and have made so many steps."""
    host.cloud.in_flight = running + waiting
    text = f"""vllm:num_requests_running{{engine="0",model_name="tiny"}} {running}.0
vllm:num_requests_waiting{{engine="0",model_name="tiny"}} {waiting}.0
vllm:iteration_tokens_total_count{{engine="0",model_name="tiny"}} {steps}
"""
    host.cloud.metrics = METRICS + text.encode()


def said(host: StartupHost) -> dict[str, Any] | None:
    """What the host says of itself; None where it has said nothing."""
    return host.cloud.serving[-1] if host.cloud.serving else None


def until(host: StartupHost, holds: Callable[[Any], bool]) -> dict[str, Any]:
    """What the host says of itself once that holds."""
    deadline = time.monotonic() + _WITHIN_S
    while time.monotonic() < deadline:
        found = said(host)
        if found is not None and holds(found):
            return found
        threading.Event().wait(0.02)
    log = host.root / "var" / "log" / "tpuflex" / "watch.log"
    pytest.fail(f"the host said {host.cloud.serving[-5:]}; {log.read_text()}")


def closed(host: StartupHost) -> bool:
    """Whether the guard of the host admits nothing."""
    return (host.root / "run" / "tpuflex" / "guard" / "closed").exists()


def called(host: StartupHost, command: str) -> int:
    """How often docker was told that, once it was: a host says first what it does next."""
    deadline = time.monotonic() + _WITHIN_S
    while not host.docker_calls(command) and time.monotonic() < deadline:
        threading.Event().wait(0.02)
    return len(host.docker_calls(command))


def phases(host: StartupHost) -> list[str]:
    """The phases that the host has reported, without those that were repeated."""
    found: list[str] = []
    for each in host.cloud.serving:
        if each is not None and found[-1:] != [each["phase"]]:
            found.append(each["phase"])
    return found


def test_serves_until_it_is_told_to_drain_and_ends_what_runs(watched: StartupHost) -> None:
    """With the metadata key the host admits nothing more, says how many requests it waits for, and
    is drained when the last one has ended; the server runs on, and serves again without the key."""
    boot(watched)
    first = said(watched)
    assert first is not None
    assert (first["phase"], first["drained"], first["reason"]) == ("serving", False, "")
    assert first["ends_at"] is None
    computes(watched, running=2, waiting=1)
    later = datetime.now(UTC) + timedelta(days=1)
    watched.cloud.attributes[_KEY] = later.isoformat()
    drains = until(watched, lambda said: said["phase"] == "draining")
    assert closed(watched)
    assert (drains["running"], drains["waiting"], drains["drained"]) == (2, 1, False)
    assert later.strftime("until %Y-%m-%dT%H:%M:%SZ") in drains["reason"]

    computes(watched, running=1, steps=9)
    until(watched, lambda said: said["running"] == 1)
    computes(watched, steps=12)
    drained = until(watched, lambda said: said["drained"])
    assert (drained["running"], drained["waiting"]) == (0, 0)
    assert watched.docker_calls("stop") == []

    del watched.cloud.attributes[_KEY]
    again = until(watched, lambda said: said["phase"] == "serving")
    assert not closed(watched)
    assert (again["reason"], again["drained"]) == ("", False)
    written: Any = watched.cloud.points[0]["timeSeries"]
    place = {"project_id": "p", "location": "us-east5-a", "namespace": "dev"}
    assert {
        each["metric"]["type"].rpartition("/")[2]: each["points"][0]["value"] for each in written
    } == {
        "up": {"int64Value": "1"},
        "requests_in_flight": {"int64Value": "0"},
        "requests_running": {"int64Value": "0"},
        "requests_waiting": {"int64Value": "0"},
    }
    for each in written:
        assert each["resource"]["labels"] == {**place, "node_id": "t1v-n-1-w-0"}


def test_what_does_not_end_in_time_is_cut_off(watched: StartupHost) -> None:
    """When the drain's time is over the server is stopped, so that its clients see the end of their
    connections; the report says how many requests were cut. Called off, it is started again."""
    boot(watched, drain={"run_s": 0, "drain_s": 20, "margin_s": 300})
    computes(watched, running=3)
    # By a clock that is slow: it was over before the host saw it, and counts as no time.
    watched.cloud.attributes[_KEY] = "2026-01-01T00:00:00.123456789Z"
    cut = until(watched, lambda said: said["drained"])
    assert "3 requests had not ended by then and were cut off" in cut["reason"]
    assert cut["cut_off"] == 3
    assert len(watched.docker_calls("stop")) == 1

    computes(watched)
    del watched.cloud.attributes[_KEY]
    until(watched, lambda said: said["phase"] == "serving")
    assert len(watched.docker_calls("restart")) == 1


def test_a_restart_boots_again_with_what_is_there(watched: StartupHost) -> None:
    """Asked by the metadata key the host drains, stops its server and runs the script again: the
    secret is read again, no file of the weights is, and another watch begins. The same key asks for
    nothing more; where the secret is gone the server keeps the value that it had. A script that was
    put into the metadata since the boot is not run."""
    boot(watched)
    watched.cloud.attributes["startup-script"] = "exit 1"
    fetched = watched.cloud.asked("model-1.safetensors")
    watched.cloud.secrets[VERSION] = made_again = "another-canary-2718281828"
    computes(watched, running=1)
    watched.cloud.attributes[_RESTART] = "first 600"
    draining = until(watched, lambda said: said["phase"] == "draining")
    assert (draining["running"], draining["reason"]) == (
        *(1, "the server is started again, as somebody has asked"),
    )
    computes(watched)
    until(watched, lambda said: said["phase"] == "serving")
    assert watched.memory("secrets", "api-key").read_text() == made_again
    assert watched.cloud.asked("model-1.safetensors") == fetched
    assert len(watched.docker_calls("run")) == 2
    assert watched.cloud.phases()[-1] == "READY"

    del watched.cloud.secrets[VERSION]
    watched.cloud.attributes[_RESTART] = "second 0"
    until(watched, lambda said: said["phase"] == "draining")
    until(watched, lambda said: said["phase"] == "serving")
    assert "api-key cannot be read again (HTTP 404)" in watched.cloud.details()
    assert watched.memory("secrets", "api-key").read_text() == made_again
    assert len(watched.docker_calls("run")) == 3
    assert phases(watched) == ["serving", "draining", "serving", "draining", "serving"]


def test_a_frozen_server_is_started_once_more_and_then_given_up(watched: StartupHost) -> None:
    """Requests run and no token comes for a minute: the container is restarted, and serves once it
    has answered a completion. Frozen again, it is stopped, the host has failed, and the reason has
    the server's own last words without secrets."""
    boot(watched)
    looked = 'INFO: 10.0.0.2:39736 - "GET /metrics HTTP/1.1" 200 OK\n' * 100
    log = f"RuntimeError: key {API_KEY}\n{looked}"
    watched.directory.joinpath("container.log").write_text(log)
    refusals = {f"/v1/{path}": [503] * 9999 for path in ("chat/completions", "completions")}
    watched.cloud.answers |= refusals
    computes(watched, running=1)
    frozen = until(watched, lambda said: said["phase"] == "degraded")
    assert frozen["reason"].startswith(
        "no token came for 60 s while requests ran (1); it is started"
    )
    computes(watched)
    for path in refusals:
        del watched.cloud.answers[path]
    again = until(watched, lambda said: said["phase"] == "serving")
    assert again["restarts"] == 1
    assert len(watched.docker_calls("restart")) == 1

    computes(watched, running=2)
    failed = until(watched, lambda said: said["phase"] == "failed")
    assert failed["drained"]
    assert "no token came for 60 s while requests ran (2)" in failed["reason"]
    assert failed["reason"].endswith("RuntimeError: key [removed]")
    assert called(watched, "stop") == 1
    assert len(watched.docker_calls("restart")) == 1
    assert phases(watched) == ["serving", "degraded", "serving", "failed"]


def test_a_server_that_keeps_dying_has_failed(watched: StartupHost) -> None:
    """The third death within an hour ends it: the container is stopped."""
    boot(watched)
    watched.cloud.health = False
    record = watched.directory / "container.json"
    for count in (1, 2, 3):
        text = record.read_text()
        record.write_text(text.replace(f'Count": {count - 1}', f'Count": {count}'))
        phase = "failed" if count == 3 else "degraded"
        seen = len(watched.docker_calls("inspect"))
        until(watched, lambda said, wanted=phase: said["phase"] == wanted)  # type: ignore[misc]
        while count < 3 and len(watched.docker_calls("inspect")) < seen + 3:
            threading.Event().wait(0.01)
    assert called(watched, "stop") == 1


def test_drains_by_itself_before_the_run_ends(watched: StartupHost) -> None:
    """The run is counted from the first boot on this disk, reboots included, by the cloud's clock;
    so long before its end as the margin says the host drains, and says when the run ends."""
    watched.cloud.ahead = 86_400
    before = time.time()
    run = {"run_s": 400_000, "drain_s": 600, "margin_s": 300}
    boot(watched, drain=run)
    first = until(watched, lambda said: said["ends_at"] is not None)
    began = int((watched.root / "var" / "lib" / "tpuflex" / "run-began").read_text())
    # Three minutes are allowed for what comes before the script; the cloud's clock and the script's
    # are read in whole seconds, one after the other, so that a second may pass between them.
    assert -1 <= began + 180 - 86_400 - int(before) <= _WITHIN_S
    assert (first["phase"], first["drains_at"]) == ("serving", began + 400_000 - 300)
    assert first["ends_at"] == began + 400_000

    watched.cloud.ahead += 100_000
    watched.reboot()
    boot(watched, drain=run)
    assert None in watched.cloud.serving
    again = until(watched, lambda said: said["phase"] == "serving")
    assert again["ends_at"] == began + 400_000
    computes(watched, running=1)
    watched.cloud.ahead += 300_000 - 300
    drains = until(watched, lambda said: said["phase"] == "draining")
    assert "the run ends at" in drains["reason"]
    assert (drains["running"], drains["drained"]) == (1, False)
    assert closed(watched)


def test_no_server_is_started_on_a_host_that_drains(watched: StartupHost) -> None:
    """A boot with the key set says that there is nothing to wait for, and goes on without it."""
    watched.cloud.attributes[_KEY] = "2026-11-24T12:00:00Z"
    watched.cloud.config = watched.config()
    process = watched.start()
    waiting = until(watched, lambda said: said["drained"])
    assert waiting["phase"] == "draining"
    assert watched.docker_calls("run") == []
    del watched.cloud.attributes[_KEY]
    output, _ = process.communicate(timeout=_WITHIN_S)
    assert process.returncode == 0, output
    until(watched, lambda said: said["phase"] == "serving")


def test_a_second_run_of_the_script_has_one_watch_and_opens_no_drain(watched: StartupHost) -> None:
    """The new run's watch takes over; on a host that drains, a run does nothing at all."""
    boot(watched)
    first = watched.watch_process()
    boot(watched)
    second = watched.watch_process()
    assert first is not None
    assert second is not None
    assert first.pid != second.pid
    assert not first.is_running()

    watched.cloud.attributes[_KEY] = "2126-11-24T12:00:00Z"
    until(watched, lambda said: said["drained"])
    calls = len(watched.docker_calls("run"))
    run = watched.run()
    assert run.status == 0, run.output
    assert "nothing is done" in run.output
    assert closed(watched)
    assert watched.watch_process() == second
    assert len(watched.docker_calls("run")) == calls


def test_events_are_entries_of_the_boot(watched: StartupHost) -> None:
    """What happens after READY goes to Cloud Logging with the boot's label and timeline, so that a
    reader of the newest entry finds the boot as it was."""
    boot(watched)
    watched.cloud.attributes[_KEY] = "2126-11-24T12:00:00Z"
    until(watched, lambda said: said["drained"])
    deadline = time.monotonic() + _WITHIN_S
    while "watch: draining, drained" not in json.dumps(watched.cloud.log_entries):
        assert time.monotonic() < deadline
        threading.Event().wait(0.02)
    entries = [entry for request in watched.cloud.log_entries for entry in request["entries"]]
    ready = next(entry for entry in entries if entry["labels"]["tpuflex-phase"] == "READY")
    newest = entries[-1]
    assert newest["labels"] == ready["labels"]
    payload = newest["jsonPayload"]
    assert payload["timeline"] == json.loads(watched.cloud.last("timeline"))
    assert (payload["phase"], payload["error"]) == ("READY", "")


def test_is_a_service_where_there_is_systemd(host: StartupHost) -> None:
    """On a machine of Google's the watch is a transient service, started again if it dies."""
    (host.root / "run" / "systemd" / "system").mkdir(parents=True)
    host.command("systemd-run", '#!/bin/sh\nprintf "%s\\n" "$@" >"${0%/*}/../service"\n')
    run = host.run()
    assert run.status == 0, run.output
    deadline = time.monotonic() + _WITHIN_S
    while not (host.directory / "service").exists():
        assert time.monotonic() < deadline
        threading.Event().wait(0.02)
    assert "--property=Restart=on-failure" in (host.directory / "service").read_text().splitlines()


@pytest.mark.parametrize("headers", ["", "Date:\r\n", "Date: \r\n", "Date: soon\r\n"])
def test_a_run_begins_by_the_machines_clock_where_nobody_says_the_time(
    watched: StartupHost, headers: str
) -> None:
    """An answer without a time is not midnight."""
    (watched.directory / "said").write_text(headers)
    commands = """
http_get() { cp said "$STATE_DIR/headers"; }
date() { [[ $* == +%s ]] && echo 1234567890 || command date "$@"; }
cloud_time
"""
    assert watched.functions(commands) == "1234567890\n"


def test_a_run_waits_for_the_clouds_clock(watched: StartupHost) -> None:
    """A metadata server that does not answer at once is asked again: what it says is kept."""
    watched.cloud.ahead = 86_400
    watched.cloud.answers["instance/id"] = [503, 503]
    boot(watched)
    assert watched.cloud.answers["instance/id"] == []
    began = int((watched.root / "var" / "lib" / "tpuflex" / "run-began").read_text())
    assert began + 180 - 86_400 >= int(time.time()) - _WITHIN_S


def test_a_host_that_drains_before_its_end_is_left_to_its_watch(watched: StartupHost) -> None:
    """Without the key, too, a second run of the script opens nothing."""
    boot(watched, drain={"run_s": 1000, "drain_s": 600, "margin_s": 300})
    watched.cloud.ahead = 600
    until(watched, lambda said: said["drained"])
    watch = watched.watch_process()
    run = watched.run()
    assert "nothing is done" in run.output
    assert closed(watched)
    assert watched.watch_process() == watch


def test_the_last_boots_ready_never_stands_alone(watched: StartupHost) -> None:
    """A READY without what the host says of its server reads as serving: the new boot's report is
    there before that is removed."""
    boot(watched)
    watched.reboot()
    at_removal: list[str] = []

    class Serving(list[dict[str, Any] | None]):
        def append(self, document: dict[str, Any] | None) -> None:
            if document is None:
                at_removal.append(json.loads(watched.cloud.written[-1])["phase"])
            super().append(document)

    watched.cloud.serving = Serving(watched.cloud.serving)
    boot(watched)
    assert at_removal == ["start"]


def test_a_clock_that_went_back_does_not_silence_a_boot(watched: StartupHost) -> None:
    """What was asked for in the future is no query of this minute."""
    state = watched.root / "run" / "tpuflex"
    state.mkdir(parents=True, mode=0o700)
    state.joinpath("asked").write_text(f"{int((time.time() + 3600) * 1000)}\n" * 10)
    run = watched.run(TPUFLEX_REPORTS="10")
    assert run.status == 0, run.output
    assert json.loads(watched.cloud.written[0])["phase"] != "READY"
