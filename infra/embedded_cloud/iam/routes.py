"""Which IAM v1 methods are implemented, and by whom."""

from __future__ import annotations

from embedded_cloud.iam.accounts import ServiceAccounts
from embedded_cloud.iam.handlers import AccountHandlers
from embedded_cloud.iam.policies import Policies
from embedded_cloud.routing import Context, Service, routes

_ACCOUNTS = "/v1/projects/{project}/serviceAccounts"
_ACCOUNT = f"{_ACCOUNTS}/{{account}}"


def service(context: Context) -> Service:
    """Identity and Access Management: service accounts and their policies."""
    handlers = AccountHandlers(
        ServiceAccounts(context.store, context.clock), Policies(context.store, context.clock)
    )
    table = (
        ("POST", _ACCOUNTS, "create", handlers.create),
        ("GET", _ACCOUNTS, "list", handlers.list),
        ("GET", _ACCOUNT, "get", handlers.get),
        ("PATCH", _ACCOUNT, "patch", handlers.patch),
        ("PUT", _ACCOUNT, "update", handlers.update),
        ("DELETE", _ACCOUNT, "delete", handlers.delete),
        ("POST", f"{_ACCOUNT}:enable", "enable", handlers.enable),
        ("POST", f"{_ACCOUNT}:disable", "disable", handlers.disable),
        ("POST", f"{_ACCOUNT}:getIamPolicy", "getIamPolicy", handlers.get_policy),
        ("POST", f"{_ACCOUNT}:setIamPolicy", "setIamPolicy", handlers.set_policy),
        ("POST", f"{_ACCOUNT}:testIamPermissions", "testIamPermissions", handlers.test_permissions),
    )
    return Service(
        name="iam",
        version="v1",
        routes=routes("iam.projects.serviceAccounts", table),
        contract=("iam", "v1"),
    )
