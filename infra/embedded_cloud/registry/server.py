"""The registries over HTTP, below ``/registry/HOST/v2/``.

Real registries have a host name each; here the name is the first part of the path. docker asks in
the same words: a manifest by digest or tag, with an access token as Basic or Bearer credentials
(https://cloud.google.com/artifact-registry/docs/docker/authentication#token).
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING

from aiohttp import web

from embedded_cloud.access import Caller, Principal
from embedded_cloud.artifactregistry.docker_images import MEDIA_TYPE, DockerImages
from embedded_cloud.artifactregistry.state import Repositories
from embedded_cloud.errors import CloudError
from embedded_cloud.registry.registries import Registries, RegistryError

if TYPE_CHECKING:
    from embedded_cloud.cloud import Cloud

#: The part of the path before the registry's own.
ROOT = "/registry"
#: Name of the calls in the history.
METHOD_ID = "registry.manifests.get"

_PATH = re.compile(r"(?P<name>[a-z0-9._/:-]+)/manifests/(?P<reference>[A-Za-z0-9_][\w.:-]*)")
_API_VERSION = {"Docker-Distribution-Api-Version": "registry/2.0"}


def add_routes(app: web.Application, cloud: Cloud) -> None:
    """Serve the registries of ``cloud``."""
    registries = Registries(
        Repositories(cloud.store, cloud.clock),
        DockerImages(cloud.store, cloud.clock, lambda: cloud.strictness.current().registry),
        cloud.rights,
        cloud.clock,
    )

    async def answer(request: web.Request) -> web.Response:
        try:
            response = _answer(cloud, registries, request)
        except RegistryError as refusal:
            response = _refused(refusal, request.match_info["host"])
        cloud.history.append(
            method=request.method,
            path=request.path,
            method_id=METHOD_ID,
            status=response.status,
            request_id="",
        )
        return response

    app.router.add_get(f"{ROOT}/{{host}}/v2/{{path:.*}}", answer, allow_head=True)


def _answer(cloud: Cloud, registries: Registries, request: web.Request) -> web.Response:
    caller = _caller(cloud, request.headers.get("Authorization", ""))
    strictness = cloud.strictness.current().registry
    path = request.match_info["path"]
    if not path:
        if caller is None and strictness.token_required:
            raise RegistryError(401, "UNAUTHORIZED", "authentication required")
        return web.json_response({}, headers=_API_VERSION)
    match = _PATH.fullmatch(path)
    if match is None:
        raise RegistryError(404, "NAME_UNKNOWN", f"not the path of a manifest: {path}")
    reference = match["reference"]
    host, name = request.match_info["host"], match["name"]
    registries.manifest(host, name, reference, caller, strictness)
    if request.method == "GET":
        registries.pulled(host, name, reference)
    headers = {**_API_VERSION, "Docker-Content-Digest": reference} if ":" in reference else {}
    manifest = {"schemaVersion": 2, "mediaType": MEDIA_TYPE, "manifests": []}
    return web.json_response(manifest, headers=headers, content_type=MEDIA_TYPE)


def _caller(cloud: Cloud, authorization: str) -> Caller | None:
    """Whose credentials these are, of a host its service account's; None for none.

    Raises:
        RegistryError: they are nobody's.
    """
    if not authorization:
        return None
    try:
        caller = cloud.access.caller(f"Bearer {_token(authorization)}")
    except CloudError as error:
        raise RegistryError(401, "UNAUTHORIZED", "authentication failed") from error
    if caller.kind is not Principal.HOST:
        return caller
    return Caller(Principal.SERVICE_ACCOUNT, cloud.host_account(caller.account))


def _token(authorization: str) -> str:
    scheme, _, credentials = authorization.partition(" ")
    if scheme.lower() != "basic":
        return credentials.strip()
    try:
        user, _, token = base64.b64decode(credentials, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return ""
    return token if user == "oauth2accesstoken" else ""


def _refused(refusal: RegistryError, host: str) -> web.Response:
    headers = dict(_API_VERSION)
    if refusal.status == 401:
        headers["WWW-Authenticate"] = f'Bearer realm="https://{host}/v2/token",service="{host}"'
    problem = {"code": refusal.code, "message": refusal.message}
    return web.json_response({"errors": [problem]}, status=refusal.status, headers=headers)
