"""The command line, typed in a project of its own."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from embedded_cloud.core.clock import ManualClock
from embedded_cloud.server import EmbeddedCloud
from tests.cli.typing import NOON, Captured, Typed, TypeIn
from tpuflex.cli.invocation import Invocation
from tpuflex.cli.main import run
from tpuflex.project import open_project
from tpuflex.stack.connection import Connection
from tpuflex.stack.stack import Stack, read_stack


@pytest.fixture
def new(tmp_path: Path) -> Path:
    """A directory that is not there yet."""
    return tmp_path / "demo"


@pytest.fixture
def stack(project: Path) -> Stack:
    """The stack of that project."""
    return read_stack(open_project(project, {}), "dev")


@pytest.fixture
def invocation() -> Invocation:
    """How steps are called, at noon."""
    return Invocation(environ={}, now=lambda: NOON)


@pytest.fixture
def cloud(tmp_path: Path, stack: Stack) -> Iterator[Connection]:
    """The stack's cloud, which has no host, at noon."""
    with EmbeddedCloud(
        tmp_path / "emulator", project=stack.settings.project, clock=ManualClock(NOON.timestamp())
    ) as running:
        yield Connection(stack, dict(running.environ()))


@pytest.fixture
def type_in(project: Path, capsys: Captured) -> TypeIn:
    """Type a command in the project, at noon."""

    def type_words(*words: str, **environ: str) -> Typed:
        variables = {"PATH": os.environ["PATH"], "HOME": str(project), **environ}
        invocation = Invocation(environ=variables, now=lambda: NOON)
        code = run(["-C", str(project), *words], invocation)
        captured = capsys.readouterr()
        return Typed(code, captured.out, captured.err)

    return type_words


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Sit at a terminal and type these lines."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    def lines(*answers: str) -> None:
        monkeypatch.setattr("sys.stdin", Terminal("".join(f"{line}\n" for line in answers)))

    return lines
