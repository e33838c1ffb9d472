"""Artifact Registry v1: repositories and images. Registries: :mod:`embedded_cloud.registry`.

None is kept. A repository has those that were asked for by their digest; one that images are pushed
to has every other one as well, because a test or a user who names one means to have pushed it.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from urllib.parse import quote, unquote

from embedded_cloud.clock import Clock, rfc3339
from embedded_cloud.errors import already_exists, invalid_argument, not_found
from embedded_cloud.json_types import JsonObject, child, text
from embedded_cloud.paging import Paging
from embedded_cloud.resourcemanager.state import require
from embedded_cloud.routing import Call, Context, Reply, Service
from embedded_cloud.store import Store
from embedded_cloud.strictness import Registry

#: Of what a registry gives, too.
MEDIA_TYPE = "application/vnd.oci.image.index.v1+json"
_IMAGE = re.compile(r"[a-z0-9][a-z0-9._/-]*@sha256:[0-9a-f]{64}")


class DockerImages:
    """The images of all repositories.

    Args:
        store: the cloud's memory.
        clock: its time.
        strictness: of registries, which says what they do not have.
    """

    def __init__(self, store: Store, clock: Clock, strictness: Callable[[], Registry]) -> None:
        self._repositories = Repositories(store, clock)
        self._store = store
        self._clock = clock
        self._strictness = strictness

    def pulled(self, repository: str, image: str) -> None:
        """``image``, as ``NAME@sha256:…``, was pulled from ``repository``, a full name."""
        name = _key(repository, image)
        if _IMAGE.fullmatch(image) and self._store.get(IMAGES, name) is None:
            self._store.put(IMAGES, name, self._image(repository, image))

    def require(self, repository: str, image: str) -> JsonObject:
        """The image of that name and digest; slashes within its name may be ``%2F``.

        Raises:
            CloudError: 404: the repository is not there, or it has no such image.
        """
        within = self._repositories.require(repository)
        image = unquote(image)
        found = self._store.get(IMAGES, _key(repository, image))
        pushed_to = text(within, "mode") == "STANDARD_REPOSITORY"
        if found is None and pushed_to and _IMAGE.fullmatch(image):
            found = self._image(repository, image)
        _, _, digest = image.partition("@")
        absent = {each.rpartition("@")[2] for each in self._strictness().absent}
        if found is None or digest in absent:
            raise not_found("Requested entity was not found.")
        return found

    def within(self, repository: str) -> list[JsonObject]:
        """The images of a repository, by name. Raises CloudError 404."""
        self._repositories.require(repository)
        return [value for _, value in self._store.list(IMAGES, _key(repository, ""))]

    def _image(self, repository: str, image: str) -> JsonObject:
        _, project, _, location, _, repository_id = repository.split("/")
        now = rfc3339(self._clock.now())
        return {
            "name": _key(repository, image),
            "uri": f"{location}-docker.pkg.dev/{project}/{repository_id}/{image}",
            "mediaType": MEDIA_TYPE,
            "imageSizeBytes": "0",
            "uploadTime": now,
            "updateTime": now,
        }


def _key(repository: str, image: str) -> str:
    # As Google's names have it: a slash within an image's name is none between names.
    return f"{repository}/dockerImages/{quote(image, safe='@:')}"


COLLECTION = "artifactregistry/repositories"
IMAGES = "_artifactregistry/dockerImages"
_OPERATIONS = "_artifactregistry/operations"
# https://cloud.google.com/artifact-registry/docs/repositories/create-repos; those of gcr.io have
# its name (https://cloud.google.com/artifact-registry/docs/transition/setup-gcr-repo).
_ID = re.compile(r"[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?|(?:(?:us|eu|asia)\.)?gcr\.io")


class Repositories:
    """The repositories of all projects, by full name."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def create(self, parent: str, repository_id: str, settings: JsonObject) -> JsonObject:
        """A new repository of ``parent``, ``projects/P/locations/L``.

        Raises:
            CloudError: 400, the id, the format or the mode is not allowed; 409, the id is taken.
        """
        if not _ID.fullmatch(repository_id):
            raise invalid_argument(f"invalid repository ID: {repository_id!r}")
        kind = text(settings, "format")
        if kind in ("", "FORMAT_UNSPECIFIED"):
            raise invalid_argument("repository format must be specified")
        mode = text(settings, "mode") or "STANDARD_REPOSITORY"
        if (mode == "REMOTE_REPOSITORY") != bool(child(settings, "remoteRepositoryConfig")):
            raise invalid_argument("a remote repository, and no other, has a remote config")
        name = f"{parent}/repositories/{repository_id}"
        if self._store.get(COLLECTION, name) is not None:
            raise already_exists("the repository already exists")
        now = rfc3339(self._clock.now())
        repository: JsonObject = {
            **settings,
            "name": name,
            "mode": mode,
            "createTime": now,
            "updateTime": now,
        }
        if kind == "DOCKER":
            _, project, _, location = parent.split("/")
            repository["registryUri"] = f"{location}-docker.pkg.dev/{project}/{repository_id}"
        self._store.put(COLLECTION, name, repository)
        return repository

    def find(self, name: str) -> JsonObject | None:
        """The repository of that full name, or None."""
        return self._store.get(COLLECTION, name)

    def require(self, name: str) -> JsonObject:
        """The repository of that full name. Raises CloudError 404."""
        repository = self.find(name)
        if repository is None:
            raise not_found("Requested entity was not found.")
        return repository

    def within(self, parent: str) -> list[JsonObject]:
        """The repositories of a location, by name."""
        return [value for _, value in self._store.list(COLLECTION, f"{parent}/repositories/")]

    def delete(self, name: str) -> None:
        """Delete a repository with its images. Raises CloudError 404."""
        self.require(name)
        for image, _ in list(self._store.list(IMAGES, f"{name}/")):
            self._store.delete(IMAGES, image)
        self._store.delete(COLLECTION, name)

    def finished(self, parent: str, metadata: JsonObject, response: JsonObject) -> JsonObject:
        """A new operation that is done, with ``response``."""
        name = f"{parent}/operations/{uuid.uuid4()}"
        operation: JsonObject = {
            "name": name,
            "metadata": metadata,
            "done": True,
            "response": response,
        }
        self._store.put(_OPERATIONS, name, operation)
        return operation

    def operation(self, name: str) -> JsonObject:
        """The operation of that full name. Raises CloudError 404."""
        operation = self._store.get(_OPERATIONS, name)
        if operation is None:
            raise not_found("Requested entity was not found.")
        return operation


