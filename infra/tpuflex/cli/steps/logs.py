"""The steps of `tpuflex logs`: a file of the emulated host, or what gcloud reads over SSH.

Whoever is root on the host writes the log: all of it is printed through `Output`.
"""

from __future__ import annotations

import subprocess
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TextIO

from tpuflex.cli.steps.up import emulated_log
from tpuflex.cli.steps.way_in import host_status, require_gcloud
from tpuflex.errors import NotFoundError
from tpuflex.gcloud_commands import host_log

if TYPE_CHECKING:
    from tpuflex.cli.cloud import Cloud
    from tpuflex.cli.invocation import Invocation

#: Seconds between two looks at a file that is followed.
_POLL_SECONDS = 0.5


def run_logs(invocation: Invocation, cloud: Cloud, lines: int, *, follow: bool) -> None:
    """Print the last ``lines`` of the host's log, and with ``follow`` what comes.

    Raises:
        TpuflexError: there is no host, no log, or no gcloud.
        SystemExit: with gcloud's exit code, when that is not 0.
    """
    node = host_status(cloud).node
    if cloud.stack.embedded:
        _show_file(invocation, cloud, node, lines, follow=follow)
        return
    command = host_log(node, lines=lines, follow=follow)
    words = require_gcloud(command, cloud.environ)
    invocation.output.progress(f"$ {command}")
    kept: list[str] = []
    with subprocess.Popen(
        words,
        env=dict(cloud.environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        errors="replace",
    ) as process:
        for line in process.stdout or ():
            invocation.output.result(line.rstrip("\n"))
            if invocation.json:
                kept.append(line.rstrip("\n"))
    invocation.output.document({"source": str(command), "lines": kept})
    if process.returncode:
        raise SystemExit(process.returncode)


def _show_file(
    invocation: Invocation, cloud: Cloud, node: str, lines: int, *, follow: bool
) -> None:
    output, path = invocation.output, emulated_log(cloud, node)
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
