"""The startup script when something is wrong: it stops, says why, and serves nothing."""

from __future__ import annotations

import json
import re

from tests.startup.cloud import API_KEY, FILES, PREFIX, manifest_of
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


def test_forbidden_secret_fails_closed(host: StartupHost) -> None:
    """A secret that stays forbidden is retried until the deadline; then nothing is served."""
    host.cloud.answers["secrets/api-key"] = [403] * 1000
    error = failed(host)
    assert error.startswith("secret-403: ")
    assert "Secret Manager Secret Accessor" in error
    assert 20 <= host.slept() <= 60
    assert host.docker_calls("run") == []


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
    assert len(host.docker_calls("run")) == 1
    assert host.cloud.asked("GET /health") < 18


def test_who_answers_in_place_of_a_dead_container_is_shown_no_key(host: StartupHost) -> None:
    """On the host's address somebody else may listen: `/health` counts beside a container that
    runs, and nothing else is asked before."""
    host.mark("crashes")
    host.cloud.answers["/health"] = [200] * 1000
    assert failed(host).startswith("container-died: ")
    assert host.cloud.asked("GET /version") == 0


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


def test_manifest_with_bad_entries_is_refused(host: StartupHost) -> None:
    """A manifest cannot make the host write elsewhere or skip the check."""
    document = manifest_of(FILES)
    document["files"][0]["path"] = "../../escape"
    host.cloud.objects[f"{PREFIX}/MANIFEST.json"] = json.dumps(document).encode()
    error = failed(host)
    assert error.startswith("weights-manifest: ")
    assert "not below the weights" in error


def test_server_that_answers_without_the_key_is_refused(host: StartupHost) -> None:
    """S1: a server that answers on a single route without the key is not READY; the error names it.
    The route is one of its own list; test_routes.py has which others are asked."""
    route = ("OPTIONS", "/mine/1/files")
    host.cloud.openapi["paths"]["/mine/{item}/files"] = {"get": {}, "parameters": []}
    host.cloud.open_routes = {route}
    error = failed(host)
    assert error.startswith("server-open: the server answers without the key: ")
    assert " ".join(route) + " (200)" in error


def test_server_whose_routes_are_unknown_is_refused(host: StartupHost) -> None:
    """A server that does not list its routes cannot be checked, so it is not READY."""
    host.cloud.openapi = {"paths": {}}
    assert failed(host).startswith("server-open: the routes of the server cannot be checked")


def test_node_without_configuration(host: StartupHost) -> None:
    """A node that was created without the metadata key reports that, once, in these words, and
    keeps its log."""
    host.cloud.config = None
    error = "config: the node has no metadata key tpuflex-config"
    assert failed(host) == error
    assert [text for key, text in host.cloud.reports if key == "error"] == [error]
    assert host.cloud.log_entries[-1]["entries"][-1]["jsonPayload"]["error"] == error
