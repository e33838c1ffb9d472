"""Guest attributes, which hosts set through their metadata server."""

from __future__ import annotations

from collections import deque

from embedded_cloud.core.clock import Clock
from embedded_cloud.core.json_types import text
from embedded_cloud.core.store import Store
from embedded_cloud.core.strictness import GuestAttributes as Bounds
from embedded_cloud.core.strictness import Strictness

_COLLECTION = "_hosts/guest_attributes"


class GuestAttributes:
    """Values by owner (a node), worker, namespace and key."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def put(self, owner: str, worker: int, namespace: str, key: str, value: str) -> None:
        """Set one value."""
        where = f"{_prefix(owner, worker)}{namespace}/{key}"
        self._store.put(_COLLECTION, where, {"value": value})

    def delete(self, owner: str, worker: int, namespace: str, key: str) -> bool:
        """Delete one value; false if there was none."""
        return self._store.delete(_COLLECTION, f"{_prefix(owner, worker)}{namespace}/{key}")

    def query(self, owner: str, worker: int, path: str) -> list[tuple[str, str, str]]:
        """(namespace, key, value) under ``path``: empty, ``namespace/`` or ``namespace/key``."""
        prefix = _prefix(owner, worker)
        queried = path.strip("/")
        values = []
        for where, document in self._store.list(_COLLECTION, prefix):
            namespace, _, key = where.removeprefix(prefix).partition("/")
            if queried in ("", namespace, f"{namespace}/{key}"):
                values.append((namespace, key, text(document, "value")))
        return values

    def clear(self, owner: str) -> None:
        """Delete the attributes of all workers of an owner that is gone."""
        for where, _ in self._store.list(_COLLECTION, f"{owner}#"):
            self._store.delete(_COLLECTION, where)


def _prefix(owner: str, worker: int) -> str:
    return f"{owner}#{worker}#"


#: Policy with which an organization forbids guest attributes.
POLICY = "compute.disableGuestAttributesAccess"

_MINUTE_S = 60.0


def forbidden(strictness: Strictness) -> bool:
    """Whether the organization forbids guest attributes, to the host and to those who read them."""
    return strictness.organization_policies.enforces(POLICY)


class Queries:
    """The queries of one host within the last minute."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._asked: deque[float] = deque()

    def is_too_many(self, rules: Bounds) -> bool:
        """Count one more; whether it is one too many."""
        now = self._clock.now()
        self._asked.append(now)
        while self._asked[0] <= now - _MINUTE_S:
            self._asked.popleft()
        within_second = sum(asked > now - 1 for asked in self._asked)
        per_minute, per_second = rules.queries_per_minute, rules.queries_per_second
        return (per_minute is not None and len(self._asked) > per_minute) or (
            per_second is not None and within_second > per_second
        )
