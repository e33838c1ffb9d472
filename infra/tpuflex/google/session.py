"""An HTTP session that authorizes its requests, and never sends the wrong token anywhere.

The embedded cloud gets its own tokens and nothing else; Google gets the caller's credentials; any
other host gets an error instead of a token.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter

from tpuflex.errors import AccessError
from tpuflex.google.credentials import (
    FILE_VARIABLE,
    METADATA_VARIABLE,
    TOKEN_VARIABLE,
    Credential,
    Kind,
    quota_project,
)
from tpuflex.google.default_credentials import DefaultCredentials
from tpuflex.google.endpoints import Endpoints, is_loopback
from tpuflex.google.http import OwnersAdapter, read_whole
from tpuflex.google.recording import Recording
from tpuflex.google.rpc_errors import read_rpc_error

_TOKEN_FILE_VARIABLE = "CLOUDSDK_AUTH_ACCESS_TOKEN_FILE"  # noqa: S105 - a variable's name
#: What all tokens of the embedded cloud begin with; Google makes none such.
EMBEDDED_TOKEN = "ya29.tpuflex-embedded"  # noqa: S105 - not a token
_EMBEDDED_HINT = 'Run: eval "$(tpuflex emulator env)", or unset the endpoint overrides.'
#: https://cloud.google.com/apis/docs/system-parameters
_QUOTA_PROJECT_HEADER = "X-Goog-User-Project"
#: Of Container Registry, which Artifact Registry serves too.
_REGISTRIES = frozenset({"gcr.io", "us.gcr.io", "eu.gcr.io", "asia.gcr.io"})
#: Connections kept open per host; more waits than this still work, on short connections.
_POOL = 32


class TokenSource(Protocol):
    """Hands out access tokens."""

    def token(self) -> str:
        """A token that is valid now, as far as can be told without asking Google."""

    def refresh(self) -> None:
        """Get a new token, because the API answered 401."""

    def credential(self) -> Credential:
        """What the tokens come from; no server is asked."""


class GivenToken:
    """A token from outside. Google's cannot be renewed; the embedded cloud has another one after
    each of its starts.

    Args:
        token: the token.
        quota_project: project that quota is taken from; empty if the environment names none.
        file: where the running embedded cloud keeps its own; empty if that is not known.
    """

    def __init__(self, token: str, quota_project: str = "", file: str = "") -> None:
        self._token = token
        self._file = file
        self._credential = Credential(
            Kind.ACCESS_TOKEN, TOKEN_VARIABLE, quota_project=quota_project
        )

    def token(self) -> str:
        """The token."""
        return self._token

    def refresh(self) -> None:
        """Take the one that the embedded cloud has now; without any, the next 401 is reported."""
        try:
            found = Path(self._file).read_text("utf-8") if self._file else ""
        except (OSError, UnicodeDecodeError):
            return
        if found.startswith(EMBEDDED_TOKEN):
            self._token = found

    def credential(self) -> Credential:
        """What the token comes from."""
        return self._credential


class AuthorizedSession(requests.Session):
    """A `requests` session whose requests carry the right token for their host.

    Args:
        tokens: where tokens come from.
        embedded: whether they are the embedded cloud's.
        project: project that quota is taken from where an API demands one and the credential
            names none; empty for none.
        recording: where requests and answers are written, if anywhere.
        renews: whether a request that is answered with 401 is sent again with a new token; a
            :class:`~tpuflex.google.transport.Transport` does so itself.
    """

    def __init__(
        self,
        tokens: TokenSource,
        *,
        embedded: bool,
        project: str = "",
        recording: Recording | None = None,
        renews: bool = False,
    ) -> None:
        super().__init__()
        self._tokens = tokens
        self._project = project
        self._recording = recording
        self._renews = renews
        # Proxies from the environment must not stand between us and loopback.
        self.trust_env = not embedded
        self._signature = _Signature(tokens, embedded=embedded)
        self.auth = self._signature
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
        if self._mended(request, response):
            response.close()
            response = super().send(request, stream=True, **how)
        if not stream:
            read_whole(response)
        if self._recording is not None:
            self._recording.add(request, response, whole=not stream)
        return response

    def rebuild_auth(
        self, prepared_request: requests.PreparedRequest, response: requests.Response
    ) -> None:
        """Send nothing of the caller's on to another host: neither the token nor the project that
        pays, and nothing that `~/.netrc` has for that one."""
        was, now = response.request.url or "", prepared_request.url or ""
        if self.should_strip_auth(was, now):  # type: ignore[no-untyped-call]
            for header in ("Authorization", _QUOTA_PROJECT_HEADER):
                prepared_request.headers.pop(header, None)

    def refresh_token(self) -> None:
        """Get a new access token for the requests to come."""
        self._tokens.refresh()

    def credential(self) -> Credential:
        """What the tokens come from, after a token has been got.

        Raises:
            AccessError: there are no credentials, or Google refuses to renew them.
            requests.ConnectionError: the token server is away.
        """
        self._tokens.token()
        return self._tokens.credential()

    def _mended(self, request: requests.PreparedRequest, response: requests.Response) -> bool:
        """Whether ``request`` now has what it was refused for, before anything was done."""
        if response.history or "Authorization" not in request.headers:
            return False  # what a redirect has led to, which was sent by itself
        if not (request.body is None or isinstance(request.body, bytes | str)):
            return False  # a stream, which has been read
        if response.status_code == requests.codes.unauthorized and self._renews:
            self._tokens.refresh()
            self._signature(request)
            return True
        if response.status_code != requests.codes.forbidden or not self._project:
            return False
        if _QUOTA_PROJECT_HEADER in request.headers:
            return False
        read_whole(response)
        if not read_rpc_error(response.status_code, response.content).quota_project_missing:
            return False
        self._signature.add_quota_project(request, self._project)
        return True


def authorized_session(
    endpoints: Endpoints, environ: Mapping[str, str], project: str = "", *, renews: bool = False
) -> AuthorizedSession:
    """A session for ``endpoints`` with the credentials that ``environ`` provides.

    Args:
        endpoints: where the APIs are.
        environ: names the credentials.
        project: as in :class:`AuthorizedSession`.
        renews: as in :class:`AuthorizedSession`.

    Raises:
        AccessError: the endpoints are on loopback but the token in the environment is a real
            one or missing, or there are no Google credentials. The latter is found out at the
            first request, not here: making a session does no I/O.
    """
    source = _token_source(endpoints, environ)
    return AuthorizedSession(
        source,
        embedded=endpoints.embedded,
        project=project,
        recording=Recording.of(environ),
        renews=renews,
    )


def require_credentials(endpoints: Endpoints, environ: Mapping[str, str]) -> None:
    """See that there are credentials for ``endpoints``; Google is not asked what they are worth.

    Raises:
        AccessError: there are none.
    """
    _token_source(endpoints, environ).credential()


def _token_source(endpoints: Endpoints, environ: Mapping[str, str]) -> TokenSource:
    given = environ.get(TOKEN_VARIABLE, "")
    if endpoints.embedded:
        if not given and (environ.get(FILE_VARIABLE) or environ.get(METADATA_VARIABLE)):
            # All services of the embedded cloud are at one address.
            return DefaultCredentials(environ, endpoints.iam)
        if not given:
            raise AccessError(
                f"{TOKEN_VARIABLE} is not set, while the API endpoints point to this machine",
                hint=_EMBEDDED_HINT,
            )
        if not given.startswith(EMBEDDED_TOKEN):
            raise AccessError(
                f"{TOKEN_VARIABLE} holds a token that is not the embedded cloud's, while the"
                " API endpoints point to this machine",
                hint=_EMBEDDED_HINT,
            )
        return GivenToken(given, file=environ.get(_TOKEN_FILE_VARIABLE, ""))
    if given.startswith(EMBEDDED_TOKEN):
        raise AccessError(
            f"{TOKEN_VARIABLE} holds the embedded cloud's token, while the API endpoints are"
            " not all on this machine",
            hint=f'Unset {TOKEN_VARIABLE}, or run: eval "$(tpuflex emulator env)"',
        )
    return GivenToken(given, quota_project(environ)) if given else DefaultCredentials(environ)


class _Signature(requests.auth.AuthBase):
    """Puts the token, and the project to take quota from, into a request."""

    def __init__(self, tokens: TokenSource, *, embedded: bool) -> None:
        self._tokens = tokens
        self._embedded = embedded
        #: Hosts that have demanded a quota project, and which project they get.
        self._demanded: dict[str, str] = {}

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        url = request.url or ""
        if self._embedded != is_loopback(url) or not (self._embedded or _is_google(url)):
            raise AccessError(
                f"refused to send credentials to {urlsplit(url).hostname}",
                hint="Check the CLOUDSDK_API_ENDPOINT_OVERRIDES_* variables.",
            )
        token = self._tokens.token()
        if token.startswith(EMBEDDED_TOKEN) != self._embedded:
            raise AccessError(
                f"refused to send to {urlsplit(url).hostname} a token that is not for it",
                hint=_EMBEDDED_HINT,
            )
        request.headers["Authorization"] = f"Bearer {token}"
        # All requests, as google-auth does it (Credentials.apply).
        project = self._tokens.credential().quota_project or self._demanded.get(_host(url), "")
        if project:
            request.headers[_QUOTA_PROJECT_HEADER] = project
        return request

    def add_quota_project(self, request: requests.PreparedRequest, project: str) -> None:
        """Name the quota project in ``request`` and in all to come for the same host."""
        self._demanded[_host(request.url or "")] = project
        request.headers[_QUOTA_PROJECT_HEADER] = project


def _host(url: str) -> str:
    return urlsplit(url).netloc


def _is_google(url: str) -> bool:
    """Whether ``url`` is an API of Google's, or a registry with the images of projects
    (https://cloud.google.com/artifact-registry/docs/docker/authentication)."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    known = host.endswith((".googleapis.com", "-docker.pkg.dev")) or host in _REGISTRIES
    return parts.scheme == "https" and known
