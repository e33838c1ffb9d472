"""Help texts are part of the product: goldens of each, and docs/cli.md made from them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tpuflex.cli import reference
from tpuflex.cli.main import COMMANDS

GOLDENS = Path(__file__).parents[1] / "goldens"
REWRITE = "TPUFLEX_REWRITE_GOLDENS"


@pytest.mark.parametrize(("name", "text"), list(reference.commands()))
def test_help(name: str, text: str) -> None:
    """Each command's help is as reviewed. TPUFLEX_REWRITE_GOLDENS=1 rewrites the golden, and
    the test still fails in that run, so that a stale golden cannot slip through."""
    golden = GOLDENS / f"help-{name.replace(' ', '-')}.txt"
    if os.environ.get(REWRITE):
        golden.write_text(f"{text}\n", "utf-8")
        pytest.fail(f"{golden.name} was rewritten; look at the difference and run again")

    assert golden.read_text("utf-8") == f"{text}\n"


def test_every_golden_has_a_command() -> None:
    """No golden is left of a command that is gone."""
    names = {f"help-{name.replace(' ', '-')}.txt" for name, _ in reference.commands()}

    assert {file.name for file in GOLDENS.glob("help-*.txt")} == names


@pytest.mark.parametrize("name", COMMANDS)
def test_short_help_agrees(name: str) -> None:
    """The table in cli/main.py, which spares importing the commands, says what they say."""
    import click

    from tpuflex.cli.main import tpuflex

    command = tpuflex.get_command(click.Context(tpuflex), name)

    assert command is not None
    assert (command.help or "").partition("\n")[0] == COMMANDS[name][1]


def test_document() -> None:
    """docs/cli.md is what the commands say; `make docs` writes it."""
    assert reference.main(["--check"]) == 0


def test_help_imports_nothing_heavy() -> None:
    """`tpuflex --help` pays for none of the libraries that the commands use."""
    import subprocess
    import sys

    heavy = "pulumi google pydantic yaml rich requests grpc aiohttp psutil"
    program = (
        "import sys; from tpuflex.cli.main import run; code = run(['--help'])\n"
        f"print(*sorted(set(sys.modules) & set('{heavy}'.split())), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert done.stderr.strip() == ""
