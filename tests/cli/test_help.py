"""`tpuflex --help` is quick, and every command's help ends with examples that it takes."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from tools.docs.cli_reference import commands
from tpuflex.cli.examples import ExampleCommand, ExampleGroup
from tpuflex.cli.invocation import Invocation
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


#: What examples name that has to be there.
DIRECTORIES = ("my-model", "image")


def _all(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[str, click.Command]]:
    yield " ".join(path), command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            yield from _all(child, (*path, name))


EVERY = dict(_all(tpuflex, ("tpuflex",)))


def _typed(example: str) -> list[list[str]]:
    """The words of each `tpuflex …` in a line for a shell."""
    # What is in single quotes is one word, whatever it has.
    lines = re.findall(r"\btpuflex (?:'[^']*'|[^|&<>()'])*", example.partition("  # ")[0])
    return [shlex.split(line.rstrip('"') if '"$(' in example else line)[1:] for line in lines]


def _parse(words: list[str]) -> str:
    """The full name of the command that takes the words.

    Raises:
        click.UsageError: none does.
    """
    context = tpuflex.make_context("tpuflex", list(words), obj=Invocation(environ={}))
    command: click.Command = tpuflex
    while isinstance(command, click.Group):
        rest = [*context._protected_args, *context.args]
        if not rest and command.invoke_without_command:
            break
        name, child, rest = command.resolve_command(context, rest)
        assert child is not None
        context = child.make_context(name, rest, parent=context)
        command = child
    return context.command_path


@pytest.mark.parametrize("name", EVERY)
def test_each_command_has_examples_that_it_takes(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lines are parsed as the command line would, and one at least is of this command."""
    for directory in DIRECTORIES:
        (tmp_path / directory).mkdir()
    monkeypatch.chdir(tmp_path)
    command = EVERY[name]
    assert isinstance(command, ExampleCommand | ExampleGroup)

    taken = [_parse(words) for line in command.examples for words in _typed(line)]

    assert any(path == name or path.startswith(f"{name} ") for path in taken)


@pytest.mark.parametrize("line", ["tpuflex up --yess", "tpuflex wieghts ls", "tpuflex logs -n 0"])
def test_a_wrong_example_would_be_noticed(line: str) -> None:
    """An option, a command or a value that does not exist is refused."""
    with pytest.raises(click.UsageError):
        [_parse(words) for words in _typed(line)]


def test_the_reference_shows_them() -> None:
    """docs/cli.md has the help of all commands, examples included."""
    for name, text in commands():
        assert "\nExamples:\n" in text, name
