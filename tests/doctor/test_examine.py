"""The whole examination, as a program asks for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.typing import Captured
from tpuflex.doctor.check import Group, Standing
from tpuflex.doctor.examine import examine
from tpuflex.errors import NotFoundError, SettingsError, TpuflexError
from tpuflex.project import open_project
from tpuflex.stack.stack import read_stack


def test_a_program_gets_what_the_command_prints(project: Path, capsys: Captured) -> None:
    """Nothing is printed, started or made: the report has it all, and its JSON form."""
    said: list[str] = []
    stack = read_stack(open_project(project, {}), "dev")

    report = examine(stack, {"HOME": str(project)}, project, said.append)

    assert (report.stack, report.cloud) == ("dev", "embedded")
    groups = [*dict.fromkeys(check.group for check in report.checks)]
    assert groups == [Group.STACK, Group.MACHINE, Group.STATE, Group.ACCOUNT]
    (cloud,) = (check for check in report.checks if check.name == "cloud")
    assert cloud.standing is Standing.SKIPPED
    document = report.to_json()
    assert [*document] == ["stack", "cloud", "checks", "failed", "summary"]
    assert document["checks"] == [check.to_json() for check in report.checks]
    assert [*capsys.readouterr(), *said] == ["", ""]
    assert not (project / ".tpuflex").exists()


@pytest.mark.parametrize(
    ("error", "named", "standing"),
    [
        (NotFoundError("no such stack"), True, Standing.FAILED),
        (NotFoundError("no such stack"), False, Standing.SKIPPED),
        (SettingsError("the stack", ()), False, Standing.FAILED),
    ],
)
def test_a_stack_that_cannot_be_opened(
    project: Path, error: TpuflexError, *, named: bool, standing: Standing
) -> None:
    """The rest is examined all the same; a stack that was not asked for by name may be missing."""
    environ = {"HOME": str(project), "GOOGLE_OAUTH_ACCESS_TOKEN": "ya29.of-a-test"}

    report = examine(error, environ, project, print, named=named)

    assert (report.stack, report.cloud) == (None, None)
    assert report.checks[0].standing is standing
    assert {check.name for check in report.checks} >= {"engine", "plugin gcp", "credential"}
    failed = standing is Standing.FAILED
    assert (report.exit_code == type(error).exit_code) is failed
