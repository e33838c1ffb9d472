"""Where the serving image is: in a registry of Google's, and in which project. Pure."""

from __future__ import annotations

import re

#: LOCATION-docker.pkg.dev/PROJECT/REPOSITORY/IMAGE
#: (https://cloud.google.com/artifact-registry/docs/docker/names), and gcr.io/PROJECT/IMAGE, which
#: Artifact Registry serves too
#: (https://cloud.google.com/artifact-registry/docs/transition/setup-gcr-repo).
_OF_A_PROJECT = re.compile(
    r"(?:[a-z0-9-]+-docker\.pkg\.dev|(?:(?:us|eu|asia)\.)?gcr\.io)/([^/@]+)/[^@]+(?:@.*)?"
)
#: Registries of Google's own, open to everybody, such as mirror.gcr.io
#: (https://cloud.google.com/artifact-registry/docs/pull-cached-dockerhub-images).
_OF_GOOGLE = re.compile(r"[a-z0-9-]+\.gcr\.io/.+")


def in_google_registry(image: str) -> bool:
    """Whether hosts that reach nothing but Google can pull ``image``."""
    return bool(_OF_A_PROJECT.fullmatch(image) or _OF_GOOGLE.fullmatch(image))


def registry_project(image: str) -> str | None:
    """The Google Cloud project whose registry has ``image``; None if no project's has it."""
    match = _OF_A_PROJECT.fullmatch(image)
    return match[1] if match else None


def on_docker_hub(repository: str) -> str | None:
    """The name on Docker Hub of ``repository``; None if another registry has it."""
    host, slash, rest = repository.partition("/")
    if host in ("docker.io", "index.docker.io"):
        return rest
    if slash and ("." in host or ":" in host or host == "localhost"):
        return None
    return repository if slash else f"library/{repository}"
