"""Who may call the emulated APIs: a token per start, and a lesser one per host.

A caller who can create a node can run its startup script as the emulator's user, and every user
of a machine can reach its loopback ports. So the token is random, new at every start, and kept in
a file that only its owner can read. A host's metadata server issues a token
for what a host needs and nothing else.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from pathlib import Path

from embedded_cloud.errors import CloudError, permission_denied, unauthenticated
from embedded_cloud.private_files import read_own
from tpuflex.errors import EmulatorError
from tpuflex.trusted_files import write_private

TOKEN_FILE = "token"  # noqa: S105 - a file's name

#: Clients recognise the embedded cloud's tokens by this; none is ever sent to Google.
_PREFIX = "ya29.tpuflex-embedded."
_HOST_PREFIX = "ya29.tpuflex-embedded-host."
_RANDOM_BYTES = 32

#: What a host may do, as roles/storage.objectViewer, roles/secretmanager.secretAccessor,
#: roles/logging.logWriter and roles/artifactregistry.reader.
_HOST_METHODS = frozenset(
    {
        "storage.objects.get",
        "storage.objects.list",
        "secretmanager.projects.secrets.versions.access",
        "logging.entries.write",
        "artifactregistry.projects.locations.repositories.get",
        "artifactregistry.projects.locations.repositories.dockerImages.get",
    }
)

_EXPECTED = (
    "Expected OAuth 2 access token, login cookie or other valid authentication credential. See "
    "https://developers.google.com/identity/sign-in/web/devconsole-project."
)


class Access:
    """Checks the credentials of calls.

    Args:
        token: the token that allows everything.
    """

    def __init__(self, token: str) -> None:
        self.token = token

    def host_token(self, host_key: str) -> str:
        """The token of one host; the same for as long as :attr:`token` is."""
        digest = hmac.new(self.token.encode(), host_key.encode(), hashlib.sha256).hexdigest()
        return f"{_HOST_PREFIX}{host_key}.{digest}"

    def host_of(self, token: str) -> str | None:
        """The key of the host that ``token`` was issued to; None for any other token."""
        key = token.removeprefix(_HOST_PREFIX).rpartition(".")[0]
        return key if _same(token, self.host_token(key)) else None

    def check(self, authorization: str, method_id: str) -> None:
        """Check that a call with this ``Authorization`` header may reach ``method_id``.

        Raises:
            CloudError: 401 without a token or with one that is not this cloud's; 403 for what
                a host may not do.
        """
        scheme, _, token = authorization.partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            raise _refused("Request is missing required authentication credential.")
        if _same(token, self.token):
            return
        key = self.host_of(token)
        if key is None:
            raise _refused("Request had invalid authentication credentials.", "invalid_token")
        if method_id not in _HOST_METHODS:
            raise permission_denied(
                f"Permission denied: the service account of host {key!r} may not call"
                f" {method_id or 'this method'}."
            )


def issue_token(state_dir: Path, token: str = "") -> str:
    """Put ``token``, or a random one, into ``state_dir`` for its owner's clients."""
    token = token or _PREFIX + secrets.token_urlsafe(_RANDOM_BYTES)
    write_private(state_dir / TOKEN_FILE, token)
    return token


def read_token(state_dir: Path) -> str:
    """The token of the embedded cloud of ``state_dir``.

    Raises:
        EmulatorError: there is none: the embedded cloud never ran there; or others know it.
    """
    path = state_dir / TOKEN_FILE
    try:
        return read_own(path, secret=True)
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
