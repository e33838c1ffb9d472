"""Which registry an image is in, by its name."""

from __future__ import annotations

import pytest

from tpuflex.settings.serving import in_google_registry, on_docker_hub, registry_project

DIGEST = "sha256:" + "ab" * 32


@pytest.mark.parametrize(
    ("repository", "project", "reachable"),
    [
        ("us-east5-docker.pkg.dev/p/dockerhub/vllm/vllm-tpu", "p", True),
        ("europe-docker.pkg.dev/other-project/r/i", "other-project", True),
        ("gcr.io/p/vllm-tpu", "p", True),
        ("eu.gcr.io/p/a/b", "p", True),
        ("mirror.gcr.io/vllm/vllm-tpu", None, True),
        ("vllm/vllm-tpu", None, False),
        ("docker.io/vllm/vllm-tpu", None, False),
        ("docker.pkg.dev/p/r/i", None, False),
        ("x-docker.pkg.dev.example.com/p/r/i", None, False),
        ("gcr.io.example.com/p/i", None, False),
        ("example.com/gcr.io/p/i", None, False),
        ("gcr.io:5000/p/i", None, False),
        ("xgcr.io/p/i", None, False),
    ],
)
def test_only_googles_registries_are_googles(
    repository: str, project: str | None, reachable: bool
) -> None:
    """Names that only look like Google's are not taken for them."""
    image = f"{repository}@{DIGEST}"

    assert registry_project(image) == project
    assert in_google_registry(image) is reachable


@pytest.mark.parametrize(
    ("repository", "name"),
    [
        ("vllm/vllm-tpu", "vllm/vllm-tpu"),
        ("ubuntu", "library/ubuntu"),
        ("docker.io/vllm/vllm-tpu", "vllm/vllm-tpu"),
        ("ghcr.io/a/b", None),
        ("localhost/a", None),
        ("registry:5000/a", None),
    ],
)
def test_names_on_docker_hub(repository: str, name: str | None) -> None:
    """What has no registry in its name is on Docker Hub, official images in its library."""
    assert on_docker_hub(repository) == name
