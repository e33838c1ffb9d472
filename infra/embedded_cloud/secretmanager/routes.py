"""Which Secret Manager v1 methods are implemented, and by whom."""

from __future__ import annotations

from embedded_cloud.iam.policies import Policies
from embedded_cloud.routing import Context, Service, routes
from embedded_cloud.secretmanager.handlers import SecretHandlers
from embedded_cloud.secretmanager.state import Secrets
from embedded_cloud.secretmanager.version_handlers import VersionHandlers

_SECRETS = "/v1/projects/{project}/secrets"
_SECRET = f"{_SECRETS}/{{secret}}"
_VERSIONS = f"{_SECRET}/versions"
_VERSION = f"{_VERSIONS}/{{version}}"


def service(context: Context) -> Service:
    """Secret Manager: global secrets."""
    state = Secrets(context.store, context.clock)
    policies = Policies(context.store, context.clock)
    secrets = SecretHandlers(state, policies, context.clock, context.project_number)
    versions = VersionHandlers(state, secrets)
    table = (
        ("POST", _SECRETS, "create", secrets.create),
        ("GET", _SECRETS, "list", secrets.list),
        ("GET", _SECRET, "get", secrets.get),
        ("PATCH", _SECRET, "patch", secrets.patch),
        ("DELETE", _SECRET, "delete", secrets.delete),
        ("GET", f"{_SECRET}:getIamPolicy", "getIamPolicy", secrets.get_policy),
        ("POST", f"{_SECRET}:setIamPolicy", "setIamPolicy", secrets.set_policy),
        ("POST", f"{_SECRET}:testIamPermissions", "testIamPermissions", secrets.test_permissions),
        ("POST", f"{_SECRET}:addVersion", "addVersion", versions.add),
        ("GET", _VERSIONS, "versions.list", versions.list),
        ("GET", _VERSION, "versions.get", versions.get),
        ("GET", f"{_VERSION}:access", "versions.access", versions.access),
        ("POST", f"{_VERSION}:enable", "versions.enable", versions.enable),
        ("POST", f"{_VERSION}:disable", "versions.disable", versions.disable),
        ("POST", f"{_VERSION}:destroy", "versions.destroy", versions.destroy),
    )
    return Service(
        name="secretmanager",
        version="v1",
        routes=routes("secretmanager.projects.secrets", table),
        contract=("secretmanager", "v1"),
        tick=state.settle,
    )
