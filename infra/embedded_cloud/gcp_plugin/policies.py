"""IAM policies: read, change one binding, write back; again if there was another writer."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace

from embedded_cloud.core.json_types import JsonObject, JsonValue, child, children, text, texts
from embedded_cloud.gcp_plugin.call import CloudCall, failing_with, unless_gone
from embedded_cloud.gcp_plugin.fields import CONDITION, ETAG, MEMBER, ROLE, Property
from embedded_cloud.gcp_plugin.resource_type import Identity, Made, ResourceType
from embedded_cloud.gcp_plugin.states import located
from pulumi_plugin.values import Properties
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


@dataclass(frozen=True, slots=True)
class IamMember:
    """Members of the policies of one kind of resource.

    Attributes:
        target: the property that names the resource.
        prefix: what precedes a bare name in its id, such as ``b/`` for a bucket; may contain
            ``{project}``.
        reading: reads the policy.
        writing: writes it.
    """

    target: str
    prefix: str
    reading: PolicyCall
    writing: PolicyCall

    def create(self, row: ResourceType, inputs: Properties, call: CloudCall) -> Made:
        """Add the member to the policy."""
        values = located(row, inputs, call.settings)
        grant = _grant(values)
        resource = self._full(values)
        policy = change(
            self.reading, self.writing, resource, lambda before: granted(before, grant), call
        )
        return Made(self._id(resource, grant), self._state(row, values, resource, policy))

    def read(self, row: ResourceType, made: Made, call: CloudCall) -> Made | None:
        """The present state, or ``None`` when the policy does not grant this."""
        resource = self._full(made.state)
        policy = unless_gone(
            f"Error when reading or editing {row.title}",
            lambda: fetch(self.reading, resource, call),
        )
        if policy is None:
            return None
        values = _with_condition(made.state, policy)
        grant = _grant(values)
        if not grant.within(policy):
            return None
        return Made(self._id(resource, grant), self._state(row, values, resource, policy))

    def update(
        self, row: ResourceType, made: Made, inputs: Properties, call: CloudCall
    ) -> Properties:
        """Nothing of a member can be changed in place."""
        raise ApiError(f"Error updating {row.title} {made.id!r}: every change replaces it")

    def delete(self, row: ResourceType, made: Made, call: CloudCall) -> None:
        """Remove the member from the policy, unless the resource is gone already."""
        grant, resource = _grant(made.state), self._full(made.state)
        try:
            change(
                self.reading, self.writing, resource, lambda before: revoked(before, grant), call
            )
        except ApiError as error:
            if error.status != 404:
                raise

    def _full(self, values: Properties) -> str:
        # A bare name, "project/name" and the full form are all accepted.
        parts = text(values, self.target).split("/")
        if len(parts) > self.prefix.count("/") > 0:
            return "/".join(parts)
        project = parts[0] if len(parts) > 1 else text(values, "project")
        return self.prefix.format(project=project) + parts[-1]

    def _id(self, resource: str, grant: Grant) -> str:
        parts = [resource, grant.role, grant.member]
        if isinstance(grant.condition, dict):
            parts += [text(grant.condition, key) for key in ("title", "description", "expression")]
        return "/".join(parts)

    def _state(
        self, row: ResourceType, values: Properties, resource: str, policy: JsonObject
    ) -> Properties:
        kept: Properties = {
            item.name: values[item.name] for item in row.inputs if item.name in values
        }
        state = kept | {self.target: resource, "etag": text(policy, "etag")}
        if "{project}" in self.prefix:
            state["project"] = resource.split("/")[1]
        return state


def iam_member(token: str, target: Property, behaviour: IamMember, *more: Property) -> ResourceType:
    """The row of a type of members.

    Args:
        token: the type's token.
        target: the property that names the resource.
        behaviour: the policies.
        more: further properties.
    """
    return ResourceType(
        token=token,
        title=token.rpartition(":")[2],
        properties=(target, *more, ROLE, MEMBER, CONDITION, ETAG),
        identity=Identity(
            f"{{{target.name}}} {{role}} {{member}}",
            # The last part is the title of its condition.
            (f"{{{target.name}}} {{role}} {{member}} {{condition}}",),
        ),
        behaviour=behaviour,
    )


def _with_condition(values: Properties, policy: JsonObject) -> Properties:
    """``values``, with the condition that an id to import names by its title only."""
    title = values.get("condition")
    if not isinstance(title, str):
        return values
    for binding in children(policy, "bindings"):
        condition = child(binding, "condition")
        if text(binding, "role") == text(values, "role") and text(condition, "title") == title:
            return values | {"condition": {key: str(value) for key, value in condition.items()}}
    return values | {"condition": {"title": title}}


def _grant(values: Properties) -> Grant:
    condition: JsonObject = {key: str(value) for key, value in child(values, "condition").items()}
    return Grant(text(values, "role"), text(values, "member"), condition or None)
