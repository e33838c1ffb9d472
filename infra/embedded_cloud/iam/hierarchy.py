"""Whose policies decide about a resource: its own, and that of its project; about a key also its
ring's.

Resources are named as their policies are: ``projects/P``, ``projects/_/buckets/B``,
``projects/NUMBER/secrets/S``, ``projects/P/serviceAccounts/EMAIL``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from embedded_cloud.json_types import JsonObject, text
from embedded_cloud.resourcemanager.state import initial_bindings as project_bindings
from embedded_cloud.resourcemanager.state import named
from embedded_cloud.storage.state import initial_bindings as bucket_bindings
from embedded_cloud.store import Store
from embedded_cloud.tokens.identities import account_bindings

_BUCKETS = "projects/_/buckets/"


@dataclass(frozen=True, slots=True)
class PolicyPlace:
    """Where a policy is.

    Attributes:
        resource: the resource that it is on.
        initial: its bindings until it is set.
    """

    resource: str
    initial: tuple[JsonObject, ...] = ()


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """Finds the policies of resources.

    Attributes:
        store: where buckets are, whose names do not say their project.
        number_of: project id -> number.
    """

    store: Store
    number_of: Callable[[str], str]
    _ids: dict[str, str] = field(default_factory=dict)

    def policies(self, resource: str) -> tuple[PolicyPlace, ...]:
        """The policies that decide about ``resource``; none where its project is not known."""
        project = self.project(resource)
        if not project:
            return ()
        top = PolicyPlace(f"projects/{project}", tuple(project_bindings()))
        if resource == top.resource or resource.count("/") == 1:
            return (top,)
        own = PolicyPlace(resource, self._initial(resource, project))
        ring, _, key = resource.partition("/cryptoKeys/")
        return (own, PolicyPlace(ring), top) if key else (own, top)

    def is_absent_bucket(self, resource: str) -> bool:
        """Whether ``resource`` is a bucket that is not there."""
        return resource.startswith(_BUCKETS) and not self.project(resource)

    def project(self, resource: str) -> str:
        """The id of the project of ``resource``; empty for a bucket that is not there."""
        if resource.startswith(_BUCKETS):
            bucket = self.store.get("storage/buckets", resource.removeprefix(_BUCKETS))
            return text(bucket or {}, "project")
        return self._id(resource.split("/")[1])

    def _initial(self, resource: str, project: str) -> tuple[JsonObject, ...]:
        if resource.startswith(_BUCKETS):
            return tuple(bucket_bindings(project))
        return tuple(account_bindings(resource, project, self.number_of(project)))

    def _id(self, project: str) -> str:
        """The id of a project that may be named by its number."""
        if not project.isdecimal():
            return project
        if project not in self._ids:
            found = named(project, self.store, self.number_of)
            if found.isdecimal():
                return found
            self._ids[project] = found
        return self._ids[project]
