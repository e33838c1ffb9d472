"""The boot log in Cloud Logging: by phase, it outlives the host, and holds no secret."""

from __future__ import annotations

import json
import os
import sys
import threading
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.startup.cloud import API_KEY
from tests.startup.host import StartupHost, StartupRun
from tpuflex.startup import boot_log
from tpuflex.startup.boot_log import LOG_CHARACTERS, pieces

WRITE = "/v2/entries:write"


def entry_of(host: StartupHost) -> tuple[dict[str, Any], dict[str, Any]]:
    """The last request, and its last entry: how the boot ended."""
    request = host.cloud.log_entries[-1]
    return request, request["entries"][-1]


def entries_of(host: StartupHost) -> list[dict[str, Any]]:
    """All entries, in the order in which Cloud Logging gives them."""
    entries = [entry for request in host.cloud.log_entries for entry in request["entries"]]
    return sorted(entries, key=lambda entry: (entry["timestamp"], entry["insertId"]))


def message_of(host: StartupHost, phase: str = "") -> str:
    """The log as it is kept, or that of a phase."""
    return "".join(
        entry["jsonPayload"]["message"]
        for entry in entries_of(host)
        if phase in ("", entry["labels"]["tpuflex-phase"])
    )


def test_a_host_that_is_ready_keeps_its_log(booted: tuple[StartupHost, StartupRun]) -> None:
    """At READY, all of the log is in Cloud Logging, once, by stack, node and phase."""
    host, run = booted
    request, entry = entry_of(host)
    assert request["logName"] == "projects/p/logs/tpuflex-boot"
    assert request["resource"] == {
        "type": "generic_node",
        "labels": {
            "project_id": "p",
            "location": "us-east5-a",
            "namespace": "dev",
            "node_id": "t1v-n-1-w-0",
        },
    }
    assert entry["severity"] == "NOTICE"
    labels = {"tpuflex-stack": "dev", "tpuflex-name": "e", "tpuflex-worker": "0"}
    assert entry["labels"].items() >= {**labels, "tpuflex-phase": "READY"}.items()
    assert entry["jsonPayload"]["phase"] == "READY"
    before, after = host.cloud.phases()[:3], host.cloud.phases()[4:]
    assert list(entry["jsonPayload"]["timeline"]) == [*before, "image", "weights", *after]
    assert set(entry["jsonPayload"]["ended"]) == {"image", "weights"}
    # What the script says after READY is of its next run.
    kept = message_of(host)
    assert run.output.startswith(kept)
    assert "phase READY" in kept
    severities = [each["severity"] for each in entries_of(host)]
    assert severities == ["INFO"] * (len(severities) - 1) + ["NOTICE"]
    assert {each["labels"]["tpuflex-boot"] for each in entries_of(host)} == {
        entry["labels"]["tpuflex-boot"]
    }
    assert len({each["insertId"] for each in entries_of(host)}) == len(severities)
    for phase in host.cloud.phases():
        assert message_of(host, phase).splitlines()[0].endswith(f"Z phase {phase}")
    datetime.fromisoformat(entry["timestamp"])


def test_the_lines_of_a_phase_are_an_entry() -> None:
    """A phase begins with its own line; a long one is several entries, and no line of another
    program is a phase."""
    config, warm_up = "2026-11-21T12:00:00Z phase config\n", "2026-11-21T12:00:09Z phase warm-up\n"
    other, long = "docker: phase of the moon\n", f"{'x' * (LOG_CHARACTERS - 10)}\n"
    assert [*pieces(f"before\n{config}{other}{warm_up}{long}end", "start")] == [
        ("start", "before\n"),
        ("config", f"{config}{other}"),
        ("warm-up", warm_up),
        ("warm-up", f"{long}end"),
    ]


def test_a_phase_is_kept_while_it_lasts(host: StartupHost) -> None:
    """A host that is lost in the middle leaves what it was doing: nobody waits for its end."""
    kept = threading.Event()

    def wait(_path: str) -> None:
        for _ in range(600):
            if "phase fetch" in message_of(host):
                kept.set()
                return
            threading.Event().wait(0.05)

    host.cloud.before_object = lambda path: wait(path) if "model-1" in path else None
    assert host.run().status == 0
    assert kept.is_set()


def test_a_slice_of_a_series_names_generation_and_worker(host: StartupHost) -> None:
    """Entries are found by the run of the slice that they are of."""
    host.cloud.attributes["tpu-env"] = "NODE_ID: 'tpuflex-dev-e-g12'\nWORKER_ID: '3'"
    assert host.run().status == 0
    labels = entry_of(host)[1]["labels"]
    assert (labels["tpuflex-generation"], labels["tpuflex-worker"]) == ("12", "3")


