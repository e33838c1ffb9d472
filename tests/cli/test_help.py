"""`tpuflex --help` is quick, and lists what the commands say of themselves."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest

from tpuflex.cli.main import COMMANDS, tpuflex


@pytest.mark.parametrize("name", COMMANDS)
def test_short_help_agrees(name: str) -> None:
    """The table in cli/main.py, which avoids importing the commands, repeats their first line."""
    command = tpuflex.get_command(click.Context(tpuflex), name)

    assert command is not None
    assert (command.help or "").partition("\n")[0] == COMMANDS[name][1]


def test_help_imports_nothing_heavy() -> None:
    """`tpuflex --help` pays for none of the libraries that the commands use."""
    heavy = "pulumi google pydantic yaml rich requests grpc aiohttp psutil"
    program = (
        "import sys; from tpuflex.cli.main import run; code = run(['--help'])\n"
        f"print(*sorted(set(sys.modules) & set('{heavy}'.split())), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert done.stderr.strip() == ""
