"""A server's metrics: one `GET /metrics`, which needs a key."""

from __future__ import annotations

import requests
from urllib3.exceptions import HTTPError

from tpuflex.errors import AccessError, ApiError

#: Seconds to get a connection, and between two pieces of the answer.
_TIMEOUT = (3.0, 10.0)
#: No server says more.
_LONGEST = 16 * 1024 * 1024


def ask_metrics(endpoint: str, key: str, session: requests.Session) -> str:
    """What the server of ``endpoint`` (base URL that ends in ``/v1``) answers.

    Raises:
        AccessError: it refused the key.
        ApiError: it does not answer, or with an error, or without end.
    """
    url = f"{endpoint.removesuffix('/v1')}/metrics"
    try:
        with session.get(
            url,
            headers={"Authorization": f"Bearer {key}"},
            timeout=_TIMEOUT,
            stream=True,
            allow_redirects=False,
        ) as response:
            if response.status_code in (401, 403):
                raise AccessError("the endpoint refused the API key")
            if response.status_code != requests.codes.ok:
                raise ApiError(f"/metrics answered {response.status_code}", url=url)
            received = b""
            for piece in response.iter_content(64 * 1024):
                received += piece
                if len(received) > _LONGEST:
                    raise ApiError("/metrics does not end", url=url)
    except (requests.RequestException, HTTPError) as error:
        raise ApiError(f"/metrics does not answer ({type(error).__name__})", url=url) from error
    return received.decode("utf-8", "replace")
