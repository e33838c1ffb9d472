"""Artifact Registry v1: repositories. The images in them are served by ``docker_registry.py``."""

from __future__ import annotations

import re
import uuid

from embedded_cloud.core.clock import Clock, rfc3339
from embedded_cloud.core.errors import already_exists, invalid_argument, not_found
from embedded_cloud.core.json_types import JsonObject, child, text
from embedded_cloud.core.paging import Paging
from embedded_cloud.core.projects import require
from embedded_cloud.core.routing import Call, Context, Reply, Service
from embedded_cloud.core.store import Store

COLLECTION = "artifactregistry/repositories"
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
        """Delete a repository. Raises CloudError 404."""
        self.require(name)
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


def _parent(call: Call) -> str:
    return f"projects/{require(call.params['project'])}/locations/{call.params['location']}"


def _name(call: Call) -> str:
    return f"{_parent(call)}/repositories/{call.id}"


_REPOSITORIES = "artifactregistry.projects.locations.repositories"


def service(context: Context) -> Service:
    """Artifact Registry: the repositories of projects."""
    repositories = RepositoryHandlers(Repositories(context.store, context.clock))
    return Service(
        name="artifactregistry",
        version="v1",
        handlers={
            f"{_REPOSITORIES}.create": repositories.create,
            f"{_REPOSITORIES}.get": repositories.get,
            f"{_REPOSITORIES}.list": repositories.list,
            f"{_REPOSITORIES}.delete": repositories.delete,
            "artifactregistry.projects.locations.operations.get": repositories.operation,
        },
    )
