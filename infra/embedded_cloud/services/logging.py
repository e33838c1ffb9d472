"""Cloud Logging v2: entries are written and listed.

Sources: https://cloud.google.com/logging/docs/reference/v2/rest/v2/LogEntry and
https://cloud.google.com/logging/docs/view/logging-query-language. A filter that is not understood
is refused, never ignored.
"""

from __future__ import annotations

import json
import operator
import re
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from embedded_cloud.core.clock import Clock, parse_rfc3339, rfc3339
from embedded_cloud.core.errors import CloudError, invalid_argument, unimplemented
from embedded_cloud.core.json_types import (
    JsonObject,
    JsonValue,
    child,
    children,
    flag,
    number,
    text,
    texts,
)
from embedded_cloud.core.paging import page
from embedded_cloud.core.projects import require
from embedded_cloud.core.routing import Call, Context, Reply, Service
from embedded_cloud.core.store import Store

if TYPE_CHECKING:
    pass


_TERM = re.compile(
    r"""(?P<field>(?:[\w-]+|"[^"]*")(?:\.(?:[\w-]+|"[^"]*"))*)\s*
        (?P<op>!=|<=|>=|=|:|<|>)\s*
        (?P<value>"(?:[^"\\]|\\.)*"|[^\s()"]+)""",
    re.VERBOSE,
)
#: A text alone: it is anywhere in the entry.
_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"')
_GAP = re.compile(r"[\s()]*(?:AND\b[\s()]*)?")
_KEY = re.compile(r'"([^"]*)"|([\w-]+)')
_ORDER: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_SEVERITIES = (
    *("DEFAULT", "DEBUG", "INFO", "NOTICE", "WARNING"),
    *("ERROR", "CRITICAL", "ALERT", "EMERGENCY"),
)


