"""Cloud Storage by Google's library, with our session in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tpuflex.gcp.endpoints import Endpoints
from tpuflex.gcp.session import authorized_session

if TYPE_CHECKING:
    from google.cloud.storage import Bucket  # type: ignore[import-untyped]


def storage_bucket(name: str, *, project: str | None, environ: Mapping[str, str]) -> Bucket:
    """The bucket called ``name``, at the endpoints that ``environ`` names; makes no request.

    Args:
        name: its name.
        project: the project to make things in; None for a bucket that is only read.
        environ: names endpoints and credentials.

    Raises:
        AccessError: the credentials do not belong to the endpoints.
    """
    # Imported late: it takes a second that most commands need not pay.
    from google.auth.credentials import AnonymousCredentials
    from google.cloud.storage import Client

    endpoints = Endpoints.from_environ(environ)
    client = Client(
        project=project,
        # Our session authorizes, and only towards the host that the token is for.
        credentials=AnonymousCredentials(),  # type: ignore[no-untyped-call]
        _http=authorized_session(endpoints, environ, project or "", renews=True),
        client_options={"api_endpoint": endpoints.storage},
    )
    return client.bucket(name)
