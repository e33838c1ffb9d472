"""The SSH server of an emulated host: keys of OS Login, forwarding, a shell, and commands.

It stands for the host's sshd, as far as tpuflex and its user need it. OS Login's second factors and
certificates are not emulated: they are a conversation between Google's PAM module, its servers and
the user's telephone or security key, of which nothing passes through tpuflex but the terminal.

`cat`, and `sudo tail` of the startup script's log, need no host that runs; all else does.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import os
import shlex
import signal
import socket
import struct
import termios
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import asyncssh
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from embedded_cloud.machines.hosts.shell import HostShell
from embedded_cloud.machines.hosts.spec import HostSpec
from pulumi_plugin.peer import require_owner


def key_purpose(spec: HostSpec) -> str:
    """What the secret of a host's key is for, as `Access.secret` takes it."""
    return f"ssh:{spec.key}"


def host_key(secret: str) -> Ed25519PrivateKey:
    """A host's key, the same for the same secret."""
    return Ed25519PrivateKey.from_private_bytes(hashlib.sha256(secret.encode()).digest())


def public_text(key: Ed25519PrivateKey) -> str:
    """The public half as the guest agent publishes it: base64, without the type."""
    line = key.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    return line.decode().split()[1]


_PIECE = 16 * 1024
#: What a shell answers for what it cannot run.
_NOT_RUN = 126
_END_OF_INPUT = b"\x04"
_GONE_WITHIN_S = 5.0


class ShellSession:
    """A shell, or a command that it runs, for a client.

    Args:
        shell: how it is started.
        command: what it runs; empty for a shell that reads commands.
    """

    def __init__(self, shell: HostShell, command: str = "") -> None:
        self._shell = shell
        self._command = command

    async def run(self, process: Any) -> None:
        """Run it for the client of ``process``, to its end."""
        if not self._command:
            process.stderr.write(self._shell.banner)
        if process.term_type:
            await self._in_terminal(process)
        else:
            await self._on_pipes(process)

    async def _on_pipes(self, process: Any) -> None:
        pipe = asyncio.subprocess.PIPE
        words = self._shell.words_of(self._command)
        child = await self._start(words, stdin=pipe, stdout=pipe, stderr=pipe)
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
            environment = {**self._shell.environment, "TERM": process.term_type}
            words = ("setsid", "--ctty", *self._shell.words_of(self._command, terminal=True))
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
            *words, env=environment or self._shell.environment, **ends
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


_LOCAL = frozenset({"127.0.0.1", "localhost"})
_ACCEPTED_WITHIN_S = 5.0
#: What OS Login asks of a user who logs in, and of one who uses `sudo`
#: (https://cloud.google.com/compute/docs/oslogin/set-up-oslogin#configure_users).
_LOG_IN = "compute.instances.osLogin"
_LOG_IN_AS_ADMINISTRATOR = "compute.instances.osAdminLogin"
_LOG = "/var/log/tpuflex/startup.log"


