"""The project that a server was started in: its stacks, opened as a command opens them.

A caller names stacks, and never a directory: what it names has to be in this project.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from tpuflex.diagnosis.scrubber import Scrubber, scrubber_of, secrets_in
from tpuflex.errors import NotFoundError
from tpuflex.project import open_project
from tpuflex.stack.connection import Connection, connect
from tpuflex.stack.opening import open_deployed, open_stack
from tpuflex.stack.progress import Report, silent

if TYPE_CHECKING:
    from tpuflex.project import Project
    from tpuflex.stack.stack import Stack

#: Where benchmarks are kept, in the project.
BENCHMARKS = "bench"


@dataclass(frozen=True)
class Workspace:
    """The project, and how its stacks are opened.

    Attributes:
        root: the project's directory.
        default_stack: the stack of a call that names none.
        environ: the environment that the server was started in.
        report: takes the progress of what is called.
        now: the time by this machine's clock.
        engine: held while the engine runs in this process, which can run one program at a time.
        connector: connects to the cloud of a stack, as :func:`tpuflex.stack.connection.connect`.
        command: what runs tpuflex as a process of its own.
    """

    root: Path
    default_stack: str
    environ: Mapping[str, str] = field(repr=False)
    report: Report = silent
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    engine: threading.Lock = field(default_factory=threading.Lock)
    connector: Callable[..., Connection] = connect
    command: tuple[str, ...] = (sys.executable, "-P", "-m", "tpuflex")

    @property
    def project(self) -> Project:
        """The project, as it is now.

        Raises:
            TpuflexError: it is gone, or others could change it.
        """
        return open_project(self.root, self.environ)

    def stack_name(self, asked: str | None) -> str:
        """The stack that is ``asked`` for, which has a stack file in the project.

        Raises:
            NotFoundError: it has none.
        """
        name = asked or self.default_stack
        names = self.project.stack_names()
        if name not in names:
            raise NotFoundError(
                f"There is no stack {name!r} in this project.",
                hint=f"Its stacks: {', '.join(names) or 'none; `tpuflex init` makes one'}.",
            )
        return name

    def planned(self, asked: str | None) -> Stack:
        """The stack as its file says, for what is computed from the catalog."""
        name = self.stack_name(asked)
        return open_stack(
            self.root, name, self.environ, self.report, deploying=False, by_catalog=True
        )

    def connected(self, stack: Stack, *, start: bool = False) -> Connection:
        """The cloud of ``stack``; the embedded one is started only if ``start`` says so."""
        return self.connector(stack, self.environ, self.report, start=start)

    def deployed(self, asked: str | None) -> Connection:
        """The cloud of a stack that may be up; a cloud that does not run is not started."""
        stack = open_deployed(self.root, self.stack_name(asked), self.environ, self.report)
        return self.connected(stack)

    def scrubber(self, asked: str | None) -> Scrubber:
        """What removes the secrets of a stack, as far as they can be read, and what looks like
        one."""
        try:
            return scrubber_of(self.deployed(asked))[0]
        except Exception:  # an answer is given all the same, without the secrets of this shell
            return Scrubber(secrets_in(self.environ))

    def opened(self, name: str) -> Stack:
        """The stack ``name`` as a whole, by its file or by its state."""
        return open_deployed(self.root, name, self.environ, self.report, of_stack=True)

    def deployable(self, asked: str | None) -> Connection:
        """The cloud of a stack that is to be deployed."""
        stack = open_stack(self.root, self.stack_name(asked), self.environ, self.report)
        return self.connected(stack, start=True)

    def torn_down(self, asked: str | None) -> Connection:
        """The cloud of a stack as a whole, to be torn down."""
        return self.connected(self.opened(self.stack_name(asked)), start=True)

    def benchmark(self, name: str) -> Path:
        """The file ``name`` of the project's benchmarks.

        Raises:
            NotFoundError: there is none of that name.
        """
        files = benchmark_files(self.root)
        if name not in files:
            have = ", ".join(files) or "none; `run_benchmark` makes one"
            raise NotFoundError(
                f"There is no benchmark {name!r} in {BENCHMARKS}/.", hint=f"There is: {have}."
            )
        return files[name]


def benchmark_files(root: Path) -> dict[str, Path]:
    """What is kept in the project's directory of benchmarks, by name: regular files, no links, and
    no name that cannot be shown as it is, such as one that is no UTF-8."""
    directory = root / BENCHMARKS
    if directory.is_symlink() or not directory.is_dir():
        return {}
    named = (each for each in sorted(directory.iterdir()) if each.name.isprintable())
    found = (each for each in named if not each.name.startswith(".") and not each.is_symlink())
    return {each.name: each for each in found if each.is_file()}
