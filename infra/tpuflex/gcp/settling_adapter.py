"""Asks an API again that was enabled a moment ago, below a client that takes its refusal for final.

Google's storage library retries no 403, so the first push after :func:`ensure_apis` could meet a
machine of Google's that does not know yet.
"""

from __future__ import annotations

from typing import Any

import requests
from requests.adapters import BaseAdapter

from tpuflex.gcp.answers import read_whole
from tpuflex.gcp.rpc_errors import read_rpc_error
from tpuflex.gcp.settling import Settling
from tpuflex.gcp.timing import Timing

#: Seconds between two attempts.
_PAUSE = 5.0


class SettlingAdapter(BaseAdapter):
    """Sends a request again that is refused with SERVICE_DISABLED while APIs settle.

    Args:
        inner: sends it.
        settling: until when a refusal is worth another attempt.
        timing: clock and pauses.
    """

    def __init__(self, inner: BaseAdapter, settling: Settling, timing: Timing) -> None:
        super().__init__()
        self._inner = inner
        self._settling = settling
        self._timing = timing

    def send(
        self, request: requests.PreparedRequest, *how: Any, **options: Any
    ) -> requests.Response:
        """Send ``request``; the last answer."""
        while True:
            response = self._inner.send(request, *how, **options)
            late = self._timing.monotonic() + _PAUSE > self._settling.until
            if late or not _settles(request, response) or self._timing.pause(_PAUSE):
                return response
            response.close()

    def close(self) -> None:
        """Close the connections."""
        self._inner.close()


def _settles(request: requests.PreparedRequest, response: requests.Response) -> bool:
    if response.status_code != requests.codes.forbidden:
        return False
    if not (request.body is None or isinstance(request.body, bytes | str)):
        return False  # a stream, which has been read
    read_whole(response)
    return read_rpc_error(response.status_code, response.content).service_disabled
