"""Repositories. No HTTP."""

from __future__ import annotations

import re
import uuid

from embedded_cloud.clock import Clock, rfc3339
from embedded_cloud.errors import already_exists, invalid_argument, not_found
from embedded_cloud.json_types import JsonObject, child, text
from embedded_cloud.store import Store

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
