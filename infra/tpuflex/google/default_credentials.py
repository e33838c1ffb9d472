"""Application Default Credentials, by google-auth: loaded at first use, renewed as they expire.

Only tokens are taken from google-auth. Its ``before_request`` would also ask Google for a regional
access boundary, with the token, whatever host the request is for.

For the embedded cloud, requests to Google's token servers go to the embedded cloud instead, and
nothing goes anywhere else: google-auth 2.62 takes no other address for a user's token than Google's
(``Credentials.from_authorized_user_info``: "always overrides"), nor for an impersonated account's
(``from_impersonated_service_account_info`` drops the URL's host).
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from threading import Lock
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import requests

from pulumi_plugin.printable import printable
from tpuflex.errors import AccessError
from tpuflex.gcloud_commands import log_in
from tpuflex.google.credentials import (
    METADATA_VARIABLE,
    Credential,
    CredentialsFile,
    Kind,
    credentials_file,
    describe,
)
from tpuflex.google.endpoints import is_loopback
from tpuflex.google.http import OwnersAdapter, read_whole
from tpuflex.google.rpc_errors import read_rpc_error

if TYPE_CHECKING:
    from google.auth.credentials import Credentials

_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
#: Characters of a token server's reason that are shown.
_LONGEST_REASON = 300
#: What to do when Google refuses to renew a credential, by its kind.
_REMEDIES = {
    Kind.USER: f"Run: {log_in()}",
    Kind.SERVICE_ACCOUNT: (
        "See whether the account exists and is enabled, whether the key is still one of its keys,"
        " and whether this machine's clock is right."
    ),
    Kind.IMPERSONATED: (
        "You need the role roles/iam.serviceAccountTokenCreator on the account, and the API"
        f" iamcredentials.googleapis.com enabled. To log in again: {log_in()}"
    ),
    Kind.EXTERNAL_ACCOUNT: (
        "See the workload identity pool: its provider, its conditions, and who may act as the"
        " service account."
    ),
    Kind.METADATA: "See whether this machine has a service account.",
}

#: Google's servers that hand out tokens.
_TOKEN_SERVERS = frozenset(
    f"{name}.googleapis.com" for name in ("oauth2", "sts", "iamcredentials")
) | {"metadata.google.internal", "169.254.169.254"}
#: Bytes; an answer with a token has about 2,000.
_LARGEST_ANSWER = 1024 * 1024
_PASSING = frozenset({408, 429})
#: What google-auth runs into where a file or an answer is not made as it should be.
_UNFORESEEN = (ValueError, TypeError, KeyError, AttributeError)
#: Kinds for which one token is exchanged for another.
_IN_TWO_STEPS = frozenset({Kind.IMPERSONATED, Kind.EXTERNAL_ACCOUNT})


class DefaultCredentials:
    """The Application Default Credentials of an environment. Safe to use from several threads.

    Args:
        environ: names them.
        embedded_at: address of the embedded cloud, for credentials of its own; empty for Google's.
    """

    def __init__(self, environ: Mapping[str, str], embedded_at: str = "") -> None:
        self._environ = environ
        self._embedded_at = embedded_at
        self._lock = Lock()
        self._loaded: _Loaded | None = None

    def token(self) -> str:
        """The current token; renewed when google-auth says that it has expired.

        Raises:
            AccessError: there are no credentials, or Google refuses to renew them.
            requests.ConnectionError: the token server is away.
        """
        with self._lock:
            loaded = self._require()
            if not loaded.google.valid:
                loaded = self._renew()
            return str(loaded.google.token)

    def refresh(self) -> None:
        """Renew the token whatever its expiry says; raises as :meth:`token`."""
        with self._lock:
            self._renew()

    def credential(self) -> Credential:
        """What the tokens come from; Google is not asked what they are worth.

        Raises:
            AccessError: there are none.
        """
        with self._lock:
            return self._require().described()

    def _require(self) -> _Loaded:
        if self._loaded is None:
            self._loaded = _load(self._environ, self._embedded_at)
        return self._loaded

    def _renew(self) -> _Loaded:
        loaded = self._require()
        try:
            loaded.renew()
        except AccessError:
            # The file may have been replaced meanwhile: by a log-in, or by a new start of the
            # embedded cloud. And google-auth keeps the token by which it acts as an account for
            # as long as its own clock allows, even one that is refused.
            again = _load(self._environ, self._embedded_at)
            if again.file == loaded.file and loaded.found.kind not in _IN_TWO_STEPS:
                raise
            again.renew()
            self._loaded = loaded = again
        return loaded


class _TokenSession(requests.Session):
    """Sends google-auth's requests for tokens, one at a time, and reads answers within a bound; for
    the embedded cloud, stays on this user's loopback.

    Args:
        embedded_at: address of the embedded cloud without trailing slash; empty for Google.
    """

    def __init__(self, embedded_at: str) -> None:
        super().__init__()
        self._embedded_at = embedded_at
        self._status = 0
        self.trust_env = not embedded_at
        if embedded_at:
            self.mount("http://", OwnersAdapter())

    def request(self, method: str, url: str, *how: Any, **named: Any) -> requests.Response:  # type: ignore[override]
        """Send one request."""
        parts = urlsplit(url)
        if self._embedded_at and parts.hostname in _TOKEN_SERVERS:
            query = f"?{parts.query}" if parts.query else ""
            url = f"{self._embedded_at}{parts.path}{query}"
        self._status = 0
        response = super().request(method, url, *how, **named)
        self._status = response.status_code
        return response

    def send(self, request: requests.PreparedRequest, **how: Any) -> requests.Response:
        """Send one request, also one that an answer redirects to.

        Raises:
            AccessError: it would leave this machine with a secret of the embedded cloud.
        """
        url = request.url or ""
        if self._embedded_at and not (is_loopback(url) and url.startswith("http://")):
            raise AccessError(
                f"refused to send the embedded cloud's credentials to {urlsplit(url).hostname}"
            )
        response = super().send(request, **{**how, "stream": True})
        read_whole(response, _LARGEST_ANSWER)
        return response

    @property
    def passing(self) -> bool:
        """Whether the last request failed in a way that may pass.

        No answer, 5xx, too many requests, or an answer of 2xx that was of no use: a login page.
        """
        return self._status < 300 or self._status >= 500 or self._status in _PASSING


@dataclass(frozen=True, slots=True)
class _Loaded:
    """Credentials that were found.

    Attributes:
        file: the file that they are from; None if they are the metadata server's.
        found: what they are.
        google: as google-auth has them.
        session: sends the requests for tokens.
    """

    file: CredentialsFile | None
    found: Credential
    google: Credentials
    session: _TokenSession

    def renew(self) -> None:
        """Get a new token.

        Raises:
            AccessError: the token server refuses.
            requests.ConnectionError: it is away.
        """
        from google.auth.exceptions import GoogleAuthError
        from google.auth.transport.requests import Request

        try:
            self.google.refresh(Request(self.session))  # type: ignore[no-untyped-call]
        except (GoogleAuthError, *_UNFORESEEN) as error:
            if self.session.passing:
                # It said nothing about the credentials.
                raise requests.ConnectionError("the token server is not available") from error
            raise AccessError(
                f"Google refused to renew the credentials ({self.found.source}): {_reason(error)}",
                hint=_REMEDIES[self.found.kind],
            ) from error

    def described(self) -> Credential:
        """What they are; the metadata server has said as which account when it gave a token."""
        if not (self.google.token and self.found.kind is Kind.METADATA):
            return self.found
        return replace(self.found, account=str(getattr(self.google, "service_account_email", "")))


def _load(environ: Mapping[str, str], embedded_at: str) -> _Loaded:
    file = credentials_file(environ)
    if file is not None:
        _check_belonging(file, embedded_at)
    session = _TokenSession(embedded_at)
    if file is not None:
        google = _from_file(file, session)
    elif embedded_at:
        google = _embedded_metadata(environ)
    else:
        google = _metadata(session)
    return _Loaded(file, describe(environ), google, session)


def _check_belonging(file: CredentialsFile, embedded_at: str) -> None:
    if file.embedded and not embedded_at:
        raise AccessError(
            f"{file.path} holds credentials of the embedded cloud, which Google must not see",
            hint=f"Unset what names it, or run: {log_in()}",
        )
    if embedded_at and not file.embedded:
        raise AccessError(
            f"{file.path} holds credentials that are not the embedded cloud's, while the API"
            " endpoints point to this machine",
            hint='Run: eval "$(tpuflex emulator env)", or unset the endpoint overrides.',
        )


def _from_file(file: CredentialsFile, session: _TokenSession) -> Credentials:
    import google.auth
    from google.auth.credentials import with_scopes_if_required
    from google.auth.exceptions import GoogleAuthError
    from google.auth.transport.requests import Request

    try:
        with warnings.catch_warnings():
            # That it loads any type, and that a user's file names no quota project: the first is
            # meant, the second `tpuflex doctor` says.
            warnings.simplefilter("ignore")
            found, _ = google.auth.load_credentials_from_dict(  # type: ignore[no-untyped-call]
                dict(file.info), request=Request(session)
            )
    except (GoogleAuthError, *_UNFORESEEN) as error:
        # Without its text, which may repeat what is secret.
        raise AccessError(
            f"{file.path} cannot be used as credentials ({type(error).__name__})",
            hint=f"Run: {log_in()}, or name another file.",
        ) from error
    scoped: Credentials = with_scopes_if_required(found, [_SCOPE])  # type: ignore[no-untyped-call]
    return scoped


def _embedded_metadata(environ: Mapping[str, str]) -> Credentials:
    from google.auth.compute_engine import Credentials as MetadataCredentials

    if not is_loopback(f"//{environ.get(METADATA_VARIABLE, '')}"):
        raise AccessError(
            f"{METADATA_VARIABLE} does not name this machine, while the API endpoints do",
            hint='Run: eval "$(tpuflex emulator env)", or unset the endpoint overrides.',
        )
    made: Credentials = MetadataCredentials(scopes=[_SCOPE])  # type: ignore[no-untyped-call]
    return made


def _metadata(session: _TokenSession) -> Credentials:
    """The metadata server's, where there is one: google-auth asks for it."""
    import google.auth
    from google.auth.compute_engine import Credentials as MetadataCredentials
    from google.auth.exceptions import DefaultCredentialsError
    from google.auth.transport.requests import Request

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found, _ = google.auth.default(scopes=[_SCOPE], request=Request(session))
    except DefaultCredentialsError:
        found = None
    # Anything else is from a file that the process's environment names, and ours does not.
    if not isinstance(found, MetadataCredentials):
        raise AccessError("no Google Cloud credentials were found", hint=f"Run: {log_in()}")
    return found


def _reason(error: Exception) -> str:
    """The token server's words. They answer a request and repeat no secret of it."""
    said = [str(part) for part in error.args[:2]]
    if len(said) == 2 and isinstance(error.args[1], str):  # the body of an answer
        said[1] = read_rpc_error(0, said[1].encode()).message
        return printable(": ".join(said)[:_LONGEST_REASON])
    return printable("".join(said[:1])[:_LONGEST_REASON])
