"""Commands in advice can be typed as they are."""

from __future__ import annotations

import click
import pytest

from tests.cli.typing import Captured
from tpuflex.cli.invocation import Invocation
from tpuflex.cli.main import tpuflex
from tpuflex.errors import EngineError
from tpuflex.terminal.output import Output, for_stack


@pytest.mark.parametrize(
    ("advice", "shown"),
    [
        ("If it is dead: tpuflex recover", "If it is dead: tpuflex recover --stack big"),
        (
            "`tpuflex up` asks, `tpuflex down` ends it",
            "`tpuflex up --stack big` asks, `tpuflex down --stack big` ends it",
        ),
        ("tpuflex up --stack other", "tpuflex up --stack other"),
        (
            "`tpuflex weights push` makes it, tpuflex weights rm gs://b/models/m/1 removes it",
            "`tpuflex weights push --stack big` makes it,"
            " tpuflex weights rm --stack big gs://b/models/m/1 removes it",
        ),
        ("Then: tpuflex library status.", "Then: tpuflex library status --stack big."),
        (
            "tpuflex weights push, tpuflex secrets put api-key",
            "tpuflex weights push --stack big, tpuflex secrets put --stack big api-key",
        ),
        ("tpuflex emulator start", "tpuflex emulator start"),
        ("Delete it: tpuflex sweep --yes", "Delete it: tpuflex sweep --stack big --yes"),
        ("Tear them down: tpuflex down --all.", "Tear them down: tpuflex down --all."),
    ],
)
def test_advice_is_for_the_stack_that_is_meant(advice: str, shown: str) -> None:
    """They name the stack, unless it is the default one."""
    assert for_stack(advice, "big", {}) == shown
    assert for_stack(advice, "dev", {}) == advice


def test_the_default_stack_is_named_where_the_environment_names_another() -> None:
    """A command without --stack would work on $TPUFLEX_STACK; an empty one counts as none."""
    typed = {"TPUFLEX_STACK": "big"}

    assert for_stack("tpuflex down", "dev", typed) == "tpuflex down --stack dev"
    assert for_stack("tpuflex down", "big", typed) == "tpuflex down --stack big"
    assert for_stack("tpuflex down", "dev", {"TPUFLEX_STACK": "dev"}) == "tpuflex down"
    assert for_stack("tpuflex down", "dev", {"TPUFLEX_STACK": ""}) == "tpuflex down"


def test_a_failure_advises_for_the_stack_of_the_command(capsys: Captured) -> None:
    """`tpuflex --stack dev` in a shell that names another stack advises for dev."""
    invocation = Invocation(environ={"TPUFLEX_STACK": "big"}, chosen_stack="dev")

    invocation.output.failure(EngineError("locked", hint="Run: tpuflex recover"))

    assert capsys.readouterr().err == "Error: locked\nRun: tpuflex recover --stack dev\n"


def test_what_is_advised_can_be_typed() -> None:
    """Each command that is completed with --stack takes it there."""
    for names in (
        *(("weights", each) for each in ("hash", "ls", "push", "rm", "verify")),
        *(("library", each) for each in ("down", "status", "up")),
        *(("secrets", each) for each in ("ensure", "ls", "put")),
    ):
        shown = for_stack(f"tpuflex {' '.join(names)}", "big")
        command: click.Command = tpuflex
        for word in shown.removeprefix("tpuflex ").removesuffix(" --stack big").split():
            assert isinstance(command, click.Group)
            found = command.get_command(click.Context(command), word)
            assert found is not None
            command = found
        assert any("--stack" in each.opts for each in command.params)


def test_a_failure_advises_for_its_stack(capsys: Captured) -> None:
    """The hint names the stack, for people and in the document."""
    output = Output(json=True, verbose=False, stack="big")

    output.failure(EngineError("locked", hint="If it is dead: tpuflex recover"))

    said = capsys.readouterr()
    assert said.err == "Error: locked\nIf it is dead: tpuflex recover --stack big\n"
    assert '"hint": "If it is dead: tpuflex recover --stack big"' in said.out
