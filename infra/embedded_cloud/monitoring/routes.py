"""The Cloud Monitoring v3 methods that are emulated."""

from __future__ import annotations

from embedded_cloud.monitoring.alerting import Alerting
from embedded_cloud.monitoring.alerting_handlers import ChannelHandlers, PolicyHandlers
from embedded_cloud.monitoring.descriptors import Descriptors
from embedded_cloud.monitoring.metric_handlers import MetricHandlers
from embedded_cloud.monitoring.series import Series
from embedded_cloud.routing import Context, Service


def service(context: Context) -> Service:
    """Cloud Monitoring: metrics of one's own, their time series, and alert policies, which nothing
    evaluates."""
    descriptors = Descriptors(context.store)
    metrics = MetricHandlers(descriptors, Series(context.store, context.clock, descriptors))
    alerting = Alerting(context.store, context.clock, descriptors)
    policies, channels = PolicyHandlers(alerting), ChannelHandlers(alerting)
    projects = "monitoring.projects"
    return Service(
        name="monitoring",
        version="v3",
        handlers={
            f"{projects}.metricDescriptors.create": metrics.create,
            f"{projects}.metricDescriptors.get": metrics.get,
            f"{projects}.metricDescriptors.list": metrics.list,
            f"{projects}.metricDescriptors.delete": metrics.delete,
            f"{projects}.monitoredResourceDescriptors.get": metrics.resource,
            f"{projects}.monitoredResourceDescriptors.list": metrics.resources,
            f"{projects}.timeSeries.create": metrics.write,
            f"{projects}.timeSeries.list": metrics.read,
            f"{projects}.alertPolicies.create": policies.create,
            f"{projects}.alertPolicies.get": policies.get,
            f"{projects}.alertPolicies.list": policies.list,
            f"{projects}.alertPolicies.patch": policies.patch,
            f"{projects}.alertPolicies.delete": policies.delete,
            f"{projects}.notificationChannels.create": channels.create,
            f"{projects}.notificationChannels.get": channels.get,
            f"{projects}.notificationChannels.list": channels.list,
            f"{projects}.notificationChannels.patch": channels.patch,
            f"{projects}.notificationChannels.delete": channels.delete,
        },
    )
