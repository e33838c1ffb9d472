"""Which repository of Artifact Registry an image is in. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

DOCKER_HUB = "registry-1.docker.io"
#: By which a host tells its docker where images are asked for.
REGISTRY_VARIABLE = "TPUFLEX_REGISTRY"

# https://cloud.google.com/artifact-registry/docs/docker/names
_ARTIFACT_REGISTRY = re.compile(r"(?P<location>[a-z0-9-]+)-docker\.pkg\.dev")
#: Repositories that stand behind the hosts of Container Registry, and where they are
#: (https://cloud.google.com/artifact-registry/docs/transition/setup-gcr-repo).
_CONTAINER_REGISTRY = {
    "gcr.io": "us",
    "us.gcr.io": "us",
    "eu.gcr.io": "europe",
    "asia.gcr.io": "asia",
}


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository of a project.

    Attributes:
        project: project id.
        name: full resource name.
    """

    project: str
    name: str


def of_a_project(host: str) -> bool:
    """Whether the registry ``host`` has the repositories of projects."""
    return bool(_ARTIFACT_REGISTRY.fullmatch(host)) or host in _CONTAINER_REGISTRY


def repository(host: str, name: str) -> Repository | None:
    """The repository that has the image ``name`` of the registry ``host``.

    None where the registry has none of projects, or the name is too short to say which.
    """
    match = _ARTIFACT_REGISTRY.fullmatch(host)
    parts = name.split("/")
    if match is not None and len(parts) >= 3:
        location, project, repository_id = match["location"], parts[0], parts[1]
    elif host in _CONTAINER_REGISTRY and len(parts) >= 2:
        location, project, repository_id = _CONTAINER_REGISTRY[host], parts[0], host
    else:
        return None
    where = f"projects/{project}/locations/{location}/repositories/{repository_id}"
    return Repository(project, where)
