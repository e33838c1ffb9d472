"""Grants of OAuth: who gets a token for what they present."""

from __future__ import annotations

import hmac
from collections.abc import Mapping

from embedded_cloud.access import Caller, Principal
from embedded_cloud.errors import CloudError
from embedded_cloud.json_types import JsonObject
from embedded_cloud.tokens.identities import USER_ACCOUNT, Identities, federated

_JWT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
#: What assertions name as their audience when the key file does not say where the endpoint is.
_GOOGLES_ENDPOINT = "https://oauth2.googleapis.com/token"


class GrantError(CloudError):
    """A refusal in the form of RFC 6749, section 5.2."""

    def body(self) -> JsonObject:
        """The JSON body of the answer."""
        return {"error": self.reason, "error_description": self.message}


def oauth_grant(form: Mapping[str, str], identities: Identities, endpoint: str) -> Caller:
    """Who presents ``form`` to the OAuth endpoint at ``endpoint``.

    Raises:
        GrantError: nobody who is known; in the words of Google's endpoint.
    """
    kind = form.get("grant_type", "")
    if kind == "refresh_token":
        if not _same(form.get("refresh_token", ""), identities.refresh_token):
            raise GrantError(400, "invalid_grant", "Token has been expired or revoked.")
        return Caller(Principal.USER, USER_ACCOUNT)
    if kind == _JWT:
        return _asserted(form.get("assertion", ""), identities, endpoint)
    raise GrantError(400, "unsupported_grant_type", f"Invalid grant_type: {kind}")


def exchange_grant(form: Mapping[str, str], identities: Identities) -> Caller:
    """Who presents ``form`` to the Security Token Service (RFC 8693).

    Raises:
        GrantError: nobody who is known.
    """
    if form.get("grant_type", "") != _EXCHANGE:
        raise GrantError(400, "unsupported_grant_type", "Invalid grant_type.")
    principal = federated(form.get("audience", ""))
    if not principal:
        raise GrantError(400, "invalid_target", "The target service indicated is invalid.")
    if not _same(form.get("subject_token", ""), identities.subject_token):
        raise GrantError(400, "invalid_grant", "The given credential is rejected.")
    return Caller(Principal.SERVICE_ACCOUNT, principal)


def _asserted(assertion: str, identities: Identities, endpoint: str) -> Caller:
    """Whose key has signed ``assertion`` (RFC 7523).

    By the machine's clock, as clients sign: the cloud's may have been moved.
    """
    from google.auth import jwt
    from google.auth.exceptions import GoogleAuthError

    try:
        key_id = jwt.decode_header(assertion).get("kid", "")  # type: ignore[no-untyped-call]
        key = identities.key(key_id)
        if key is None:
            raise GrantError(400, "invalid_grant", "Invalid JWT Signature.")
        claims = jwt.decode(  # type: ignore[no-untyped-call]
            assertion, certs={key_id: key.public_pem}, audience=[endpoint, _GOOGLES_ENDPOINT]
        )
    except (ValueError, GoogleAuthError) as error:
        raise GrantError(400, "invalid_grant", f"Invalid JWT: {error}") from error
    if claims.get("iss") != key.account:
        raise GrantError(400, "invalid_grant", "Invalid JWT: the issuer is not the key's account.")
    return Caller(Principal.SERVICE_ACCOUNT, key.account)


def _same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(), expected.encode())
