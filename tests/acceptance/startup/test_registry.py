"""Where the host's token goes when an image is pulled: to Google's registries, and nowhere else."""

from __future__ import annotations

import base64

from tests.startup.host import StartupHost, StartupRun

DIGEST = "@sha256:" + "ab" * 32
MIRRORED = "us-east5-docker.pkg.dev/my-project/mirror/vllm-tpu" + DIGEST


def pull(host: StartupHost, image: str) -> StartupRun:
    """Run the script with this image."""
    host.cloud.config = host.config(container=host.config()["container"] | {"image": image})
    return host.run()


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
