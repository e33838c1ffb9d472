"""The state of Compute Engine: resources of all kinds, and how one kind differs.

A kind has two rules: ``complete`` checks and completes a new or changed resource, ``users`` are
the resources that still need one, which forbids deleting it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from embedded_cloud.core.json_types import JsonObject, JsonValue, text
from embedded_cloud.core.store import Store
from embedded_cloud.core.strictness import Strictness
from embedded_cloud.services.compute.errors import invalid, required
from embedded_cloud.services.compute.paths import Scope

_NAME = re.compile(r"[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?")


class Resources:
    """Every Compute resource, by path."""

    def __init__(self, store: Store, strictness: Callable[[], Strictness]) -> None:
        self.store = store
        self.strictness = strictness

    def get(self, path: str) -> JsonObject | None:
        """The resource at ``path``, or None."""
        return self.store.get(f"compute/{collection_of(path)}", path)

    def exists(self, path: str) -> bool:
        """Whether there is a resource at ``path``."""
        return self.get(path) is not None

    def all(self, collection: str, prefix: str) -> list[JsonObject]:
        """The resources of a collection whose path starts with ``prefix``, by path."""
        return [value for _, value in self.store.list(f"compute/{collection}", prefix)]

    def users(self, collection: str, project: str, field: str, path: str) -> Iterable[str]:
        """Paths of the resources in ``collection`` whose ``field`` names ``path``."""
        for each in self.all(collection, f"projects/{project}/"):
            if text(each, field) == path:
                yield text(each, "selfLink")


@dataclass(frozen=True, slots=True)
class Target:
    """The resource that a call is about, existing or to be created."""

    resources: Resources
    scope: Scope
    path: str

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class ResourceKind:
    """One kind of resource.

    Attributes:
        collection: as in paths and method ids, such as ``networks``.
        singular: as in error messages and the ``kind`` field, such as ``network``.
        regional: it lives in a region.
        complete: the resource to store for what was asked for (links already relative).
        users: paths of what uses a resource; the first one is named when a delete is refused.
        needs_fingerprint: a change must carry the present fingerprint.
    """

    collection: str
    singular: str
    regional: bool
    complete: Callable[[Target, JsonObject, JsonObject | None], JsonObject]
    users: Callable[[Target], Iterable[str]]
    needs_fingerprint: bool = False

    def path(self, scope: Scope, name: str) -> str:
        """The path of the resource called ``name``."""
        return f"{scope.path}/{self.collection}/{name}"


def check_name(body: JsonObject) -> str:
    """The new resource's name. Raises CloudError 400."""
    name = text(body, "name")
    if not name:
        raise required("resource.name")
    if not _NAME.fullmatch(name):
        raise invalid("resource.name", name, f"Must be a match of regex '{_NAME.pattern}'")
    return name


def check_unchanged(
    before: JsonObject | None, after: JsonObject, fields: Iterable[str], why: str
) -> None:
    """Raises CloudError 400 when one of ``fields`` differs from what it was."""
    for field in fields:
        if before is not None and after.get(field) != before.get(field):
            raise invalid(f"resource.{field}", after.get(field), why)


def collection_of(path: str) -> str:
    """``networks`` of ``projects/p/global/networks/n``."""
    return path.split("/")[-2]


def fingerprint(resource: JsonObject) -> str:
    """A tag that changes whenever the resource does."""
    rest: dict[str, JsonValue] = {k: v for k, v in resource.items() if k != "fingerprint"}
    digest = hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).digest()
    return base64.b64encode(digest[:8]).decode()
