"""The end of an embedded cloud, while clients still connect."""

from __future__ import annotations

import gc
import socket
import threading
import warnings
from contextlib import suppress
from pathlib import Path

from embedded_cloud.server import EmbeddedCloud

ROUNDS = 2
CLIENTS = 3


def test_nothing_that_was_accepted_is_left_open(tmp_path: Path) -> None:
    """Connections that come while it closes are closed, too: one that is forgotten is told by the
    interpreter at any later time, in whatever test runs then."""
    gc.collect()  # what other tests have left
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for number in range(ROUNDS):
            _closed_under_clients(tmp_path / str(number))
            gc.collect()

    assert [str(each.message) for each in told if each.category is ResourceWarning] == []


def _closed_under_clients(state_dir: Path) -> None:
    over = threading.Event()
    held: list[socket.socket] = []

    def connect(port: int) -> None:
        while not over.is_set():
            with suppress(OSError):
                held.append(socket.create_connection(("127.0.0.1", port), 0.2))

    with EmbeddedCloud(state_dir) as cloud:
        port = int(cloud.url.rpartition(":")[2])
        clients = [threading.Thread(target=connect, args=(port,)) for _ in range(CLIENTS)]
        for client in clients:
            client.start()
    over.set()
    for client in clients:
        client.join()
    for client_end in held:
        client_end.close()
