"""What Cloud Logging keeps: the boot logs of hosts, which outlive the hosts, and who changed what.

Nodes of the TPU API have no serial console, so that nothing else is left of a host that is gone.
The startup script writes what its log has with every phase, and more when a boot ends, READY or
failed (ADR 0030). Cloud Logging keeps it for 30 days
(https://cloud.google.com/logging/docs/routed-logs-retention).

Anyone with root on the host writes the entries: nothing in them is trusted to be of the right kind.

Cloud Audit Logs write down each change of a resource, which nobody can turn off, and keep it for
400 days. Reading them asks for the same permission as every other log
(https://cloud.google.com/logging/docs/audit).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import groupby

from pydantic import JsonValue

from tpuflex.google.paging import objects
from tpuflex.google.transport import Api
from tpuflex.naming import LABEL_PROJECT, LABEL_STACK, Names

#: Id of the log that the startup script writes to.
LOG = "tpuflex-boot"
#: Days that Cloud Logging keeps entries for, unless its bucket is configured otherwise.
RETENTION_DAYS = 30
#: Pages to ask for: Google may answer with none yet and a token to go on with
#: (https://cloud.google.com/logging/docs/reference/v2/rest/v2/entries/list).
_PAGES = 20
#: Entries of a page; Google gives 1,000 at most.
_PAGE_ENTRIES, _MOST_ENTRIES = 200, 1000
#: Is told that older entries were left out.
LeftOut = Callable[[str], None]
_BOOT = "tpuflex-boot"
#: Where changes are written down: Admin Activity audit logs.
_AUDIT_LOG = "cloudaudit.googleapis.com%2Factivity"


@dataclass(frozen=True, slots=True)
class BootEntry:
    """An entry of a host's boot log: lines of one phase, and how the boot stood then.

    Attributes:
        id: the entry's own, among those of its time.
        node: id of the node.
        zone: its zone.
        time: when it was written (RFC 3339).
        boot: which boot of the host it is of; empty if the entry does not say.
        generation: the run of the slice, 0 where it is not known.
        worker: number of the host in its slice.
        phase: the phase that the lines are of; READY if it served.
        error: why it failed, or empty.
        lines: what the log had since the entry before it.
        container: the end of what the server wrote, in the last entry of a boot.
        timeline: when each phase began, as the host wrote it.
        ended: when each of those ended that go on at once, as the host wrote it.
    """

    node: str
    zone: str
    time: str
    phase: str
    error: str
    lines: tuple[str, ...]
    container: tuple[str, ...] = ()
    id: str = ""
    boot: str = ""
    generation: int = 0
    worker: int = 0
    timeline: Mapping[str, JsonValue] = field(default_factory=dict)
    ended: Mapping[str, JsonValue] = field(default_factory=dict)


def _say_nothing(_sentence: str) -> None:
    pass


def boot_entries(
    logging: Api,
    project: str,
    names: Names,
    *,
    boot: str = "",
    since: datetime | None = None,
    newest_first: bool = False,
    page_entries: int = _PAGE_ENTRIES,
    left_out: LeftOut = _say_nothing,
) -> Iterator[BootEntry]:
    """Entries of the boot logs of an endpoint's hosts, in order of time; those of one time in the
    order of their ids. Of too many it is the newest ones.

    https://cloud.google.com/logging/docs/reference/v2/rest/v2/entries/list

    Args:
        logging: client of the Cloud Logging API.
        project: Google Cloud project id.
        names: the endpoint's names.
        boot: only those of this boot.
        since: only those of this time or later.
        newest_first: turns the order of times, and not that within one.
        page_entries: how many to ask for at once; one list is one of the 60 that a project has in
            a minute (https://cloud.google.com/logging/quotas).
        left_out: is told in a sentence if older entries were left out.

    Raises:
        AccessError: the caller may not read logs (logging.logEntries.list), or the API is off.
        ApiError: the API does not answer.
    """
    wanted = _filter(project, names, boot, since)
    listed = _listed(logging, project, wanted, page_entries, left_out)
    yield from map(_boot_entry, listed if newest_first else _oldest_first(listed))


def _listed(
    logging: Api, project: str, wanted: str, size: int, left_out: LeftOut
) -> Iterator[Mapping[str, JsonValue]]:
    """The entries that the filter ``wanted`` passes, ``size`` of them at once: the newest first, so
    that a host that writes without end hides none of them."""
    body: dict[str, JsonValue] = {
        "resourceNames": [f"projects/{project}"],
        "filter": wanted,
        "orderBy": "timestamp desc",
        "pageSize": size,
    }
    count = 0
    for _ in range(_PAGES):
        answer = logging.call("POST", "/v2/entries:list", body=body)
        for entry in objects(answer, "entries"):
            count += 1
            yield entry
        if not answer.get("nextPageToken"):
            return
        body["pageToken"] = answer["nextPageToken"]
    left_out(f"there are too many entries: only the newest {count} were read")


def _oldest_first(
    listed: Iterable[Mapping[str, JsonValue]],
) -> Iterator[Mapping[str, JsonValue]]:
    """The other way round, but for entries of one time, which stay in the order of their ids."""
    times = [[*same] for _, same in groupby(listed, lambda entry: entry.get("timestamp"))]
    for same in reversed(times):
        yield from same


def last_boot(
    logging: Api, project: str, names: Names, left_out: LeftOut = _say_nothing
) -> tuple[BootEntry, ...]:
    """The entries of the newest boot of an endpoint's hosts, the oldest first; empty if none was
    written, or all are too old. Arguments and errors are those of :func:`boot_entries`."""
    newest = boot_entries(logging, project, names, newest_first=True, page_entries=1)
    last = next(newest, None)
    if last is None:
        return ()
    if not last.boot:  # root on the host can write entries, too
        return (last,)
    entries = boot_entries(logging, project, names, boot=last.boot, left_out=left_out)
    # Two hosts may have begun in one millisecond.
    same = (last.node, last.zone, last.worker)
    return _each_once(each for each in entries if (each.node, each.zone, each.worker) == same)


def _each_once(entries: Iterable[BootEntry]) -> tuple[BootEntry, ...]:
    """Entries in order of time, without those that are written once more later: where the answer to
    a request is lost, the next one begins with the same lines, and has the same ids."""
    later: set[str] = set()
    kept: list[BootEntry] = []
    for entry in reversed(tuple(entries)):
        if not entry.id or entry.id not in later:
            kept.append(entry)
        later.add(entry.id)
    return tuple(reversed(kept))


def _filter(project: str, names: Names, boot: str, since: datetime | None) -> str:
    """https://cloud.google.com/logging/docs/view/logging-query-language: a value is quoted as JSON
    quotes it, so that no name ends it."""
    wanted = {
        "logName": f"projects/{project}/logs/{LOG}",
        f'labels."{LABEL_PROJECT}"': names.project,
        f'labels."{LABEL_STACK}"': names.stack,
        'labels."tpuflex-name"': names.name,
        f'labels."{_BOOT}"': boot,
    }
    terms = [f"{field}={json.dumps(value)}" for field, value in wanted.items() if value]
    if since is not None:
        terms.append(_from(since))
    return " AND ".join(terms)


def _from(since: datetime) -> str:
    return f'timestamp>="{since.astimezone(UTC).isoformat()}"'


def _boot_entry(entry: Mapping[str, JsonValue]) -> BootEntry:
    resource, payload = _object(entry.get("resource")), _object(entry.get("jsonPayload"))
    place, labels = _object(resource.get("labels")), _object(entry.get("labels"))
    return BootEntry(
        id=_text(entry.get("insertId")),
        node=_text(place.get("node_id")),
        zone=_text(place.get("location")),
        time=_text(entry.get("timestamp")),
        boot=_text(labels.get(_BOOT)),
        generation=_number(labels.get("tpuflex-generation")),
        worker=_number(labels.get("tpuflex-worker")),
        phase=_text(payload.get("phase")),
        error=_text(payload.get("error")),
        lines=tuple(_text(payload.get("message")).splitlines()),
        container=tuple(_text(payload.get("container")).splitlines()),
        timeline=_object(payload.get("timeline")),
        ended=_object(payload.get("ended")),
    )


@dataclass(frozen=True, slots=True)
class Change:
    """An entry of Cloud Audit Logs: somebody changed a resource, or tried to.

    Attributes:
        time: when (RFC 3339).
        principal: e-mail address of who called; empty where Google does not say.
        method: the API's method, such as ``v1.compute.firewalls.delete``.
        resource: name of the resource.
        named: the name of the endpoint's in the entry, by which it is the endpoint's.
        refusal: why it was refused; empty where it was not.
        ends_operation: whether the call itself has an entry of its own, before this one.
    """

    time: str
    principal: str
    method: str
    resource: str
    named: str
    refusal: str = ""
    ends_operation: bool = False


def changes(
    logging: Api, project: str, names: Names, since: datetime, left_out: LeftOut = _say_nothing
) -> Iterator[Change]:
    """What was changed of an endpoint's resources, in order of time: what has one of its names
    anywhere in the entry, as not every API names the resource that is made. Of too many entries it
    is what the newest ones say.

    Args:
        logging: client of the Cloud Logging API.
        project: Google Cloud project id.
        names: the endpoint's names.
        since: only changes of this time or later.
        left_out: is told in a sentence if older entries were left out.

    Raises:
        AccessError: the caller may not read logs (logging.logEntries.list), or the API is off.
        ApiError: the API does not answer.
    """
    log = json.dumps(f"projects/{project}/logs/{_AUDIT_LOG}")
    wanted = f"logName={log} AND {_from(since)} AND {json.dumps(names.prefix)}"
    name = re.compile(rf"(?<![a-z0-9-]){re.escape(names.prefix)}(?:-[\w-]+)?(?![\w-])")
    listed = _listed(logging, project, wanted, _MOST_ENTRIES, left_out)
    for entry in _oldest_first(listed):
        payload = _object(entry.get("protoPayload"))
        if "policyDelta" in _object(payload.get("serviceData")):
            # The whole policy of a project names everyone: what counts is what was changed of it.
            payload = {**payload, "request": None, "response": None}
        found = name.search(json.dumps(payload))
        if found:
            yield _change(entry, payload, found[0])


def _change(entry: Mapping[str, JsonValue], payload: Mapping[str, JsonValue], named: str) -> Change:
    status, operation = _object(payload.get("status")), _object(entry.get("operation"))
    code, message = status.get("code"), _text(status.get("message"))
    return Change(
        time=_text(entry.get("timestamp")),
        principal=_text(_object(payload.get("authenticationInfo")).get("principalEmail")),
        method=_text(payload.get("methodName")),
        resource=_text(payload.get("resourceName")),
        named=named,
        refusal=(message or f"code {code}") if code else "",
        ends_operation=bool(operation.get("last")) and not operation.get("first"),
    )


def _object(value: JsonValue) -> Mapping[str, JsonValue]:
    return value if isinstance(value, dict) else {}


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else ""


def _number(value: JsonValue) -> int:
    """A label that is a count; 0 for every other text."""
    shown = _text(value)
    return int(shown) if shown.isascii() and shown.isdigit() and len(shown) < 10 else 0
