"""An HTTP session that authorizes its requests, and never sends the wrong token anywhere.

The embedded cloud gets the embedded token and nothing else; Google gets the caller's
credentials; any other host gets an error instead of a token.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter

from tpuflex.errors import AccessError
from tpuflex.gcloud_commands import log_in
from tpuflex.gcp.answers import read_whole
from tpuflex.gcp.endpoints import Endpoints, is_loopback
from tpuflex.gcp.owners_adapter import OwnersAdapter

if TYPE_CHECKING:
    from google.auth.credentials import Credentials

#: What all tokens of the embedded cloud begin with; Google makes none such.
EMBEDDED_TOKEN = "ya29.tpuflex-embedded"  # noqa: S105 - not a token
_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_TOKEN_VARIABLE = "GOOGLE_OAUTH_ACCESS_TOKEN"  # noqa: S105 - a variable's name
_TOKEN_FILE_VARIABLE = "CLOUDSDK_AUTH_ACCESS_TOKEN_FILE"  # noqa: S105 - a variable's name
_EMBEDDED_HINT = 'Run: eval "$(tpuflex emulator env)", or unset the endpoint overrides.'
#: Connections kept open per host; more waits than this still work, on short connections.
_POOL = 32


class TokenSource(Protocol):
    """Hands out access tokens."""

    def token(self) -> str:
        """A token that is valid now, as far as can be told without asking Google."""

    def refresh(self) -> None:
        """Get a new token, because the API answered 401."""


class AuthorizedSession(requests.Session):
    """A `requests` session whose requests carry the right token for their host."""

    def __init__(self, tokens: TokenSource, *, embedded: bool) -> None:
        super().__init__()
        self._tokens = tokens
        # Proxies from the environment must not stand between us and loopback.
        self.trust_env = not embedded
        self.auth = _HostBoundToken(tokens, embedded=embedded)
        kind = OwnersAdapter if embedded else HTTPAdapter
        adapter = kind(pool_connections=_POOL, pool_maxsize=_POOL)
        self.mount("https://", adapter)
        self.mount("http://", adapter)

    def send(
        self, request: requests.PreparedRequest, *, stream: bool | None = None, **how: Any
    ) -> requests.Response:
        """Send ``request``; an answer that is not taken as a stream is read within a bound.

        Raises:
            ApiError: the answer is larger than any of Google's.
        """
        response = super().send(request, stream=True, **how)
        if not stream:
            read_whole(response)
        return response

    def refresh_token(self) -> None:
        """Get a new access token for the requests to come."""
        self._tokens.refresh()


def authorized_session(endpoints: Endpoints, environ: Mapping[str, str]) -> AuthorizedSession:
    """A session for ``endpoints`` with the credentials that ``environ`` provides.

    Raises:
        AccessError: the endpoints are on loopback but the token in the environment is a real
            one or missing, or there are no Google credentials. The latter is found out at the
            first request, not here: making a session does no I/O.
    """
    given = environ.get(_TOKEN_VARIABLE, "")
    if endpoints.embedded:
        if not given:
            raise AccessError(
                f"{_TOKEN_VARIABLE} is not set, while the API endpoints point to this machine",
                hint=_EMBEDDED_HINT,
            )
        if not given.startswith(EMBEDDED_TOKEN):
            raise AccessError(
                f"{_TOKEN_VARIABLE} holds a token that is not the embedded cloud's, while the"
                " API endpoints point to this machine",
                hint=_EMBEDDED_HINT,
            )
        file = environ.get(_TOKEN_FILE_VARIABLE, "")
        return AuthorizedSession(EmbeddedToken(given, file), embedded=True)
    if given.startswith(EMBEDDED_TOKEN):
        raise AccessError(
            f"{_TOKEN_VARIABLE} holds the embedded cloud's token, while the API endpoints are"
            " not all on this machine",
            hint=f'Unset {_TOKEN_VARIABLE}, or run: eval "$(tpuflex emulator env)"',
        )
    tokens: TokenSource = StaticToken(given) if given else DefaultCredentials()
    return AuthorizedSession(tokens, embedded=False)


def require_credentials(endpoints: Endpoints, environ: Mapping[str, str]) -> None:
    """See that there are credentials for ``endpoints``; Google is not asked what they are worth.

    Raises:
        AccessError: there are none.
    """
    authorized_session(endpoints, environ).close()
    if not endpoints.embedded and not environ.get(_TOKEN_VARIABLE):
        DefaultCredentials().require()


class StaticToken:
    """One token from outside, which cannot be renewed."""

    def __init__(self, token: str) -> None:
        self._token = token

    def token(self) -> str:
        """The token."""
        return self._token

    def refresh(self) -> None:
        """Nothing to renew: the next 401 is reported."""


class EmbeddedToken:
    """The embedded cloud's token: another one after each of its starts.

    Args:
        token: the one that the environment gives.
        file: where the running cloud keeps its own; empty if that is not known.
    """

    def __init__(self, token: str, file: str) -> None:
        self._token = token
        self._file = file

    def token(self) -> str:
        """The token."""
        return self._token

    def refresh(self) -> None:
        """Take the one that the cloud has now; without any, the next 401 is reported."""
        try:
            found = Path(self._file).read_text("utf-8") if self._file else ""
        except (OSError, UnicodeDecodeError):
            return
        if found.startswith(EMBEDDED_TOKEN):
            self._token = found


class DefaultCredentials:
    """Google's Application Default Credentials, looked up at first use."""

    def __init__(self) -> None:

        self._lock = Lock()
        self._credentials: Credentials | None = None

    def token(self) -> str:
        """The current token; renewed when google-auth says that it has expired."""
        with self._lock:
            credentials = self.require()
            if not credentials.valid:
                self._renew(credentials)
            return str(credentials.token)

    def refresh(self) -> None:
        """Renew the token whatever its expiry says."""
        with self._lock:
            self._renew(self.require())

    def require(self) -> Credentials:
        """The credentials.

        Raises:
            AccessError: there are none.
        """
        if self._credentials is not None:
            return self._credentials
        # Imported late: it costs a tenth of a second that the embedded cloud never needs.
        import google.auth
        from google.auth.exceptions import DefaultCredentialsError

        try:
            self._credentials, _ = google.auth.default(scopes=[_SCOPE])
        except DefaultCredentialsError as error:
            raise AccessError(
                "no Google Cloud credentials were found",
                hint=f"Run: {log_in()}",
            ) from error
        return self._credentials

    def _renew(self, credentials: Credentials) -> None:
        from google.auth.exceptions import GoogleAuthError, RefreshError, TransportError
        from google.auth.transport.requests import Request

        try:
            credentials.refresh(Request())  # type: ignore[no-untyped-call]
        except TransportError as error:
            raise requests.ConnectionError("the token server cannot be reached") from error
        except GoogleAuthError as error:
            if isinstance(error, RefreshError) and error.retryable:
                # 5xx or 429 of the token server: it answered, but said nothing about us.
                raise requests.ConnectionError("the token server is not available") from error
            raise AccessError(
                "Google refused to renew the credentials",
                hint=f"Run: {log_in()}",
            ) from error


class _HostBoundToken(requests.auth.AuthBase):
    def __init__(self, tokens: TokenSource, *, embedded: bool) -> None:
        self._tokens = tokens
        self._embedded = embedded

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        url = request.url or ""
        if self._embedded != is_loopback(url) or not (self._embedded or _is_google(url)):
            raise AccessError(
                f"refused to send credentials to {urlsplit(url).hostname}",
                hint="Check the CLOUDSDK_API_ENDPOINT_OVERRIDES_* variables.",
            )
        request.headers["Authorization"] = f"Bearer {self._tokens.token()}"
        return request


def _is_google(url: str) -> bool:
    parts = urlsplit(url)
    host = parts.hostname or ""
    return parts.scheme == "https" and host.endswith(".googleapis.com")
