"""Operations: every change answers with one. The change has been made by then; the operation is
reported as done at once, or later in a strict cloud."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from embedded_cloud.core.clock import Clock, rfc3339_offset
from embedded_cloud.core.json_types import JsonObject, child, number, text
from embedded_cloud.core.store import Store
from embedded_cloud.core.strictness import Strictness
from embedded_cloud.services.compute.errors import not_found
from embedded_cloud.services.compute.paths import Scope

COLLECTION = "_compute/operations"
_REQUESTS = "_compute/requests"
USER = "owner@example.com"


class Operations:
    """The operations of all projects, by path."""

    def __init__(self, store: Store, clock: Clock, strictness: Callable[[], Strictness]) -> None:
        self._store = store
        self._clock = clock
        self._strictness = strictness

    def done(self, scope: Scope, verb: str, target: JsonObject, request_id: str) -> JsonObject:
        """Record that ``verb`` was done to the resource ``target``."""
        now = self._clock.now()
        count = len(self._store.list(COLLECTION, f"{scope.path}/operations/"))
        seed = f"{verb} {text(target, 'selfLink')} {now!r} {count}"
        digest = hashlib.sha256(seed.encode()).hexdigest()
        name = f"operation-{int(now * 1000)}-{digest[:13]}-{digest[13:21]}-{digest[21:29]}"
        path = f"{scope.path}/operations/{name}"
        stamp = rfc3339_offset(now)
        ends = now + self._strictness().compute.operation_s
        operation: JsonObject = {
            "kind": "compute#operation",
            "id": unique_id(path),
            "name": name,
            "operationType": verb,
            "targetLink": text(target, "selfLink"),
            "targetId": text(target, "id"),
            "status": "DONE",
            "progress": 100,
            "user": USER,
            "insertTime": stamp,
            "startTime": stamp,
            "endTime": rfc3339_offset(ends),
            "selfLink": path,
        }
        if scope.region:
            operation["region"] = scope.path
        self._store.put(COLLECTION, path, {"operation": operation, "ends": ends})
        if request_id:
            self._store.put(_REQUESTS, f"{scope.path}/{request_id}", {"operation": path})
        return self._now(operation, ends)

    def repeated(self, scope: Scope, request_id: str) -> JsonObject | None:
        """The operation of an earlier call with the same requestId, if there was one."""
        earlier = self._store.get(_REQUESTS, f"{scope.path}/{request_id}") if request_id else None
        return self._get(text(earlier, "operation")) if earlier else None

    def require(self, scope: Scope, name: str) -> JsonObject:
        """The operation. Raises CloudError 404."""
        path = f"{scope.path}/operations/{name}"
        operation = self._get(path)
        if operation is None:
            raise not_found(path)
        return operation

    def all(self, scope: Scope) -> list[JsonObject]:
        """The operations in ``scope``."""
        paths = [path for path, _ in self._store.list(COLLECTION, f"{scope.path}/operations/")]
        return [operation for path in paths if (operation := self._get(path)) is not None]

    def _get(self, path: str) -> JsonObject | None:
        stored = self._store.get(COLLECTION, path)
        if stored is None:
            return None
        return self._now(child(stored, "operation"), number(stored, "ends"))

    def _now(self, operation: JsonObject, ends: float) -> JsonObject:
        """The operation as it is now."""
        if self._clock.now() >= ends:
            return operation
        running = {key: value for key, value in operation.items() if key != "endTime"}
        return {**running, "status": "RUNNING", "progress": 0}


def unique_id(*parts: str) -> str:
    """A 63-bit number that stands for ``parts``, as decimal text."""
    digest = hashlib.sha256("\0".join(parts).encode()).digest()
    return str(int.from_bytes(digest[:8], "big") >> 1)
