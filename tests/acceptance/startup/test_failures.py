"""More of what ends a boot, or is mended by the next one: it says why, and serves nothing."""

from __future__ import annotations

import json

from tests.startup.cloud import FILES, PREFIX, manifest_of
from tests.startup.host import StartupHost
from tests.startup.test_failure import SHARD, failed


def test_what_was_changed_on_the_host_is_not_served(host: StartupHost) -> None:
    """A file that was modified after it was checked is not trusted, and one that is not in the
    manifest is removed before a server can read it."""
    host.run()
    (directory,) = host.memory("weights").iterdir()
    (directory / "model-1.safetensors").write_bytes(b"Y" * len(FILES["model-1.safetensors"]))
    (directory / "stray.safetensors").write_bytes(b"?")
    assert host.run().status == 0
    assert host.weights() == FILES


def test_missing_shard_is_named(host: StartupHost) -> None:
    """A file that is in the manifest but not in the bucket stops the boot at once."""
    del host.cloud.objects[SHARD]
    assert failed(host).startswith("weights-missing: model-1.safetensors is in the manifest")


def test_gives_up_waiting_for_weights(host: StartupHost) -> None:
    """If no weights appear before the deadline, the boot fails and names the command."""
    host.cloud.objects.clear()
    error = failed(host)
    assert error.startswith("weights-missing: ")
    assert "tpuflex weights push --stack dev" in error
    assert 30 <= host.slept() <= 60


def test_no_memory_for_the_weights(host: StartupHost) -> None:
    """A file system in memory may be larger than what the kernel could give: figures, no ENOSPC,
    where the disk has no room for the weights and the image."""
    host.command("df", "#!/bin/sh\nprintf '   Avail\\n  15000000000\\n'\n")
    meminfo = host.root / "proc" / "meminfo"
    meminfo.parent.mkdir(parents=True)
    meminfo.write_text("MemTotal: 99 kB\nMemAvailable:    70000 kB\nBuffers: 1 kB\n")
    document = manifest_of(FILES)
    document["files"][0]["size"] = 1_000_000_000
    host.cloud.objects[f"{PREFIX}/MANIFEST.json"] = json.dumps(document).encode()
    assert failed(host).startswith(
        "capacity: the host has 72 MB of memory available, the weights need 1.0 GB and 67 MB"
    )
    assert host.cloud.asked("safetensors") == 0


def test_docker_that_does_not_come_up(host: StartupHost) -> None:
    """Waiting for Docker is bounded."""
    host.mark("docker-down")
    error = failed(host)
    assert error.startswith("docker: ")
    assert "Cannot connect to the Docker daemon" in error


def test_image_that_cannot_be_pulled(host: StartupHost) -> None:
    """A pull is tried five times; the error contains docker's output."""
    host.mark("registry-down")
    error = failed(host)
    assert error.startswith("image: ")
    assert "no route to registry" in error
    assert len(host.docker_calls("pull")) == 5


def test_shared_memory_that_is_full(host: StartupHost) -> None:
    """A server whose /dev/shm is full is reported with the setting of its size."""
    host.mark("crashes")
    host.cloud.health = False
    words = "OSError: [Errno 28] No space left on device: '/psm_1'\n"
    (host.directory / "container.log").write_text(words)
    error = failed(host)
    assert error.startswith(
        "container-died: the server died with status 2 of its shared memory (raise"
        " tpuflex:serving.shm_size): OSError: [Errno 28] No space left"
    )


def test_server_that_never_answers(host: StartupHost) -> None:
    """A server that runs but does not answer fails the boot at the deadline."""
    host.cloud.health = False
    error = failed(host)
    assert error.startswith("health: the server does not answer after 30 s (HTTP 503)")


def test_completion_that_fails(host: StartupHost) -> None:
    """A healthy server that cannot answer a completion request is not ready."""
    host.cloud.answers["/v1/chat/completions"] = [500]
    error = failed(host)
    assert error.startswith("completion: the server answers 500")
    assert "not now" in error


def test_error_of_an_earlier_run_is_cleared(host: StartupHost) -> None:
    """A run that succeeds after a failed one reports no error."""
    host.mark("registry-down")
    failed(host)
    (host.directory / "registry-down").unlink()
    assert host.run().status == 0
    assert host.cloud.last("error") == ""
