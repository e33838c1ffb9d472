"""An enabled API of a project (``gcp:projects/service:Service``)."""

from __future__ import annotations

from dataclasses import dataclass

from embedded_cloud.gcp_plugin.call import (
    CloudCall,
    failing_with,
    serviceusage_operation,
    unless_gone,
)
from embedded_cloud.gcp_plugin.resource_type import (
    Made,
    ResourceType,
)
from embedded_cloud.gcp_plugin.states import (
    NO_DEFAULTS,
    identified,
    known_after,
    located,
    state_of,
)
from embedded_cloud.json_types import JsonObject, children, text
from pulumi_plugin.values import Properties


@dataclass(frozen=True, slots=True)
class EnabledServices:
    """The enabled APIs of projects: enabled by a method, read from a list, disabled if asked."""

    def create(self, row: ResourceType, inputs: Properties, call: CloudCall) -> Made:
        """Enable the API unless it is enabled."""
        values = located(row, inputs, call.settings)
        made = identified(row, values, call.settings)
        parts = row.identity.parse(made.id, NO_DEFAULTS)
        with failing_with(f"Error when reading or editing {row.title} {made.id!r}"):
            if parts["service"] not in _enabled(parts["project"], call):
                path = "/v1/projects/{project}/services/{service}:enable".format_map(parts)
                answer = call.request("POST", path, body={})
                serviceusage_operation(call, answer, f"Creating {row.title}")
        return Made(made.id, state_of(row, made.id, made.state, {}))

    def read(self, row: ResourceType, made: Made, call: CloudCall) -> Made | None:
        """The state, or ``None`` when the API is not enabled."""
        parts = row.identity.parse(made.id, NO_DEFAULTS)
        enabled = unless_gone(
            f"Error when reading or editing {row.title} {made.id!r}",
            lambda: _enabled(parts["project"], call),
        )
        if enabled is None or parts["service"] not in enabled:
            return None
        return Made(made.id, state_of(row, made.id, made.state, {}))

    def update(
        self, row: ResourceType, made: Made, inputs: Properties, call: CloudCall
    ) -> Properties:
        """What can change is never sent to the API."""
        known = known_after(row, made.state, inputs, call.settings)
        return state_of(row, made.id, known, {})

    def delete(self, row: ResourceType, made: Made, call: CloudCall) -> None:
        """Disable the API if the program asked for that, else leave it enabled."""
        if made.state.get("disableOnDestroy") is not True:
            return
        parts = row.identity.parse(made.id, NO_DEFAULTS)
        body: JsonObject = {
            "disableDependentServices": made.state.get("disableDependentServices") is True
        }
        path = "/v1/projects/{project}/services/{service}:disable".format_map(parts)

        def disable() -> None:
            answer = call.request("POST", path, body=body)
            serviceusage_operation(call, answer, f"Deleting {row.title}")

        unless_gone(f"Error deleting {row.title} {made.id!r}", disable)


def _enabled(project: str, call: CloudCall) -> set[str]:
    names: set[str] = set()
    token = ""
    while True:
        query = {"filter": "state:ENABLED", "pageSize": "200"}
        if token:
            query["pageToken"] = token
        page = call.request("GET", f"/v1/projects/{project}/services", query=query)
        names |= {text(one, "name").rsplit("/", 1)[-1] for one in children(page, "services")}
        token = text(page, "nextPageToken")
        if not token:
            return names
