"""The machine's metadata server: attributes, guest attributes, and the account's access token.

https://cloud.google.com/compute/docs/metadata/querying-metadata
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping

from tpuflex.copier.http import Patience, RefusedError, UnreachableError, request

_HEADERS = {"Metadata-Flavor": "Google"}
#: google-auth's name for the variable that moves it
#: (https://googleapis.dev/python/google-auth/latest/reference/google.auth.environment_vars.html).
HOST_VARIABLE = "GCE_METADATA_HOST"
_HOST = "metadata.google.internal"
#: A token is asked for anew when it has less than this left, in seconds. The server itself gives
#: the same one until five minutes before its end.
_MARGIN = 240.0


class Machine:
    """The machine that this runs on.

    Args:
        environ: may name another metadata server.
        patience: waits between attempts.
        clock: a clock that never jumps, in seconds.
    """

    def __init__(
        self, environ: Mapping[str, str], patience: Patience, clock: Callable[[], float]
    ) -> None:
        self._url = f"http://{environ.get(HOST_VARIABLE) or _HOST}/computeMetadata/v1/instance"
        self._patience = patience
        self._clock = clock
        self._lock = threading.Lock()
        self._token, self._until = "", 0.0

    def attribute(self, key: str) -> str:
        """The value of ``key`` in the machine's metadata.

        Raises:
            UnreachableError, RefusedError: it cannot be read.
        """
        return self._patience.ask(lambda: self._read(f"attributes/{key}")).decode()

    def publish(self, path: str, text: str) -> bool:
        """Write a guest attribute; whether that was possible."""
        try:
            url = f"{self._url}/guest-attributes/{path}"
            with request("PUT", url, _HEADERS, text.encode()) as answer:
                return answer.status < 300
        except UnreachableError:
            return False

    def token(self) -> str:
        """An access token of the machine's service account, with minutes left.

        Raises:
            UnreachableError, RefusedError: there is none.
        """
        with self._lock:
            if self._clock() >= self._until:
                text = self._patience.ask(lambda: self._read("service-accounts/default/token"))
                found = json.loads(text)
                self._token = str(found["access_token"])
                self._until = self._clock() + max(float(found["expires_in"]) - _MARGIN, 1.0)
            return self._token

    def _read(self, path: str) -> bytes:
        with request("GET", f"{self._url}/{path}", _HEADERS) as answer:
            if answer.status != 200:
                raise RefusedError(answer)
            return answer.body()
