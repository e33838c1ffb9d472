"""The Service Usage v1beta1 methods that are emulated."""

from __future__ import annotations

from embedded_cloud.routing import Context, Service
from embedded_cloud.serviceusage.quotas.handlers import QuotaHandlers


def service(context: Context) -> Service:
    """Quotas: the limits of Cloud TPU, by family, pool and zone."""
    quotas = QuotaHandlers(context)
    return Service(
        name="serviceusage",
        version="v1beta1",
        handlers={
            "serviceusage.services.consumerQuotaMetrics.list": quotas.list,
            "serviceusage.services.consumerQuotaMetrics.get": quotas.get,
        },
    )
