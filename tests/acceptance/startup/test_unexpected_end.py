"""A script that bash ends by itself, or that a signal ends: what its report says then."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress

import pytest

from tests.startup.host import UNSET, StartupHost

READ_ONLY = "readonly said=1; said=2"


@pytest.mark.parametrize(
    ("after", "command", "phase"),
    [
        ("    begin_boot_log", UNSET, "start"),
        ("    phase secrets", UNSET, "secrets"),
        ("    phase completion", READ_ONLY, "completion"),
    ],
)
def test_what_bash_ends_is_reported(
    host: StartupHost, after: str, command: str, phase: str
) -> None:
    """At a variable that is not set, or that is read-only, bash runs no ERR trap; the phase is told
    all the same."""
    host.inject(after, command)
    run = host.run()
    assert run.status == 1
    error = host.cloud.last("error")
    assert error.startswith(f"phase-{phase}: bash ended the script with status 1")
    assert "READY" not in host.cloud.phases()


def test_a_host_that_serves_is_not_said_to_have_failed(host: StartupHost) -> None:
    """What bash ends after READY changes the report no more."""
    host.inject("upload_compile_cache() {", UNSET)
    assert host.run().status == 1
    assert host.cloud.phases()[-1] == "READY"
    assert host.cloud.last("error") == ""


def test_the_log_outlives_a_signal_to_all(host: StartupHost) -> None:
    """Bash says of the command in front that the signal ended it; that, and what the script says of
    its end, are in the log, because what writes it takes no such signal."""
    host.inject("    phase secrets", "bash -c 'echo in front; exec sleep 600'")
    process = host.start()
    try:
        assert process.stdout is not None
        assert any(line == "in front\n" for line in process.stdout)
        os.killpg(process.pid, signal.SIGTERM)
        process.communicate(timeout=60)
    finally:
        host.kill(process)
    assert process.returncode == 128 + signal.SIGTERM
    log = (host.root / "var" / "log" / "tpuflex" / "startup.log").read_text()
    assert "Terminated" in log
    assert "ended by the signal TERM in phase secrets" in log


def test_the_boot_outlives_whoever_reads_its_output(host: StartupHost) -> None:
    """Google's runner that was stopped, or a terminal that was closed, ends no boot and no log."""
    host.inject("    phase secrets", "echo in front")
    process = host.start()
    assert process.stdout is not None
    try:
        assert any(line == "in front\n" for line in process.stdout)
        process.stdout.close()
        assert process.wait(60) == 0
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert host.cloud.phases()[-1] == "READY"
    assert "phase completion" in (host.root / "var" / "log" / "tpuflex" / "startup.log").read_text()


def test_a_machine_that_is_shut_down_has_not_failed(host: StartupHost) -> None:
    """A signal to all processes of the script, as a shutdown sends it, leaves the report without an
    error, and the next boot serves."""
    waiting = threading.Event()

    def on_report(report: dict[str, str]) -> None:
        if report["phase"] == "health":
            waiting.set()

    host.cloud.on_report, host.cloud.health = on_report, False
    process = host.start()
    try:
        assert waiting.wait(60)
        os.killpg(process.pid, signal.SIGTERM)
        process.communicate(timeout=60)
    finally:
        host.kill(process)
    assert process.returncode == 128 + signal.SIGTERM
    assert host.cloud.last("error") == ""
    assert host.cloud.phases()[-1] == "health"

    host.cloud.health = True
    host.reboot()
    assert host.run().status == 0
    assert host.cloud.phases()[-1] == "READY"
