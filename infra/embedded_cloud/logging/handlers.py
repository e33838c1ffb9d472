"""HTTP calls on log entries."""

from __future__ import annotations

from collections.abc import Iterable

from embedded_cloud.errors import invalid_argument, unimplemented
from embedded_cloud.json_types import JsonObject, JsonValue, children, flag, number, text, texts
from embedded_cloud.logging.filters import Filter
from embedded_cloud.logging.state import Entries
from embedded_cloud.paging import page
from embedded_cloud.routing import Call, Reply

_DEFAULT_PAGE, _MAX_PAGE = 50, 1000
_ORDERS = {"": False, "timestamp asc": False, "timestamp desc": True}


class EntryHandlers:
    """Handlers of ``entries``."""

    def __init__(self, entries: Entries) -> None:
        self._entries = entries

    def write(self, call: Call) -> Reply:
        """POST /v2/entries:write: all entries, or none when one is refused."""
        body = call.body or {}
        shared: JsonObject = {
            key: body[key] for key in ("logName", "resource", "labels") if key in body
        }
        entries = [self._entries.complete(shared, entry) for entry in children(body, "entries")]
        if not flag(body, "dryRun"):
            for entry in entries:
                self._entries.put(entry)
        return Reply(body={})

    def list(self, call: Call) -> Reply:
        """POST /v2/entries:list."""
        body = call.body or {}
        projects = texts(body, "projectIds")
        for name in texts(body, "resourceNames"):
            kind, _, project = name.partition("/")
            if kind != "projects" or "/" in project:
                raise unimplemented(f"log entries of {name}")
            projects.append(project)
        if not projects:
            raise invalid_argument("At least one resource name must be specified.")
        order = text(body, "orderBy")
        if order not in _ORDERS:
            raise invalid_argument(f"Unsupported order_by: {order!r}")
        return Reply(body=self._page(body, dict.fromkeys(projects), descending=_ORDERS[order]))

    def _page(self, body: JsonObject, projects: Iterable[str], *, descending: bool) -> JsonObject:
        size = int(number(body, "pageSize"))
        if size < 0:
            raise invalid_argument("page_size must not be negative.")
        wanted = Filter.parse(text(body, "filter"))
        entries = [
            (key, entry)
            for project in projects
            for key, entry in self._entries.of(project)
            if wanted.matches(entry)
        ]
        try:
            shown, token = page(
                sorted(entries, key=lambda each: each[0], reverse=descending),
                key=lambda each: each[0],
                size=min(size or _DEFAULT_PAGE, _MAX_PAGE),
                token=text(body, "pageToken"),
                descending=descending,
            )
        except ValueError:
            raise invalid_argument("page_token is not valid.") from None
        answer: JsonObject = {}
        if shown:
            answer["entries"] = list[JsonValue](entry for _, entry in shown)
        if token:
            answer["nextPageToken"] = token
        return answer
