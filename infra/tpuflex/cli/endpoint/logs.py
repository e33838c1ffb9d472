"""The steps of `tpuflex logs`: a file of the emulated host, what gcloud reads over SSH, or what
Cloud Logging keeps of a host that is gone.

Whoever is root on the host writes the log: all of it is printed through `Output`.
"""

from __future__ import annotations

import subprocess
import threading
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from tpuflex.errors import NotFoundError
from tpuflex.gcloud_commands import host_log
from tpuflex.operate.kept_log import Part, show_kept_log
from tpuflex.operate.way_in import host_status, kept_up, require_gcloud, way_in_environment
from tpuflex.stack.emulator import Daemon
from tpuflex.terminal.output import for_stack

if TYPE_CHECKING:
    from tpuflex.cli.invocation import Invocation
    from tpuflex.stack.connection import Connection

#: Seconds between two looks at a file that is followed.
_POLL_SECONDS = 0.5


def run_logs(
    invocation: Invocation, cloud: Connection, part: Part, *, follow: bool, kept: bool = False
) -> None:
    """Print the last lines of the host's log, and with ``follow`` what comes; a connection that
    breaks off then is made again, and shows the last lines again. Of a host that is gone, and with
    ``kept`` of every one, the boot log is read that Cloud Logging keeps; so are parts of it.

    Raises:
        TpuflexError: there is no host, no log, or no gcloud.
        SystemExit: with gcloud's exit code, when that is not 0.
    """
    if kept or part.kept_only:
        show_kept_log(invocation, cloud, part, follow=follow)
        return
    try:
        node = host_status(cloud).node
    except NotFoundError as absent:
        show_kept_log(invocation, cloud, part, absent=absent)
        return
    if cloud.stack.embedded:
        path = emulated_log(cloud, node)
        if path is None:
            show_kept_log(invocation, cloud, part, absent=_not_running(cloud, node))
        else:
            _show_file(invocation, cloud, path, part.lines, follow=follow)
        return
    command = host_log(node, lines=part.lines, follow=follow)
    words = require_gcloud(command, cloud.environ)
    invocation.output.progress(f"$ {command}")
    read_lines: list[str] = []

    def show_progress(stream: TextIO) -> None:
        # The host speaks there, too: its banner, and what sshd says.
        for line in stream:
            invocation.output.progress(line.rstrip("\n"))

    def read() -> int:
        with subprocess.Popen(
            words,
            env=way_in_environment(cloud),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        ) as process:
            said = threading.Thread(target=show_progress, args=(process.stderr,), daemon=True)
            said.start()
            for line in process.stdout or ():
                invocation.output.result(line.rstrip("\n"))
                if invocation.json:
                    read_lines.append(line.rstrip("\n"))
            said.join()
        return process.returncode

    code = kept_up(read, cloud, invocation) if follow else read()
    invocation.output.document({"source": str(command), "lines": read_lines})
    if code:
        raise SystemExit(code)


def _show_file(
    invocation: Invocation, cloud: Connection, path: Path, lines: int, *, follow: bool
) -> None:
    output = invocation.output
    try:
        file = path.open(encoding="utf-8", errors="replace")
    except FileNotFoundError as error:
        raise NotFoundError(
            f"The host has written no log yet: {path} does not exist.",
            hint="Type the command again in a moment.",
        ) from error
    with file:
        last = [line.rstrip("\n") for line in deque(file, maxlen=lines)]
        for line in last:
            output.result(line)
        output.document({"source": str(path), "lines": last})
        if follow:
            for line in followed(file, lambda: cloud.sleep(_POLL_SECONDS)):
                output.result(line)


def emulated_log(cloud: Connection, node: str) -> Path | None:
    """The serial log of the first emulated host of ``node`` (full name); None if none runs, or one
    that writes no log."""
    hosts = Daemon(cloud.stack.project.home).call("GET", "hosts")["hosts"]
    logged = [host for host in hosts if host["node"] == node and "serial_log" in host]
    first = min(logged, key=lambda host: int(host["worker"]), default=None)
    return None if first is None else Path(first["serial_log"])


def _not_running(cloud: Connection, node: str) -> NotFoundError:
    return NotFoundError(
        f"No host of {node} runs, or it writes no log.",
        hint=for_stack("`tpuflex status` shows its state.", cloud.stack.name),
    )


def followed(file: TextIO, pause: Callable[[], None]) -> Iterator[str]:
    """Whole lines that are written to ``file`` from where it stands, without end.

    Args:
        file: the file, open for reading.
        pause: waits until it is worth looking again; what it raises ends the reading.
    """
    begun = ""
    while True:
        begun += file.readline()
        if begun.endswith("\n"):
            yield begun.rstrip("\n")
            begun = ""
        else:
            pause()
