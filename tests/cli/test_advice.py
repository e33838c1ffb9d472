"""Commands in advice can be typed as they are."""

from __future__ import annotations

import pytest

from tpuflex.cli.output import Output, for_stack
from tpuflex.errors import EngineError


@pytest.mark.parametrize(
    ("advice", "shown"),
    [
        ("If it is dead: tpuflex recover", "If it is dead: tpuflex recover --stack big"),
        (
            "`tpuflex up` asks, `tpuflex down` ends it",
            "`tpuflex up --stack big` asks, `tpuflex down --stack big` ends it",
        ),
        ("tpuflex up --stack other", "tpuflex up --stack other"),
        ("tpuflex emulator start", "tpuflex emulator start"),
        ("Delete it: tpuflex sweep --yes", "Delete it: tpuflex sweep --stack big --yes"),
        ("Tear them down: tpuflex down --all.", "Tear them down: tpuflex down --all."),
    ],
)
def test_advice_is_for_the_stack_that_is_meant(advice: str, shown: str) -> None:
    """They name the stack, unless it is the default one."""
    assert for_stack(advice, "big") == shown
    assert for_stack(advice, "dev") == advice


def test_a_failure_advises_for_its_stack(capsys: pytest.CaptureFixture[str]) -> None:
    """The hint names the stack, for people and in the document."""
    output = Output(json=True, verbose=False, stack="big")

    output.failure(EngineError("locked", hint="If it is dead: tpuflex recover"))

    said = capsys.readouterr()
    assert said.err == "Error: locked\nIf it is dead: tpuflex recover --stack big\n"
    assert '"hint": "If it is dead: tpuflex recover --stack big"' in said.out
