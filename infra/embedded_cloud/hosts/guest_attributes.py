"""Guest attributes, which hosts set through their metadata server."""

from __future__ import annotations

from embedded_cloud.json_types import text
from embedded_cloud.store import Store

_COLLECTION = "_hosts/guest_attributes"


class GuestAttributes:
    """Values by node, worker, namespace and key."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def put(self, node_name: str, worker: int, namespace: str, key: str, value: str) -> None:
        """Set one value."""
        where = f"{_prefix(node_name, worker)}{namespace}/{key}"
        self._store.put(_COLLECTION, where, {"value": value})

    def query(self, node_name: str, worker: int, path: str) -> list[tuple[str, str, str]]:
        """(namespace, key, value) under ``path``: empty, ``namespace/`` or ``namespace/key``."""
        prefix = _prefix(node_name, worker)
        queried = path.strip("/")
        values = []
        for where, document in self._store.list(_COLLECTION, prefix):
            namespace, _, key = where.removeprefix(prefix).partition("/")
            if queried in ("", namespace, f"{namespace}/{key}"):
                values.append((namespace, key, text(document, "value")))
        return values

    def clear(self, node_name: str) -> None:
        """Delete the attributes of all workers of a node that is gone."""
        for where, _ in self._store.list(_COLLECTION, f"{node_name}#"):
            self._store.delete(_COLLECTION, where)


def _prefix(node_name: str, worker: int) -> str:
    return f"{node_name}#{worker}#"
