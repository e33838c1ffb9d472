"""HTTP calls on projects and their policies."""

from __future__ import annotations

from collections.abc import Callable

from embedded_cloud.errors import invalid_argument
from embedded_cloud.iam.policies import Policies
from embedded_cloud.json_types import child, text
from embedded_cloud.orgpolicy.constraints import CONSTRAINTS, rule_v1
from embedded_cloud.resourcemanager.state import (
    CREATED,
    initial_bindings,
    policy_resource,
    require,
)
from embedded_cloud.routing import Call, Reply
from embedded_cloud.strictness import Strictness


class ProjectHandlers:
    """Handlers of ``projects``."""

    def __init__(
        self,
        policies: Policies,
        project_number: Callable[[str], str],
        strictness: Callable[[], Strictness],
    ) -> None:
        self._policies = policies
        self._project_number = project_number
        self._strictness = strictness

    def get(self, call: Call) -> Reply:
        """GET /v1/projects/{project}."""
        project = require(call.id)
        return Reply(
            body={
                "projectId": project,
                "projectNumber": self._project_number(project),
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
        require(call.id)
        return Reply(body=self._policies.granted(call))

    def effective_org_policy(self, call: Call) -> Reply:
        """POST …:getEffectiveOrgPolicy."""
        require(call.id)
        constraint = text(call.body or {}, "constraint")
        name = constraint.removeprefix("constraints/")
        if name not in CONSTRAINTS or name == constraint:
            raise invalid_argument(f"Unknown constraint: {constraint}")
        value = self._strictness().organization_policies.constraints.get(name)
        return Reply(body={"constraint": constraint, **rule_v1(name, value)})
