"""Times on the command line are read from the clock of the stack's cloud."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tpuflex.cli.cloud import connect_running
from tpuflex.cli.daemon import Daemon
from tpuflex.cli.invocation import Invocation


def test_the_embedded_cloud_says_what_time_it_is(project: Path) -> None:
    """After the embedded cloud's clock was moved by two days, so is the invocation's."""
    environ = {"PATH": os.environ["PATH"], "HOME": str(project), "TPUFLEX_HOME": str(project)}
    invocation = Invocation(environ=environ, directory=project)
    daemon = Daemon(invocation.project.home)
    daemon.start(0)
    try:
        daemon.call("POST", "clock", {"advance": 48 * 3600})
        connect_running(invocation, invocation.open_stack())

        ahead = invocation.now() - datetime.now(UTC)
    finally:
        daemon.stop()
    assert abs(ahead - timedelta(hours=48)) < timedelta(minutes=1)
