"""The Resource Manager v1 methods that are emulated."""

from __future__ import annotations

from embedded_cloud.iam.policies import Policies
from embedded_cloud.orgpolicy.state import ProjectPolicies
from embedded_cloud.resourcemanager.handlers import ProjectHandlers
from embedded_cloud.routing import Context, Service


def service(context: Context) -> Service:
    """Resource Manager: projects and their policies."""
    projects = ProjectHandlers(
        Policies(context.store, context.clock, context.strictness),
        context.rights,
        context.project_number,
        ProjectPolicies(context.store),
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
