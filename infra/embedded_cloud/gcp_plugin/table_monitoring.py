"""Cloud Monitoring types. Properties as in pulumi-gcp 10.2.0, places as in monitoring v3 and v1.

Replacements and defaults: terraform-provider-google,
google/services/monitoring/resource_monitoring_{alert_policy,dashboard}.go.

A dashboard is one property, its JSON: what only the cloud has in it, Google's defaults among them,
is no difference.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from embedded_cloud.core.json_types import JsonObject, JsonValue, text
from embedded_cloud.gcp_plugin.call import CloudCall, failing_with, unless_gone
from embedded_cloud.gcp_plugin.collection import Collection, Step
from embedded_cloud.gcp_plugin.fields import (
    DELETION_POLICY,
    PROJECT,
    Group,
    Groups,
    Property,
    Use,
)
from embedded_cloud.gcp_plugin.resource_type import (
    Identity,
    Made,
    ResourceType,
    creation_of,
    require_created,
)
from embedded_cloud.gcp_plugin.states import located
from embedded_cloud.gcp_plugin.types import Flag, InvalidValueError, Text, TextMap, Texts
from pulumi_plugin.values import Properties, Value
from tpuflex.errors import ApiError


@dataclass(frozen=True, slots=True)
class DashboardJson(Text):
    """A dashboard as JSON."""

    def accept(self, value: Value, path: str) -> Value:
        """JSON text of an object, in one spelling."""
        if not isinstance(value, str):
            return Text.accept(self, value, path)
        try:
            parsed = json.loads(value)
        except ValueError as error:
            raise InvalidValueError(path, f"contains an invalid JSON: {error}") from None
        if not isinstance(parsed, dict):
            raise InvalidValueError(path, "expected a JSON object")
        return _spelled(parsed)

    def same(self, old: Value, new: Value) -> bool:
        """Whether the cloud has all that the program has."""
        try:
            there, asked = json.loads(str(old)), json.loads(str(new))
        except ValueError:  # unset, or unknown yet
            return old == new
        return _has(there, asked)


def _has(there: JsonValue, asked: JsonValue) -> bool:
    """Whether ``there`` is ``asked``, but for keys that are not in ``asked``."""
    if isinstance(there, dict) and isinstance(asked, dict):
        return all(key in there and _has(there[key], asked[key]) for key in asked)
    if isinstance(there, list) and isinstance(asked, list):
        return len(there) == len(asked) and all(map(_has, there, asked))
    return there == asked


def _spelled(value: JsonObject) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Dashboards:
    """Dashboards; the name may be in their JSON."""

    def create(self, row: ResourceType, inputs: Properties, call: CloudCall) -> Made:
        """Create the dashboard and read it back."""
        values = located(row, inputs, call.settings)
        path = f"/v1/projects/{values['project']}/dashboards"
        with failing_with(f"Error creating {row.title}"):
            answer = call.request("POST", path, body=_dashboard(values))
        made = Made(text(answer, "name"), values)
        with creation_of(made):
            return require_created(row.title, made, self.read(row, made, call))

    def read(self, row: ResourceType, made: Made, call: CloudCall) -> Made | None:
        """The present state, or ``None`` when the dashboard is gone."""
        answer = unless_gone(
            f"Error when reading or editing {row.title} {made.id!r}",
            lambda: call.request("GET", f"/v1/{made.id}"),
        )
        if answer is None:
            return None
        kept: Properties = {
            "project": made.state.get("project"),
            "deletionPolicy": made.state.get("deletionPolicy", "DELETE"),
        }
        return Made(made.id, {**kept, "dashboardJson": _spelled(answer)})

    def update(
        self, row: ResourceType, made: Made, inputs: Properties, call: CloudCall
    ) -> Properties:
        """Replace the dashboard by what is asked for, if nobody changed it since."""
        body: JsonObject = {**_dashboard(inputs), "etag": _dashboard(made.state).get("etag")}
        with failing_with(f"Error updating {row.title} {made.id!r}"):
            call.request("PATCH", f"/v1/{made.id}", body=body)
        known = {**made.state, **inputs}
        present = self.read(row, Made(made.id, known), call)
        if present is None:
            raise ApiError(f"{row.title} {made.id!r} does not exist", status=404)
        return present.state

    def delete(self, row: ResourceType, made: Made, call: CloudCall) -> None:
        """Delete the dashboard, unless it is gone."""
        unless_gone(f"Error deleting {row.title}", lambda: call.request("DELETE", f"/v1/{made.id}"))


def _dashboard(values: Properties) -> JsonObject:
    parsed: JsonObject = json.loads(str(values["dashboardJson"]))
    return parsed


_RECORD = Groups((Property("mutateTime", use=Use.OUTPUT), Property("mutatedBy", use=Use.OUTPUT)))

_CONDITIONS = Groups(
    (
        Property("displayName", use=Use.REQUIRED),
        Property("name", use=Use.OUTPUT),
        Property(
            "conditionPrometheusQueryLanguage",
            Group(
                (
                    Property("query", use=Use.REQUIRED),
                    Property("alertRule"),
                    Property("disableMetricValidation", Flag()),
                    Property("duration"),
                    Property("evaluationInterval"),
                    Property("labels", TextMap()),
                    Property("ruleGroup"),
                )
            ),
            use=Use.REQUIRED,
        ),
    ),
    ordered=True,
)

ALERT_POLICY = ResourceType(
    token="gcp:monitoring/alertPolicy:AlertPolicy",  # noqa: S106 - a type token
    title="AlertPolicy",
    properties=(
        PROJECT,
        DELETION_POLICY,
        Property("combiner", use=Use.REQUIRED),
        Property("conditions", _CONDITIONS, use=Use.REQUIRED),
        Property("displayName", use=Use.REQUIRED),
        Property(
            "alertStrategy",
            Group(
                (
                    Property("autoClose"),
                    Property("notificationPrompts", Texts(ordered=True)),
                )
            ),
        ),
        Property(
            "documentation",
            Group(
                (
                    Property("content"),
                    Property("mimeType", default="text/markdown"),
                    Property("subject"),
                    Property(
                        "links",
                        Groups((Property("displayName"), Property("url")), ordered=True),
                    ),
                )
            ),
        ),
        Property("enabled", Flag(), default=True),
        Property("notificationChannels", Texts(ordered=True)),
        Property("severity"),
        Property("userLabels", TextMap()),
        Property("creationRecords", _RECORD, use=Use.OUTPUT, wire=""),
        Property("name", use=Use.OUTPUT),
    ),
    identity=Identity("{name}", ("{project} {name}",), deep=("name",)),
    behaviour=Collection(
        path="/v3/projects/{project}/alertPolicies",
        item="/v3/{name}",
        steps=(Step(mask="query"),),
        named_by_google=True,
    ),
)

DASHBOARD = ResourceType(
    token="gcp:monitoring/dashboard:Dashboard",  # noqa: S106
    title="Dashboard",
    properties=(
        PROJECT,
        DELETION_POLICY,
        Property("dashboardJson", DashboardJson(), use=Use.REQUIRED, wire=""),
    ),
    identity=Identity("projects/{project}/dashboards/{dashboard}", ("{dashboard}",)),
    behaviour=Dashboards(),
)

TYPES = (ALERT_POLICY, DASHBOARD)
