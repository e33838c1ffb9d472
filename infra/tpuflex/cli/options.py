"""Options that several commands share; each may stand before or after the command's name."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click

from tpuflex.cli.completion_values import stacks
from tpuflex.cli.examples import ExampleGroup
from tpuflex.cli.invocation import Invocation
from tpuflex.errors import InterruptedByUser
from tpuflex.naming import DEFAULT_STACK, STACK_VARIABLE

if TYPE_CHECKING:
    from tpuflex.terminal.output import Output

F = TypeVar("F", bound=Callable[..., Any])


def _option(sets: str, *names: str, **attributes: Any) -> Callable[[F], F]:
    """An option that sets ``sets`` of the invocation; not given, it leaves it as it is."""

    def callback(ctx: click.Context, _parameter: click.Parameter, value: Any) -> None:
        if value:
            setattr(ctx.ensure_object(Invocation), sets, value)

    return click.option(*names, expose_value=False, callback=callback, **attributes)


stack_name = _option(
    "chosen_stack",
    "-s",
    "--stack",
    metavar="NAME",
    shell_complete=stacks,
    help=f"The stack.  [default: ${STACK_VARIABLE}, or {DEFAULT_STACK}]",
)
endpoint_name = _option(
    "endpoint",
    "--endpoint",
    metavar="NAME",
    help="The endpoint, where the stack is a program of your own with several.",
)
as_json = _option("json", "--json", is_flag=True, help="Print one JSON document for scripts.")
assume_yes = _option("yes", "-y", "--yes", is_flag=True, help="Go ahead without asking.")
verbose = _option(
    "verbose",
    "-v",
    "--verbose",
    is_flag=True,
    help="Show every resource and every message of the engine.",
)
no_tunnel = click.option(
    "--no-tunnel", is_flag=True, help="Reach the endpoint at its own address, or not at all."
)
pass_invocation = click.make_pass_decorator(Invocation, ensure=True)


class Commands(ExampleGroup):
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


class Since(click.ParamType[timedelta | datetime]):
    """From when on: an age such as ``2h``, or a time, which is in UTC unless it says otherwise."""

    name = "since"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> timedelta | datetime:
        """The age, or the time.

        Raises:
            click.BadParameter: it is neither.
        """
        from tpuflex.duration import parse_duration

        if isinstance(value, timedelta | datetime):
            return value
        try:
            return parse_duration(value)
        except ValueError:
            pass
        try:
            time = datetime.fromisoformat(value)
        except ValueError:
            self.fail(
                f"{value!r} is neither an age, such as 2h or 7d, nor a time, such as 2026-11-28 or"
                " 2026-11-28T03:00Z.",
                param,
                ctx,
            )
        return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


def since(things: str, default: str | None = None) -> Callable[[F], F]:
    """The option ``--since``; what it says is read by :func:`begin`.

    Args:
        things: what is shown, which begins its help.
        default: its default, such as ``24h``.
    """
    return click.option(
        "--since",
        type=Since(),
        metavar="AGE|TIME",
        default=default,
        show_default=default is not None,
        help=f"{things} since: an age such as 2h or 7d, or a time such as 2026-11-28T03:00Z.",
    )


def begin(since: timedelta | datetime, now: datetime) -> datetime:
    """From when on, where ``since`` is what the option says."""
    if isinstance(since, datetime):
        return since
    try:
        return now - since
    except OverflowError:
        return datetime.min.replace(tzinfo=UTC)


@contextmanager
def until_interrupted() -> Iterator[None]:
    """End as Ctrl-C ends a program, saying nothing: what runs in the block has no other end."""
    try:
        yield
    except KeyboardInterrupt:
        raise SystemExit(InterruptedByUser.exit_code) from None


def watch_every(seconds: float) -> Callable[[F], F]:
    """The option ``--watch``, for :func:`watch`; by default every so many ``seconds``."""
    return click.option(
        "--watch",
        "seconds",
        type=FiniteRange(1, 86_400),
        is_flag=False,
        flag_value=seconds,
        metavar="[SECONDS]",
        help=f"Look again every so many seconds, until Ctrl-C.  [{seconds:g}, if not given]",
    )


class _Document(Protocol):
    def to_json(self) -> dict[str, object]:
        """What ``--json`` prints."""


Look = TypeVar("Look", bound=_Document)


def watch(output: Output, looks: Generator[Look], show: Callable[[Look], None]) -> Look:
    """Show each of ``looks`` with ``show``, until Ctrl-C; the last one.

    Raises:
        KeyboardInterrupt: before the first one.
    """
    last: Look | None = None
    try:
        with closing(looks) as found:
            for look in found:
                if output.json:
                    output.record(look.to_json())
                elif sys.stdout.isatty():
                    click.clear()
                elif last is not None:
                    output.result()
                show(look)
                last = look
    except KeyboardInterrupt:
        if last is None:
            raise
    assert last is not None  # noqa: S101 - there is no end without a look
    return last


class Tokens(click.IntRange):
    """A number of tokens, also as vLLM reads it: 16K is 16,384, and 16k is 16,000."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number.

        Raises:
            click.BadParameter: it is none, or is not in the range.
        """
        from tpuflex.catalog.flags import suffixed_number

        number = suffixed_number(value) if isinstance(value, str) else None
        return int(super().convert(value if number is None else number, param, ctx))


def sha256(_ctx: click.Context, _parameter: click.Parameter, value: str) -> str:
    """Callback of an option that takes a SHA-256, or nothing.

    Raises:
        click.BadParameter: it is none.
    """
    if value and not re.fullmatch("[0-9a-f]{64}", value):
        raise click.BadParameter("a SHA-256 has 64 hex digits, in lower case.")
    return value


class FiniteRange(click.FloatRange):
    """A range of numbers; ``nan`` compares with nothing, and so is in every ``FloatRange``."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The number.

        Raises:
            click.BadParameter: it is none, is not finite, or is not in the range.
        """
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number
