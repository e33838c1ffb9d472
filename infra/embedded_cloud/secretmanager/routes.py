"""The Secret Manager v1 methods that are emulated."""

from __future__ import annotations

from embedded_cloud.cloudkms import KeyUse
from embedded_cloud.iam.policies import Policies
from embedded_cloud.routing import Context, Service
from embedded_cloud.secretmanager.handlers import SecretHandlers
from embedded_cloud.secretmanager.keys import SecretKeys
from embedded_cloud.secretmanager.state import Secrets
from embedded_cloud.secretmanager.version_handlers import VersionHandlers


def service(context: Context) -> Service:
    """Secret Manager: global secrets."""
    state = Secrets(context.store, context.clock, SecretKeys(KeyUse(context)))
    policies = Policies(context.store, context.clock, context.strictness)
    secrets = SecretHandlers(state, policies, context.rights, context.clock, context.project_number)
    versions = VersionHandlers(state, secrets)
    return Service(
        name="secretmanager",
        version="v1",
        handlers={
            "secretmanager.projects.secrets.create": secrets.create,
            "secretmanager.projects.secrets.list": secrets.list,
            "secretmanager.projects.secrets.get": secrets.get,
            "secretmanager.projects.secrets.patch": secrets.patch,
            "secretmanager.projects.secrets.delete": secrets.delete,
            "secretmanager.projects.secrets.getIamPolicy": secrets.get_policy,
            "secretmanager.projects.secrets.setIamPolicy": secrets.set_policy,
            "secretmanager.projects.secrets.testIamPermissions": secrets.test_permissions,
            "secretmanager.projects.secrets.addVersion": versions.add,
            "secretmanager.projects.secrets.versions.list": versions.list,
            "secretmanager.projects.secrets.versions.get": versions.get,
            "secretmanager.projects.secrets.versions.access": versions.access,
            "secretmanager.projects.secrets.versions.enable": versions.enable,
            "secretmanager.projects.secrets.versions.disable": versions.disable,
            "secretmanager.projects.secrets.versions.destroy": versions.destroy,
        },
        tick=state.settle,
    )
