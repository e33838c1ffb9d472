"""The metrics of all projects: what their time series are. No HTTP.

https://cloud.google.com/monitoring/custom-metrics/creating-metrics. Only metrics of one's own are
there; Google's, which its services write, are not.
"""

from __future__ import annotations

import re

from embedded_cloud.errors import not_found
from embedded_cloud.json_types import JsonObject, JsonValue, child, children, text
from embedded_cloud.monitoring.errors import invalid_field
from embedded_cloud.store import Store

#: They come with the first point that is written and cost nothing: no items of the inventory.
_COLLECTION = "_monitoring/metricDescriptors"
OWN_PREFIXES = ("custom.googleapis.com/", "external.googleapis.com/", "workload.googleapis.com/")
_TYPE = re.compile(r"[a-z0-9.-]+(?:/[\w.-]+)+")
_LABEL = re.compile(r"[a-zA-Z][a-zA-Z0-9_]{0,99}")
_KINDS = ("GAUGE", "CUMULATIVE")
_VALUE_TYPES = ("BOOL", "INT64", "DOUBLE", "DISTRIBUTION")


class Descriptors:
    """The metrics of projects, by type."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def of(self, project: str) -> list[JsonObject]:
        """All of a project."""
        return [value for _, value in self._store.list(_COLLECTION, f"{project}/")]

    def find(self, project: str, type_: str) -> JsonObject | None:
        """The metric of that type, if there is one."""
        return self._store.get(_COLLECTION, f"{project}/{type_}")

    def get(self, project: str, type_: str) -> JsonObject:
        """The metric of that type. Raises CloudError 404."""
        found = self.find(project, type_)
        if found is None:
            raise not_found(f"Could not find descriptor for metric '{type_}'.")
        return found

    def put(self, project: str, asked: JsonObject) -> JsonObject:
        """A metric; one that is there is updated, and loses no label.

        Raises:
            CloudError: 400, a field is not allowed, or kind or type of values would change.
        """
        check_type(text(asked, "type"), "metricDescriptor.type")
        before = self.find(project, text(asked, "type")) or {}
        for key, allowed in (("metricKind", _KINDS), ("valueType", _VALUE_TYPES)):
            if text(asked, key) not in allowed:
                reason = f"must be one of {', '.join(allowed)} for a metric of one's own."
                raise invalid_field(f"metricDescriptor.{key}", text(asked, key), reason)
            if before and before[key] != asked[key]:
                reason = f"{text(before, key)} of an existing metric cannot be changed."
                raise invalid_field(f"metricDescriptor.{key}", text(asked, key), reason)
        labels = {text(label, "key"): label for label in children(before, "labels")}
        for label in children(asked, "labels"):
            if not _LABEL.fullmatch(text(label, "key")):
                reason = "must match [a-zA-Z][a-zA-Z0-9_]* and have 100 characters at most."
                raise invalid_field("metricDescriptor.labels", text(label, "key"), reason)
            labels[text(label, "key")] = {"valueType": "STRING", **label}
        type_ = text(asked, "type")
        name = f"projects/{project}/metricDescriptors/{type_}"
        made: JsonObject = {**asked, "name": name}
        if labels:
            made["labels"] = list[JsonValue](labels.values())
        self._store.put(_COLLECTION, f"{project}/{type_}", made)
        return made

    def of_point(self, project: str, series: JsonObject, value_type: str) -> JsonObject:
        """The metric of a point that is written; one that is not there is made, and new labels are
        added. Raises CloudError 400."""
        metric = child(series, "metric")
        kind = text(series, "metricKind") or "GAUGE"
        found = self.find(project, text(metric, "type")) or {"metricKind": kind}
        asked: JsonObject = {"valueType": value_type, **found, "type": text(metric, "type")}
        asked["labels"] = [{"key": key} for key in child(metric, "labels")]
        return self.put(project, asked)

    def delete(self, project: str, type_: str) -> None:
        """Delete a metric. Raises CloudError 404."""
        self.get(project, type_)
        self._store.delete(_COLLECTION, f"{project}/{type_}")


def check_type(type_: str, field: str) -> None:
    """Raises CloudError 400 for what is no metric of one's own."""
    if not _TYPE.fullmatch(type_) or not type_.startswith(OWN_PREFIXES):
        raise invalid_field(
            field,
            type_,
            "The metric type must be a URL-formatted string with a domain and non-empty path, and "
            f"begin with one of {', '.join(OWN_PREFIXES)}.",
        )
