"""Where the host's token goes when an image is pulled: to Google's registries, and nowhere else."""

from __future__ import annotations

import base64
import json

import pytest

from tests.startup.host import StartupHost, StartupRun

DIGEST = "@sha256:" + "ab" * 32
MIRRORED = "us-east5-docker.pkg.dev/my-project/mirror/vllm-tpu" + DIGEST


def pull(host: StartupHost, image: str) -> StartupRun:
    """Run the script with this image."""
    host.cloud.config = host.config(container=host.config()["container"] | {"image": image})
    return host.run()


@pytest.mark.parametrize("registry", ["us-east5-docker.pkg.dev", "gcr.io", "eu.gcr.io"])
def test_googles_registries_get_the_hosts_token(host: StartupHost, registry: str) -> None:
    """S13: an image of the project's own is pulled as the host's service account."""
    assert pull(host, f"{registry}/my-project/vllm{DIGEST}").status == 0
    document = json.loads((host.directory / "pull.config").read_text())
    ((known, entry),) = document["auths"].items()
    assert known == registry
    assert base64.b64decode(entry["auth"]) == b"oauth2accesstoken:ya29.host"


@pytest.mark.parametrize(
    "image",
    [
        "vllm/vllm-tpu",
        "registry/vllm",
        "pkg.dev.example.com/my-project/vllm",
        "us-docker.pkg.dev.example.com/vllm",
        "us-docker.pkg.dev:8443/vllm",
        "example.com/gcr.io/vllm",
        "notgcr.io/vllm",
    ],
)
def test_no_other_registry_gets_it(host: StartupHost, image: str) -> None:
    """S13: a registry that only looks like Google's is asked without a token."""
    assert pull(host, image + DIGEST).status == 0
    assert not (host.directory / "pull.config").exists()


def test_the_token_is_in_no_argument_and_gone_after_the_pull(host: StartupHost) -> None:
    """S13: docker's credentials are in memory while it pulls, and in no process list or log."""
    run = pull(host, MIRRORED)
    (host.directory / "pull.config").unlink()
    assert host.files_with("ya29.host") == ["root/run/tpuflex/memory/authorization"]
    assert host.files_with(base64.b64encode(b"oauth2accesstoken:ya29.host").decode()) == []
    assert not host.memory("registry").exists()
    assert "ya29" not in run.output


def test_it_is_gone_after_a_pull_that_failed(host: StartupHost) -> None:
    """S13: a registry that refuses leaves no credentials behind; the refusal is reported."""
    host.mark("registry-down")
    assert pull(host, MIRRORED).status != 0
    assert host.cloud.last("error").startswith("image: docker cannot pull")
    assert not host.memory("registry").exists()
    assert len(host.docker_calls("pull")) == 5
