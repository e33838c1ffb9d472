"""The options of one run of the command line, and where it reads and writes."""

from __future__ import annotations

import os
import sys
import termios
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pulumi_plugin.printable import printable
from tpuflex.terminal.output import Output

if TYPE_CHECKING:
    from tpuflex.catalog.catalog import Catalog
    from tpuflex.project import Project
    from tpuflex.settings.opened import OpenedConfig
    from tpuflex.stack.connection import Connection
    from tpuflex.stack.progress import Consent, Question
    from tpuflex.stack.stack import Stack
    from tpuflex.terminal.progress import Display


@dataclass
class Invocation:
    """The options of this run.

    Attributes:
        environ: the process environment, read once.
        now: the time by this machine's clock; where a stack runs, its cloud has one of its own.
        directory: the project's directory, or one below it.
        chosen_stack: the value of ``--stack``, or empty.
        endpoint: the value of ``--endpoint``, or empty.
        json: print one JSON document on standard output.
        yes: do not ask for consent.
        verbose: show every resource and every message.
    """

    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ), repr=False)
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    directory: Path = field(default_factory=Path)
    chosen_stack: str = ""
    endpoint: str = ""
    json: bool = False
    yes: bool = False
    verbose: bool = False

    @property
    def stack(self) -> str:
        """The stack: ``--stack``, ``$TPUFLEX_STACK``, or ``dev``."""
        from tpuflex.naming import unnamed_stack

        return self.chosen_stack or unnamed_stack(self.environ)

    @property
    def rehearsing(self) -> bool:
        """Whether this run is a rehearsal: no API of Google is called."""
        from tpuflex.google.endpoints import rehearses

        return rehearses(self.environ)

    @cached_property
    def output(self) -> Output:
        """Where results and progress go."""
        return Output(
            json=self.json,
            verbose=self.verbose,
            stack=self.stack,
            environ=self.environ,
            rehearsing=self.rehearsing,
        )

    @cached_property
    def report(self) -> Display:
        """Shows what functions tell while they work."""
        from tpuflex.terminal.progress import Display

        return Display(self.output)

    @property
    def consent(self) -> Consent:
        """Asks on standard error; with ``--yes``, goes ahead unasked."""
        from tpuflex.stack.progress import agree

        return agree if self.yes else self._ask

    def _ask(self, question: Question) -> bool:
        """The answer on standard error.

        Raises:
            click.Abort: Ctrl-C, or the end of the input.
            click.UsageError: there is no terminal to ask on.
        """
        if not sys.stdin.isatty():
            raise click.UsageError("There is no terminal to ask on: add --yes to go ahead.")
        _forget_typed()
        text = printable(question.text)
        if not question.expected:
            return click.confirm(text, err=True)
        answer = click.prompt(text, err=True, default="", show_default=False)
        return bool(answer == question.expected)

    @cached_property
    def project(self) -> Project:
        """The project that the directory belongs to.

        Raises:
            NotFoundError: there is no project.
        """
        from tpuflex.project import open_project

        return open_project(self.directory, self.environ)

    @cached_property
    def catalog(self) -> Catalog:
        """The catalog with the rows of the project's catalog.yaml, if there is a project with one;
        a stack may have more (:attr:`StackSettings.catalog`).

        Raises:
            AccessError: others could change the project.
            SettingsError: a row is wrong.
        """
        from tpuflex.catalog import USER_FILE
        from tpuflex.catalog.catalog import builtin
        from tpuflex.project import PULUMI_FILE, project_root

        root = project_root(self.directory)
        if not (root / USER_FILE).exists() or not (root / PULUMI_FILE).is_file():
            return builtin()
        from tpuflex.settings.read import load_catalog

        return load_catalog(self.project.root)

    @cached_property
    def home(self) -> Path:
        """The state directory, of the project if there is one.

        Raises:
            AccessError: others could change it, or the project.
        """
        from tpuflex.project import own_home

        return own_home(self.directory, self.environ)

    def open_stack(
        self, *, deploying: bool = True, by_catalog: bool = False, files_later: bool = False
    ) -> Stack:
        """Read the stack file; commands that do not deploy it read one that cannot be deployed.

        Args:
            deploying: as for :func:`tpuflex.settings.load.load_stack_file`.
            by_catalog: whether the command's answer comes from the catalog, so that a wrong row
                is an error all the same.
            files_later: whether the command reads files of the model that are elsewhere.

        Raises:
            NotFoundError: no project, or no such stack.
            SettingsError: the stack file is wrong.
        """
        with self._opening():
            from tpuflex.stack.opening import open_stack

            return open_stack(
                self.directory,
                self.stack,
                self.environ,
                self.report,
                deploying=deploying,
                by_catalog=by_catalog,
                files_later=files_later,
            )

    def open_deployed(self, *, of_stack: bool = False, wrong_file: bool = True) -> Stack:
        """Open the stack, or its endpoint that ``--endpoint`` names, by its file or by its state;
        as :func:`tpuflex.stack.opening.open_deployed`."""
        stack = self._deployed(self.stack, of_stack=of_stack, wrong_file=wrong_file)
        self.output.own_program = stack.own_program
        return stack

    def open_named(self, name: str) -> Stack:
        """Open the stack ``name``, as a whole, by its file or by its state."""
        return self._deployed(name, of_stack=True)

    def _deployed(self, name: str, *, of_stack: bool, wrong_file: bool = True) -> Stack:
        from tpuflex.stack.opening import open_deployed

        return open_deployed(
            self.directory,
            name,
            self.environ,
            self.output.progress,
            endpoint=self.endpoint,
            of_stack=of_stack,
            wrong_file=wrong_file,
        )

    def _opening(self) -> AbstractContextManager[None]:
        """While inside, a terminal shows a clock: what is loaded takes a second, too."""
        from tpuflex.stack.progress import working

        return working(self.report, f"Opening stack {self.stack}")

    def connect(self, stack: Stack, *, start: bool = True) -> Connection:
        """Connect to the cloud of ``stack``; as :func:`tpuflex.stack.connection.connect`."""
        with self._opening():
            from tpuflex.stack.connection import connect

            return connect(stack, self.environ, self.report, start=start)

    def opened_config(self, stack: str) -> OpenedConfig:
        """What the engine knows of ``stack``, environments of Pulumi ESC included.

        Raises:
            TpuflexError: it cannot open them.
        """
        from tpuflex.stack.opening import opened_config

        return opened_config(self.project, stack, self.environ, self.output.progress)


def _forget_typed() -> None:
    """Forget what was typed before the question stood there: it is no answer to it."""
    with suppress(termios.error, OSError, ValueError):
        termios.tcflush(sys.stdin, termios.TCIFLUSH)
