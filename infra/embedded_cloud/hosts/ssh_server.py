"""The SSH server of an emulated host: keys of OS Login, forwarding, a shell, and two commands.

It stands for the host's sshd, as far as tpuflex and its user need it. OS Login's second factors and
certificates are not emulated: they are a conversation between Google's PAM module, its servers and
the user's telephone or security key, of which nothing passes through tpuflex but the terminal.
"""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import socket
from collections.abc import Collection
from pathlib import Path
from typing import Any

import asyncssh
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from embedded_cloud.hosts.spec import HostSpec
from embedded_cloud.hosts.ssh_shell import HostShell, refuse
from embedded_cloud.oslogin import LoginProfiles
from pulumi_plugin.peer import require_owner

_PIECE = 16 * 1024
_LOCAL = frozenset({"127.0.0.1", "localhost"})
_ACCEPTED_WITHIN_S = 5.0
_NO_COMMAND = (
    b"this emulated host runs a shell, `cat`, and `sudo tail` of the startup script's log\n"
)
#: What OS Login wants of whoever logs in, and of whoever uses `sudo`
#: (https://cloud.google.com/compute/docs/oslogin/set-up-oslogin#configure_users).
_LOG_IN = "compute.instances.osLogin"
_LOG_IN_AS_ADMINISTRATOR = "compute.instances.osAdminLogin"
#: The exit code of a shell for what it cannot run.
_NOT_RUN = 126
_LOG = "/var/log/tpuflex/startup.log"


class HostSsh(asyncssh.SSHServer):  # type: ignore[misc]  # treated as untyped, see pyproject.toml
    """One connection to a host's SSH server.

    Args:
        spec: the host.
        address: the address that clients know it by.
        root: its file system.
        profiles: whose keys it takes.
        key: its own key.
        missing: the permissions that the caller lacks: OS Login asks for one of two.
    """

    def __init__(
        self,
        spec: HostSpec,
        *,
        address: str,
        root: Path,
        profiles: LoginProfiles,
        key: Ed25519PrivateKey,
        missing: Collection[str] = (),
    ) -> None:
        self._spec = spec
        self._names = _LOCAL | {address}
        self._root = root
        self._profiles = profiles
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
        known = (self._public_data(text) for text in self._profiles.keys_of(username))
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
            case [] if not process.command:
                await self._shell(process)
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
                process.stderr.write(_NO_COMMAND)
                process.exit(_NOT_RUN)

    async def _shell(self, process: Any) -> None:
        shell = HostShell.of(
            self._root.parent,
            self._spec.name,
            sudo=_LOG_IN_AS_ADMINISTRATOR not in self._missing,
        )
        if shell is None:
            refuse(process)
        else:
            await shell.run(process)

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