@dataclass(frozen=True, slots=True)
class _Term:
    path: tuple[str, ...]
    op: str
    value: str

    def holds(self, entry: JsonObject) -> bool:
        if not self.path:
            return self.value.lower() in json.dumps(entry, ensure_ascii=False).lower()
        value: JsonValue = entry
        for key in self.path:
            value = value.get(key) if isinstance(value, dict) else None
        shown = "" if value is None else str(value)
        if self.op in _ORDER:
            return value is not None and _ORDER[self.op](self._rank(shown), self._rank(self.value))
        if self.op == ":":
            return value is not None if self.value == "*" else self.value.lower() in shown.lower()
        if self.path == ("timestamp",):
            same = value is not None and self._rank(shown) == self._rank(self.value)
        else:
            same = shown == self.value
        return same == (self.op == "=")

    def _rank(self, shown: str) -> float:
        """What times, severities and numbers are ordered by. Raises CloudError 400."""
        try:
            if self.path in (("timestamp",), ("receiveTimestamp",)):
                return parse_rfc3339(shown)
            if self.path == ("severity",):
                return _SEVERITIES.index(shown)
            return float(shown)
        except ValueError:
            raise _unparseable(shown) from None


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter that has been understood."""

    terms: tuple[_Term, ...]

    @classmethod
    def parse(cls, expression: str) -> Filter:
        """Read ``expression``; an empty one passes every entry.

        Raises:
            CloudError: 400, it is more than comparisons and texts joined by AND.
        """
        terms: list[_Term] = []
        at = _skip(expression, 0)
        while at < len(expression):
            found = _TERM.match(expression, at)
            if found is None and (anywhere := _TEXT.match(expression, at)) is not None:
                terms.append(_Term((), ":", _value(anywhere[0])))
                at = _skip(expression, anywhere.end())
                continue
            if found is None or _is_word(found["field"]):
                raise _unparseable(expression)
            path = tuple(quoted or bare for quoted, bare in _KEY.findall(found["field"]))
            terms.append(_Term(path, found["op"], _value(found["value"])))
            at = _skip(expression, found.end())
        return cls(tuple(terms))

    def matches(self, entry: JsonObject) -> bool:
        """Whether ``entry`` passes. Raises CloudError 400 for what cannot be compared."""
        return all(term.holds(entry) for term in self.terms)


def _skip(expression: str, at: int) -> int:
    gap = _GAP.match(expression, at)
    return at if gap is None else gap.end()


def _is_word(field: str) -> bool:
    return field in ("OR", "NOT")


def _value(written: str) -> str:
    if not written.startswith('"'):
        return written
    try:
        return str(json.loads(written))
    except ValueError:
        raise _unparseable(written) from None


def _unparseable(expression: str) -> CloudError:
    return invalid_argument(f"Unparseable filter: {expression}")


_COLLECTION = "_logging/entries"
#: The id is URL-encoded.
_LOG_NAME = re.compile(r"projects/(?P<project>[^/]+)/logs/(?P<id>[A-Za-z0-9_.%-]{1,511})")
_PAYLOADS = ("textPayload", "jsonPayload", "protoPayload")
#: https://cloud.google.com/logging/quotas, as are the oldest time that is kept and the latest that
#: is taken.
_MAX_ENTRY_BYTES = 256 * 1024
_DAY_S = 24 * 3600
_RETENTION_S = 30 * _DAY_S


class Entries:
    """Log entries, by project and time."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def complete(self, shared: JsonObject, entries: list[JsonObject]) -> list[JsonObject]:
        """``entries`` of a request with what they share, and with what the service adds: ids that
        keep their order among those of one time.

        Raises:
            CloudError: 400, one has no valid name, no resource, not one payload, is too large, or
                of a time that is more than a day ahead.
        """
        of_request = secrets.token_hex(6)
        return [
            self._complete(shared, entry, f"{of_request}{index:05x}")
            for index, entry in enumerate(entries)
        ]

    def _complete(self, shared: JsonObject, entry: JsonObject, insert_id: str) -> JsonObject:
        entry = {**shared, **entry}
        if "labels" in shared:
            entry["labels"] = {**child(shared, "labels"), **child(entry, "labels")}
        _project(text(entry, "logName"))
        if not text(child(entry, "resource"), "type"):
            raise invalid_argument("A monitored resource must be specified for each log entry.")
        if sum(key in entry for key in _PAYLOADS) != 1:
            raise invalid_argument("A log entry must have exactly one payload.")
        size = len(json.dumps(entry, ensure_ascii=False).encode())
        if size > _MAX_ENTRY_BYTES:
            raise invalid_argument(
                f"Log entry with size {size} exceeds maximum size of {_MAX_ENTRY_BYTES} bytes"
            )
        now = rfc3339(self._clock.now())
        stamp = _timestamp(text(entry, "timestamp") or now)
        if stamp > rfc3339(self._clock.now() + _DAY_S):
            raise invalid_argument(
                f"Log entry with timestamp {stamp} is more than 24 hours in the future."
            )
        return {
            "severity": "DEFAULT",
            "insertId": insert_id,
            **entry,
            "timestamp": stamp,
            "receiveTimestamp": now,
        }

    def put(self, entry: JsonObject) -> None:
        """Keep an entry; one of the same time and insert id is the same entry."""
        project = _project(text(entry, "logName"))
        key = f"{project}/{text(entry, 'timestamp')}/{text(entry, 'insertId')}"
        self._store.put(_COLLECTION, key, entry)

    def of(self, project: str) -> list[JsonObject]:
        """The entries of ``project``, the oldest first; those past their retention are forgotten,
        also where they are written so late (they would still be routed to sinks)."""
        oldest = rfc3339(self._clock.now() - _RETENTION_S)
        kept = []
        for key, entry in self._store.list(_COLLECTION, f"{require(project)}/"):
            if text(entry, "timestamp") < oldest:
                self._store.delete(_COLLECTION, key)
            else:
                kept.append(entry)
        return kept


def _project(log_name: str) -> str:
    match = _LOG_NAME.fullmatch(log_name)
    if match is None:
        raise invalid_argument(
            f"Log name {log_name!r} is not of the form projects/PROJECT_ID/logs/LOG_ID."
        )
    return require(match["project"])


def _timestamp(stamp: str) -> str:
    try:
        return rfc3339(parse_rfc3339(stamp))
    except ValueError:
        raise invalid_argument(f"Invalid timestamp: {stamp}") from None


_DEFAULT_PAGE, _MAX_PAGE = 50, 1000
_ORDERS = {"": False, "timestamp asc": False, "timestamp desc": True}
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


def service(context: Context) -> Service:
    """Cloud Logging: the entries of projects."""
    entries = EntryHandlers(Entries(context.store, context.clock), context.clock)
    return Service(
        name="logging",
        version="v2",
        handlers={
            "logging.entries.write": entries.write,
            "logging.entries.list": entries.list,
        },
    )
