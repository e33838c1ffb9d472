"""The network that a container shares with another one."""

from __future__ import annotations

import os
import signal
from subprocess import PIPE, Popen

import pytest

from embedded_cloud.machines.docker.containers import Container, DockerError
from embedded_cloud.machines.docker.networks import in_network_of


@pytest.mark.parametrize("child", ["none", "not entered", "ended"])
def test_a_network_that_is_not_there_yet_is_not_replaced_by_the_machines(child: str) -> None:
    """A container on a bridge whose command has not entered its network cannot be joined."""
    command = {
        "none": "read line",
        "not entered": "sleep 60 & echo; read line",
        # `exec` keeps the shell from waiting for its child, which stays a zombie.
        "ended": "true & echo; exec sleep 60",
    }[child]
    with Popen(["sh", "-c", command], stdin=PIPE, stdout=PIPE, process_group=0) as shell:
        try:
            if child != "none":
                assert shell.stdout is not None
                shell.stdout.readline()
            starting = Container("1", "vllm", "image", [], {}, network="bridge-1", pid=shell.pid)
            with pytest.raises(DockerError, match="network of container vllm is not there yet"):
                in_network_of(starting, starting)
        finally:
            os.killpg(shell.pid, signal.SIGKILL)
