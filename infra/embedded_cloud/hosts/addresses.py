"""The loopback addresses of hosts."""

from __future__ import annotations

from urllib.parse import urlsplit

from embedded_cloud.json_types import texts
from embedded_cloud.store import Store

_NODES = "tpu/nodes"


def free_addresses(store: Store, base_url: str, count: int) -> list[str]:
    """Addresses that no host has, from 127.<port high>.<port low>.1 upwards.

    The port in the middle keeps two emulators on one machine apart.

    Args:
        store: the cloud's memory: what has an address is in it.
        base_url: the emulator's address.
        count: how many.
    """
    taken = {each for _, node in store.list(_NODES) for each in texts(node, "addresses")}
    port = urlsplit(base_url).port or 1
    candidates = (
        f"127.{block >> 8 & 255}.{block & 255}.{last}"
        for block in range(port, port + 64)
        for last in range(1, 255)
    )
    free = (address for address in candidates if address not in taken)
    return [next(free) for _ in range(count)]
