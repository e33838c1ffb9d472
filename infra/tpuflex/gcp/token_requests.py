"""The HTTP requests by which google-auth gets access tokens.

For the embedded cloud, those that google-auth sends to Google's token servers go to the embedded
cloud instead, and nothing goes anywhere else: google-auth 2.62 takes no other address for a user's
token than Google's (``Credentials.from_authorized_user_info``: "always overrides"), nor for an
impersonated account's (``from_impersonated_service_account_info`` drops the URL's host).
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import requests

from tpuflex.errors import AccessError
from tpuflex.gcp.answers import read_whole
from tpuflex.gcp.endpoints import is_loopback
from tpuflex.gcp.owners_adapter import OwnersAdapter

if TYPE_CHECKING:
    from google.auth.transport.requests import _Response

#: Google's servers that hand out tokens.
_TOKEN_SERVERS = frozenset(
    {
        "oauth2.googleapis.com",
        "sts.googleapis.com",
        "iamcredentials.googleapis.com",
        "metadata.google.internal",
        "169.254.169.254",
    }
)
#: Bytes; an answer with a token has about 2,000.
_LARGEST_ANSWER = 1024 * 1024
_PASSING = frozenset({408, 429})


class TokenRequests:
    """Sends requests for google-auth (``google.auth.transport.Request``); one at a time.

    Args:
        embedded_at: address of the embedded cloud without trailing slash; empty for Google.
    """

    def __init__(self, embedded_at: str = "") -> None:
        # Imported late: it costs time that a stack without such credentials never needs.
        from google.auth.transport.requests import Request

        self._embedded_at = embedded_at
        self._send = Request(_Session(embedded=bool(embedded_at)))
        self._status = 0

    def __call__(
        self,
        url: str,
        method: str = "GET",
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        **how: Any,
    ) -> _Response:
        """Send one request.

        Raises:
            google.auth.exceptions.TransportError: no answer came.
            AccessError: it would leave this machine with a secret of the embedded cloud.
        """
        self._status = 0
        response: _Response = self._send(self._target(url), method, body, headers, **how)
        self._status = response.status
        return response

    @property
    def passing(self) -> bool:
        """Whether the last request failed in a way that may pass.

        No answer, 5xx, too many requests, or an answer of 2xx that was of no use: a login page.
        """
        status = self._status
        return (
            status < HTTPStatus.MULTIPLE_CHOICES
            or status >= HTTPStatus.INTERNAL_SERVER_ERROR
            or status in _PASSING
        )

    def _target(self, url: str) -> str:
        parts = urlsplit(url)
        if not self._embedded_at or parts.hostname not in _TOKEN_SERVERS:
            return url
        query = f"?{parts.query}" if parts.query else ""
        return f"{self._embedded_at}{parts.path}{query}"


class _Session(requests.Session):
    """Reads answers within a bound; for the embedded cloud, stays on this user's loopback."""

    def __init__(self, *, embedded: bool) -> None:
        super().__init__()
        self._embedded = embedded
        self.trust_env = not embedded
        if embedded:
            self.mount("http://", OwnersAdapter())

    def send(self, request: requests.PreparedRequest, **how: Any) -> requests.Response:
        """Send one request, also one that an answer redirects to."""
        url = request.url or ""
        if self._embedded and not (is_loopback(url) and url.startswith("http://")):
            raise AccessError(
                f"refused to send the embedded cloud's credentials to {urlsplit(url).hostname}"
            )
        response = super().send(request, **{**how, "stream": True})
        read_whole(response, _LARGEST_ANSWER)
        return response
