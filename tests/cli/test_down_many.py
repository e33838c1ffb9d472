"""`tpuflex down` and `tpuflex sweep` for many stacks: what is refused before anything is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.typing import TypeIn
from tpuflex.cli.steps.sweep_all import Failure
from tpuflex.errors import IncompleteTeardownError


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--all", "--stack", "dev"), "--all and --stack contradict each other"),
        (("--all", "--purge-weights"), "--purge-weights works on one stack"),
        (("--older-than", "1h", "--purge-weights"), "--purge-weights works on one stack"),
        (("--label", "team"), "'team' is no label: write KEY=VALUE"),
        (("--label", "=search"), "'=search' is no label"),
        (("--label", "team=a", "--label", "team=b"), "team cannot have two values"),
        (("--older-than", "12"), "'12' is not a duration"),
        (("--older-than", "0h"), "write how long: 30m, 12h, 2d"),
    ],
)
def test_usage(type_in: TypeIn, words: tuple[str, ...], problem: str) -> None:
    """A slip on the command line is refused by name before any stack is looked at."""
    typed = type_in("down", *words)

    assert typed.code == 2
    assert problem in typed.err
    assert typed.out == ""


def test_no_stack_has_a_state(type_in: TypeIn) -> None:
    """Stack files alone are nothing to tear down: no cloud is started for them."""
    typed = type_in("down", "--all")

    assert (typed.code, typed.err) == (0, "")
    assert typed.out == "No stack of this project has a state: there is nothing to tear down.\n"


def test_a_named_stack_without_a_state(type_in: TypeIn) -> None:
    """A condition on one stack looks at that one alone, and says that it is not up."""
    typed = type_in("down", "--stack", "dev", "--older-than", "1h")

    assert typed.code == 4
    assert typed.err == "Error: The stack dev has no state: there is nothing to tear down.\n"


def test_what_cannot_be_opened_is_told(type_in: TypeIn, project: Path) -> None:
    """A state without its stack file, and one whose file is wrong, are in the list with the reason;
    nothing is taken for done."""
    states = project / ".tpuflex" / "backend" / ".pulumi" / "stacks" / "tpuflex"
    states.mkdir(parents=True)
    for stack in ("bad", "lost"):
        (states / f"{stack}.json").write_text("{}")
    (project / "stacks" / "Pulumi.bad.yaml").write_text("config: {tpuflex:cloud: moon}\n")

    typed = type_in("down", "--all", "--yes", "--json")

    outcomes = {each["stack"]: each["outcome"] for each in typed.document["stacks"]}
    errors = {each["stack"]: each["error"]["kind"] for each in typed.document["stacks"]}
    assert typed.code == typed.document["exit_code"] == 5
    assert outcomes == {"bad": "failed", "lost": "failed"}
    assert errors == {"bad": "SettingsError", "lost": "NotFoundError"}
    assert typed.document["not_up"] == ["dev"]


def test_a_schedule_on_a_machine_without_the_embedded_cloud(type_in: TypeIn) -> None:
    """`sweep --all` starts nothing: a cloud that is not running holds nothing that runs."""
    typed = type_in("sweep", "--all", "--exit-code", "--json")

    assert typed.code == 0
    assert typed.document == {"errors": [], "exit_code": 0, "projects": []}
    assert "Not looked at: the embedded cloud" in typed.err


def test_advice_of_a_sweep_of_all_is_for_the_cloud_project_that_it_is_about() -> None:
    """It names a stack there: without it, `tpuflex sweep` looks where the default stack is."""
    error = IncompleteTeardownError("The list is incomplete", hint="Run: tpuflex sweep")
    assert Failure("acme-prod", "prod", error).to_json() == {
        "where": "acme-prod",
        "message": "The list is incomplete",
        "hint": "Run: tpuflex sweep --stack prod",
    }
