"""The token servers over HTTP.

They ask for no token, as Google's do: what is presented to them is the credential. Only processes
of the embedded cloud's owner reach them (:func:`embedded_cloud.core.peer.owners_door`).
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping
from urllib.parse import parse_qsl

from aiohttp import web

from embedded_cloud.core.access import USER_ACCOUNT, Access, Caller, Principal
from embedded_cloud.core.errors import CloudError, not_found
from embedded_cloud.core.history import History
from embedded_cloud.core.inbound_request import read_whole
from embedded_cloud.core.json_types import JsonObject
from embedded_cloud.core.projects import project_number
from embedded_cloud.core.routing import Context
from embedded_cloud.machines.hosts.metadata_tree import Tree, find, render
from embedded_cloud.services.tokens.identities import Identities, deployer, federated

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


_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_FLAVOR = {"Metadata-Flavor": "Google", "Server": "Metadata Server for VM"}
_METADATA = "/computeMetadata/v1/"


def add_routes(
    app: web.Application,
    context: Context,
    identities: Identities,
    access: Access,
    history: History,
) -> None:
    """Serve the token servers, and record the calls in ``history``."""
    servers = _TokenServers(context, identities, access, history)
    app.router.add_post("/token", servers.oauth)
    app.router.add_post("/v1/token", servers.exchange)
    app.router.add_get("/", servers.ping)
    app.router.add_get(_METADATA + "{path:.*}", servers.metadata)


class _TokenServers:
    def __init__(
        self, context: Context, identities: Identities, access: Access, history: History
    ) -> None:
        self._context = context
        self._identities = identities
        self._access = access
        self._history = history

    async def oauth(self, request: web.Request) -> web.Response:
        """POST /token."""
        endpoint = f"{self._context.base_url()}/token"
        return await self._granted(
            request, "oauth2.token", lambda form: oauth_grant(form, self._identities, endpoint)
        )

    async def exchange(self, request: web.Request) -> web.Response:
        """POST /v1/token."""
        more: JsonObject = {
            "issued_token_type": "urn:ietf:params:oauth:token-type:access_token",
        }
        return await self._granted(
            request, "sts.v1.token", lambda form: exchange_grant(form, self._identities), more
        )

    async def ping(self, request: web.Request) -> web.Response:
        """GET /: whether this is a metadata server."""
        if not self._serves_metadata(request):
            return self._answer(request, "", _no_such_path(request))
        return web.Response(text="computeMetadata/\n", headers=_FLAVOR)

    async def metadata(self, request: web.Request) -> web.Response:
        """GET /computeMetadata/v1/…: of the machine on which the owner's clients run."""
        if not self._serves_metadata(request):
            return self._answer(request, "", _no_such_path(request))
        found = find(self._tree(), request.match_info["path"])
        if found is None:
            return web.Response(status=404, text="not found\n", headers=_FLAVOR)
        if request.query.get("recursive", "").lower() == "true":
            return web.json_response(found, headers=_FLAVOR)
        text, content_type = render(found)
        return web.Response(text=text, content_type=content_type, headers=_FLAVOR)

    async def _granted(
        self,
        request: web.Request,
        method_id: str,
        grant: Callable[[Mapping[str, str]], Caller],
        more: JsonObject | None = None,
    ) -> web.Response:
        try:
            caller = grant(await _form(request))
        except CloudError as error:
            return self._answer(request, method_id, error)
        return self._answer(request, method_id, {**self._token(caller), **(more or {})})

    def _token(self, caller: Caller) -> JsonObject:
        lifetime = self._context.strictness().tokens.lifetime_s
        return {
            "access_token": self._access.session_token(caller, lifetime),
            "expires_in": int(lifetime),
            "scope": _SCOPE,
            "token_type": "Bearer",
        }

    def _answer(
        self, request: web.Request, method_id: str, answer: JsonObject | CloudError
    ) -> web.Response:
        status, body = 200, answer
        if isinstance(answer, CloudError):
            status, body = answer.http_status, answer.body()
        self._history.append(
            method=request.method,
            path=request.path,
            method_id=method_id,
            status=status,
            request_id="",
        )
        return web.json_response(body, status=status, headers={"Cache-Control": "no-store"})

    def _serves_metadata(self, request: web.Request) -> bool:
        asked = request.headers.get("Metadata-Flavor", "") == "Google"
        forwarded = "X-Forwarded-For" in request.headers
        return asked and not forwarded and bool(self._identities.metadata_project)

    def _tree(self) -> dict[str, Tree]:
        project = self._identities.metadata_project
        email = deployer(project)
        token = self._token(Caller(Principal.SERVICE_ACCOUNT, email))
        account: dict[str, Tree] = {
            "aliases": ["default"],
            "email": email,
            "scopes": [_SCOPE],
            "token": {
                "access_token": str(token["access_token"]),
                "expires_in": int(str(token["expires_in"])),
                "token_type": "Bearer",
            },
        }
        return {
            "instance": {"service-accounts": {"default": account, email: account}},
            "project": {
                "project-id": project,
                "numeric-project-id": project_number(project),
            },
            "universe": {"universe-domain": "googleapis.com"},
        }


async def _form(request: web.Request) -> dict[str, str]:
    body = await read_whole(request)
    try:
        return dict(parse_qsl(body.decode("ascii"), max_num_fields=32))
    except ValueError as error:
        raise GrantError(400, "invalid_request", "The request is malformed.") from error


def _no_such_path(request: web.Request) -> CloudError:
    return not_found(f"The requested URL {request.path} was not found on this server.")
