"""HTTP calls on log entries."""

from __future__ import annotations

from collections.abc import Iterable

from embedded_cloud.clock import Clock, parse_duration
from embedded_cloud.errors import invalid_argument, unimplemented
from embedded_cloud.json_types import JsonObject, JsonValue, children, flag, number, text, texts
from embedded_cloud.logging.filters import Filter
from embedded_cloud.logging.state import Entries
from embedded_cloud.logging.tail import Tail, answers
from embedded_cloud.paging import page
from embedded_cloud.resourcemanager.state import require
from embedded_cloud.routing import Call, Reply

_DEFAULT_PAGE, _MAX_PAGE = 50, 1000
_ORDERS = {"": False, "timestamp asc": False, "timestamp desc": True}
_DEFAULT_BUFFER, _MAX_BUFFER_S = "2s", 60.0
#: A time whose digits are turned sorts the other way round.
_TURNED = str.maketrans("0123456789", "9876543210")


class EntryHandlers:
    """Handlers of ``entries``."""

    def __init__(self, entries: Entries, clock: Clock) -> None:
        self._entries = entries
        self._clock = clock

    def write(self, call: Call) -> Reply:
        """POST /v2/entries:write: all entries, or none when one is refused."""
        body = call.body or {}
        shared: JsonObject = {
            key: body[key] for key in ("logName", "resource", "labels") if key in body
        }
        entries = self._entries.complete(shared, children(body, "entries"))
        if not flag(body, "dryRun"):
            for entry in entries:
                self._entries.put(entry)
        return Reply(body={})

    def list(self, call: Call) -> Reply:
        """POST /v2/entries:list."""
        body = call.body or {}
        projects = _projects(body)
        order = text(body, "orderBy")
        if order not in _ORDERS:
            raise invalid_argument(f"Unsupported order_by: {order!r}")
        return Reply(body=self._page(body, projects, descending=_ORDERS[order]))

    def tail(self, call: Call) -> Reply:
        """POST /v2/entries:tail: entries as they are received, until the client ends it.

        Google's clients speak the stream of gRPC in both directions; what is spoken here is that of
        the discovery document: one request, and a JSON array of answers that has no end.
        """
        body = call.body or {}
        projects = frozenset(require(project) for project in _projects(body))
        window = parse_duration(text(body, "bufferWindow", _DEFAULT_BUFFER))
        if not 0 <= window <= _MAX_BUFFER_S:
            raise invalid_argument("buffer_window must be between 0 and 60000 milliseconds.")
        tail = Tail(projects, Filter.parse(text(body, "filter")), window, self._clock)
        return Reply(
            body=answers(tail, self._entries, call.request),
            headers={"Content-Type": "application/json; charset=UTF-8"},
        )

    def _page(self, body: JsonObject, projects: Iterable[str], *, descending: bool) -> JsonObject:
        size = int(number(body, "pageSize"))
        if size < 0:
            raise invalid_argument("page_size must not be negative.")
        wanted = Filter.parse(text(body, "filter"))
        entries = [
            (_key(entry, descending=descending), entry)
            for project in projects
            for entry in self._entries.of(project)
            if wanted.matches(entry)
        ]
        try:
            shown, token = page(
                sorted(entries, key=lambda each: each[0]),
                key=lambda each: each[0],
                size=min(size or _DEFAULT_PAGE, _MAX_PAGE),
                token=text(body, "pageToken"),
            )
        except ValueError:
            raise invalid_argument("page_token is not valid.") from None
        answer: JsonObject = {}
        if shown:
            answer["entries"] = list[JsonValue](entry for _, entry in shown)
        if token:
            answer["nextPageToken"] = token
        return answer


def _projects(body: JsonObject) -> list[str]:
    """The projects whose entries ``body`` asks for, each once. Raises CloudError 400 or 501."""
    projects = texts(body, "projectIds")
    for name in texts(body, "resourceNames"):
        kind, _, project = name.partition("/")
        if kind != "projects" or "/" in project:
            raise unimplemented(f"log entries of {name}")
        projects.append(project)
    if not projects:
        raise invalid_argument("At least one resource name must be specified.")
    return list(dict.fromkeys(projects))


def _key(entry: JsonObject, *, descending: bool) -> str:
    """What an entry is sorted by: those of one time are in the order of their ids either way
    (https://cloud.google.com/logging/docs/reference/v2/rest/v2/entries/list)."""
    stamp = text(entry, "timestamp")
    stamp = stamp.translate(_TURNED) if descending else stamp
    return f"{stamp}/{text(entry, 'insertId')}/{text(entry, 'logName')}"
