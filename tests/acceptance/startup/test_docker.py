"""A host whose image has no docker: it is installed, or the host says at once why it cannot be."""

from __future__ import annotations

import pytest

from tests.startup.host import StartupHost
from tests.startup.test_failure import failed


def calls(host: StartupHost) -> list[str]:
    """What apt-get was asked for."""
    path = host.directory / "apt.calls"
    return path.read_text().splitlines() if path.exists() else []


def test_docker_that_is_there_is_left_alone(host: StartupHost) -> None:
    """Nothing is installed on a host that has docker."""
    assert host.run().status == 0
    assert calls(host) == []


def test_docker_is_installed(host: StartupHost) -> None:
    """m2: a host without docker installs its distribution's, within bounds, and serves."""
    host.mark("no-docker")
    run = host.run()
    assert run.status == 0, run.output
    update, install = calls(host)
    assert update.endswith(" update")
    assert install.endswith(" install --yes --no-install-recommends docker.io")
    assert all("DPkg::Lock::Timeout" in call for call in (update, install))
    assert "installing docker" in host.cloud.details()


def test_docker_that_cannot_be_installed(host: StartupHost) -> None:
    """apt-get's own complaint is reported after four tries."""
    host.mark("no-docker")
    host.mark("no-mirror")
    error = failed(host)
    assert error.startswith("docker: the image of this runtime version has no docker, and apt-get")
    assert error.endswith("E: Unable to locate package docker.io")
    assert len(calls(host)) == 4


def test_a_host_that_reaches_only_google_does_not_try_for_long(host: StartupHost) -> None:
    """With `egress: google` there is no mirror to install from: the second refusal is the last, and
    the error names the settings that help."""
    host.mark("no-docker")
    host.mark("no-mirror").write_text(
        "E: Failed to fetch http://us-east5.gce.archive.ubuntu.com/ubuntu/dists/jammy/InRelease"
        "  Could not connect to us-east5.gce.archive.ubuntu.com:80, connection timed out\n"
    )
    error = failed(host)
    assert error.startswith("docker: the image of this runtime version has no docker")
    assert "`egress: internet` in tpuflex:network" in error
    assert "tpuflex:slice.runtime_version" in error
    assert "connection timed out" in error
    assert len(calls(host)) == 2


#: What docker says before a registry's own words.
HEAD = 'Error response from daemon: Head "https://registry/v2/a/vllm/manifests/sha256:ab": '


@pytest.mark.parametrize(
    ("image", "problem", "code", "said", "tries"),
    [
        (
            "us-east5-docker.pkg.dev/my-project/mirror/vllm",
            'denied: Permission "artifactregistry.repositories.downloadArtifacts" denied',
            "image-denied",
            "the role Artifact Registry Reader in the project my-project",
            8,
        ),
        (
            "gcr.io/other/vllm",
            "unauthorized: x",
            "image-denied",
            "Artifact Registry Reader in the project other",
            8,
        ),
        (
            "private/vllm",
            "pull access denied for private/vllm, repository does not exist or may require"
            " 'docker login': denied: requested access to the resource is denied",
            "image-denied",
            "logs in to registries of Google only",
            1,
        ),
        ("ghcr.io/a/vllm", HEAD + "denied", "image-denied", "of Google only", 1),
        ("quay.io/a/vllm", HEAD + "unauthorized: x", "image-denied", "of Google only", 8),
        (
            "vllm/vllm-tpu",
            "toomanyrequests: You have reached your unauthenticated pull rate limit.",
            "image",
            "All hosts behind one address share this limit: mirror the image in Artifact Registry",
            5,
        ),
        (
            "us-east5-docker.pkg.dev/my-project/mirror/vllm",
            "toomanyrequests: Quota exceeded for quota metric 'Requests per project per region'",
            "image",
            "docs/repositories/configure-remote-auth-dockerhub",
            5,
        ),
        (
            "vllm/vllm-tpu",
            HEAD + "received unexpected HTTP status: 503 Service Unavailable",
            "image",
            "503",
            5,
        ),
        (
            "vllm/vllm-tpu",
            'Get "https://registry-1.docker.io/v2/": dial tcp: lookup registry-1.docker.io: no such'
            " host",
            "image",
            "no such host",
            5,
        ),
    ],
)
def test_a_pull_that_is_refused_names_the_remedy(
    host: StartupHost, image: str, problem: str, code: str, said: str, tries: int
) -> None:
    """M8: the error says what the registry wants; a role that was just granted, and a registry that
    fails, are waited for."""
    error = refused(host, image, problem)

    assert error.startswith(f"{code}: docker cannot pull {image}@sha256:")
    assert problem in error
    assert said in error
    assert len(host.docker_calls("pull")) == tries


@pytest.mark.parametrize(
    "problem",
    [
        "Error response from daemon: manifest unknown: manifest unknown",
        "Error response from daemon: manifest for quay.io/a/vllm@sha256:ab not found",
        HEAD + 'name unknown: Repository "mirror" not found',
        'failed to resolve reference "quay.io/a/vllm@sha256:ab": quay.io/a/vllm: not found',
        "no matching manifest for linux/amd64 in the manifest list entries",
    ],
)
@pytest.mark.parametrize("image", ["quay.io/a/vllm", "us-east5-docker.pkg.dev/my-project/a/vllm"])
def test_an_image_that_is_not_there_is_not_asked_for_again(
    host: StartupHost, image: str, problem: str
) -> None:
    """Chips are billed meanwhile: what no second look can change ends the boot at the first, with a
    code and a remedy of its own."""
    error = refused(host, image, problem)

    assert error.startswith(f"image-unknown: docker cannot pull {image}@sha256:")
    assert problem in error
    assert "write an image for this machine that is there at tpuflex:serving.image" in error
    assert len(host.docker_calls("pull")) == 1


def refused(host: StartupHost, image: str, problem: str) -> str:
    """The error of a host whose docker says ``problem`` to every pull of ``image``."""
    host.mark("registry-down").write_text(problem)
    container = host.config()["container"] | {"image": f"{image}@sha256:" + "ab" * 32}
    host.cloud.config = host.config(container=container)
    return failed(host)
