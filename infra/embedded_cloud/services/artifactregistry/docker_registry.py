"""The registries over HTTP, below ``/registry/HOST/v2/``.

Real registries have a host name each; here the name is the first part of the path. docker asks in
the same words: a manifest by digest or tag, with an access token as Basic or Bearer credentials
(https://cloud.google.com/artifact-registry/docs/docker/authentication#token).

https://github.com/opencontainers/distribution-spec/blob/main/spec.md#pulling-manifests. No image is
kept: a manifest of any digest is there unless the strictness says otherwise; in a registry of
Google's, its repository has to be there, too.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections import deque
from dataclasses import dataclass

from aiohttp import web

from embedded_cloud.core.access import Caller, Principal
from embedded_cloud.core.clock import Clock
from embedded_cloud.core.errors import CloudError
from embedded_cloud.core.history import History
from embedded_cloud.core.routing import Context, Rights
from embedded_cloud.core.strictness import Registry
from embedded_cloud.machines.docker.pull import DOCKER_HUB
from embedded_cloud.services.artifactregistry.routes import Repositories

_HOUR_S = 3600
_MINUTE_S = 60
_DOWNLOAD = "artifactregistry.repositories.downloadArtifacts"


# https://cloud.google.com/artifact-registry/docs/docker/names
_ARTIFACT_REGISTRY = re.compile(r"(?P<location>[a-z0-9-]+)-docker\.pkg\.dev")
#: Repositories that stand behind the hosts of Container Registry, and where they are
#: (https://cloud.google.com/artifact-registry/docs/transition/setup-gcr-repo).
_CONTAINER_REGISTRY = {
    "gcr.io": "us",
    "us.gcr.io": "us",
    "eu.gcr.io": "europe",
    "asia.gcr.io": "asia",
}


@dataclass(frozen=True, slots=True)
class ImageRepository:
    """A repository of a project.

    Attributes:
        project: project id.
        name: full resource name.
    """

    project: str
    name: str


def of_a_project(host: str) -> bool:
    """Whether the registry ``host`` has the repositories of projects."""
    return bool(_ARTIFACT_REGISTRY.fullmatch(host)) or host in _CONTAINER_REGISTRY


def repository(host: str, name: str) -> ImageRepository | None:
    """The repository that has the image ``name`` of the registry ``host``.

    None where the registry has none of projects, or the name is too short to say which.
    """
    match = _ARTIFACT_REGISTRY.fullmatch(host)
    parts = name.split("/")
    if match is not None and len(parts) >= 3:
        location, project, repository_id = match["location"], parts[0], parts[1]
    elif host in _CONTAINER_REGISTRY and len(parts) >= 2:
        location, project, repository_id = _CONTAINER_REGISTRY[host], parts[0], host
    else:
        return None
    where = f"projects/{project}/locations/{location}/repositories/{repository_id}"
    return ImageRepository(project, where)


class RegistryError(Exception):
    """Why a registry gives no manifest.

    Args:
        status: HTTP status.
        code: code of the distribution specification.
        message: what docker shows.
    """

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message


class Registries:
    """All registries, as seen from one address: that of the NAT of every host.

    Args:
        repositories: those of Artifact Registry.
        rights: what callers may do.
        clock: the cloud's time, for the pulls of an hour.
    """

    def __init__(
        self,
        repositories: Repositories,
        rights: Rights,
        clock: Clock,
    ) -> None:
        self._repositories = repositories
        self._rights = rights
        self._clock = clock
        self._anonymous: deque[float] = deque()
        self._of_projects: dict[str, deque[float]] = {}

    def manifest(
        self, host: str, name: str, reference: str, caller: Caller | None, strictness: Registry
    ) -> None:
        """Check that ``caller`` (None: nobody in particular) may have the manifest, and that it is
        there.

        Raises:
            RegistryError: otherwise.
        """
        if of_a_project(host):
            self._of_project(host, name, caller, strictness)
        elif host == DOCKER_HUB:
            self._count(strictness.anonymous_pulls_per_hour)
        if {reference, f"{name}@{reference}"} & set(strictness.absent):
            raise RegistryError(404, "MANIFEST_UNKNOWN", "manifest unknown")

    def _of_project(
        self, host: str, name: str, caller: Caller | None, strictness: Registry
    ) -> None:
        within = repository(host, name)
        if within is None:
            raise RegistryError(400, "NAME_INVALID", f'Invalid image name: "{name}"')
        self._meter(within.project, strictness.repository_requests_per_minute)
        if strictness.token_required:
            self._require_reader(within, caller)
        if self._repositories.find(within.name) is None:
            _, _, repository_id = within.name.rpartition("/")
            raise RegistryError(404, "NAME_UNKNOWN", f'Repository "{repository_id}" not found')

    def _require_reader(self, within: ImageRepository, caller: Caller | None) -> None:
        if caller is None:
            raise RegistryError(
                403,
                "DENIED",
                "Unauthenticated request. Unauthenticated requests do not have permission"
                f' "{_DOWNLOAD}" on resource "{within.name}" (or it may not exist)',
            )
        of_account = caller.kind is Principal.SERVICE_ACCOUNT
        project = f"projects/{within.project}"
        # Without enforcement, accounts alone need a role: their hosts are what this is about.
        allowed = self._rights.granted if of_account else self._rights.may
        if not allowed(caller, _DOWNLOAD, project):
            raise RegistryError(
                403,
                "DENIED",
                f'Permission "{_DOWNLOAD}" denied on resource "{within.name}" (or it may not'
                " exist)",
            )

    def _count(self, allowed: int | None) -> None:
        """A pull of Docker Hub by nobody in particular
        (https://docs.docker.com/docker-hub/usage/pulls/)."""
        if not self._within(self._anonymous, allowed, _HOUR_S):
            raise RegistryError(
                429,
                "TOOMANYREQUESTS",
                "You have reached your unauthenticated pull rate limit."
                " https://www.docker.com/increase-rate-limit",
            )

    def _meter(self, project: str, allowed: int | None) -> None:
        """A request to the repositories of ``project``, in the words of
        https://github.com/kubernetes-sigs/promo-tools/issues/1271."""
        if not self._within(self._of_projects.setdefault(project, deque()), allowed, _MINUTE_S):
            raise RegistryError(
                429,
                "TOOMANYREQUESTS",
                "Quota exceeded for quota metric 'Requests per project per region' and limit"
                " 'Requests per project per region per minute per region' of service"
                f" 'artifactregistry.googleapis.com' for consumer 'project:{project}'.",
            )

    def _within(self, recent: deque[float], allowed: int | None, seconds: float) -> bool:
        """Whether one more is allowed within ``seconds``; it is counted if it is."""
        if allowed is None:
            return True
        now = self._clock.now()
        while recent and recent[0] <= now - seconds:
            recent.popleft()
        if len(recent) >= allowed:
            return False
        recent.append(now)
        return True


#: The part of the path before the registry's own.
ROOT = "/registry"
#: Name of the calls in the history.
METHOD_ID = "registry.manifests.get"

_PATH = re.compile(r"(?P<name>[a-z0-9._/:-]+)/manifests/(?P<reference>[A-Za-z0-9_][\w.:-]*)")
_MEDIA_TYPE = "application/vnd.oci.image.index.v1+json"
_API_VERSION = {"Docker-Distribution-Api-Version": "registry/2.0"}


def add_routes(app: web.Application, context: Context, history: History) -> None:
    """Serve the registries, and record the calls in ``history``."""
    repositories = Repositories(context.store, context.clock)
    registries = Registries(repositories, context.rights, context.clock)

    async def answer(request: web.Request) -> web.Response:
        try:
            response = _answer(context, registries, request)
        except RegistryError as refusal:
            response = _refused(refusal, request.match_info["host"])
        history.append(
            method=request.method,
            path=request.path,
            method_id=METHOD_ID,
            status=response.status,
            request_id="",
        )
        return response

    app.router.add_get(f"{ROOT}/{{host}}/v2/{{path:.*}}", answer, allow_head=True)


def _answer(context: Context, registries: Registries, request: web.Request) -> web.Response:
    caller = _caller(context.rights, request.headers.get("Authorization", ""))
    strictness = context.strictness().registry
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
    headers = {**_API_VERSION, "Docker-Content-Digest": reference} if ":" in reference else {}
    manifest = {"schemaVersion": 2, "mediaType": _MEDIA_TYPE, "manifests": []}
    return web.json_response(manifest, headers=headers, content_type=_MEDIA_TYPE)


def _caller(rights: Rights, authorization: str) -> Caller | None:
    """Whose credentials these are, of a host its service account's; None for none.

    Raises:
        RegistryError: they are nobody's.
    """
    if not authorization:
        return None
    try:
        caller = rights.caller(f"Bearer {_token(authorization)}")
    except CloudError as error:
        raise RegistryError(401, "UNAUTHORIZED", "authentication failed") from error
    if caller.kind is not Principal.HOST:
        return caller
    return Caller(Principal.SERVICE_ACCOUNT, rights.email(caller))


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
