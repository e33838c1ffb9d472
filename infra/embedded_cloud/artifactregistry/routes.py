"""The Artifact Registry v1 methods that are emulated."""

from __future__ import annotations

from embedded_cloud.artifactregistry.docker_images import DockerImages
from embedded_cloud.artifactregistry.handlers import DockerImageHandlers, RepositoryHandlers
from embedded_cloud.artifactregistry.state import Repositories
from embedded_cloud.routing import Context, Service

_REPOSITORIES = "artifactregistry.projects.locations.repositories"


def service(context: Context) -> Service:
    """Artifact Registry: the repositories of projects, and their docker images."""
    images = DockerImageHandlers(
        DockerImages(context.store, context.clock, lambda: context.strictness().registry)
    )
    repositories = RepositoryHandlers(Repositories(context.store, context.clock))
    return Service(
        name="artifactregistry",
        version="v1",
        handlers={
            f"{_REPOSITORIES}.create": repositories.create,
            f"{_REPOSITORIES}.get": repositories.get,
            f"{_REPOSITORIES}.list": repositories.list,
            f"{_REPOSITORIES}.delete": repositories.delete,
            f"{_REPOSITORIES}.dockerImages.get": images.get,
            f"{_REPOSITORIES}.dockerImages.list": images.list,
            "artifactregistry.projects.locations.operations.get": repositories.operation,
        },
    )
