"""Dashboards of Cloud Monitoring v1. Nothing draws them here.

Names and defaults of answers as recorded in GoogleCloudPlatform/k8s-config-connector,
``mockgcp/mockmonitoring/testdata/dashboard``: a dashboard's name has the project's number, also
where it is asked for by the project's id, and what is zero or empty is not in an answer.
"""

from __future__ import annotations

import hashlib
import json
import re
import uuid

from embedded_cloud.core.errors import already_exists, conflict, invalid_argument, not_found
from embedded_cloud.core.json_types import JsonObject, JsonValue, child, children, number, text
from embedded_cloud.core.paging import Paging
from embedded_cloud.core.projects import number_of
from embedded_cloud.core.routing import Call, Context, Reply, Service
from embedded_cloud.core.store import Store

_DASHBOARDS = "monitoring/dashboards"
_COUNTERS = "_monitoring/dashboardCounters"
_PAGING = Paging(default=1000, maximum=1000)

_ID = re.compile(r"[a-zA-Z0-9-]{1,64}")
_LAYOUTS = ("columnLayout", "gridLayout", "mosaicLayout", "rowLayout")


class Dashboards:
    """The dashboards of all projects, and their handlers."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def create(self, call: Call) -> Reply:
        """POST …/dashboards; the body may name it."""
        project = number_of(call.params["project"])
        body = call.body or {}
        key = self._key(project, text(body, "name").rpartition("/")[2] or self._next(project))
        if self._store.get(_DASHBOARDS, key):
            raise already_exists("Requested entity already exists")
        return self._put(call, key, body)

    def get(self, call: Call) -> Reply:
        """GET …/dashboards/{dashboard}."""
        return Reply(body=_shown(*self._found(call)))

    def list(self, call: Call) -> Reply:
        """GET …/dashboards."""
        prefix = f"projects/{number_of(call.params['project'])}/"
        found = [_shown(key, each) for key, each in self._store.list(_DASHBOARDS, prefix)]
        return _PAGING.resources(call, "dashboards", found)

    def patch(self, call: Call) -> Reply:
        """PATCH of one: all of it is replaced, if it is still the one with the ``etag``."""
        key, before = self._found(call)
        body = call.body or {}
        if text(body, "etag") not in ("", text(_shown(key, before), "etag")):
            raise conflict("The dashboard was changed concurrently. Please try again.")
        return self._put(call, key, body)

    def delete(self, call: Call) -> Reply:
        """DELETE of one."""
        self._store.delete(_DASHBOARDS, self._found(call)[0])
        return Reply(body={})

    def _next(self, project: str) -> str:
        """The id of what is made next in a project, if its maker gives none."""
        count = self._store.next_number(_COUNTERS, project)
        return str(uuid.uuid5(uuid.NAMESPACE_URL, f"{project}/{count}"))

    def _key(self, project: str, dashboard: str) -> str:
        if not _ID.fullmatch(dashboard):
            raise invalid_argument(f"Dashboard id {dashboard!r} is not valid.")
        return f"projects/{project}/dashboards/{dashboard}"

    def _found(self, call: Call) -> tuple[str, JsonObject]:
        project = number_of(call.params["project"])
        key = self._key(project, call.params["dashboard"])
        found = self._store.get(_DASHBOARDS, key)
        if found is None:
            raise not_found("Requested entity was not found.")
        return key, found

    def _put(self, call: Call, key: str, body: JsonObject) -> Reply:
        kept = _without_empty({k: v for k, v in body.items() if k not in ("name", "etag")})
        if not isinstance(kept, dict) or sum(layout in body for layout in _LAYOUTS) != 1:
            raise invalid_argument("Dashboard must have exactly one layout.")
        for tile in children(child(kept, "mosaicLayout"), "tiles"):
            _check_tile(tile, child(kept, "mosaicLayout"))
        if call.query.get("validateOnly", "").lower() != "true":
            self._store.put(_DASHBOARDS, key, kept)
        return Reply(body=_shown(key, kept))


def _shown(key: str, dashboard: JsonObject) -> JsonObject:
    """The answer about what is kept at ``key``: with defaults and an etag."""
    etag = hashlib.sha256(json.dumps(dashboard, sort_keys=True).encode()).hexdigest()[:16]
    shown: JsonObject = json.loads(json.dumps(dashboard))
    for widget in _widgets(shown):
        for data_set in children(child(widget, "xyChart"), "dataSets"):
            data_set.setdefault("targetAxis", "Y1")
        if written := child(widget, "text"):
            written.setdefault("format", "MARKDOWN")
            written.setdefault("style", {})
    return {**shown, "name": key, "etag": etag}


def _widgets(dashboard: JsonObject) -> list[JsonObject]:
    tiles = children(child(dashboard, "mosaicLayout"), "tiles")
    return [
        *(child(tile, "widget") for tile in tiles),
        *children(child(dashboard, "gridLayout"), "widgets"),
    ]


def _check_tile(tile: JsonObject, layout: JsonObject) -> None:
    """Refuse a tile without content, or beyond the columns."""
    if not any(key not in ("id", "title") for key in child(tile, "widget")):
        raise invalid_argument(
            "Dashboard is missing required field mosaicLayout.tiles[].widget.content."
        )
    columns, right = number(layout, "columns"), number(tile, "xPos") + number(tile, "width")
    if right > columns:
        raise invalid_argument(
            f"Field mosaicLayout.tiles[] ends at column {right:g}, but there are {columns:g}."
        )


def _without_empty(value: JsonValue) -> JsonValue:
    """``value`` without what is zero, empty or null."""
    if isinstance(value, dict):
        kept = {key: _without_empty(inner) for key, inner in value.items()}
        return {key: inner for key, inner in kept.items() if inner not in (None, "", 0, [], {})}
    if isinstance(value, list):
        return [_without_empty(inner) for inner in value]
    return value


def service(context: Context) -> Service:
    """Cloud Monitoring v1: dashboards."""
    dashboards = Dashboards(context.store)
    return Service(
        name="monitoring",
        version="v1",
        handlers={
            "monitoring.projects.dashboards.create": dashboards.create,
            "monitoring.projects.dashboards.list": dashboards.list,
            "monitoring.projects.dashboards.get": dashboards.get,
            "monitoring.projects.dashboards.patch": dashboards.patch,
            "monitoring.projects.dashboards.delete": dashboards.delete,
        },
    )