_PAGING = Paging(default=1000, maximum=1000)
_TYPE = "type.googleapis.com/google.devtools.artifactregistry.v1."


class RepositoryHandlers:
    """Handlers of ``repositories`` and ``operations``. Operations are done when answered."""

    def __init__(self, repositories: Repositories) -> None:
        self._repositories = repositories

    def create(self, call: Call) -> Reply:
        """POST …/locations/{location}/repositories."""
        made = self._repositories.create(
            _parent(call), call.query.get("repositoryId", ""), call.body or {}
        )
        return self._done(call, {"@type": f"{_TYPE}Repository", **made})

    def get(self, call: Call) -> Reply:
        """GET …/repositories/{repository}."""
        return Reply(body=self._repositories.require(_name(call)))

    def list(self, call: Call) -> Reply:
        """GET …/locations/{location}/repositories."""
        found = self._repositories.within(_parent(call))
        return _PAGING.resources(call, "repositories", found)

    def delete(self, call: Call) -> Reply:
        """DELETE …/repositories/{repository}."""
        self._repositories.delete(_name(call))
        return self._done(call, {"@type": "type.googleapis.com/google.protobuf.Empty"})

    def operation(self, call: Call) -> Reply:
        """GET …/operations/{operation}."""
        return Reply(body=self._repositories.operation(f"{_parent(call)}/operations/{call.id}"))

    def _done(self, call: Call, response: JsonObject) -> Reply:
        metadata: JsonObject = {"@type": f"{_TYPE}OperationMetadata"}
        return Reply(body=self._repositories.finished(_parent(call), metadata, response))


class DockerImageHandlers:
    """Handlers of ``repositories.dockerImages``."""

    def __init__(self, images: DockerImages) -> None:
        self._images = images

    def get(self, call: Call) -> Reply:
        """GET …/repositories/{repository}/dockerImages/{dockerImage}."""
        return Reply(body=self._images.require(_repository(call), call.id))

    def list(self, call: Call) -> Reply:
        """GET …/repositories/{repository}/dockerImages, by name."""
        found = self._images.within(_repository(call))
        return _PAGING.resources(call, "dockerImages", found)


def _repository(call: Call) -> str:
    return f"{_parent(call)}/repositories/{call.params['repository']}"


def _parent(call: Call) -> str:
    return f"projects/{require(call.params['project'])}/locations/{call.params['location']}"


def _name(call: Call) -> str:
    return f"{_parent(call)}/repositories/{call.id}"


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
