"""Options that several commands share; each may stand before or after the command's name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from tpuflex.cli.invocation import Invocation
from tpuflex.project import DEFAULT_STACK, STACK_VARIABLE

F = TypeVar("F", bound=Callable[..., Any])


def _set(name: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    def callback(ctx: click.Context, _parameter: click.Parameter, value: Any) -> None:
        if value:
            setattr(ctx.ensure_object(Invocation), name, value)

    return callback


def stack_name(function: F) -> F:
    """``--stack``: which stack to work on."""
    return click.option(
        "-s",
        "--stack",
        metavar="NAME",
        expose_value=False,
        callback=_set("chosen_stack"),
        help=f"The stack.  [default: ${STACK_VARIABLE}, or {DEFAULT_STACK}]",
    )(function)


def as_json(function: F) -> F:
    """``--json``: one JSON document on standard output instead of text."""
    return click.option(
        "--json",
        is_flag=True,
        expose_value=False,
        callback=_set("json"),
        help="Print one JSON document for scripts.",
    )(function)


def assume_yes(function: F) -> F:
    """``--yes``: do not ask."""
    return click.option(
        "-y",
        "--yes",
        is_flag=True,
        expose_value=False,
        callback=_set("yes"),
        help="Go ahead without asking.",
    )(function)


def verbose(function: F) -> F:
    """``-v``: every resource and every message."""
    return click.option(
        "-v",
        "--verbose",
        is_flag=True,
        expose_value=False,
        callback=_set("verbose"),
        help="Show every resource and every message of the engine.",
    )(function)


class Commands(click.Group):
    """A group that lists the whole first paragraph of each command's help; click would truncate
    it to a length that hides what the command is for."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [(name, _first_paragraph(each.help)) for name, each in commands if each is not None]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def _first_paragraph(text: str | None) -> str:
    return " ".join((text or "").partition("\n\n")[0].split())


pass_invocation = click.make_pass_decorator(Invocation, ensure=True)
