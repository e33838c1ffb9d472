"""A host's own account of its boot, and the wait for READY."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tpuflex.errors import BootError
from tpuflex.operate.host import HostReport, await_ready, host_report


class Waiting:
    """A clock that only moves when somebody sleeps, and reports that come one per look."""

    def __init__(self, *reports: HostReport | None) -> None:
        self._reports: Iterator[HostReport | None] = iter(reports)
        self._last: HostReport | None = None
        self.time = 0.0
        self.shown: list[str] = []

    def observe(self) -> HostReport | None:
        self._last = next(self._reports, self._last)
        return self._last

    def sleep(self, seconds: float) -> None:
        self.time += seconds

    def wait(self, timeout: float = 60) -> HostReport:
        return await_ready(
            self.observe,
            timeout=timeout,
            now=lambda: self.time,
            sleep=self.sleep,
            changed=lambda report: self.shown.append(f"{report.phase} {report.detail}".strip()),
            log="/log",
        )


class TestReport:
    def test_of_attributes(self) -> None:
        """Phase, detail, error and timeline are read from the guest attributes."""
        report = host_report(
            {"phase": "weights", "detail": "1 of 2 GB", "timeline": '{"config": 1, "weights": 2.5}'}
        )

        assert report == HostReport("weights", "1 of 2 GB", "", {"config": 1.0, "weights": 2.5})

    def test_none_yet(self) -> None:
        """A host that has written nothing has no report."""
        assert host_report({}) is None

    @pytest.mark.parametrize("text", ["", "{", "[1]", '{"config": "x"}'])
    def test_unreadable_timeline(self, text: str) -> None:
        """A timeline that cannot be read is empty."""
        assert HostReport("config") == host_report({"phase": "config", "timeline": text})

    def test_seconds_by_phase(self) -> None:
        """A phase lasts until the next one begins."""
        report = HostReport("READY", timeline={"weights": 10.0, "config": 9.5, "READY": 30.0})

        assert report.seconds_by_phase() == {"config": 0.5, "weights": 20.0}

    def test_reason_is_no_traceback(self) -> None:
        """Of a traceback in the server's log, only the error itself is shown."""
        error = (
            "container-died: the server died with status 1: ^^^^^^^\n"
            'File "/venv/vllm/engine/arg_utils.py", line 1955, in create_model_config\n'
            "return ModelConfig(\n^^^^^^^^^^^^\n"
            "ValidationError: 1 validation error for ModelConfig\nValue error, Unrecognized model"
        )

        assert HostReport("health", error=error).reason == (
            "container-died: the server died with status 1:\n"
            "ValidationError: 1 validation error for ModelConfig\nValue error, Unrecognized model"
        )

    def test_an_error_is_not_ready(self) -> None:
        """READY of an earlier boot does not count once an error is reported."""
        assert not HostReport("READY", error="weights: gone").ready


class TestWait:
    def test_shows_each_change_once(self) -> None:
        """Each new phase or detail is shown once, and the wait ends with READY."""
        waiting = Waiting(
            None,
            HostReport("config"),
            HostReport("config"),
            HostReport("weights", "1 of 2 GB"),
            HostReport("weights", "2 of 2 GB"),
            HostReport("READY"),
        )

        assert waiting.wait().ready
        assert waiting.shown == ["config", "weights 1 of 2 GB", "weights 2 of 2 GB", "READY"]

    def test_boot_failure(self) -> None:
        """A failed boot ends the wait with the phase, the host's text and where the log is."""
        waiting = Waiting(HostReport("weights", error="checksum: model.safetensors differs"))

        with pytest.raises(BootError) as caught:
            waiting.wait()

        assert caught.value.message == (
            "The host failed in phase weights: checksum: model.safetensors differs"
        )
        assert "/log" in caught.value.hint

    def test_overdue(self) -> None:
        """A host that takes too long is named with its phase and detail."""
        waiting = Waiting(HostReport("health", "vLLM is loading"))

        with pytest.raises(BootError, match="still in phase health"):
            waiting.wait(timeout=10)

        assert waiting.time >= 10

    def test_silent(self) -> None:
        """A host that never reports is an error too."""
        with pytest.raises(BootError, match="reported nothing for 10 s"):
            Waiting(None).wait(timeout=10)