class HostSsh(asyncssh.SSHServer):  # type: ignore[misc]  # treated as untyped, see pyproject.toml
    """One connection to a host's SSH server.

    Args:
        spec: the host.
        address: the address that clients know it by.
        root: its file system.
        keys_of: the keys that OS Login knows of a user, by their name on the host.
        key: its own key.
        missing: the permissions that the caller lacks: OS Login asks for one of two.
    """

    def __init__(
        self,
        spec: HostSpec,
        *,
        address: str,
        root: Path,
        keys_of: Callable[[str], Sequence[str]],
        key: Ed25519PrivateKey,
        missing: Collection[str] = (),
    ) -> None:
        self._spec = spec
        self._names = _LOCAL | {address}
        self._root = root
        self._keys_of = keys_of
        self._key = key
        self._missing = missing
        self._tasks: set[asyncio.Task[Any]] = set()

    def serve(self, connection: socket.socket) -> None:
        """Serve the client at the other end of ``connection``."""
        pem = self._key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.OpenSSH,
            serialization.NoEncryption(),
        )

        async def run() -> None:
            served = await asyncssh.run_server(
                connection,
                config=None,
                server_factory=lambda: self,
                server_host_keys=[asyncssh.import_private_key(pem)],
                process_factory=self._command,
                encoding=None,
                line_editor=False,
            )
            await served.wait_closed()

        task = asyncio.create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._served)

    def _served(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # a client that has gone: nobody is there to be told

    def begin_auth(self, username: str) -> bool:
        """Nobody is let in without a key."""
        del username
        return True

    def public_key_auth_supported(self) -> bool:
        """Keys are the only way."""
        return True

    def validate_public_key(self, username: str, key: Any) -> bool:
        """Whether OS Login knows ``key`` as one of ``username``."""
        if {_LOG_IN, _LOG_IN_AS_ADMINISTRATOR} <= set(self._missing):
            return False
        known = (self._public_data(text) for text in self._keys_of(username))
        return key.public_data in known

    def connection_requested(
        self, dest_host: str, dest_port: int, orig_host: str, orig_port: int
    ) -> Any:
        """Forward to a port of this host, by any of its names, and nowhere else."""
        del orig_host, orig_port
        if dest_host not in self._names:
            return False

        async def forward(reader: Any, writer: Any) -> None:
            try:
                there = await asyncio.open_connection(self._spec.address, dest_port)
            except OSError:
                writer.close()
                return
            try:
                await asyncio.to_thread(
                    require_owner, there[1].get_extra_info("socket"), within=_ACCEPTED_WITHIN_S
                )
                await asyncio.gather(_copy(reader, there[1]), _copy(there[0], writer))
            except OSError:
                pass
            finally:
                there[1].close()
                writer.close()

        return forward

    async def _command(self, process: Any) -> None:
        try:
            words = shlex.split(process.command or "")
        except ValueError:
            words = []
        match words:
            case ["cat"]:
                await _copy(process.stdin, process.stdout)
                process.exit(0)
            case ["sudo", *_] if _LOG_IN_AS_ADMINISTRATOR in self._missing:
                process.stderr.write(b"sudo: a password is required\n")
                process.exit(1)
            case ["sudo", "tail", "-n", lines, *follow, path] if (
                lines.isdecimal() and follow in ([], ["-F"]) and path == _LOG
            ):
                await self._tail(process, ("-n", lines, *follow))
            case _:
                await self._shell(process)

    async def _shell(self, process: Any) -> None:
        shell = HostShell.of(
            self._root.parent,
            self._spec.name,
            sudo=_LOG_IN_AS_ADMINISTRATOR not in self._missing,
        )
        if shell is None:
            refuse(process)
        else:
            await ShellSession(shell, process.command or "").run(process)

    async def _tail(self, process: Any, options: tuple[str, ...]) -> None:
        log = self._root / _LOG.removeprefix("/")
        tail = await asyncio.create_subprocess_exec(
            "tail",
            *options,
            str(log),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        if tail.stdout is None:
            raise RuntimeError("tail has no output")
        closed = asyncio.create_task(process.wait_closed())
        copied = asyncio.create_task(_copy(tail.stdout, process.stdout))
        await asyncio.wait((closed, copied), return_when=asyncio.FIRST_COMPLETED)
        if tail.returncode is None and closed.done():
            tail.kill()
        code = await tail.wait()
        for task in (closed, copied):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, OSError):
                await task
        with contextlib.suppress(OSError):
            process.exit(code)

    @staticmethod
    def _public_data(text: str) -> bytes | None:
        try:
            data: bytes = asyncssh.import_public_key(text).public_data
        except asyncssh.KeyImportError:
            return None
        return data


async def _copy(reader: Any, writer: Any) -> None:
    """Everything from ``reader`` to ``writer``, its end too."""
    try:
        while chunk := await reader.read(_PIECE):
            writer.write(chunk)
            await writer.drain()
        writer.write_eof()
    except (OSError, asyncssh.Error):
        writer.close()
