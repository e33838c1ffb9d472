"""`docker run` of the stand-in: what it understands, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from embedded_cloud.machines.docker.arguments import parse_run
from embedded_cloud.machines.docker.containers import DockerError
from embedded_cloud.machines.namespace import Bind

IMAGE = "tpuflex/vllm-cpu@sha256:" + "0" * 64
ISOLATED = [
    *("-d", "--network", "tpuflex", "--dns", "192.0.2.53", "--device", "/dev/null"),
    *("--cap-drop", "ALL", "--cap-add", "SYS_RESOURCE", "--security-opt", "no-new-privileges"),
    *("--pids-limit", "16384", "--ulimit", "memlock=-1:-1"),
]


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
    assert request.mounts == [Bind(str(tmp_path), str(tmp_path), read_only=True)]
    assert request.restart == "unless-stopped"
    assert request.privileged
    assert request.shm_bytes == 16 * 2**30


def test_reads_what_the_startup_script_writes_for_isolation() -> None:
    """Every option of an isolated container is understood."""
    request = parse_run([*ISOLATED, "--publish", "127.0.0.2:8000:8000", IMAGE])
    assert request.network == "tpuflex"
    assert request.ports == ["127.0.0.2:8000:8000"]
    assert not request.privileged


def test_volumes_keep_their_path(tmp_path: Path) -> None:
    """`-v SRC:SRC:ro` is a read-only mount."""
    request = parse_run(["-d", "--net=host", "-v", f"{tmp_path}:{tmp_path}:ro", IMAGE])
    assert request.mounts == [Bind(str(tmp_path), str(tmp_path), read_only=True)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--gpus", "all", IMAGE], "--gpus"),
        (["-p", "80:80", IMAGE], "ADDRESS"),
        (["-p", "127.0.0.1:80:80", IMAGE], "discarded"),
        (["--cap-drop", "ALL", IMAGE], "keeps all rights"),
        (["--read-only", IMAGE], "--read-only"),
        (["--env-file", "f", IMAGE], "--env-file"),
        (["-e", "TOKEN", IMAGE], "inherit"),
        (["-v", "/etc:/other", IMAGE], "mount namespace"),
        (["-v", "/does/not/exist:/does/not/exist", IMAGE], "does not exist"),
        (["-v", "relative:relative", IMAGE], "absolute"),
        (["--mount", "type=tmpfs,target=/x", IMAGE], "type=bind"),
        (["--restart", "on-failure:3", IMAGE], "on-failure:3"),
        (["--log-driver", "journald", IMAGE], "journald"),
        (["--shm-size", "lots", IMAGE], "lots"),
        (["-v", "/etc:relative", IMAGE], "absolute"),
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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--publish", "8000:8000"], "ADDRESS"),
        (["--publish", "127.0.0.1:8000:70000"], "invalid port"),
        (["--publish", "127.0.0.1:8000-8001:8000"], "ADDRESS"),
        (["--privileged"], "--network host only"),
        (["--dns", "localhost"], "not an ip address"),
        (["--device", "/dev/none"], "no such file"),
        (["--device", "/etc/passwd"], "not a device node"),
        (["--device", "/dev/null:/dev/other"], "keeps its path"),
        (["--cap-drop", "NET_RAW"], "only ALL"),
        (["--cap-add", "SYS_ADMIN"], "only SYS_RESOURCE"),
        (["--security-opt", "seccomp=unconfined"], "only no-new-privileges"),
        (["--pids-limit", "many"], "many"),
        (["--ulimit", "nofile=5"], "only memlock"),
        (["--ulimit", "memlock=9:5"], "soft limit"),
    ],
)
def test_refuses_what_would_weaken_isolation(arguments: list[str], message: str) -> None:
    """What a container on a bridge cannot have here is an error that names it."""
    with pytest.raises(DockerError) as caught:
        parse_run([*ISOLATED, *arguments, IMAGE])
    assert message in caught.value.message


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--publish", "127.0.0.1:8000:8000"], "port publishing and the container type"),
        (["--dns", "192.0.2.53"], "dns and the network mode"),
        (["--restart", "always"], "cannot specify both --restart and --rm"),
        (["--privileged"], "--network host only"),
        (["--pull", "always"], "--pull always"),
        (["-d"], "remove -i"),
        (["--log-driver", "json-file"], "--log-driver none"),
        (["--tty"], "--tty"),
    ],
)
def test_refuses_what_an_attached_container_cannot_have(arguments: list[str], message: str) -> None:
    """What one in the network of another, with the streams of its command, cannot have is named."""
    attached = ["--rm", "-i", "--log-driver", "none", "--network", "container:vllm"]
    rights = ["--cap-drop", "ALL", "--security-opt", "no-new-privileges"]
    assert parse_run([*attached, *rights, IMAGE]).network == "container:vllm"
    with pytest.raises(DockerError) as caught:
        parse_run([*attached, *rights, *arguments, IMAGE])
    assert message in caught.value.message


@pytest.mark.parametrize(
    "arguments",
    [
        ["--network", "host", IMAGE],
        ["-d", IMAGE],
        ["-d", "--network", "tpuflex", IMAGE],
        ["--rm", "-i", "--log-driver", "none", "--network", "container:vllm", IMAGE],
        ["-d", "--log-driver", "none", "--network", "host", IMAGE],
    ],
)
def test_needs_its_kind_and_a_network(arguments: list[str]) -> None:
    """A container neither detached nor attached, without a network, without a log, or on a bridge
    or beside another one with rights, is refused."""
    with pytest.raises(DockerError):
        parse_run(arguments)
