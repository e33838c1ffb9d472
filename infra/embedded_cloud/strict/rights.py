"""Which permissions a caller has: the bindings of all policies that decide about a resource, by
their roles. What a call asks for is in :mod:`embedded_cloud.strict.required_permissions`.

https://cloud.google.com/iam/docs/policies. Deny policies, groups and organizations are not there.

Resources are named as their policies are: ``projects/P``, ``projects/_/buckets/B``,
``projects/NUMBER/secrets/S``, ``projects/P/serviceAccounts/EMAIL``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from embedded_cloud.core.access import Access, Caller, Principal
from embedded_cloud.core.errors import invalid_argument
from embedded_cloud.core.json_types import JsonObject, child, text, texts
from embedded_cloud.core.projects import initial_bindings as project_bindings
from embedded_cloud.core.projects import named, project_number
from embedded_cloud.core.routing import Call
from embedded_cloud.core.store import Store
from embedded_cloud.core.strictness import Strictness
from embedded_cloud.services.iam.conditions import holds
from embedded_cloud.services.iam.policies import PUBLIC_MEMBERS, Policies
from embedded_cloud.services.iam.roles import permissions_of, predefined_roles
from embedded_cloud.services.storage.state import initial_bindings as bucket_bindings
from embedded_cloud.services.tokens.identities import account_bindings

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
    """

    store: Store
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
        return tuple(account_bindings(resource, project, project_number(project)))

    def _id(self, project: str) -> str:
        """The id of a project that may be named by its number."""
        if not project.isdecimal():
            return project
        if project not in self._ids:
            found = named(project, self.store)
            if found.isdecimal():
                return found
            self._ids[project] = found
        return self._ids[project]


#: Members that stand for all who have a basic role on a project.
_CONVENIENCE = {
    "projectOwner": "roles/owner",
    "projectEditor": "roles/editor",
    "projectViewer": "roles/viewer",
}
_FEDERATED = "principal:"


class Rights:
    """What callers may do.

    Args:
        store: where roles and policies are.
        policies: the policies.
        hierarchy: which of them decide.
        access: tells whose call it is.
        strictness: whether bindings decide at all, and when a new one does.
        host_account: key of a host -> e-mail address of its service account.
    """

    def __init__(
        self,
        store: Store,
        policies: Policies,
        hierarchy: Hierarchy,
        access: Access,
        strictness: Callable[[], Strictness],
        host_account: Callable[[str], str],
    ) -> None:
        self._store = store
        self._policies = policies
        self._hierarchy = hierarchy
        self._access = access
        self._strictness = strictness
        self._host_account = host_account

    def caller(self, authorization: str) -> Caller:
        """Whose call it is. One without a token has passed the door as the owner's."""
        return self._access.caller(authorization) if authorization else Caller(Principal.OWNER)

    def email(self, caller: Caller) -> str:
        """How errors name ``caller``; empty for the owner."""
        if caller.kind is Principal.HOST:
            return self._host_account(caller.account)
        return caller.account

    def held(self, call: Call, resource: str, permissions: Sequence[str]) -> list[str]:
        """Those of ``permissions`` that the caller of ``call`` has on ``resource``
        (testIamPermissions).

        Raises:
            CloudError: 400 for a wildcard.
        """
        for name in permissions:
            if "*" in name:
                raise invalid_argument(
                    f"Permission {name} is not valid: wildcards are not allowed."
                )
        caller = self.caller(call.headers.get("Authorization", ""))
        return [name for name in permissions if self.may(caller, name, resource)]

    def may(
        self,
        caller: Caller,
        permission: str,
        resource: str,
        modified: frozenset[str] = frozenset(),
        name: str = "",
    ) -> bool:
        """Whether ``caller`` may do what asks for ``permission`` on ``resource``.

        Args:
            caller: who calls.
            permission: such as ``tpu.nodes.get``.
            resource: name of the resource whose policy is asked first.
            modified: the roles that the call grants or revokes.
            name: name of the resource that conditions are about, where it has no policy of its own:
                an object in a bucket.
        """
        strictness = self._strictness()
        host = caller.kind is Principal.HOST
        if not host and permission in strictness.permissions.missing:
            return False
        # What hosts may do without enforcement is a list of methods: see Access.
        if not strictness.iam.enforced or caller.kind is Principal.OWNER:
            return True
        if self._hierarchy.is_absent_bucket(resource):
            # Everybody may be told: names of buckets are global.
            return True
        return self.granted(caller, permission, resource, modified, name)

    def granted(
        self,
        caller: Caller,
        permission: str,
        resource: str,
        modified: frozenset[str] = frozenset(),
        name: str = "",
    ) -> bool:
        """Whether a binding that is in force grants ``permission``; see :meth:`may`."""
        members = self._members(caller)
        return any(
            self._holds(text(binding, "role"), permission)
            and (
                not binding.get("condition")
                or holds(child(binding, "condition"), modified, name or resource)
            )
            and self._names(texts(binding, "members"), members)
            for place in self._hierarchy.policies(resource)
            for binding in self._policies.in_force(place.resource, place.initial)
        )

    def granted_to(self, account: str, permission: str, resource: str) -> bool:
        """Whether the service account ``account`` is granted ``permission`` on ``resource``.

        Bindings decide, also where they do not about callers: a service agent has no other rights.
        """
        return self.granted(Caller(Principal.SERVICE_ACCOUNT, account), permission, resource)

    def _members(self, caller: Caller) -> frozenset[str]:
        """How policies name ``caller``."""
        account = self.email(caller)
        if account.startswith(_FEDERATED):
            pool = account.removeprefix(_FEDERATED).partition("/subject/")[0]
            return frozenset({account, f"principalSet:{pool}/*", *PUBLIC_MEMBERS})
        kind = "user" if caller.kind is Principal.USER else "serviceAccount"
        return frozenset({f"{kind}:{account}", *PUBLIC_MEMBERS})

    def _names(self, listed: Sequence[str], members: frozenset[str]) -> bool:
        return any(member in members or self._has_basic_role(member, members) for member in listed)

    def _has_basic_role(self, member: str, members: frozenset[str]) -> bool:
        kind, _, project = member.partition(":")
        role = _CONVENIENCE.get(kind)
        if role is None:
            return False
        return any(
            text(binding, "role") == role and members & {*texts(binding, "members")}
            for place in self._hierarchy.policies(f"projects/{project}")
            for binding in self._policies.in_force(place.resource, place.initial)
        )

    def _holds(self, role: str, permission: str) -> bool:
        found = predefined_roles().get(role)
        if found is not None:
            return found.holds(permission)
        return permission in (permissions_of(self._store, role) or frozenset())
