"""`docker run` of the stand-in: what it understands, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from embedded_cloud.docker.arguments import DockerError, parse_run

IMAGE = "tpuflex/vllm-cpu@sha256:" + "0" * 64


def test_reads_what_the_startup_script_writes(tmp_path: Path) -> None:
    """Every option of the startup script's `docker run` is understood."""
    request = parse_run(
        [
            *("--detach", "--name", "vllm", "--label", "tpuflex.spec=abc"),
            *("--restart", "unless-stopped", "--network", "host", "--privileged"),
            *("--shm-size", "16g", "--log-driver", "json-file", "--log-opt", "max-size=100m"),
            *("--mount", f"type=bind,source={tmp_path},target={tmp_path},readonly"),
            *("--env", "A=b=c d", "--entrypoint", "/bin/bash", IMAGE, "script", "--port", "8000"),
        ]
    )
    assert request.image == IMAGE
    assert request.name == "vllm"
    assert request.arguments == ("script", "--port", "8000")
    assert request.environment == {"A": "b=c d"}
    assert request.labels == {"tpuflex.spec": "abc"}
    assert request.mounts == {str(tmp_path): True}
    assert request.restart == "unless-stopped"


def test_volumes_keep_their_path(tmp_path: Path) -> None:
    """`-v SRC:SRC:ro` is a read-only mount."""
    request = parse_run(["-d", "--net=host", "-v", f"{tmp_path}:{tmp_path}:ro", IMAGE])
    assert request.mounts == {str(tmp_path): True}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--gpus", "all", IMAGE], "--gpus"),
        (["-p", "80:80", IMAGE], "-p"),
        (["--env-file", "f", IMAGE], "--env-file"),
        (["-e", "TOKEN", IMAGE], "inherit"),
        (["-v", "/etc:/other", IMAGE], "mount namespace"),
        (["-v", "/does/not/exist:/does/not/exist", IMAGE], "does not exist"),
        (["-v", "relative:relative", IMAGE], "absolute"),
        (["--mount", "type=tmpfs,target=/x", IMAGE], "type=bind"),
        (["--restart", "on-failure:3", IMAGE], "on-failure:3"),
        (["--log-driver", "journald", IMAGE], "journald"),
        (["--shm-size", "lots", IMAGE], "lots"),
        (["--name", "a b", IMAGE], "a b"),
        (["--name"], "needs an argument"),
        ([], "image"),
    ],
)
def test_refuses_what_it_cannot_honour(arguments: list[str], message: str) -> None:
    """An option without effect here is an error that names it, never ignored."""
    with pytest.raises(DockerError) as caught:
        parse_run(["-d", "--network", "host", *arguments])
    assert message in caught.value.message


@pytest.mark.parametrize("arguments", [["--network", "host", IMAGE], ["-d", IMAGE]])
def test_needs_detached_and_host_network(arguments: list[str]) -> None:
    """A container in the foreground or in a network of its own is refused."""
    with pytest.raises(DockerError):
        parse_run(arguments)
