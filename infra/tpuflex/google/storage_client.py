"""Cloud Storage by Google's library, with our session in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import requests
from requests.adapters import BaseAdapter

from tpuflex.google.endpoints import Endpoints
from tpuflex.google.http import read_whole
from tpuflex.google.rpc_errors import read_rpc_error
from tpuflex.google.session import authorized_session
from tpuflex.google.timing import Settling, Timing

if TYPE_CHECKING:
    from google.cloud.storage import Bucket  # type: ignore[import-untyped]

#: Seconds between two attempts while APIs settle.
_PAUSE = 5.0


def storage_bucket(
    name: str,
    *,
    project: str | None,
    environ: Mapping[str, str],
    settling: Settling | None = None,
    timing: Timing | None = None,
) -> Bucket:
    """The bucket called ``name``, at the endpoints that ``environ`` names; makes no request.

    Args:
        name: its name.
        project: the project to make things in; None for a bucket that is only read.
        environ: names endpoints and credentials.
        settling: until when an API that was just enabled may go on refusing; it then is asked
            again. By default a refusal is final: nobody has enabled anything.
        timing: clock and pauses for that.

    Raises:
        AccessError: the credentials do not belong to the endpoints.
    """
    # Imported late: it takes a second that most commands need not pay.
    from google.auth.credentials import AnonymousCredentials
    from google.cloud.storage import Client

    endpoints = Endpoints.from_environ(environ)
    session = authorized_session(endpoints, environ, project or "", renews=True)
    if settling is not None and timing is not None:
        for scheme in ("https://", "http://"):
            inner = session.get_adapter(scheme)
            session.mount(scheme, SettlingAdapter(inner, settling, timing))
    client = Client(
        project=project,
        # Our session authorizes, and only towards the host that the token is for.
        credentials=AnonymousCredentials(),  # type: ignore[no-untyped-call]
        _http=session,
        client_options={"api_endpoint": endpoints.storage},
    )
    return client.bucket(name)


class SettlingAdapter(BaseAdapter):
    """Sends a request again that is refused with SERVICE_DISABLED while APIs settle.

    Google's storage library retries no 403, so the first push after
    :func:`~tpuflex.google.enable_apis.ensure_apis` could meet a machine of Google's that does not
    know.

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
