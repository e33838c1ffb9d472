"""The dashboards of all projects. No HTTP.

https://cloud.google.com/monitoring/dashboards/api-dashboard
"""

from __future__ import annotations

import hashlib
import json
import re
import uuid

from embedded_cloud.errors import already_exists, cloud_error, invalid_argument, not_found
from embedded_cloud.json_types import JsonObject, text
from embedded_cloud.store import Store

DASHBOARDS = "monitoring/dashboards"
_LAYOUTS = ("gridLayout", "mosaicLayout", "rowLayout", "columnLayout")
_NAME = re.compile(r"projects/([^/]+)/dashboards/([a-zA-Z0-9_-]+)")


class Dashboards:
    """The dashboards of projects, by full name."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def of(self, project: str) -> list[JsonObject]:
        """The dashboards of a project."""
        return [each for _, each in self._store.list(DASHBOARDS, f"projects/{project}/")]

    def get(self, name: str) -> JsonObject:
        """The dashboard with that name. Raises CloudError 404."""
        found = self._store.get(DASHBOARDS, name)
        if found is None:
            raise not_found(f"Requested entity was not found: {name}.")
        return found

    def create(self, project: str, asked: JsonObject, *, dry: bool) -> JsonObject:
        """A new dashboard, under the name that it brings or a new one; ``dry`` keeps nothing.

        Raises:
            CloudError: 400, it has more than one layout, or its name is not one of the project;
                409, the name is taken.
        """
        name = text(asked, "name") or f"projects/{project}/dashboards/{uuid.uuid4()}"
        found = _NAME.fullmatch(name)
        if found is None or found[1] != project:
            raise invalid_argument(f"{name} is no name of a dashboard of project {project}.")
        if self._store.get(DASHBOARDS, name) is not None:
            raise already_exists(f"Requested entity already exists: {name}.")
        return self._put({**asked, "name": name}, dry=dry)

    def replace(self, name: str, sent: JsonObject, *, dry: bool) -> JsonObject:
        """A dashboard with the whole definition ``sent``; ``dry`` keeps nothing.

        Raises:
            CloudError: 400, as :meth:`create`; 404, there is none; 409, it has been changed since
                the etag of ``sent`` was read.
        """
        before = self.get(name)
        if "etag" in sent and sent["etag"] != before["etag"]:
            raise cloud_error("ABORTED", f"The etag of {name} is not the current one.")
        return self._put({**sent, "name": name}, dry=dry)

    def delete(self, name: str) -> None:
        """Delete a dashboard. Raises CloudError 404."""
        self.get(name)
        self._store.delete(DASHBOARDS, name)

    def _put(self, dashboard: JsonObject, *, dry: bool) -> JsonObject:
        if not text(dashboard, "displayName"):
            raise invalid_argument("dashboard.display_name must not be empty.")
        layouts = [key for key in _LAYOUTS if key in dashboard]
        if len(layouts) > 1:
            raise invalid_argument(
                f"Invalid value at 'dashboard' (oneof), oneof field 'layout' is already set. Cannot"
                f" set '{layouts[1]}'"
            )
        plain = {key: value for key, value in dashboard.items() if key != "etag"}
        digest = hashlib.sha256(json.dumps(plain, sort_keys=True).encode())
        kept: JsonObject = {**plain, "etag": digest.hexdigest()[:32]}
        if not dry:
            self._store.put(DASHBOARDS, text(kept, "name"), kept)
        return kept
