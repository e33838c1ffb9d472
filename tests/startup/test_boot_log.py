"""The end of the boot log in Cloud Logging: it outlives the host, and holds no secret."""

from __future__ import annotations

from typing import Any

import pytest

from tests.startup.cloud import API_KEY
from tests.startup.host import StartupHost, StartupRun

WRITE = "/v2/entries:write"


def entry_of(host: StartupHost) -> tuple[dict[str, Any], dict[str, Any]]:
    """The one request, and its one entry."""
    (request,) = host.cloud.log_entries
    (entry,) = request["entries"]
    return request, entry


def test_a_host_that_is_ready_keeps_its_log(booted: tuple[StartupHost, StartupRun]) -> None:
    """At READY, the end of the log is in Cloud Logging, by stack and node."""
    host, _ = booted
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
    assert entry["labels"].items() >= {"tpuflex-stack": "dev", "tpuflex-name": "e"}.items()
    assert entry["jsonPayload"]["phase"] == "READY"
    assert "phase weights" in entry["jsonPayload"]["message"]


def test_a_failure_is_kept_before_it_is_reported(host: StartupHost) -> None:
    """m5: who reads the error may delete the host at once: by then its log and that of the server
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
            kept_when_reported.append(len(host.cloud.log_entries))
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
    host.cloud.answers[WRITE] = list(statuses)
    run = host.run()
    assert run.status == 0, run.output
    assert host.cloud.phases()[-1] == "READY"
    assert host.cloud.log_entries == []
    assert f"Cloud Logging answers {statuses[-1]}" in run.output


def test_a_log_is_tried_again(host: StartupHost) -> None:
    """A moment's trouble does not lose it."""
    host.cloud.answers[WRITE] = [503]
    host.run()
    entry_of(host)


def test_a_failure_before_anything_is_known_is_reported(host: StartupHost) -> None:
    """Where not even the configuration can be read, the log is kept and the error reported."""
    host.cloud.config = None
    assert host.run().status == 1
    _, entry = entry_of(host)
    assert entry["jsonPayload"]["error"].startswith("config: ")
    assert host.cloud.last("error").startswith("config: ")


def test_a_long_log_keeps_its_end(host: StartupHost) -> None:
    """An entry has room for 256 KiB; the end of the log says why."""
    log = host.root / "var" / "log" / "tpuflex" / "startup.log"
    log.parent.mkdir(parents=True, mode=0o755)
    log.parent.chmod(0o700)
    log.write_text("\x00é\u2028\n" * 200_000)
    assert host.run().status == 0
    _, entry = entry_of(host)
    assert len(str(entry).encode()) < 256 * 1024
    assert "phase READY" in entry["jsonPayload"]["message"][-2000:]
