"""Who has changed what: the Admin Activity audit log, which nobody can turn off.

Of each change that was carried out there is one entry; Google writes two where it takes long, more
of what was refused, and names some methods otherwise than the discovery documents
(https://cloud.google.com/logging/docs/audit/understanding-audit-logs).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from embedded_cloud.core.errors import CloudError
from embedded_cloud.core.inbound_request import InboundRequest
from embedded_cloud.core.json_types import JsonObject, text
from embedded_cloud.core.projects import named
from embedded_cloud.core.routing import Call, Match
from embedded_cloud.services.logging import Entries
from embedded_cloud.strict.consumer import Consumers
from embedded_cloud.strict.permissions import OWNERS_EMAIL, resource_path
from embedded_cloud.strict.rights import Rights

#: What changes no resource, by the last word of the method; and what has a log of its own, which is
#: off unless it is turned on: what is in buckets, logs and time series, and tokens.
_READS = re.compile(r"(?:get|list|test|wait|batchGet|access)[A-Z]?\w*")
_DATA = (
    "storage.objects.",
    "logging.",
    "monitoring.projects.timeSeries.",
    "iamcredentials.",
    "oslogin.",
)
_LOG = "cloudaudit.googleapis.com%2Factivity"


@dataclass(frozen=True, slots=True)
class AdminActivity:
    """Writes changes down.

    Attributes:
        entries: where.
        rights: tells whose call it is.
        consumers: tells which project it is about.
    """

    entries: Entries
    rights: Rights
    consumers: Consumers

    def of(self, match: Match, inbound: InboundRequest, call: Call) -> Callable[[], None] | None:
        """What writes ``call`` down once it has been carried out; None for one that changes
        nothing. Asked before that: of a bucket that is deleted nobody knows the project any
        more."""
        last = call.method_id.rpartition(".")[2]
        if call.method == "GET" or call.method_id.startswith(_DATA) or _READS.fullmatch(last):
            return None
        try:
            project = named(self.consumers.resource_project(match, inbound), self.consumers.store)
        except CloudError:  # of no project that there could be: the service says so
            return None
        caller = self.rights.caller(inbound.headers.get("Authorization", ""))
        entry: JsonObject = {
            "logName": f"projects/{project}/logs/{_LOG}",
            "resource": {
                "type": "audited_resource",
                "labels": {"project_id": project, "method": call.method_id},
            },
            "severity": "NOTICE",
            "protoPayload": {
                "@type": "type.googleapis.com/google.cloud.audit.AuditLog",
                "serviceName": f"{match.service.name}.googleapis.com",
                "methodName": call.method_id,
                "resourceName": _resource(call),
                "authenticationInfo": {"principalEmail": self.rights.email(caller) or OWNERS_EMAIL},
                "status": {},
            },
        }
        return lambda: self._write(entry)

    def _write(self, entry: JsonObject) -> None:
        for complete in self.entries.complete({}, [entry]):
            self.entries.put(complete)


def _resource(call: Call) -> str:
    """The name of what is changed; of what is made, too, which its path does not have."""
    path = re.sub(r"^b(?=/|$)", "projects/_/buckets", resource_path(call.path))
    path = path.removesuffix("/iam")
    if call.method_id.rpartition(".")[2] not in ("create", "insert"):
        return path
    ids = [id_ for key, id_ in call.query.items() if key.endswith("Id") and key != "requestId"]
    body = call.body or {}
    named = [text(body, key) for key in ("name", "accountId", "roleId")]
    return "/".join([path, *[name for name in (*ids, *named) if name][:1]])
