"""A host that is killed at ten random points, one boot after the other, and then left alone."""

from __future__ import annotations

import random
import re
import shutil
import signal
import subprocess
import threading

from tests.startup.cloud import FILES
from tests.startup.host import StartupHost

REBOOTS = 10
#: Requests that a boot of this host makes until it is READY, at least.
REQUESTS = 30


def kill_after(host: StartupHost, requests: int) -> bool:
    """Boot, and cut the power once the server has heard so many requests of this boot; whether it
    was under way then, as one that had ended has a status of its own."""
    before = len(host.cloud.requests)
    process: subprocess.Popen[str] = host.start()
    while len(host.cloud.requests) - before < requests and process.poll() is None:
        threading.Event().wait(0.005)
    host.kill(process)
    return process.returncode == -signal.SIGKILL


def test_a_host_that_is_killed_at_ten_points_serves_in_the_end(host: StartupHost) -> None:
    """Whatever a power failure leaves, the same host with the same configuration serves at the next
    boot that is left alone: checked weights, one server with the same arguments, and no error; none
    of the ten reports a failure."""
    points = random.Random(15)  # noqa: S311
    struck = 0
    for _ in range(REBOOTS):
        struck += kill_after(host, points.randrange(1, REQUESTS))
        assert host.cloud.last("error") == ""
        # The disk stays; memory is empty, and docker has a container that is dead, if it has one.
        shutil.rmtree(host.root / "run", ignore_errors=True)
        record = host.directory / "container.json"
        if record.exists():
            record.write_text(record.read_text().replace("running", "exited"))

    assert struck > REBOOTS / 2  # on a busy machine one may end before this thread looks
    run = host.run()
    assert run.status == 0, run.output
    assert host.cloud.phases()[-1] == "READY"
    assert host.cloud.last("error") == ""
    assert host.weights() == FILES
    # The label has the host's own key of the boot.
    calls = (re.sub(r"tpuflex\.spec=[0-9a-f]+", "", call) for call in host.docker_calls("run"))
    assert len(set(calls)) == 1
