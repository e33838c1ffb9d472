"""The Service Account Credentials v1 methods that are emulated."""

from __future__ import annotations

from embedded_cloud.access import Access
from embedded_cloud.iam.state import ServiceAccounts
from embedded_cloud.iamcredentials.handlers import TokenHandlers
from embedded_cloud.routing import Context, Service


def service(context: Context, access: Access) -> Service:
    """Service Account Credentials: impersonation."""
    tokens = TokenHandlers(
        ServiceAccounts(context.store, context.clock, context.strictness),
        access,
        context.clock,
        context.strictness,
    )
    return Service(
        name="iamcredentials",
        version="v1",
        handlers={
            "iamcredentials.projects.serviceAccounts.generateAccessToken": tokens.generate,
        },
    )
