"""A host's own account of its boot."""

from __future__ import annotations

import json

import pytest

from tpuflex.host.report import HostReport, host_report


def reported(**fields: str) -> HostReport | None:
    return host_report({"report": json.dumps(fields)})


class TestReport:
    def test_of_attributes(self) -> None:
        """Phase, detail, error and timeline are fields of one guest attribute."""
        report = reported(
            phase="weights", detail="1 of 2 GB", timeline='{"config": 1, "weights": 2.5}'
        )

        assert report == HostReport("weights", "1 of 2 GB", "", {"config": 1.0, "weights": 2.5})

    def test_none_yet(self) -> None:
        """A host that has written nothing has no report."""
        assert host_report({}) is None

    @pytest.mark.parametrize("text", ["", "{", "[1]", '{"config": "x"}'])
    def test_unreadable_timeline(self, text: str) -> None:
        """A timeline that cannot be read is empty."""
        assert HostReport("config") == reported(phase="config", timeline=text)

    def test_seconds_by_phase(self) -> None:
        """A phase lasts until the next one begins."""
        report = HostReport("READY", timeline={"health": 10.0, "config": 9.5, "READY": 30.0})

        assert report.seconds_by_phase() == {"config": 0.5, "health": 20.0}
        assert report.seconds == 20.5

    def test_seconds_of_what_goes_on_at_once(self) -> None:
        """Image and weights each last until they have ended, and are open before that."""
        timeline = {"config": 9.5, "image": 10.0, "weights": 10.0}
        report = HostReport("fetch", timeline=timeline, ended={})
        assert report.seconds_by_phase() == {"config": 0.5}
        report = HostReport("fetch", timeline=timeline, ended={"image": 13.0})
        assert report.seconds_by_phase() == {"config": 0.5, "image": 3.0}
        report = HostReport(
            "container",
            timeline={**timeline, "container": 40.0},
            ended={"image": 13, "weights": 40},
        )
        assert report.seconds_by_phase() == {"config": 0.5, "image": 3.0, "weights": 30.0}
        assert report.seconds == 30.5

    @pytest.mark.parametrize(
        ("text", "ended"),
        [("{}", {}), ('{"image": 2.5, "weights": "x"}', {"image": 2.5}), ("[", {})],
    )
    def test_ends_are_read(self, text: str, ended: dict[str, float]) -> None:
        """Ends are read as the timeline is; before image and weights there are none."""
        report = reported(phase="fetch", ended=text)
        assert report is not None
        assert report.ended == ended
        assert report.to_json()["ended"] == ended
        assert reported(phase="image") == HostReport("image")

    def test_reason_is_no_traceback(self) -> None:
        """Of a traceback in the server's log, only the error itself is shown; none of its lines
        passes for one of ours, or for a command to a CI."""
        error = (
            "container-died: the server died with status 1: ^^^^^^^\n"
            'File "/venv/vllm/engine/arg_utils.py", line 1955, in create_model_config\n'
            "return ModelConfig(\n^^^^^^^^^^^^\n"
            "ValidationError: 1 validation error for ModelConfig\n::error::Unrecognized model"
        )

        assert HostReport("health", error=error).reason == (
            "container-died: the server died with status 1:\n"
            "  | ValidationError: 1 validation error for ModelConfig\n"
            "  | ::error::Unrecognized model"
        )

    def test_an_error_is_not_ready(self) -> None:
        """READY of an earlier boot does not count once an error is reported."""
        assert not HostReport("READY", error="weights: gone").ready
