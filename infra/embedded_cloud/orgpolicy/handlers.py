"""HTTP calls on the organization policies of projects."""

from __future__ import annotations

from embedded_cloud.errors import not_found
from embedded_cloud.json_types import JsonObject
from embedded_cloud.orgpolicy.constraints import CONSTRAINTS, ConstraintValue, rule
from embedded_cloud.resourcemanager.state import require
from embedded_cloud.routing import Call, Context, Reply


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
        number = project if project.isdecimal() else self._context.project_number(require(project))
        return f"projects/{number}/policies/{call.id}"
