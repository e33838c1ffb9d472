"""Which Resource Manager v1 methods are implemented, and by whom."""

from __future__ import annotations

from embedded_cloud.iam.policies import Policies
from embedded_cloud.resourcemanager.handlers import ProjectHandlers
from embedded_cloud.routing import Context, Service, routes

_PROJECT = "/v1/projects/{project}"


def service(context: Context) -> Service:
    """Resource Manager: projects and their policies."""
    handlers = ProjectHandlers(Policies(context.store, context.clock), context.project_number)
    table = (
        ("GET", _PROJECT, "get", handlers.get),
        ("POST", f"{_PROJECT}:getIamPolicy", "getIamPolicy", handlers.get_policy),
        ("POST", f"{_PROJECT}:setIamPolicy", "setIamPolicy", handlers.set_policy),
        ("POST", f"{_PROJECT}:testIamPermissions", "testIamPermissions", handlers.test_permissions),
    )
    return Service(
        name="cloudresourcemanager",
        version="v1",
        routes=routes("cloudresourcemanager.projects", table),
        contract=("cloudresourcemanager", "v1"),
    )
