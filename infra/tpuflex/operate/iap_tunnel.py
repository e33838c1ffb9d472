"""A tunnel that a command opens for itself, and that ends with it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import IO

from pulumi_plugin.peer import listens, refusal
from tpuflex.errors import AccessError
from tpuflex.operate.process_group import end_group, last_words
from tpuflex.operate.tunnel_failure import is_final, tunnel_failure

#: Seconds for a tunnel to open. gcloud starts twice (3 s each), registers a key with OS Login, and
#: tries again every 5 s while the key is not known to the host.
OPEN_WITHIN_S = 60.0
#: Seconds for gcloud and ssh to end when they are told to, before they are killed.
_END_WITHIN_S = 3.0
_LOOK_EVERY_S = 0.1


@contextmanager
def open_tunnel(
    command: Callable[[int], Sequence[str]],
    environ: Mapping[str, str],
    *,
    project: str,
    within: float = OPEN_WITHIN_S,
) -> Iterator[int]:
    """Run what ``command`` gives for a free local port while the block runs; returns that port.

    The command is in a process group of its own, so that Ctrl-C reaches us first, and is ended with
    the block, whatever ends that. It holds the end of a pipe as its standard input: if this process
    is killed it reads the end of it (:func:`tpuflex.gcloud_commands.held_tunnel`).

    Args:
        command: the words of the command that listens on a local port.
        environ: its environment.
        project: the project's id, for what an error advises.
        within: seconds for the tunnel to open.

    Raises:
        AccessError: a role or a login is missing, or another user listens on the port.
        ConflictError: IAP does not get through to the host.
        ApiError: the command ended, or did not listen in time, for another reason.
    """
    port = _free_port()
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            command(port),
            env=dict(environ),
            stdin=subprocess.PIPE,
            stdout=said,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            _await_listening(process, port, said, project, within)
            yield port
        finally:
            with suppress(OSError):
                os.killpg(process.pid, signal.SIGTERM)
            end_group(process, _END_WITHIN_S)


def _await_listening(
    process: subprocess.Popen[bytes], port: int, said: IO[bytes], project: str, within: float
) -> None:
    deadline = time.monotonic() + within

    def ended() -> bool:
        return process.poll() is not None or is_final(last_words(said))

    if not await_own_port(port, lambda: ended() or time.monotonic() > deadline):
        raise tunnel_failure(last_words(said), project, after="" if ended() else f"{within:.0f} s")


def await_own_port(port: int, given_up: Callable[[], bool]) -> bool:
    """Wait until a process of this user listens on a local port; False if it is given up before.

    Raises:
        AccessError: another user listens there.
    """
    while (own := listens(port, within=1.0)) is not True:
        if own is False:
            raise AccessError(f"No tunnel: port {port} of this machine. {refusal()}")
        if given_up():
            return False
        time.sleep(_LOOK_EVERY_S)
    return True


def _free_port() -> int:
    """A port that was free a moment ago; whose it is in the end is asked of the kernel."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
