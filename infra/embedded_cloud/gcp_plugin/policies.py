"""IAM policies: read, change one binding, write back; again if there was another writer."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace

from embedded_cloud.gcp_plugin.call import CloudCall, failing_with
from embedded_cloud.json_types import JsonObject, JsonValue, children, texts
from tpuflex.errors import ApiError

#: Version 3 is the first that can carry conditions (cloud.google.com/iam/docs/policies).
POLICY_VERSION = 3

#: Statuses that mean that the policy changed between read and write.
_CONFLICT = {409, 412}


@dataclass(frozen=True, slots=True)
class PolicyCall:
    """One call on policies. The path is a format string over ``{resource}``.

    Attributes:
        verb: its HTTP method.
        path: its path.
        query: its query.
        body: its fixed body, if any.
        envelope: the field that carries the policy in a write; empty when the body is the policy.
    """

    verb: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: JsonObject | None = None
    envelope: str = ""


#: Of resources with full names, in APIs with the custom methods of `google.iam.v1.IAMPolicy`.
GET_IAM_POLICY = PolicyCall(
    "GET",
    "/v1/{resource}:getIamPolicy",
    (("options.requestedPolicyVersion", str(POLICY_VERSION)),),
)
#: The IAM API reads with POST.
GET_IAM_POLICY_BY_POST = replace(GET_IAM_POLICY, verb="POST")
SET_IAM_POLICY = PolicyCall("POST", "/v1/{resource}:setIamPolicy", envelope="policy")


@dataclass(frozen=True, slots=True)
class Grant:
    """One member in one role, perhaps under a condition."""

    role: str
    member: str
    condition: JsonValue = None

    def on(self, binding: JsonObject) -> bool:
        """Whether ``binding`` is of this role and condition."""
        return binding.get("role") == self.role and _same_condition(
            binding.get("condition"), self.condition
        )

    def within(self, policy: JsonObject) -> bool:
        """Whether ``policy`` grants this."""
        return any(
            self.on(binding) and self.member in texts(binding, "members")
            for binding in children(policy, "bindings")
        )


class _Locks:
    """One lock per resource: changes of one policy are made one after the other."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

    def of(self, resource: str) -> threading.Lock:
        with self._guard:
            return self._locks[resource]


_LOCKS = _Locks()


def fetch(reading: PolicyCall, resource: str, call: CloudCall) -> JsonObject:
    """The policy of ``resource``.

    Raises:
        ApiError: with status 404 when the resource is gone.
    """
    return call.request(
        reading.verb,
        reading.path.format(resource=resource),
        query=dict(reading.query),
        body=reading.body,
    )


def change(
    reading: PolicyCall,
    writing: PolicyCall,
    resource: str,
    edit: Callable[[JsonObject], JsonObject],
    call: CloudCall,
) -> JsonObject:
    """Read the policy, write it as edited by ``edit``, repeat on conflict; returns the result.

    Raises:
        ApiError: the policy could not be read or written.
    """
    with _LOCKS.of(f"{call.rest.base_url} {resource}"):
        pauses = call.waiter.pauses(f"the IAM policy of {resource} to stop changing")
        while True:
            # The policy carries its etag, which makes the API refuse a write against an old one.
            policy = edit(fetch(reading, resource, call)) | {"version": POLICY_VERSION}
            body: JsonObject = {writing.envelope: policy} if writing.envelope else policy
            path = writing.path.format(resource=resource)
            try:
                with failing_with(f"Error applying IAM policy for {resource}"):
                    return call.request(writing.verb, path, body=body)
            except ApiError as error:
                if error.status not in _CONFLICT:
                    raise
            next(pauses)


def granted(policy: JsonObject, grant: Grant) -> JsonObject:
    """``policy`` with ``grant`` in it."""
    if grant.within(policy):
        return policy
    bindings: list[JsonValue] = []
    added = False
    for binding in children(policy, "bindings"):
        if not added and grant.on(binding):
            binding = binding | {"members": [*texts(binding, "members"), grant.member]}
            added = True
        bindings.append(binding)
    if not added:
        new: JsonObject = {"role": grant.role, "members": [grant.member]}
        bindings.append(new | ({"condition": grant.condition} if grant.condition else {}))
    return policy | {"bindings": bindings}


def revoked(policy: JsonObject, grant: Grant) -> JsonObject:
    """``policy`` without ``grant``; a binding without members is removed."""
    bindings: list[JsonValue] = []
    for binding in children(policy, "bindings"):
        if grant.on(binding):
            members: list[JsonValue] = [
                one for one in texts(binding, "members") if one != grant.member
            ]
            binding = binding | {"members": members}
            if not members:
                continue
        bindings.append(binding)
    return policy | {"bindings": bindings}


def _same_condition(left: JsonValue, right: JsonValue) -> bool:
    if not isinstance(left, dict) or not isinstance(right, dict):
        return not left and not right
    keys = ("title", "description", "expression")
    return all((left.get(key) or "") == (right.get(key) or "") for key in keys)
