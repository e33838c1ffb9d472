"""The text of docs/cli.md, from the commands' own help."""

from __future__ import annotations

from collections.abc import Iterator

import click

from tpuflex.cli.main import tpuflex
from tpuflex.errors import TpuflexError

#: Width of the help texts, independent of the terminal.
WIDTH = 80


def commands() -> Iterator[tuple[str, str]]:
    """Every command's full name and its help text, in the order of the help."""
    context = click.Context(
        tpuflex, info_name="tpuflex", terminal_width=WIDTH, **tpuflex.context_settings
    )
    return _walk(tpuflex, context)


def cli_reference() -> str:
    """The document."""
    parts = [
        "# The command line\n",
        "Made from the commands' own help by `make docs`; do not edit.\n",
        "## Exit codes\n",
        *_exit_codes(),
    ]
    for name, text in commands():
        parts.append(f"\n## {name}\n\n```text\n{text}\n```\n")
    return "\n".join(parts).replace("\n\n\n", "\n\n")


def _exit_codes() -> Iterator[str]:
    yield "| code | kind | meaning |\n| --- | --- | --- |\n| 0 | | done |"
    seen: dict[int, list[tuple[str, str]]] = {}
    for kind in _tree(TpuflexError):
        meaning = " ".join((kind.__doc__ or "").split("\n\n")[0].split()).rstrip(".")
        seen.setdefault(kind.exit_code, []).append((kind.__name__, meaning))
    seen[2] = [("UsageError", "The command line is wrong")]
    for code in sorted(seen):
        for name, meaning in seen[code]:
            yield f"| {code} | {name} | {meaning} |"


def _tree(root: type[TpuflexError]) -> Iterator[type[TpuflexError]]:
    yield root
    for child in root.__subclasses__():
        if child.__module__ == root.__module__:
            yield from _tree(child)


def _walk(command: click.Command, context: click.Context) -> Iterator[tuple[str, str]]:
    yield context.command_path, command.get_help(context)
    if not isinstance(command, click.Group):
        return
    for name in command.list_commands(context):
        child = command.get_command(context, name)
        if child is not None:
            yield from _walk(
                child,
                click.Context(child, info_name=name, parent=context, terminal_width=WIDTH),
            )
