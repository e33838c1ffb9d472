"""The monitored resources of which custom metrics may be, with their labels.

Of https://cloud.google.com/monitoring/custom-metrics/creating-metrics#which-resource those that a
program outside of Kubernetes, App Engine and Dataflow writes for; others are refused.
"""

from __future__ import annotations

from collections.abc import Mapping

from embedded_cloud.json_types import JsonObject

_PLACE = ("project_id", "location", "namespace")

RESOURCE_TYPES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "gce_instance": ("VM Instance", ("project_id", "instance_id", "zone")),
    "generic_node": ("Generic Node", (*_PLACE, "node_id")),
    "generic_task": ("Generic Task", (*_PLACE, "job", "task_id")),
    "global": ("Global", ("project_id",)),
}


def descriptor(project: str, type_: str) -> JsonObject:
    """The descriptor of one of them."""
    shown, labels = RESOURCE_TYPES[type_]
    return {
        "name": f"projects/{project}/monitoredResourceDescriptors/{type_}",
        "type": type_,
        "displayName": shown,
        "labels": [{"key": label, "valueType": "STRING"} for label in labels],
    }
