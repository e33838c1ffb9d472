"""Connections over TLS to one server, known by its certificate."""

from __future__ import annotations

from typing import Any

import requests
from requests.adapters import HTTPAdapter

from tpuflex.operate.ask import direct_session


class _PinnedAdapter(HTTPAdapter):
    """Connects only to the server whose certificate has one fingerprint."""

    def __init__(self, fingerprint: str) -> None:
        self._fingerprint = fingerprint
        super().__init__()

    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        super().init_poolmanager(*args, assert_fingerprint=self._fingerprint, **options)


def pinned_session(fingerprint: str) -> requests.Session:
    """A session that talks https, and only to the server with that very certificate.

    Its name is not compared: clients reach the server by an address, or through a tunnel.

    Args:
        fingerprint: SHA-256 of the certificate, in hex.
    """
    session = direct_session()
    # The certificate itself is compared instead of those that sign it.
    session.verify = False
    session.mount("https://", _PinnedAdapter(fingerprint))
    return session
