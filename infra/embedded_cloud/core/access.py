"""Who may call the emulated APIs: a token per start, a lesser one per host, and some that expire.

A caller who can create a node can run its startup script as the emulator's user, and every user
of a machine can reach its loopback ports. So the token is random, new at every start, and kept in
a file that only its owner can read. All other tokens expire: those that a host's metadata server
gives, for what a host needs and nothing else, and those that the token servers
(:mod:`embedded_cloud.services.tokens`) give for credentials.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from embedded_cloud.core.errors import CloudError, permission_denied, unauthenticated
from tpuflex.errors import EmulatorError
from tpuflex.files.trusted import write_private

#: The user who has logged in: whose credentials are handed out, and whom OS Login knows.
USER_ACCOUNT = "developer@example.com"

TOKEN_FILE = "token"  # noqa: S105 - a file's name

#: Clients recognise the embedded cloud's tokens by this; none is ever sent to Google.
_PREFIX = "ya29.tpuflex-embedded."
_SESSION_PREFIX = "ya29.tpuflex-embedded-session."
_RANDOM_BYTES = 32

#: What a host may do, as roles/storage.objectViewer, roles/secretmanager.secretAccessor,
#: roles/logging.logWriter, roles/monitoring.metricWriter and roles/artifactregistry.reader.
_HOST_METHODS = frozenset(
    {
        "storage.objects.get",
        "storage.objects.list",
        "secretmanager.projects.secrets.versions.access",
        "logging.entries.write",
        "monitoring.projects.timeSeries.create",
        "artifactregistry.projects.locations.repositories.get",
    }
)

#: What a host may do only where its bindings say so, whether or not they decide about the rest: see
#: :mod:`embedded_cloud.strict.permissions`: by these it can change what others read.
HOST_METHODS_BY_BINDING = frozenset({"storage.objects.insert", "storage.objects.delete"})

_EXPECTED = (
    "Expected OAuth 2 access token, login cookie or other valid authentication credential. See "
    "https://developers.google.com/identity/sign-in/web/devconsole-project."
)


class Principal(StrEnum):
    """What kind of caller it is."""

    #: The state directory's owner, by the token that lies in it.
    OWNER = "owner"
    HOST = "host"
    USER = "user"
    SERVICE_ACCOUNT = "service-account"


@dataclass(frozen=True, slots=True)
class Caller:
    """Who makes a call.

    Attributes:
        kind: what kind of caller.
        account: e-mail address; empty for the owner, the host's key for a host.
    """

    kind: Principal
    account: str = ""


class Access:
    """Checks the credentials of calls.

    Args:
        token: the token that allows everything.
        now: the cloud's time, by which tokens expire.
    """

    def __init__(self, token: str, now: Callable[[], float]) -> None:
        self.token = token
        self._now = now

    def secret(self, purpose: str) -> str:
        """A secret for ``purpose``: the same for as long as :attr:`token` is."""
        return hmac.new(self.token.encode(), purpose.encode(), hashlib.sha256).hexdigest()

    def session_token(self, caller: Caller, lifetime_s: float) -> str:
        """A token of ``caller`` that expires after ``lifetime_s`` on the cloud's clock."""
        claims = {
            "kind": caller.kind,
            "account": caller.account,
            "exp": self._now() + lifetime_s,
            # Two tokens are never the same.
            "jti": secrets.token_urlsafe(8),
        }
        payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
        return f"{_SESSION_PREFIX}{payload}.{self.secret(f'session:{payload}')}"

    def host_token(self, host_key: str, lifetime_s: float = 3599.0) -> str:
        """A token of one host, which expires as any other."""
        return self.session_token(Caller(Principal.HOST, host_key), lifetime_s)

    def check(self, authorization: str, method_id: str) -> None:
        """Check that a call with this ``Authorization`` header may reach ``method_id``.

        Raises:
            CloudError: 401 without a token or with one that is not this cloud's; 403 for what
                a host may not do.
        """
        caller = self.caller(authorization)
        allowed = method_id in _HOST_METHODS or method_id in HOST_METHODS_BY_BINDING
        if caller.kind is Principal.HOST and not allowed:
            raise permission_denied(
                f"Permission denied: the service account of host {caller.account!r} may not call"
                f" {method_id or 'this method'}."
            )

    def require_owner(self, authorization: str) -> None:
        """Check that a call with this ``Authorization`` header is the owner's.

        Raises:
            CloudError: 401 without a token or with one that is not this cloud's; 403 otherwise.
        """
        if self.caller(authorization).kind is not Principal.OWNER:
            raise permission_denied("Permission denied: this is for the owner's token.")

    def caller(self, authorization: str) -> Caller:
        """Whose call it is with this ``Authorization`` header.

        Raises:
            CloudError: 401 without a token, or with one that is not this cloud's or has expired.
        """
        scheme, _, token = authorization.partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            raise _refused("Request is missing required authentication credential.")
        if _same(token, self.token):
            return Caller(Principal.OWNER)
        if (found := self._session(token)) is not None:
            return found
        raise _refused("Request had invalid authentication credentials.", "invalid_token")

    def _session(self, token: str) -> Caller | None:
        payload, _, signature = token.removeprefix(_SESSION_PREFIX).partition(".")
        if not _same(signature, self.secret(f"session:{payload}")):
            return None
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        if claims["exp"] <= self._now():
            return None
        return Caller(Principal(claims["kind"]), claims["account"])


def issue_token(state_dir: Path, token: str = "") -> str:
    """Put ``token``, or a random one, into ``state_dir`` for its owner's clients."""
    token = token or _PREFIX + secrets.token_urlsafe(_RANDOM_BYTES)
    write_private(state_dir / TOKEN_FILE, token)
    return token


def read_token(state_dir: Path) -> str:
    """The token of the embedded cloud of ``state_dir``.

    Raises:
        EmulatorError: there is none: the embedded cloud never ran there.
    """
    path = state_dir / TOKEN_FILE
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise EmulatorError(
            f"the embedded cloud's token cannot be read from {path}: {reason}",
            hint="Start it: tpuflex emulator start",
        ) from error


def _same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(), expected.encode())


def _refused(what: str, error: str = "") -> CloudError:
    refusal = unauthenticated(f"{what} {_EXPECTED}")
    if error:
        refusal.headers["WWW-Authenticate"] += f', error="{error}"'
    return refusal
