"""The IAM v1 methods that are emulated."""

from __future__ import annotations

from embedded_cloud.iam.custom_roles import CustomRoles
from embedded_cloud.iam.handlers import AccountHandlers
from embedded_cloud.iam.policies import Policies
from embedded_cloud.iam.pool_handlers import PoolHandlers
from embedded_cloud.iam.pools import Pools
from embedded_cloud.iam.role_handlers import RoleHandlers
from embedded_cloud.iam.state import ServiceAccounts
from embedded_cloud.routing import Context, Service


def service(context: Context) -> Service:
    """Identity and Access Management: service accounts, their policies, roles, identity
    pools."""
    accounts = AccountHandlers(
        ServiceAccounts(context.store, context.clock, context.strictness),
        Policies(context.store, context.clock, context.strictness),
        context.rights,
    )
    pools = PoolHandlers(Pools(context.store, context.clock), context.project_number)
    roles = RoleHandlers(CustomRoles(context.store, context.clock))
    return Service(
        name="iam",
        version="v1",
        handlers={
            "iam.projects.serviceAccounts.create": accounts.create,
            "iam.projects.serviceAccounts.list": accounts.list,
            "iam.projects.serviceAccounts.get": accounts.get,
            "iam.projects.serviceAccounts.patch": accounts.patch,
            "iam.projects.serviceAccounts.update": accounts.update,
            "iam.projects.serviceAccounts.delete": accounts.delete,
            "iam.projects.serviceAccounts.enable": accounts.enable,
            "iam.projects.serviceAccounts.disable": accounts.disable,
            "iam.projects.serviceAccounts.getIamPolicy": accounts.get_policy,
            "iam.projects.serviceAccounts.setIamPolicy": accounts.set_policy,
            "iam.projects.serviceAccounts.testIamPermissions": accounts.test_permissions,
            "iam.projects.roles.create": roles.create,
            "iam.projects.roles.list": roles.list,
            "iam.projects.roles.get": roles.get,
            "iam.projects.roles.patch": roles.patch,
            "iam.projects.roles.delete": roles.delete,
            "iam.projects.roles.undelete": roles.undelete,
            "iam.roles.get": roles.get_predefined,
            **pools.handlers(),
        },
    )
