"""Organization policies of projects: what is in force, and what was set on a project."""

from __future__ import annotations

from embedded_cloud.core.errors import invalid_argument, not_found
from embedded_cloud.core.json_types import JsonObject, JsonValue, child, flag, text, texts
from embedded_cloud.core.projects import number_of
from embedded_cloud.core.routing import Call, Context, Reply, Service
from embedded_cloud.core.strictness import CONSTRAINTS, ConstraintKind, ConstraintValue

#: Constraint -> what the organization said before a policy was set on the project.
_COLLECTION = "_orgpolicy"


class ProjectPolicies:
    """What is in force, and what the organization had set where a project has set another.

    The strictness has the policies of all projects, so one that is set on a project holds for all.
    """

    def __init__(self, context: Context) -> None:
        self._store = context.store
        self._strictness = context.strictness
        self._change = context.change_strictness

    def effective(self, name: str) -> ConstraintValue | None:
        """What is in force of the constraint ``name``; None without any policy."""
        return self._strictness().organization_policies.constraints.get(name)

    def own(self, name: str) -> ConstraintValue | None:
        """What was set on the project; None if nothing was."""
        return None if self._store.get(_COLLECTION, name) is None else self.effective(name)

    def set(self, name: str, value: JsonValue) -> None:
        """Set a policy on the project; ``value`` is None for Google's default."""
        if self._store.get(_COLLECTION, name) is None:
            before = self._strictness().to_json()
            constraints = child(child(before, "organization_policies"), "constraints")
            self._store.put(_COLLECTION, name, {"value": constraints.get(name)})
        self._put(name, value)

    def clear(self, name: str) -> None:
        """Take away what was set on the project: what the organization says is in force again."""
        inherited = self._store.get(_COLLECTION, name)
        if inherited is not None:
            self._put(name, inherited["value"])
            self._store.delete(_COLLECTION, name)

    def _put(self, name: str, value: JsonValue) -> None:
        self._change({"organization_policies": {"constraints": {name: value}}})


def rule(name: str, value: ConstraintValue | None) -> JsonObject:
    """The rule of the effective policy of the constraint ``name``; None is no policy at all."""
    if value is None:
        return (
            {"enforce": False}
            if CONSTRAINTS[name] is ConstraintKind.BOOLEAN
            else {"allowAll": True}
        )
    if isinstance(value, bool):
        return {"enforce": value}
    if isinstance(value, str):
        return {"allowAll": True} if value == "allow_all" else {"denyAll": True}
    return {"values": {"allowedValues": list[JsonValue](value)}}


def asked_value(name: str, policy: JsonObject) -> JsonValue:
    """What a policy in the words of Resource Manager v1 says of ``name``; None for the default.

    Raises:
        CloudError: 400, it is not of the constraint's kind, or denies single values.
    """
    if "restoreDefault" in policy:
        return None
    if CONSTRAINTS[name] is ConstraintKind.BOOLEAN:
        if "booleanPolicy" not in policy:
            raise invalid_argument(f"constraints/{name} takes a booleanPolicy")
        return flag(child(policy, "booleanPolicy"), "enforced")
    listed = child(policy, "listPolicy")
    if texts(listed, "deniedValues"):
        raise invalid_argument("deniedValues is not imitated: allow values instead")
    values = texts(listed, "allowedValues")
    said = {"ALLOW": "allow_all", "DENY": "deny_all"}.get(text(listed, "allValues"))
    if said is None and not values:
        raise invalid_argument(f"constraints/{name} takes a listPolicy")
    return said or list[JsonValue](values)


class PolicyHandlers:
    """Handlers of ``projects.policies``, which read: Resource Manager v1 sets policies."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def get_effective(self, call: Call) -> Reply:
        """GET /v2/projects/{project}/policies/{constraint}:getEffectivePolicy."""
        return Reply(body=self._policy(call, self._value(call)))

    def get(self, call: Call) -> Reply:
        """GET /v2/projects/{project}/policies/{constraint}: only what was set on the project.

        What the strictness sets stands for a policy of the organization, so there is none.
        """
        self._value(call)
        raise not_found(f"Requested entity was not found: {self._name(call)}")

    def _value(self, call: Call) -> ConstraintValue | None:
        if call.id not in CONSTRAINTS:
            raise not_found(f"Constraint not found: constraints/{call.id}")
        return self._context.strictness().organization_policies.constraints.get(call.id)

    def _policy(self, call: Call, value: ConstraintValue | None) -> JsonObject:
        return {"name": self._name(call), "spec": {"rules": [rule(call.id, value)]}}

    def _name(self, call: Call) -> str:
        project = call.params["project"]
        number = number_of(project)
        return f"projects/{number}/policies/{call.id}"


def service(context: Context) -> Service:
    """Organization Policy: which constraints are in force in a project."""
    policies = PolicyHandlers(context)
    return Service(
        name="orgpolicy",
        version="v2",
        handlers={
            "orgpolicy.projects.policies.getEffectivePolicy": policies.get_effective,
            "orgpolicy.projects.policies.get": policies.get,
        },
    )
