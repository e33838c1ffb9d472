"""An enabled API of a project (``gcp:projects/service:Service``)."""

from __future__ import annotations

from dataclasses import dataclass

from embedded_cloud.gcp_plugin.collection import while_doing
from embedded_cloud.gcp_plugin.operations import serviceusage_operation
from embedded_cloud.gcp_plugin.resource_type import (
    Made,
    ResourceType,
    Work,
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
from tpuflex.errors import ApiError


@dataclass(frozen=True, slots=True)
class EnabledServices:
    """The enabled APIs of projects: enabled by a method, read from a list, disabled on wish."""

    def create(self, row: ResourceType, inputs: Properties, work: Work) -> Made:
        """Enable the API; one that is enabled already is taken as it is."""
        values = located(row, inputs, work.settings)
        made = identified(row, values, work.settings)
        parts = row.identity.parse(made.id, NO_DEFAULTS)
        try:
            if parts["service"] not in _enabled(parts["project"], work):
                path = "/v1/projects/{project}/services/{service}:enable".format_map(parts)
                answer = work.rest.call("POST", path, work.waiter, body={})
                serviceusage_operation(work.rest, answer, work.waiter, f"Creating {row.title}")
        except ApiError as error:
            raise while_doing(
                f"Error when reading or editing {row.title} {made.id!r}", error
            ) from error
        return Made(made.id, state_of(row, made.id, made.state, {}))

    def read(self, row: ResourceType, made: Made, work: Work) -> Made | None:
        """The state, or ``None`` when the API is not enabled."""
        parts = row.identity.parse(made.id, NO_DEFAULTS)
        try:
            if parts["service"] not in _enabled(parts["project"], work):
                return None
        except ApiError as error:
            if error.status == 404:
                return None
            raise while_doing(
                f"Error when reading or editing {row.title} {made.id!r}", error
            ) from error
        return Made(made.id, state_of(row, made.id, made.state, {}))

    def update(self, row: ResourceType, made: Made, inputs: Properties, work: Work) -> Properties:
        """What can change is never sent to the API."""
        known = known_after(row, made.state, inputs, work.settings)
        return state_of(row, made.id, known, {})

    def delete(self, row: ResourceType, made: Made, work: Work) -> None:
        """Disable the API if the program asked for that, else leave it enabled."""
        if made.state.get("disableOnDestroy") is not True:
            return
        parts = row.identity.parse(made.id, NO_DEFAULTS)
        body: JsonObject = {
            "disableDependentServices": made.state.get("disableDependentServices") is True
        }
        path = "/v1/projects/{project}/services/{service}:disable".format_map(parts)
        try:
            answer = work.rest.call("POST", path, work.waiter, body=body)
            serviceusage_operation(work.rest, answer, work.waiter, f"Deleting {row.title}")
        except ApiError as error:
            if error.status == 404:
                return
            raise while_doing(f"Error deleting {row.title} {made.id!r}", error) from error


def _enabled(project: str, work: Work) -> set[str]:
    names: set[str] = set()
    token = ""
    while True:
        query = {"filter": "state:ENABLED", "pageSize": "200"}
        if token:
            query["pageToken"] = token
        page = work.rest.call("GET", f"/v1/projects/{project}/services", work.waiter, query=query)
        names |= {text(one, "name").rsplit("/", 1)[-1] for one in children(page, "services")}
        token = text(page, "nextPageToken")
        if not token:
            return names
