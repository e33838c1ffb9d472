"""A project's APIs as Service Usage and the APIs themselves tell of them, in fake time."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from pydantic import JsonValue

from tests.provider.fakes import FakeTime
from tpuflex.errors import TpuflexError
from tpuflex.google.apis import Apis
from tpuflex.google.enable_apis import ensure_apis
from tpuflex.google.required_apis import APIS
from tpuflex.google.rpc_errors import as_exception, read_rpc_error

PROJECT = "new-project"
JsonObject = dict[str, JsonValue]
NAMES = {api.service for api in APIS}
#: Enabled in every new project: https://cloud.google.com/service-usage/docs/enabled-service#default
DEFAULT = {
    f"{name}.googleapis.com" for name in ("logging", "monitoring", "serviceusage", "storage")
}
RECENT = (
    "has not been used in project 123456789012 before or it is disabled. If you enabled this API"
    " recently, wait a few minutes for the action to propagate to our systems and retry."
)


def disabled(service: str) -> TpuflexError:
    """Google's refusal of an API that is not enabled."""
    details = [{"reason": "SERVICE_DISABLED", "domain": "googleapis.com"}]
    error = {"code": 403, "message": f"{service} {RECENT}", "status": "PERMISSION_DENIED"}
    return refused(403, {**error, "details": details})


def refused(status: int, error: dict[str, Any]) -> TpuflexError:
    body = json.dumps({"error": error}).encode()
    return as_exception(read_rpc_error(status, body), method="POST", url="https://x/y")


@dataclass
class Project:
    """A project's APIs: enabled at a time, answering a while later."""

    time: FakeTime = field(default_factory=FakeTime)
    answers_after: float = 60.0
    enabled: dict[str, float] = field(default_factory=lambda: dict.fromkeys(DEFAULT, 0.0))
    unlisted: frozenset[str] = frozenset()
    unreadable: TpuflexError | None = None
    refusal: TpuflexError | None = None
    failure: JsonObject | None = None
    operation_for: float = 0.0
    calls: list[tuple[str, str]] = field(default_factory=list)
    agreed: list[str] = field(default_factory=list)

    def clients(self) -> Apis:
        return Apis(**{each.name: Client(self, each.name) for each in fields(Apis)})

    def ensure(self, **more: Any) -> tuple[bool, list[str]]:
        said: list[str] = []
        options = {"agree": lambda missing: self.agreed.extend(api.name for api in missing), **more}
        changed = ensure_apis(self.clients(), PROJECT, self.time.timing(), said.append, **options)
        return changed, said

    def answer(self, client: str, method: str, path: str, body: JsonObject | None) -> JsonObject:
        self.calls.append((method, path))
        service = f"{'cloud' if client == 'resourcemanager' else ''}{client}.googleapis.com"
        since = self.enabled.get(service)
        if since is None or self.time.now < since + (self.answers_after if since else 0.0):
            raise disabled(service)
        if client != "serviceusage":
            return {}
        return self._usage(path, body)

    def _usage(self, path: str, body: JsonObject | None) -> JsonObject:
        if path.endswith(":batchEnable"):
            if self.refusal is not None:
                raise self.refusal
            assert body is not None
            ids: Any = body["serviceIds"]
            self.began = self.time.now
            if self.failure is None:
                self.enabled |= {one: self.time.now for one in ids if one not in self.enabled}
            return {"name": "operations/acf.1"}
        if path.startswith("/v1/operations/"):
            if self.time.now < self.began + self.operation_for:
                return {"name": "operations/acf.1"}
            done: JsonObject = {"name": "operations/acf.1", "done": True}
            return {**done, "error": self.failure} if self.failure else done
        if self.unreadable is not None:
            raise self.unreadable
        listed = [one for one in self.enabled if one not in self.unlisted]
        return {"services": [{"name": f"projects/1/services/{one}"} for one in listed]}

    def posts(self) -> list[str]:
        return [path for method, path in self.calls if method == "POST"]


@dataclass
class Client:
    """One API of a project."""

    project: Project
    name: str

    def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,  # noqa: ARG002 - the transport's signature
        body: JsonObject | None = None,
        budget: float = 0.0,  # noqa: ARG002
    ) -> JsonObject:
        return self.project.answer(self.name, method, path, body)
