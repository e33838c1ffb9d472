"""The end of a host's boot log in Cloud Logging, which outlives the host.

Nodes of the TPU API have no serial console, so that nothing else is left of a host that is gone.
The startup script writes an entry when its boot has failed, and one when it is READY.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from tpuflex.gcp.transport import Api
from tpuflex.naming import LABEL_PROJECT, LABEL_STACK, Names

#: Id of the log that the startup script writes to.
LOG = "tpuflex-boot"
#: Pages to ask for: Google may answer with none yet and a token to go on with
#: (https://cloud.google.com/logging/docs/reference/v2/rest/v2/entries/list).
_PAGES = 20


@dataclass(frozen=True, slots=True)
class BootLog:
    """The end of the log of one boot.

    Attributes:
        node: id of the node.
        zone: its zone.
        time: when it was written (RFC 3339).
        phase: the phase that the boot had come to; READY if it served.
        error: why it failed, or empty.
        lines: the end of the log.
        container: the end of what the server wrote.
    """

    node: str
    zone: str
    time: str
    phase: str
    error: str
    lines: tuple[str, ...]
    container: tuple[str, ...] = ()


def last_boot_log(logging: Api, project: str, names: Names) -> BootLog | None:
    """The newest log of an endpoint's hosts; None if none was written, or all are too old.

    https://cloud.google.com/logging/docs/reference/v2/rest/v2/entries/list

    Args:
        logging: client of the Cloud Logging API.
        project: Google Cloud project id.
        names: the endpoint's names.

    Raises:
        AccessError: the caller may not read logs (logging.logEntries.list), or the API is off.
        ApiError: the API does not answer.
    """
    wanted = {
        "logName": f"projects/{project}/logs/{LOG}",
        f'labels."{LABEL_PROJECT}"': names.project,
        f'labels."{LABEL_STACK}"': names.stack,
        'labels."tpuflex-name"': names.name,
    }
    body: dict[str, JsonValue] = {
        "resourceNames": [f"projects/{project}"],
        "filter": " AND ".join(f"{field}={json.dumps(value)}" for field, value in wanted.items()),
        "orderBy": "timestamp desc",
        "pageSize": 1,
    }
    for _ in range(_PAGES):
        answer = logging.call("POST", "/v2/entries:list", body=body)
        entries = answer.get("entries")
        if isinstance(entries, list) and entries and isinstance(entries[0], dict):
            return _boot_log(entries[0])
        if not answer.get("nextPageToken"):
            return None
        body["pageToken"] = answer["nextPageToken"]
    return None


def _boot_log(entry: Mapping[str, JsonValue]) -> BootLog:
    resource, payload = _object(entry.get("resource")), _object(entry.get("jsonPayload"))
    place = _object(resource.get("labels"))
    return BootLog(
        node=_text(place.get("node_id")),
        zone=_text(place.get("location")),
        time=_text(entry.get("timestamp")),
        phase=_text(payload.get("phase")),
        error=_text(payload.get("error")),
        lines=tuple(_text(payload.get("message")).splitlines()),
        container=tuple(_text(payload.get("container")).splitlines()),
    )


def _object(value: JsonValue) -> Mapping[str, JsonValue]:
    return value if isinstance(value, dict) else {}


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else ""
