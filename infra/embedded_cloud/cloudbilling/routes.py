"""The Cloud Billing v1 methods that are emulated."""

from __future__ import annotations

from embedded_cloud.cloudbilling.handlers import BillingHandlers
from embedded_cloud.routing import Context, Service


def service(context: Context) -> Service:
    """Cloud Billing: whether a project has an open billing account."""
    billing = BillingHandlers(context)
    return Service(
        name="cloudbilling",
        version="v1",
        handlers={
            "cloudbilling.projects.getBillingInfo": billing.get_info,
            "cloudbilling.projects.updateBillingInfo": billing.update_info,
        },
    )
