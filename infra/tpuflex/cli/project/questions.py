"""Questions to the user, and what takes their place where nobody can be asked."""

from __future__ import annotations

import sys
from collections.abc import Callable

import click

from pulumi_plugin.printable import printable


class Questions:
    """Asks on a terminal; otherwise takes defaults, or collects what is missing.

    Args:
        defaults: whether to take defaults without asking (``--yes``).
    """

    def __init__(self, *, defaults: bool) -> None:
        self._defaults = defaults
        self._terminal = sys.stdin.isatty()
        self._missing: list[str] = []

    def ask(
        self,
        option: str,
        given: str | None,
        question: str,
        *,
        default: Callable[[], str | None] = lambda: None,
        choices: tuple[str, ...] = (),
    ) -> str:
        """What was given for ``option``, else the answer to ``question``, else the default.

        Empty where there is none of them; :meth:`require` then says so.
        """
        if given is not None:
            return given
        proposed = default()
        if self._defaults and proposed is not None:
            return proposed
        if self._terminal and not self._defaults:
            kind = click.Choice(choices) if choices else None
            shown = None if proposed is None else printable(proposed)
            return str(click.prompt(printable(question), default=shown, type=kind, err=True))
        self._missing.append(option if proposed is None else f"{option} (--yes: {proposed})")
        return ""

    def require(self) -> None:
        """Check that every question has an answer.

        Raises:
            click.UsageError: some have none; names the options.
        """
        if self._missing:
            where = "" if self._defaults else "There is no terminal to ask on. "
            raise click.UsageError(f"{where}Give {', '.join(self._missing)}.")