def test_cloud_logging_that_hangs_delays_no_phase(host: StartupHost) -> None:
    """A phase begins while the entry of the one before it is still on its way."""
    on_its_way = threading.Event()
    began: list[str] = []
    host.cloud.on_report = lambda report: began.append(report["phase"])

    def hang() -> None:
        on_its_way.set()
        while "READY" not in began:
            threading.Event().wait(0.05)

    host.cloud.on_log = lambda request: (
        hang() if request["entries"][-1]["severity"] == "INFO" else None
    )
    assert host.run().status == 0
    assert on_its_way.is_set()
    assert "phase fetch" in message_of(host)


def test_a_failure_is_kept_before_it_is_reported(host: StartupHost) -> None:
    """Who reads the error may delete the host at once: by then its log and that of the server
    are kept, without keys and tokens."""
    host.cloud.attributes["tpu-env"] = "ACCELERATOR_TYPE: 'v6e-1'\nNODE_ID: 'node-7'"
    host.mark("crashes")
    host.cloud.health = False
    words = f"ValueError: no such flag\nthe key is {API_KEY}\nBearer ya29.host\n\x1b[31m"
    (host.directory / "container.log").write_text(words)
    kept_when_reported: list[int] = []
    take = host.cloud.take_report

    def watched(text: str) -> None:
        if '"error"' in text:
            severities = [entry["severity"] for entry in entries_of(host)]
            kept_when_reported.append(severities.count("ERROR"))
        take(text)

    host.cloud.take_report = watched  # type: ignore[method-assign]
    assert host.run().status == 1
    assert kept_when_reported == [1]
    request, entry = entry_of(host)
    assert entry["severity"] == "ERROR"
    assert request["resource"]["labels"]["node_id"] == "node-7"
    assert entry["jsonPayload"]["error"].startswith("container-died: ")
    assert "ValueError: no such flag" in entry["jsonPayload"]["container"]
    assert "the key is [removed]" in entry["jsonPayload"]["container"]
    assert not {API_KEY, "ya29.host", "\x1b"} & set(str(request).split())
    assert API_KEY not in str(request)
    assert "ya29" not in str(request)


@pytest.mark.parametrize("statuses", [[403], [503, 503, 503]])
def test_a_log_that_cannot_be_kept_ends_nothing(host: StartupHost, statuses: list[int]) -> None:
    """Without the role, or without Cloud Logging, the host is READY all the same."""
    # A refusal is not asked about again before the end; trouble is, at each phase.
    phases = [statuses[0]] * (1 if statuses[0] == 403 else 30)
    host.cloud.answers[WRITE] = [*phases, *statuses]
    run = host.run()
    assert run.status == 0, run.output
    assert host.cloud.phases()[-1] == "READY"
    assert host.cloud.log_entries == []
    assert f"Cloud Logging answers {statuses[-1]}" in run.output


def test_a_log_is_tried_again(host: StartupHost) -> None:
    """A moment's trouble does not lose it."""
    host.cloud.answers[WRITE] = [503]
    host.run()
    kept = message_of(host)
    assert "phase capacity" in kept
    assert "phase READY" in kept


def test_a_boot_keeps_its_own_log(host: StartupHost) -> None:
    """What earlier boots have written is not written again: a second run has another name."""
    host.run()
    first = entry_of(host)[1]["labels"]["tpuflex-boot"]
    host.cloud.log_entries.clear()
    host.reboot()
    assert host.run().status == 0
    assert message_of(host).count("phase fetch") == 1
    assert entry_of(host)[1]["labels"]["tpuflex-boot"] > first


def test_a_long_log_keeps_its_end(host: StartupHost) -> None:
    """An entry has room for 256 KiB: a longer log has several; of more than a request takes, the
    end is kept, which says why."""
    log = host.root / "var" / "log" / "tpuflex" / "startup.log"

    def noise(report: dict[str, str]) -> None:
        if report["phase"] == "READY":
            with log.open("a") as end:
                end.write("\x00é\u2028\n" * 200_000)

    host.cloud.on_report = noise
    assert host.run().status == 0
    request, _ = entry_of(host)
    assert len(request["entries"]) > 1
    for each in request["entries"]:
        assert len(json.dumps(each, ensure_ascii=False).encode()) < 256 * 1024
    assert message_of(host).endswith("?é\u2028\n")


def test_a_reason_that_was_cut_within_a_character_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """The end of what docker or the server says begins or ends where it happens to: what failed is
    written all the same."""
    (tmp_path / "about.project-id").write_text("p")
    (tmp_path / "boot-log.sent").write_text("7 0 health")
    log = tmp_path / "startup.log"
    log.write_bytes(b"\x96\x88 50%\n")
    cut = os.fsdecode("health: the server says: ██".encode()[:-1])
    words = [str(tmp_path), str(log), str(tmp_path), str(tmp_path / "end"), "ERROR", "health", cut]
    monkeypatch.setattr(sys, "argv", ["boot_log.py", *words, "{}", ""])
    boot_log.main()
    (entry,) = json.loads(capfdbinary.readouterr().out)["entries"]
    assert entry["jsonPayload"]["error"] == "health: the server says: █\ufffd"
    assert entry["jsonPayload"]["message"] == "\ufffd\ufffd 50%\n"
