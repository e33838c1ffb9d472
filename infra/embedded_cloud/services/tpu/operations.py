"""Long-running operations of the TPU service, and the request ids that identify them."""

from __future__ import annotations

import hashlib

from embedded_cloud.core.clock import Clock
from embedded_cloud.core.errors import not_found
from embedded_cloud.core.json_types import JsonObject, text
from embedded_cloud.core.store import Store
from embedded_cloud.services.tpu.records import Operation, Outcome, Place

_REQUESTS = "_tpu/requests"
_COUNTERS = "_tpu/counters"


class Operations:
    """The operations of all places."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def begin(
        self,
        place: Place,
        *,
        verb: str,
        target: str,
        api_version: str,
        takes_s: float,
        outcome: Outcome,
        error: tuple[str, str] | None = None,
        snapshot: JsonObject | None = None,
        request_id: str = "",
    ) -> Operation:
        """Record an operation that is done ``takes_s`` seconds from now.

        Args:
            request_id: the caller's idempotency token; :meth:`repeated` finds the
                operation by it.
        """
        now = self._clock.now()
        operation = Operation(
            project=place.project,
            zone=place.zone,
            id=self._next_id(target, now),
            verb=verb,
            target=target,
            api_version=api_version,
            created_at=now,
            done_at=now + takes_s,
            outcome=outcome,
            error=error,
            snapshot=snapshot,
        )
        self._put(operation)
        if request_id:
            key = _request_key(place, verb, target.split("/")[-2], request_id)
            self._store.put(_REQUESTS, key, {"operation": operation.name})
        return operation

    def repeated(self, place: Place, verb: str, kind: str, request_id: str) -> Operation | None:
        """The operation that an earlier call with this request id began, if any.

        Args:
            kind: collection of the target, such as ``queuedResources``.
        """
        if not request_id:
            return None
        seen = self._store.get(_REQUESTS, _request_key(place, verb, kind, request_id))
        if seen is None:
            return None
        document = self._store.get(Operation.collection, text(seen, "operation"))
        return None if document is None else Operation.from_json(document)

    def get(self, place: Place, operation_id: str) -> Operation:
        """One operation; 404 if there is none."""
        name = f"{place.parent}/operations/{operation_id}"
        document = self._store.get(Operation.collection, name)
        if document is None:
            raise not_found(f"Operation '{name}' was not found.")
        return Operation.from_json(document)

    def in_place(self, place: Place) -> list[Operation]:
        """The operations of a place; zone ``-`` means all zones."""
        return [
            operation
            for _, document in self._store.list(
                Operation.collection, f"projects/{place.project}/locations/"
            )
            if (operation := Operation.from_json(document)).zone == place.zone or place.zone == "-"
        ]

    def is_done(self, operation: Operation) -> bool:
        """Whether it is done by now."""
        return self._clock.now() >= operation.done_at

    def _put(self, operation: Operation) -> None:
        self._store.put(Operation.collection, operation.name, operation.to_json())

    def _next_id(self, target: str, now: float) -> str:
        """``operation-<ms>-<hex>-<hex>-<hex>``, the form seen; unique and reproducible."""
        count = self._store.next_number(_COUNTERS, "operations")
        digest = hashlib.sha256(f"{target}\0{count}".encode()).hexdigest()
        return f"operation-{int(now * 1000)}-{digest[:13]}-{digest[13:21]}-{digest[21:29]}"


def _request_key(place: Place, verb: str, kind: str, request_id: str) -> str:
    return f"{place.parent}/{kind}/{verb}/{request_id}"
