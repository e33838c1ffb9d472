"""The Resource Manager v1 methods that are emulated."""

from __future__ import annotations

from embedded_cloud.core.errors import invalid_argument
from embedded_cloud.core.json_types import JsonObject, JsonValue, child, text
from embedded_cloud.core.projects import (
    CREATED,
    initial_bindings,
    policy_resource,
    project_number,
    require,
)
from embedded_cloud.core.routing import Call, Context, Reply, Rights, Service
from embedded_cloud.core.strictness import CONSTRAINTS, ConstraintKind, ConstraintValue
from embedded_cloud.services.iam.policies import Policies, tested
from embedded_cloud.services.orgpolicy import ProjectPolicies, asked_value


class ProjectHandlers:
    """Handlers of ``projects``."""

    def __init__(
        self,
        policies: Policies,
        rights: Rights,
        org_policies: ProjectPolicies,
    ) -> None:
        self._policies = policies
        self._rights = rights
        self._org_policies = org_policies

    def get(self, call: Call) -> Reply:
        """GET /v1/projects/{project}."""
        project = require(call.id)
        return Reply(
            body={
                "projectId": project,
                "projectNumber": project_number(project),
                "name": project,
                "lifecycleState": "ACTIVE",
                "createTime": CREATED,
            }
        )

    def get_policy(self, call: Call) -> Reply:
        """POST …:getIamPolicy."""
        project = require(call.id)
        return Reply(body=self._policies.get(policy_resource(project), initial_bindings()))

    def set_policy(self, call: Call) -> Reply:
        """POST …:setIamPolicy."""
        project = require(call.id)
        policy = child(call.body or {}, "policy")
        return Reply(body=self._policies.set(policy_resource(project), policy, public=False))

    def test_permissions(self, call: Call) -> Reply:
        """POST …:testIamPermissions."""
        resource = policy_resource(require(call.id))
        return Reply(body=tested(self._rights, call, resource))

    def effective_org_policy(self, call: Call) -> Reply:
        """POST …:getEffectiveOrgPolicy."""
        name = _constraint(call, call.body or {})
        value = self._org_policies.effective(name)
        return Reply(body={"constraint": f"constraints/{name}", **_rule(name, value)})

    def org_policy(self, call: Call) -> Reply:
        """POST …:getOrgPolicy: only what was set on the project."""
        name = _constraint(call, call.body or {})
        value = self._org_policies.own(name)
        rule = {} if value is None else _rule(name, value)
        return Reply(body={"constraint": f"constraints/{name}", **rule})

    def set_org_policy(self, call: Call) -> Reply:
        """POST …:setOrgPolicy."""
        policy = child(call.body or {}, "policy")
        name = _constraint(call, policy)
        self._org_policies.set(name, asked_value(name, policy))
        return Reply(body=policy)

    def clear_org_policy(self, call: Call) -> Reply:
        """POST …:clearOrgPolicy."""
        self._org_policies.clear(_constraint(call, call.body or {}))
        return Reply(body={})


def _constraint(call: Call, named: JsonObject) -> str:
    """The constraint that is asked for, without ``constraints/``.

    Raises:
        CloudError: 400, there is none of that name; 403, as :func:`require`.
    """
    require(call.id)
    constraint = text(named, "constraint")
    name = constraint.removeprefix("constraints/")
    if name not in CONSTRAINTS or name == constraint:
        raise invalid_argument(f"Unknown constraint: {constraint}")
    return name


def _rule(name: str, value: ConstraintValue | None) -> JsonObject:
    """The rule of the constraint ``name`` in the form of Resource Manager v1, which leaves out what
    is false; None is no policy at all
    (https://cloud.google.com/resource-manager/reference/rest/v1/Policy)."""
    if CONSTRAINTS[name] is ConstraintKind.BOOLEAN:
        return {"booleanPolicy": {"enforced": True} if value else {}}
    if isinstance(value, tuple):
        return {"listPolicy": {"allowedValues": list[JsonValue](value)}}
    return {"listPolicy": {"allValues": "DENY" if value == "deny_all" else "ALLOW"}}


def service(context: Context) -> Service:
    """Resource Manager: projects and their policies."""
    projects = ProjectHandlers(
        Policies(context.store, context.clock, context.strictness),
        context.rights,
        ProjectPolicies(context),
    )
    return Service(
        name="cloudresourcemanager",
        version="v1",
        handlers={
            "cloudresourcemanager.projects.get": projects.get,
            "cloudresourcemanager.projects.getIamPolicy": projects.get_policy,
            "cloudresourcemanager.projects.setIamPolicy": projects.set_policy,
            "cloudresourcemanager.projects.testIamPermissions": projects.test_permissions,
            "cloudresourcemanager.projects.getEffectiveOrgPolicy": projects.effective_org_policy,
            "cloudresourcemanager.projects.getOrgPolicy": projects.org_policy,
            "cloudresourcemanager.projects.setOrgPolicy": projects.set_org_policy,
            "cloudresourcemanager.projects.clearOrgPolicy": projects.clear_org_policy,
        },
    )
