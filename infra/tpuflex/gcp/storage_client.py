"""Cloud Storage by Google's library, with our session in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tpuflex.gcp.endpoints import Endpoints
from tpuflex.gcp.session import authorized_session
from tpuflex.gcp.settling_adapter import SettlingAdapter

if TYPE_CHECKING:
    from google.cloud.storage import Bucket  # type: ignore[import-untyped]

    from tpuflex.gcp.settling import Settling
    from tpuflex.gcp.timing import Timing


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
