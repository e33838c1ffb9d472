"""A shell on an emulated host, for whoever has come through its SSH server.

It has the environment of the host's first process, and its mounts. It is a shell of the machine's
user all the same: the banner says so.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
import struct
import termios
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncssh

_PIECE = 16 * 1024
_BASH = ("bash", "--noprofile", "--norc")
#: What a shell answers for what it cannot run.
_NOT_RUN = 126
_END_OF_INPUT = b"\x04"
_GONE_WITHIN_S = 5.0
#: Set for one who may not use `sudo`: see the command of that name of a host.
NO_SUDO_VARIABLE = "TPUFLEX_NO_SUDO"


@dataclass(frozen=True, slots=True)
class HostShell:
    """How a shell of a host is started.

    Attributes:
        words: the command, in the host's namespaces.
        environment: its environment.
    """

    words: tuple[str, ...]
    environment: Mapping[str, str]

    @classmethod
    def of(cls, directory: Path, name: str, *, sudo: bool) -> HostShell | None:
        """The shell of the host of ``directory``, called ``name``; None where nothing runs on it.

        Args:
            directory: the host's directory.
            name: what the prompt shows.
            sudo: whether the one who has logged in may use it.
        """
        import psutil  # not needed, and slow to import, without a shell

        from embedded_cloud.hosts.processes import read_record, same_process

        record = read_record(directory / "host.json")
        first = None if record is None else same_process(*record)
        if first is None:
            return None
        try:
            environment = first.environ()
            words = _within(first.pid)
        except (psutil.Error, OSError):
            return None
        environment["PS1"] = f"{name}:\\w\\$ "
        if not sudo:
            environment[NO_SUDO_VARIABLE] = "1"
        # Within: another mount namespace is entered at its root. Signals: a script's `… &` starts
        # the emulator with SIGINT ignored, which a shell and its commands would inherit (POSIX,
        # Shell Command Language, 2.11), and Ctrl-C would do nothing.
        home = ("env", "--default-signal", f"--chdir={environment['HOME']}")
        return cls((*words, *home, *_BASH), environment)

    @property
    def banner(self) -> bytes:
        """What is said first."""
        root = self.environment["TPUFLEX_ROOT"]
        return (
            "This is an emulated host: a shell of this machine, as you. The host's files are below"
            f" {root}.\r\n"
        ).encode()

    async def run(self, process: Any) -> None:
        """Run it for the client of ``process``, to its end."""
        process.stderr.write(self.banner)
        if process.term_type:
            await self._in_terminal(process)
        else:
            await self._on_pipes(process)

    async def _on_pipes(self, process: Any) -> None:
        pipe = asyncio.subprocess.PIPE
        child = await self._start(self.words, stdin=pipe, stdout=pipe, stderr=pipe)
        copies = [
            asyncio.create_task(_to_pipe(process.stdin, child.stdin)),
            asyncio.create_task(_from_pipe(child.stdout, process.stdout)),
            asyncio.create_task(_from_pipe(child.stderr, process.stderr)),
        ]
        await self._end(process, child, copies)

    async def _in_terminal(self, process: Any) -> None:
        ours, theirs = os.openpty()
        try:
            width, height, *_ = process.term_size
            _resize(ours, width, height)
            environment = {**self.environment, "TERM": process.term_type}
            words = ("setsid", "--ctty", *self.words, "-i")
            child = await self._start(
                words, environment, stdin=theirs, stdout=theirs, stderr=theirs
            )
        finally:
            os.close(theirs)
        copies = [
            asyncio.create_task(_to_terminal(process.stdin, ours)),
            asyncio.create_task(_from_terminal(ours, process.stdout)),
        ]
        try:
            await self._end(process, child, copies)
        finally:
            os.close(ours)

    async def _start(
        self, words: tuple[str, ...], environment: Mapping[str, str] | None = None, **ends: Any
    ) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *words, env=environment or self.environment, **ends
        )

    @staticmethod
    async def _end(
        process: Any, child: asyncio.subprocess.Process, copies: list[asyncio.Task[None]]
    ) -> None:
        """Wait for the shell, or for the client to go; then tell how it ended."""
        ended = asyncio.create_task(child.wait())
        closed = asyncio.create_task(process.wait_closed())
        await asyncio.wait((ended, closed), return_when=asyncio.FIRST_COMPLETED)
        if not ended.done():
            with contextlib.suppress(ProcessLookupError):
                child.send_signal(signal.SIGHUP)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(ended), _GONE_WITHIN_S)
            with contextlib.suppress(ProcessLookupError):
                child.kill()
        code = await ended
        # What it wrote last; a process that it has left behind may hold the other end.
        await asyncio.wait(copies[1:], timeout=1.0)
        for task in (closed, *copies):
            task.cancel()
        await asyncio.gather(closed, *copies, return_exceptions=True)
        with contextlib.suppress(OSError):
            process.exit(code if code >= 0 else 128 - code)


def refuse(process: Any) -> None:
    """There is no shell: nothing runs on the host."""
    process.stderr.write(b"nothing runs on this emulated host: it has no shell\r\n")
    process.exit(_NOT_RUN)


def _within(pid: int) -> tuple[str, ...]:
    """What runs a command with the mounts of the process ``pid``."""
    flags = [
        flag
        for kind, flag in (("user", "--user"), ("mnt", "--mount"))
        if not Path(f"/proc/{pid}/ns/{kind}").samefile(f"/proc/self/ns/{kind}")
    ]
    keep = ["--preserve-credentials"] if "--user" in flags else []
    return ("nsenter", f"--target={pid}", *flags, *keep) if flags else ()


def _resize(terminal: int, width: int, height: int) -> None:
    size = struct.pack("HHHH", height or 24, width or 80, 0, 0)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, size)


async def _to_terminal(reader: Any, terminal: int) -> None:
    while True:
        try:
            data = await reader.read(_PIECE)
        except asyncssh.TerminalSizeChanged as change:
            _resize(terminal, change.width, change.height)
            continue
        except (asyncssh.BreakReceived, asyncssh.SignalReceived):
            continue
        except (OSError, asyncssh.Error):
            return
        await asyncio.to_thread(os.write, terminal, data or _END_OF_INPUT)
        if not data:
            return


async def _from_terminal(terminal: int, writer: Any) -> None:
    # The end of a terminal that nobody has open is an error.
    with contextlib.suppress(OSError, asyncssh.Error):
        while data := await _readable(terminal):
            writer.write(data)
            await writer.drain()


async def _readable(terminal: int) -> bytes:
    loop, there = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(terminal, there.set)
    try:
        await there.wait()
    finally:
        loop.remove_reader(terminal)
    return os.read(terminal, _PIECE)


async def _to_pipe(reader: Any, pipe: Any) -> None:
    with contextlib.suppress(OSError, asyncssh.Error):
        while data := await reader.read(_PIECE):
            pipe.write(data)
            await pipe.drain()
    with contextlib.suppress(OSError):
        pipe.close()


async def _from_pipe(pipe: Any, writer: Any) -> None:
    with contextlib.suppress(OSError, asyncssh.Error):
        while data := await pipe.read(_PIECE):
            writer.write(data)
            await writer.drain()
