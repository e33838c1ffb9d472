"""The Organization Policy v2 methods that are emulated."""

from __future__ import annotations

from embedded_cloud.orgpolicy.handlers import PolicyHandlers
from embedded_cloud.routing import Context, Service


def service(context: Context) -> Service:
    """Organization Policy: which constraints are in force in a project."""
    policies = PolicyHandlers(context)
    return Service(
        name="orgpolicy",
        version="v2",
        handlers={
            "orgpolicy.projects.policies.getEffectivePolicy": policies.get_effective,
            "orgpolicy.projects.policies.get": policies.get,
        },
    )
