"""IAM policies of any resource: who may do what, changed by read-modify-write with an etag.

https://cloud.google.com/iam/docs/reference/rest/v1/Policy
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Sequence

from embedded_cloud.core.clock import Clock
from embedded_cloud.core.errors import CloudError, cloud_error, invalid_argument
from embedded_cloud.core.json_types import (
    JsonObject,
    JsonValue,
    as_object,
    child,
    children,
    number,
    text,
    texts,
)
from embedded_cloud.core.routing import Call, Rights
from embedded_cloud.core.store import Store
from embedded_cloud.core.strictness import Strictness
from embedded_cloud.services.iam.conditions import not_understood, understood
from embedded_cloud.services.iam.roles import permissions_of, predefined_roles
from embedded_cloud.services.iam.state import exists

COLLECTION = "_iam/policies"
#: When each grant of a policy was made.
_SINCE = "_iam/since"
#: The etag that Google returns for a policy that was never set.
UNSET_ETAG = "ACAB"
PUBLIC_MEMBERS = frozenset({"allUsers", "allAuthenticatedUsers"})

_MEMBER = re.compile(
    r"(user|serviceAccount|group|domain|projectOwner|projectEditor|projectViewer"
    r"|principal|principalSet|deleted):.+"
)
_ROLE = re.compile(r"roles/[\w.]+|(projects|organizations)/[^/]+/roles/[\w.]+")


class Policies:
    """The policies of all resources, by full resource name."""

    def __init__(self, store: Store, clock: Clock, strictness: Callable[[], Strictness]) -> None:
        self._store = store
        self._clock = clock
        self._strictness = strictness

    def get(self, resource: str, initial: Sequence[JsonObject] = ()) -> JsonObject:
        """The policy of ``resource``; ``initial`` are its bindings until it is set."""
        stored = self._store.get(COLLECTION, resource)
        if stored is not None:
            return stored
        policy: JsonObject = {"version": 1, "etag": UNSET_ETAG}
        if initial:
            policy["bindings"] = list[JsonValue](initial)
        return policy

    def set(self, resource: str, policy_sent: JsonObject, *, public: bool = True) -> JsonObject:
        """Replace the policy.

        Args:
            resource: full resource name.
            policy_sent: the policy as sent; its etag, when there is one, must be the present one.
            public: allUsers and allAuthenticatedUsers are allowed on this resource.

        Raises:
            CloudError: 400, a role or member is not allowed; 409 ABORTED, the etag is stale.
        """
        present = self.get(resource)
        sent = text(policy_sent, "etag")
        if sent and sent != text(present, "etag"):
            raise concurrent_change()
        bindings = merged_bindings(children(policy_sent, "bindings"))
        version = int(number(policy_sent, "version", 1)) or 1
        for binding in bindings:
            self._check(binding, public=public)
            if child(binding, "condition") and version != 3:
                raise invalid_argument(
                    "Conditions in bindings need a policy version of 3 in the request."
                )
        policy: JsonObject = {"version": version, "etag": self._next_etag(present)}
        if bindings:
            policy["bindings"] = list[JsonValue](bindings)
        self._note_new(resource, bindings, present)
        self._store.put(COLLECTION, resource, policy)
        return policy

    def in_force(self, resource: str, initial: Sequence[JsonObject] = ()) -> list[JsonObject]:
        """The bindings of ``resource`` that grant something by now; see :meth:`get`."""
        bindings = children(self.get(resource, initial), "bindings")
        delay = self._strictness().iam.takes_effect_after_s
        if not delay:
            return bindings
        since = self._store.get(_SINCE, resource) or {}
        latest = self._clock.now() - delay
        return [
            {
                **binding,
                "members": [
                    member
                    for member in texts(binding, "members")
                    if number(since, _grant(binding, member)) <= latest
                ],
            }
            for binding in bindings
        ]

    def forget(self, resource: str) -> None:
        """Drop the policy together with its resource."""
        self._store.delete(COLLECTION, resource)
        self._store.delete(_SINCE, resource)

    def mark_deleted(self, email: str, unique_id: str) -> None:
        """Rename the deleted service account ``email`` in every policy that names it.

        https://cloud.google.com/iam/docs/service-accounts-delete-undelete#deleting
        """
        member = f"serviceAccount:{email}"
        deleted = f"deleted:{member}?uid={unique_id}"
        for resource, policy in self._store.list(COLLECTION):
            bindings = children(policy, "bindings")
            if not any(member in texts(binding, "members") for binding in bindings):
                continue
            renamed: list[JsonObject] = []
            for binding in bindings:
                members: list[JsonValue] = [
                    deleted if each == member else each for each in texts(binding, "members")
                ]
                renamed.append({**binding, "members": members})
            self._store.put(
                COLLECTION,
                resource,
                {
                    **policy,
                    "bindings": list[JsonValue](merged_bindings(renamed)),
                    "etag": self._next_etag(policy),
                },
            )

    def _note_new(self, resource: str, bindings: Sequence[JsonObject], before: JsonObject) -> None:
        """Note when each grant was made; those that were there before the first change, never."""
        old = {
            _grant(each, m) for each in children(before, "bindings") for m in texts(each, "members")
        }
        noted = self._store.get(_SINCE, resource) or {}
        now = self._clock.now()
        grants = {_grant(each, member) for each in bindings for member in texts(each, "members")}
        since: JsonObject = {
            grant: number(noted, grant) if grant in old else now for grant in sorted(grants)
        }
        self._store.put(_SINCE, resource, since)

    def _check(self, binding: JsonObject, *, public: bool) -> None:
        role = text(binding, "role")
        if not _ROLE.fullmatch(role):
            raise invalid_argument(f"Role {role} is not supported for this resource.")
        if self._strictness().iam.enforced:
            self._check_enforced(binding)
        for member in texts(binding, "members"):
            if member in PUBLIC_MEMBERS and public:
                continue
            if not _MEMBER.fullmatch(member):
                raise invalid_argument(
                    f"The member {member} is of an unknown type. Please set a valid type prefix "
                    "for the member."
                )
            kind, _, email = member.partition(":")
            if kind == "serviceAccount" and not self._known(email):
                raise invalid_argument(f"Service account {email} does not exist.")

    def _check_enforced(self, binding: JsonObject) -> None:
        """A role or a condition that nobody here can judge would grant nothing, or too much."""
        role, condition = text(binding, "role"), child(binding, "condition")
        if role not in predefined_roles() and permissions_of(self._store, role) is None:
            known = "" if "/roles/" in role else " (the embedded cloud knows some of Google's only)"
            raise invalid_argument(f"Role {role} is not supported for this resource.{known}")
        if condition and not understood(text(condition, "expression")):
            raise not_understood(condition)

    def _known(self, email: str) -> bool:
        delay = self._strictness().service_accounts.known_after_s
        return exists(self._store, email, made_by=self._clock.now() - delay)

    def _next_etag(self, present: JsonObject) -> str:
        """A new etag in Google's form (``BwX…``): never one that was given before."""
        before = base64.b64decode(text(present, "etag"))[1:]
        micros = int(self._clock.now() * 1_000_000)
        return _etag(max(micros, int.from_bytes(before, "big") + 1))


