"""One command's work on a Pulumi stack through the engine, with its progress shown."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tpuflex.engine.commands import Target
from tpuflex.engine.failure import ProgramFailures
from tpuflex.engine.find import ensure
from tpuflex.engine.gcp_plugin import require_pinned_plugin
from tpuflex.engine.run import EngineRun
from tpuflex.errors import ServiceDisabledError
from tpuflex.stack.progress import EngineBegan, EngineEnded, Report, silent

if TYPE_CHECKING:
    from tpuflex.engine.events import RunProgress
    from tpuflex.google.timing import Settling, Timing
    from tpuflex.stack.connection import Connection

T = TypeVar("T")
#: Seconds before the engine is run again.
PAUSE = 15.0


@dataclass(frozen=True, slots=True)
class Workplace:
    """Where the engine works.

    Attributes:
        root: directory of the project file.
        stack: the stack's name.
        environ: the environment that it runs with.
    """

    root: Path
    stack: str
    environ: Mapping[str, str] = field(repr=False)


class EngineWork(ABC):
    """One command's work on a stack.

    Attributes:
        cloud: the cloud of the stack file that the command is about.
        report: takes what there is to tell.
        failures: what the program has failed with.
    """

    def __init__(self, cloud: Connection, report: Report = silent) -> None:
        self.cloud = cloud
        self.report = report
        self.failures = ProgramFailures()
        self._changing = False

    @abstractmethod
    def place(self) -> Workplace:
        """Where the engine works; made if it has to be."""

    @abstractmethod
    def program(self) -> None:
        """The Pulumi program, run by the engine in this process."""

    @cached_property
    def target(self) -> Target:
        """The engine's executable, and the stack that it works on.

        Raises:
            TpuflexError: there is no engine, or no pinned plugin.
        """
        project = self.cloud.stack.project
        engine = ensure(project.home, self.cloud.environ, self.report)
        place = self.place()
        if not self.cloud.stack.embedded:
            root, home = project.root, project.home
            require_pinned_plugin(root, home, engine.path, place.environ, self.report)
        return Target(root=place.root, stack=place.stack, engine=engine, environ=place.environ)

    @cached_property
    def engine(self) -> EngineRun:
        """The engine on that stack."""
        return EngineRun(self.target, self.program, failures=self.failures, listener=self.listen)

    @contextmanager
    def changing(self, total: int) -> Iterator[None]:
        """While inside, the engine changes ``total`` resources, and tells how far it is."""
        self.report(EngineBegan(total, lambda: self.engine.cancelled))
        self._changing = True
        try:
            yield
        finally:
            self._changing = False
            self.report(EngineEnded())

    def listen(self, progress: RunProgress) -> None:
        """Take what the engine tells."""
        if self._changing:
            self.report(progress)

    def retry_while_settling(self, run: Callable[[], T]) -> T:
        """What ``run`` returns, as :func:`retry_while_settling`."""
        return retry_while_settling(run, self.cloud.settling, self.cloud.timing, self.report)


def retry_while_settling(
    run: Callable[[], T], settling: Settling, timing: Timing, say: Callable[[str], None]
) -> T:
    """What ``run`` returns. While APIs settle, it is run again if one of them refuses: each has
    answered before the engine starts (:mod:`tpuflex.google.enable_apis`), and may refuse once more,
    from another of Google's machines. Our own clients then ask again, and the gcp plugin does not.

    Args:
        run: runs the engine.
        settling: until when a refusal is worth another run.
        timing: clock and pauses.
        say: takes a line of progress.

    Raises:
        TpuflexError: what ``run`` raises; an API that refuses, once all have settled.
    """
    while True:
        try:
            return run()
        except ServiceDisabledError:
            if timing.monotonic() + PAUSE > settling.until:
                raise
            say(
                "An API that was enabled a moment ago refused once more:"
                f" going on in {PAUSE:.0f} s …"
            )
            if timing.pause(PAUSE):
                raise
