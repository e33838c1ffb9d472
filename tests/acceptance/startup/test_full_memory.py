"""Memory that was free when the weights began to come, and is full before they are there."""

from __future__ import annotations

import random
import sys

from tests.startup.cloud import FILES
from tests.startup.host import StartupHost

PART = 4096
#: A model of one file, of four parts.
ONE = {
    "config.json": FILES["config.json"],
    "model.safetensors": random.Random(9).randbytes(4 * PART),  # noqa: S311
}


def full(host: StartupHost, path: str) -> None:
    """Run the script, which finds no room for more of ``path``, says so, and serves nothing."""
    run = host.run()
    assert run.status == 1, run.output
    assert "READY" not in host.cloud.phases()
    error = host.cloud.last("error")
    assert error.startswith(
        f"capacity: no room left in memory while fetching {path}: {host.memory()} has "
    )
    assert error.endswith(" free; something else on the host fills it")
    assert host.cloud.last("phase") == "weights"
    assert path not in host.weights()
    assert not list(host.memory("checked").rglob(path))
    assert host.docker_calls("run") == []


def served(host: StartupHost, files: dict[str, bytes]) -> None:
    """Run the script, which serves these weights."""
    run = host.run()
    assert run.status == 0, run.output
    assert host.weights() == files


def test_a_file_that_may_grow_no_more(host: StartupHost) -> None:
    """A shard for whose end there is no room is no weights; with room it is fetched to its end."""
    python = host.directory / "bin" / "python3"
    python.unlink()
    limited = host.mark("limited")
    # The kernel refuses what goes beyond 50 KiB, in the downloading processes alone.
    host.command(
        "python3",
        f"#!/bin/bash\n[[ $* != *download.main* || ! -e {limited} ]] || ulimit -S -f 50\n"
        f'exec {sys.executable} "$@"\n',
    )
    full(host, "model-1.safetensors")
    (partial,) = host.memory("partial").rglob("model-1.safetensors")
    assert partial.stat().st_size == 50 * 1024

    limited.unlink()
    host.cloud.ranges.clear()
    served(host, FILES)
    last = len(FILES["model-1.safetensors"]) - 1
    assert ("model-1.safetensors", f"bytes={50 * 1024}-{last}") in host.cloud.ranges


def test_a_file_system_that_takes_no_more(host: StartupHost) -> None:
    """A shard whose later parts find the file system full is no weights, whatever parts of it are
    there; with room it is fetched."""
    host.cloud.objects.clear()
    host.cloud.put_weights(ONE, part_bytes=PART)
    # One part after the other.
    host.cloud.config = host.config(weights=host.config()["weights"] | {"parallelism": 1})

    def fill(path: str) -> None:
        """Let the parts after this one, whose file is open, get ENOSPC: what /dev/full is for."""
        if path == "model.safetensors":
            (partial,) = host.memory("partial").rglob("model.safetensors")
            partial.unlink()
            partial.symlink_to("/dev/full")

    host.cloud.before_object = fill
    full(host, "model.safetensors")
    (ledger,) = host.memory("ledgers").rglob("model.safetensors")
    # Its head, and the part that was written before.
    assert len(ledger.read_text().splitlines()) == 2

    host.cloud.before_object = lambda _path: None
    served(host, ONE)
