"""Guest attributes, which hosts set through their metadata server."""

from __future__ import annotations

from embedded_cloud.json_types import text
from embedded_cloud.store import Store

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
