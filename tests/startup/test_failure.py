"""The startup script when something is wrong: it stops, says why, and serves nothing."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.startup.cloud import API_KEY, FILES, PREFIX, VERSION, manifest_of
from tests.startup.host import StartupHost

SHARD = f"{PREFIX}/model-1.safetensors"
#: Code of an error -> the phase that the host reports with it.
PHASES = {
    "config": "config",
    "multi-host": "config",
    "capacity": "capacity",
    "phase-capacity": "capacity",
    "weights-changed": "capacity",
    "weights-manifest": "capacity",
    "secret-400": "secrets",
    "secret-403": "secrets",
    "secret-404": "secrets",
    "secret-format": "secrets",
    "docker": "image",
    "image": "image",
    "image-denied": "image",
    "image-unknown": "image",
    "weights-checksum": "weights",
    "weights-download": "weights",
    "weights-missing": "weights",
    "container-died": "health",
    "health": "health",
    "server-open": "completion",
    "completion": "completion",
}


def failed(host: StartupHost) -> str:
    """Run the script, which must fail before READY, in the phase of what is wrong; return the error
    that it reports."""
    run = host.run()
    assert run.status == 1, run.output
    assert "READY" not in host.cloud.phases()
    error = host.cloud.last("error")
    assert error, run.output
    assert host.cloud.last("phase") == PHASES[error.partition(":")[0]]
    return error


def test_altered_shard_is_never_served(host: StartupHost) -> None:
    """A shard of the right size with other bytes is fetched twice, then refused and removed."""
    host.cloud.objects[SHARD] = b"X" + host.cloud.objects[SHARD][1:]
    assert failed(host).startswith("weights-checksum: model-1.safetensors")
    assert host.cloud.asked("model-1.safetensors") == 2
    assert "model-1.safetensors" not in host.weights()
    assert host.docker_calls("run") == []


def test_truncated_shard_is_never_served(host: StartupHost) -> None:
    """A shard that is too short is refused, and the intact ones are kept for the next try."""
    whole = host.cloud.objects[SHARD]
    host.cloud.objects[SHARD] = whole[:-100]
    assert failed(host).startswith("weights-checksum: model-1.safetensors")
    assert host.docker_calls("run") == []
    assert "nested/model-2.safetensors" in host.weights()

    host.cloud.objects[SHARD] = whole
    run = host.run()
    assert run.status == 0, run.output
    assert host.cloud.asked("model-2.safetensors") == 1
    assert host.weights() == FILES


def test_partial_download_is_continued(host: StartupHost) -> None:
    """The part of a shard that an interrupted run has fetched is not fetched again."""
    host.cloud.answers["model-1.safetensors"] = [500] * 5
    failed(host)
    (directory,) = host.memory("partial").iterdir()
    (directory / "model-1.safetensors").write_bytes(FILES["model-1.safetensors"][:40000])
    run = host.run()
    assert run.status == 0, run.output
    assert host.weights() == FILES


def test_shard_altered_on_the_host_is_fetched_again(host: StartupHost) -> None:
    """A file that was modified after it was checked is not trusted."""
    host.run()
    (directory,) = host.memory("weights").iterdir()
    (directory / "model-1.safetensors").write_bytes(b"Y" * len(FILES["model-1.safetensors"]))
    assert host.run().status == 0
    assert host.weights() == FILES


def test_missing_shard_is_named(host: StartupHost) -> None:
    """A file that is in the manifest but not in the bucket stops the boot at once."""
    del host.cloud.objects[SHARD]
    assert failed(host).startswith("weights-missing: model-1.safetensors is in the manifest")


def test_strangers_beside_the_weights_are_removed(host: StartupHost) -> None:
    """A file that is not in the manifest is removed before a server can read it."""
    host.run()
    (directory,) = host.memory("weights").iterdir()
    (directory / "stray.safetensors").write_bytes(b"?")
    host.run()
    assert host.weights() == FILES


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"path": "../../escape"}, "not below the weights"),
        ({"path": "/etc/passwd"}, "not below the weights"),
        ({"path": "a\nb"}, "not below the weights"),
        ({"size": "12"}, "not valid"),
        ({"sha256": "short"}, "not valid"),
    ],
)
def test_manifest_with_bad_entries_is_refused(
    host: StartupHost, change: dict[str, Any], said: str
) -> None:
    """A manifest cannot make the host write elsewhere or skip the check."""
    document = manifest_of(FILES)
    document["files"][0] |= change
    host.cloud.objects[f"{PREFIX}/MANIFEST.json"] = json.dumps(document).encode()
    error = failed(host)
    assert error.startswith("weights-manifest: ")
    assert said in error


def test_gives_up_waiting_for_weights(host: StartupHost) -> None:
    """If no weights appear before the deadline, the boot fails and names the command."""
    host.cloud.objects.clear()
    error = failed(host)
    assert error.startswith("weights-missing: ")
    assert "tpuflex weights push --stack dev" in error
    assert 30 <= host.slept() <= 60


def test_no_room_in_memory(host: StartupHost) -> None:
    """Weights that do not fit are reported before anything is fetched."""
    host.command("df", "#!/bin/sh\nprintf '   Avail\\n  70000000\\n'\n")
    document = manifest_of(FILES)
    document["files"][0] |= {"size": 61_400_000_000, "parts": ["0" * 64] * 58}
    host.cloud.objects[f"{PREFIX}/MANIFEST.json"] = json.dumps(document).encode()
    error = failed(host)
    assert error.startswith("capacity: ")
    assert "70 MB free" in error
    assert "61.4 GB" in error
    assert host.cloud.asked("safetensors") == 0


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


def test_forbidden_secret_fails_closed(host: StartupHost) -> None:
    """A secret that stays forbidden is retried until the deadline; then nothing is served."""
    host.cloud.answers["secrets/api-key"] = [403] * 1000
    error = failed(host)
    assert error.startswith("secret-403: ")
    assert "Secret Manager Secret Accessor" in error
    assert 20 <= host.slept() <= 60
    assert host.docker_calls("run") == []


def test_missing_secret_names_the_command(host: StartupHost) -> None:
    """A missing version is waited for, and the command that adds it is named."""
    host.cloud.secrets.clear()
    error = failed(host)
    assert error.startswith(f"secret-404: {VERSION} is not there")
    assert "tpuflex secrets ensure --stack dev" in error


def test_disabled_secret_is_not_waited_for(host: StartupHost) -> None:
    """A disabled version will not come back: fail at once."""
    host.cloud.answers["secrets/api-key"] = [400]
    assert failed(host).startswith("secret-400: ")
    assert host.slept() == 0


@pytest.mark.parametrize("value", ["", " \n\n", "with space", "one\nwith space", "ключ"])
def test_unusable_secret_is_refused(host: StartupHost, value: str) -> None:
    """A value that would break out of a header is refused, and not shown."""
    host.cloud.secrets[VERSION] = value
    error = failed(host)
    assert error.startswith("secret-format: ")
    assert not value.strip() or value not in error
    assert host.docker_calls("run") == []


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


def test_container_that_dies_is_noticed_early(host: StartupHost) -> None:
    """A server that keeps dying is stopped and its last output reported, without the key."""
    host.mark("crashes")
    host.cloud.health = False
    words = f"loading\nValueError: no such flag\nthe key is {API_KEY}\n"
    (host.directory / "container.log").write_text(words)
    error = failed(host)
    assert error.startswith("container-died: the server died with status 2")
    assert "ValueError: no such flag" in error
    assert API_KEY not in error
    assert len(host.docker_calls("stop")) == 1
    # Once isolated, once with all rights.
    assert host.cloud.asked("GET /health") < 18


def test_shared_memory_that_is_full(host: StartupHost) -> None:
    """A server without space is reported with the size of its /dev/shm, and the setting."""
    host.mark("crashes")
    host.cloud.health = False
    words = "OSError: [Errno 28] No space left on device: '/psm_1'\n"
    (host.directory / "container.log").write_text(words)
    error = failed(host)
    assert error.startswith(
        "container-died: the server died with status 2 (is its /dev/shm of 1g full? raise"
        " tpuflex:serving.shm_size in the stack file): OSError: [Errno 28] No space left"
    )


def test_server_that_never_answers(host: StartupHost) -> None:
    """A server that runs but does not answer fails the boot at the deadline."""
    host.cloud.health = False
    error = failed(host)
    assert error.startswith("health: the server does not answer after 30 s (HTTP 503)")


@pytest.mark.parametrize(
    "route", [("GET", "/v1/models"), ("POST", "/invocations"), ("OPTIONS", "/mine/1/files")]
)
def test_server_that_answers_without_the_key_is_refused(
    host: StartupHost, route: tuple[str, str]
) -> None:
    """S1: a server that answers on a single route without the key is not READY; the error names it.

    The route may be one of vLLM's /v1, one that is only on our list, or one of its own list alone.
    """
    host.cloud.openapi["paths"]["/mine/{item}/files"] = {"get": {}, "parameters": []}
    host.cloud.open_routes = {route}
    error = failed(host)
    assert error.startswith("server-open: the server answers without the key: ")
    assert " ".join(route) + " (200)" in error


@pytest.mark.parametrize("openapi", [{}, {"paths": {}}, {"paths": []}, []])
def test_server_whose_routes_are_unknown_is_refused(host: StartupHost, openapi: object) -> None:
    """A server that does not list its routes cannot be checked, so it is not READY."""
    host.cloud.openapi = openapi  # type: ignore[assignment]
    assert failed(host).startswith("server-open: the routes of the server cannot be checked")


def test_completion_that_fails(host: StartupHost) -> None:
    """A healthy server that cannot answer a completion request is not ready."""
    host.cloud.answers["/v1/chat/completions"] = [500]
    error = failed(host)
    assert error.startswith("completion: the server answers 500")
    assert "not now" in error


def test_node_without_configuration(host: StartupHost) -> None:
    """A node that was created without the metadata key reports that."""
    host.cloud.config = None
    assert failed(host) == "config: the node has no metadata key tpuflex-config"


@pytest.mark.parametrize(
    ("part", "value", "said"),
    [
        ("schema", 2, "schema"),
        ("container", {"name": "x; rm -rf /"}, "container.name"),
        ("secrets", [], "no api-key"),
        (
            "secrets",
            [{"role": "api-key", "version": "projects/p/secrets/s/versions/latest"}],
            "pin",
        ),
        ("weights", {}, "missing"),
    ],
)
def test_configuration_that_is_not_valid(
    host: StartupHost, part: str, value: Any, said: str
) -> None:
    """A configuration that this script does not understand is refused, naming what is wrong."""
    if isinstance(value, dict) and value:
        value = host.config()[part] | value
    host.cloud.config = host.config(**{part: value})
    error = failed(host)
    assert error.startswith("config: ")
    assert said in error


def test_slice_of_several_hosts_is_refused(host: StartupHost) -> None:
    """Serving across hosts is not supported yet: every worker says so and serves nothing."""
    host.cloud.attributes = {
        "worker-network-endpoints": "u:u:10.0.0.2,u:u:10.0.0.3,u:u:10.0.0.4,u:u:10.0.0.5",
        "agent-worker-number": "2",
    }
    error = failed(host)
    assert error.startswith("multi-host: worker 2 of 4 hosts")


def test_unexpected_failure_is_reported_with_its_command(host: StartupHost) -> None:
    """An unexpected failure of a command ends the boot and is reported with phase, line, function
    and the command as it is written: what its variables hold may be a secret."""
    host.command("df", "#!/bin/sh\nexit 3\n")
    error = failed(host)
    assert re.fullmatch(
        r'phase-capacity: line \d+, place_weights: lack=\$\(memory_lacks "\$missing"\) '
        r"ended with status 3",
        error,
    )


def test_error_of_an_earlier_run_is_cleared(host: StartupHost) -> None:
    """A run that succeeds after a failed one reports no error."""
    host.mark("registry-down")
    failed(host)
    (host.directory / "registry-down").unlink()
    assert host.run().status == 0
    assert host.cloud.last("error") == ""
