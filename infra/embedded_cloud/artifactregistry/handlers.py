"""HTTP calls on repositories, and on the operations that make and delete them."""

from __future__ import annotations

from embedded_cloud.artifactregistry.docker_images import DockerImages
from embedded_cloud.artifactregistry.state import Repositories
from embedded_cloud.json_types import JsonObject
from embedded_cloud.paging import Paging
from embedded_cloud.resourcemanager.state import require
from embedded_cloud.routing import Call, Reply

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
