"""Whose token the stand-in sends: the owner's, or one of the account that a command acts as."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from embedded_cloud.control_client import call
from embedded_cloud.json_types import JsonObject, text
from tpuflex.errors import EmulatorError

#: What names the emulator, its token's file, the kind of credentials, and the project in the
#: environment that `tpuflex` gives the engine, and the engine its plugins.
URL, TOKEN_FILE = "TPUFLEX_EMULATOR", "CLOUDSDK_AUTH_ACCESS_TOKEN_FILE"
KIND, PROJECT = "TPUFLEX_EMULATOR_CREDENTIALS", "GOOGLE_CLOUD_PROJECT"
_TIMEOUT_S = 30.0


class Token(Protocol):
    """Gives the token for a request."""

    def __call__(self, refused: str = "") -> str:
        """The token; another one than ``refused``, which the cloud did not take (any more)."""
        ...


class FixedToken:
    """One that does not expire."""

    def __init__(self, token: str) -> None:
        self._token = token

    def __call__(self, refused: str = "") -> str:
        """The token."""
        return self._token


class CallersToken:
    """Those of the account that a kind of credentials stands for. Safe to use from many threads.

    Args:
        fetch: gets a new one.
    """

    def __init__(self, fetch: Callable[[], str]) -> None:
        self._fetch = fetch
        self._lock = threading.Lock()
        self._token = ""

    def __call__(self, refused: str = "") -> str:
        """The token; a new one in place of ``refused``."""
        with self._lock:
            if self._token in ("", refused):
                self._token = self._fetch()
            return self._token


def callers_token(environ: Mapping[str, str]) -> CallersToken:
    """The tokens of whoever runs the engine in ``environ``.

    Raises:
        EmulatorError: ``environ`` is not what tpuflex gives the engine.
    """
    missing = [name for name in (URL, TOKEN_FILE, KIND, PROJECT) if not environ.get(name)]
    if missing:
        raise EmulatorError(
            f"the gcp stand-in plugin lacks {', '.join(missing)} in its environment",
            hint='Run: eval "$(tpuflex emulator env --credentials KIND)"',
        )
    state_dir, port = Path(environ[TOKEN_FILE]).parent, urlsplit(environ[URL]).port or 0
    asked: JsonObject = {"kind": environ[KIND], "project": environ[PROJECT]}

    def fetch() -> str:
        try:
            answer = call(state_dir, port, "POST", "token", asked, timeout_s=_TIMEOUT_S)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise EmulatorError(f"{environ[URL]} gives no token: {error}") from error
        return text(answer, "access_token")

    return CallersToken(fetch)
