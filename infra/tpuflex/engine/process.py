"""The engine as a child process that gets a terminal's Ctrl-C exactly once, through us.

The Automation API starts the engine in the terminal's foreground group, where Ctrl-C would
reach it directly and once more through the API's caller: the second one makes it drop what
it is doing. Here the engine has a session of its own and gets one SIGINT, which means
"finish the calls in flight, keep the state"; a second Ctrl-C ends it at once.
"""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from types import FrameType
from typing import Any

from pulumi.automation import CommandResult, PulumiCommand
from pulumi.automation.errors import create_command_error
from semver import VersionInfo

from tpuflex.engine.environment import without_scheme

OnOutput = Callable[[str], Any]

#: Seconds that the main thread sleeps at a time, at most, while the engine runs.
_LOOK_S = 0.5


class EngineProcess(PulumiCommand):
    """Runs the engine's command line for the Automation API.

    Attributes:
        cancelled: set on the first Ctrl-C; work done for the engine in this process stops too.
        stderr: what the last command printed to standard error.
    """

    def __init__(self, path: Path, version: str, environ: Mapping[str, str]) -> None:
        # Not calling the base: it would start the engine once only to ask for its version.
        self.command = str(path)
        self.version = VersionInfo.parse(version)
        self.cancelled = threading.Event()
        self.stderr = ""
        self._environ = without_scheme(environ)
        self._child: subprocess.Popen[str] | None = None

    def run(
        self,
        args: list[str],
        cwd: str,
        additional_env: Mapping[str, str],
        on_output: OnOutput | None = None,
        on_error: OnOutput | None = None,
    ) -> CommandResult:
        """Run one command to its end.

        Raises:
            CommandError: its exit code was not 0.
        """
        options = args[: args.index("--")] if "--" in args else args
        added = [] if "--non-interactive" in options else ["--non-interactive"]
        with subprocess.Popen(
            [self.command, *added, *args],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env={**self._environ, **additional_env, "PULUMI_AUTOMATION_API": "true"},
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        ) as child:
            self._child = child
            try:
                stdout, self.stderr = _drain(child, on_output, on_error)
            finally:
                self._child = None
        result = CommandResult(stdout=stdout, stderr=self.stderr, code=child.returncode)
        if child.returncode != 0:
            raise create_command_error(result)
        return result

    @contextmanager
    def interruptible(self, say: Callable[[str], None]) -> Iterator[None]:
        """While inside, the first Ctrl-C (or SIGTERM) cancels the engine and the second ends it."""
        if threading.current_thread() is not threading.main_thread():
            yield  # signals belong to the main thread
            return

        asked: SimpleQueue[bool] = SimpleQueue()

        def handle(_signal: int, _frame: FrameType | None) -> None:
            # Nothing else: a second signal may come while this runs, and whatever takes a lock or
            # prints would wait for itself. `put` is made for that:
            # https://docs.python.org/3/library/queue.html#queue.SimpleQueue.put
            asked.put(True)

        previous = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        obeying = threading.Thread(target=self._obey, args=(asked, say), daemon=True)
        obeying.start()
        for number in previous:
            signal.signal(number, handle)
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)
            asked.put(False)
            obeying.join()

    def _obey(self, asked: SimpleQueue[bool], say: Callable[[str], None]) -> None:
        """Cancel the engine when asked, and end it when asked again; until nobody asks any more."""
        while asked.get():
            if self.cancelled.is_set():
                say("Ending the engine now.")
                self.kill()
            else:
                self.cancelled.set()
                say("Stopping after the calls in flight (Ctrl-C again ends at once) …")
                self.interrupt()

    def interrupt(self) -> None:
        """Ask the engine to stop after the calls in flight."""
        child = self._child
        if child is not None and child.poll() is None:
            child.send_signal(signal.SIGINT)

    def kill(self) -> None:
        """End the engine and the plugins that it started (each is its own process group)."""
        import psutil

        child = self._child
        if child is None or child.poll() is not None:
            return
        try:
            family = psutil.Process(child.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return
        child.kill()
        for process in family:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue


def _drain(
    child: subprocess.Popen[str], on_output: OnOutput | None, on_error: OnOutput | None
) -> tuple[str, str]:
    """Read both streams to their ends and wait for the exit."""
    if child.stdout is None or child.stderr is None:
        raise ValueError("the child was started without pipes")
    lines: tuple[list[str], list[str]] = ([], [])
    readers = [
        threading.Thread(target=_read, args=(stream, callback, kept), daemon=True)
        for stream, callback, kept in (
            (child.stdout, on_output, lines[0]),
            (child.stderr, on_error, lines[1]),
        )
    ]
    for reader in readers:
        reader.start()
    _wait(child)
    for reader in readers:
        # A plugin that outlives the engine would hold the pipe open: do not wait for it.
        reader.join(5)
    return "\n".join(lines[0]), "\n".join(lines[1])


def _wait(child: subprocess.Popen[str]) -> None:
    """Wait for the exit, and look up now and then. A signal that comes while another is pending may
    be caught by another thread; its handler runs in this one, and only once it is awake
    (https://docs.python.org/3/library/signal.html#execution-of-python-signal-handlers). Popen's own
    wait with a timeout looks every 50 ms; another thread's is told at once."""
    waiter = threading.Thread(target=child.wait, daemon=True)
    waiter.start()
    while waiter.is_alive():
        waiter.join(_LOOK_S)


def _read(stream: Any, callback: OnOutput | None, kept: list[str]) -> None:
    for line in iter(stream.readline, ""):
        text = line.rstrip()
        kept.append(text)
        if callback:
            callback(text)
