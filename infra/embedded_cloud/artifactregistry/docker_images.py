"""The docker images of repositories. No HTTP.

None is kept. A repository has those that were asked for by their digest; one that images are pushed
to has every other one as well, because a test or a user who names one means to have pushed it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import quote, unquote

from embedded_cloud.artifactregistry.state import IMAGES, Repositories
from embedded_cloud.clock import Clock, rfc3339
from embedded_cloud.errors import not_found
from embedded_cloud.json_types import JsonObject, text
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
