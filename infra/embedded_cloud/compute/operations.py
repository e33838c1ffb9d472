"""Operations: every change answers with one that is done."""

from __future__ import annotations

import hashlib

from embedded_cloud.clock import Clock, rfc3339_offset
from embedded_cloud.compute.errors import not_found
from embedded_cloud.compute.paths import Scope
from embedded_cloud.json_types import JsonObject, text
from embedded_cloud.store import Store

COLLECTION = "_compute/operations"
_REQUESTS = "_compute/requests"
USER = "owner@example.com"


class Operations:
    """The operations of all projects, by path."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def done(self, scope: Scope, verb: str, target: JsonObject, request_id: str) -> JsonObject:
        """Record that ``verb`` was done to the resource ``target``."""
        now = self._clock.now()
        count = len(self._store.list(COLLECTION, f"{scope.path}/operations/"))
        seed = f"{verb} {text(target, 'selfLink')} {now!r} {count}"
        digest = hashlib.sha256(seed.encode()).hexdigest()
        name = f"operation-{int(now * 1000)}-{digest[:13]}-{digest[13:21]}-{digest[21:29]}"
        path = f"{scope.path}/operations/{name}"
        stamp = rfc3339_offset(now)
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
            "endTime": stamp,
            "selfLink": path,
        }
        if scope.region:
            operation["region"] = scope.path
        self._store.put(COLLECTION, path, operation)
        if request_id:
            self._store.put(_REQUESTS, f"{scope.path}/{request_id}", {"operation": path})
        return operation

    def repeated(self, scope: Scope, request_id: str) -> JsonObject | None:
        """The operation of an earlier call with the same requestId, if there was one."""
        earlier = self._store.get(_REQUESTS, f"{scope.path}/{request_id}") if request_id else None
        return self._store.get(COLLECTION, text(earlier, "operation")) if earlier else None

    def require(self, scope: Scope, name: str) -> JsonObject:
        """The operation. Raises CloudError 404."""
        path = f"{scope.path}/operations/{name}"
        operation = self._store.get(COLLECTION, path)
        if operation is None:
            raise not_found(path)
        return operation

    def all(self, scope: Scope) -> list[JsonObject]:
        """The operations in ``scope``."""
        return [value for _, value in self._store.list(COLLECTION, f"{scope.path}/operations/")]


def unique_id(*parts: str) -> str:
    """A 63-bit number that stands for ``parts``, as decimal text."""
    digest = hashlib.sha256("\0".join(parts).encode()).digest()
    return str(int.from_bytes(digest[:8], "big") >> 1)
