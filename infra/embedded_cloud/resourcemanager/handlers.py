"""HTTP calls on projects and their policies."""

from __future__ import annotations

from collections.abc import Callable

from embedded_cloud.iam.handlers import granted
from embedded_cloud.iam.policies import Policies
from embedded_cloud.json_types import child
from embedded_cloud.resourcemanager.state import (
    CREATED,
    initial_bindings,
    policy_resource,
    require,
)
from embedded_cloud.routing import Call, Reply


class ProjectHandlers:
    """Handlers of ``projects``."""

    def __init__(self, policies: Policies, project_number: Callable[[str], str]) -> None:
        self._policies = policies
        self._project_number = project_number

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
        return Reply(body=granted(call))
