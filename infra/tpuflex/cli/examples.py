"""Commands whose help ends with examples; a test parses each of them as the command line would."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from tpuflex.errors import UsageError

#: What stands between a line for a shell and what it is for.
_COMMENT = "  # "


def _write(formatter: click.HelpFormatter, examples: Sequence[str]) -> None:
    """Write the section: a line each, to be copied, however narrow the terminal is."""
    parted = [example.partition(_COMMENT) for example in examples]
    width = max((len(line) for line, mark, _ in parted if mark), default=0)
    with formatter.section("Examples"):
        for line, mark, purpose in parted:
            shown = f"{line:{width}}{mark}{purpose}" if mark else line
            formatter.write(f"{'':{formatter.current_indent}}{shown}\n")


class ExampleCommand(click.Command):
    """A command with examples.

    Args:
        examples: lines for a shell, the most usual first; what one is for may follow after
            two spaces and ``#``.
    """

    def __init__(self, *args: Any, examples: Sequence[str], **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.examples = tuple(examples)

    def invoke(self, ctx: click.Context) -> Any:
        """Run it.

        Raises:
            click.UsageError: the options say too little, or contradict each other.
        """
        try:
            return super().invoke(ctx)
        except UsageError as error:
            if error.option:
                hint = f"'{error.option}'"
                raise click.BadParameter(str(error), ctx, param_hint=hint) from error
            raise click.UsageError(str(error), ctx) from error

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples after the options."""
        super().format_epilog(ctx, formatter)
        _write(formatter, self.examples)


class ExampleGroup(click.Group):
    """A group with examples, whose commands have some, too.

    Args:
        examples: as of :class:`ExampleCommand`.
    """

    command_class = ExampleCommand

    def __init__(self, *args: Any, examples: Sequence[str], **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.examples = tuple(examples)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples after the commands."""
        super().format_epilog(ctx, formatter)
        _write(formatter, self.examples)
