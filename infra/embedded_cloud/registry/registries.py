"""What a registry answers when it is asked for a manifest. No HTTP.

https://github.com/opencontainers/distribution-spec/blob/main/spec.md#pulling-manifests. No image is
kept: a manifest of any digest is there unless the strictness says otherwise; in a registry of
Google's, its repository has to be there, too.
"""

from __future__ import annotations

from collections import deque

from embedded_cloud.access import Caller, Principal
from embedded_cloud.artifactregistry.docker_images import DockerImages
from embedded_cloud.artifactregistry.state import Repositories
from embedded_cloud.clock import Clock
from embedded_cloud.iam.rights import Rights
from embedded_cloud.registry.names import DOCKER_HUB, Repository, of_a_project, repository
from embedded_cloud.strictness import Registry

_HOUR_S = 3600
_MINUTE_S = 60
_DOWNLOAD = "artifactregistry.repositories.downloadArtifacts"


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
        images: what is known of the images in them.
        rights: what callers may do.
        clock: the cloud's time, for the pulls of an hour.
    """

    def __init__(
        self,
        repositories: Repositories,
        images: DockerImages,
        rights: Rights,
        clock: Clock,
    ) -> None:
        self._repositories = repositories
        self._images = images
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

    def pulled(self, host: str, name: str, reference: str) -> None:
        """Somebody has got the manifest: Artifact Registry lists the image from now on."""
        within = repository(host, name)
        if within is not None:
            # What is left of `PROJECT/REPOSITORY/IMAGE`, or of `PROJECT/IMAGE`.
            image = name.split("/", 2 if host.endswith(".pkg.dev") else 1)[-1]
            self._images.pulled(within.name, f"{image}@{reference}")

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

    def _require_reader(self, within: Repository, caller: Caller | None) -> None:
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
