"""The network that a container shares with another one."""

from __future__ import annotations

import os

import pytest

from embedded_cloud.machines.docker.containers import Container, DockerError
from embedded_cloud.machines.docker.networks import in_network_of


def test_a_network_that_is_not_there_yet_is_not_replaced_by_the_machines() -> None:
    """A container on a bridge whose command has not entered its network cannot be joined."""
    starting = Container("1", "vllm", "image", [], {}, network="bridge-1", pid=os.getpid())
    with pytest.raises(DockerError, match="network of container vllm is not there yet"):
        in_network_of(starting, starting)