def tested(rights: Rights, call: Call, resource: str) -> JsonObject:
    """The answer of testIamPermissions about ``resource``; nothing held is no field."""
    held = rights.held(call, resource, texts(call.body or {}, "permissions"))
    return {"permissions": [*held]} if held else {}


def concurrent_change() -> CloudError:
    """409 ABORTED: the policy has changed since it was read."""
    return cloud_error(
        "ABORTED",
        "There were concurrent policy changes. Please retry the whole read-modify-write with "
        "exponential backoff. The request's ETag did not match the current policy's ETag.",
    )


def merged_bindings(bindings: Sequence[JsonObject]) -> list[JsonObject]:
    """One binding per role and condition, members sorted and unique, empty ones dropped."""
    merged: dict[tuple[str, str], JsonObject] = {}
    for binding in bindings:
        condition = child(binding, "condition")
        key = (text(binding, "role"), repr(sorted(condition.items(), key=str)))
        before = texts(merged.get(key, {}), "members")
        members = list[JsonValue](sorted({*before, *texts(binding, "members")}))
        if not members:
            continue
        entry: JsonObject = {"role": text(binding, "role"), "members": members}
        if condition:
            entry["condition"] = as_object(condition)
        merged[key] = entry
    return [merged[key] for key in sorted(merged)]


def _grant(binding: JsonObject, member: str) -> str:
    """One member of one role under one condition, as a key."""
    condition = child(binding, "condition")
    return f"{text(binding, 'role')} {text(condition, 'expression')} {member}"


def _etag(value: int) -> str:
    return base64.b64encode(b"\x07" + value.to_bytes(7, "big")).decode()
