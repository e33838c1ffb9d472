"""Whether the serving image is where its hosts will pull it from."""

from __future__ import annotations

import json
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Protocol

import requests

from pulumi_plugin.printable import printable
from tpuflex.doctor.check import Check, Group, Subject
from tpuflex.doctor.side_by_side import Examination
from tpuflex.errors import AccessError, ApiError, NotFoundError
from tpuflex.gcloud_commands import create_mirror, enable_services
from tpuflex.google.api_states import enabled_services
from tpuflex.google.reading import Unread, attempt
from tpuflex.settings.serving import registry_project

if TYPE_CHECKING:
    from tpuflex.doctor.cloud import ExaminedCloud
    from tpuflex.google.endpoints import Endpoints

IMAGE = Subject(Group.SERVED, "image")
#: The API in which repositories are made.
SERVICE = "artifactregistry.googleapis.com"
#: Connect and read timeouts in seconds. A repository that mirrors another registry asks that first.
_TIMEOUT = (5.0, 15.0)
#: The documents that an image may be.
_MANIFESTS = ", ".join(
    (
        "application/vnd.oci.image.index.v1+json",
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
        "application/vnd.docker.distribution.manifest.v2+json",
    )
)


def examinations(cloud: ExaminedCloud) -> list[Examination]:
    """What to examine of the serving image."""
    return [Examination(Group.SERVED, "image", partial(_examine, cloud))]


def _examine(cloud: ExaminedCloud) -> list[Check]:
    """Whether the image is there. Of a registry that is no project's nothing is asked."""
    image = cloud.settings.serving.image
    project = registry_project(image)
    if project is None:
        where = image.partition("@")[0]
        if cloud.connection.stack.embedded:
            return [IMAGE.skipped(f"{where} comes with the embedded cloud")]
        return [IMAGE.skipped(f"{where} is in no project's registry")]
    session = cloud.session()
    found = attempt(lambda: image_state(session, cloud.endpoints, image))
    return [image_check(image, found, off_in=_registry_off(cloud, project, found))]


def _registry_off(cloud: ExaminedCloud, project: str, found: ImageState | Unread) -> str:
    """``project`` if its API for images has to be enabled before a repository is made."""
    if found is not ImageState.NO_REPOSITORY:
        return ""
    enabled = attempt(lambda: enabled_services(cloud.apis, project))
    known_off = not isinstance(enabled, Unread) and SERVICE not in enabled
    return project if known_off else ""


class Session(Protocol):
    """What sends a request with a token."""

    def get(
        self,
        url: str,
        *,
        headers: dict[str, str],
        timeout: tuple[float, float],
        allow_redirects: bool,
    ) -> requests.Response:
        """Send a GET request."""


class ImageState(Enum):
    """What a registry says of an image."""

    THERE = "there"
    NO_REPOSITORY = "no such repository"
    NO_IMAGE = "no such image"


def image_state(session: Session, endpoints: Endpoints, image: str) -> ImageState:
    """Whether ``image`` (``HOST/NAME@DIGEST``) is in its registry, which takes an access token as
    it is (https://cloud.google.com/artifact-registry/docs/docker/authentication#token).

    https://github.com/opencontainers/distribution-spec/blob/main/spec.md#pulling-manifests

    Args:
        session: adds the token.
        endpoints: where Artifact Registry is, of which the embedded cloud has every host.
        image: the image, with its digest.

    Raises:
        AccessError: the caller may not read it.
        ApiError: the registry does not answer, or not as one does.
    """
    repository, _, digest = image.partition("@")
    host, _, name = repository.partition("/")
    root = (
        f"{endpoints.artifactregistry}/registry/{host}" if endpoints.embedded else f"https://{host}"
    )
    url = f"{root}/v2/{name}/manifests/{digest}"
    try:
        answer = session.get(
            url, headers={"Accept": _MANIFESTS}, timeout=_TIMEOUT, allow_redirects=False
        )
    except requests.RequestException as error:
        raise ApiError(f"{host} does not answer ({type(error).__name__})") from error
    status = answer.status_code
    if status == requests.codes.ok:
        return ImageState.THERE
    code, message = _refusal(answer.content)
    if status == requests.codes.not_found:
        return ImageState.NO_REPOSITORY if code == "NAME_UNKNOWN" else ImageState.NO_IMAGE
    text = f"{host}: {status} {code}: {message}"
    if status in (requests.codes.unauthorized, requests.codes.forbidden):
        raise AccessError(text, hint="It needs roles/artifactregistry.reader.")
    limited = status == requests.codes.too_many
    hint = "It limits requests by the minute: run it again in a minute." if limited else ""
    raise ApiError(text, status=status, hint=hint)


def _refusal(content: bytes) -> tuple[str, str]:
    """Code and message of a registry's error."""
    try:
        errors = json.loads(content)["errors"]
        return printable(str(errors[0]["code"])), printable(str(errors[0].get("message", "")))
    except (ValueError, LookupError, TypeError, AttributeError):
        return "", "no error text"


def image_check(image: str, state: ImageState | Unread, *, off_in: str = "") -> Check:
    """How the image stands.

    Args:
        image: the image, in a registry of a project.
        state: what its registry says.
        off_in: the project where :data:`SERVICE` is off, without which no repository can be made;
            empty if it is on, or that is not known.
    """
    repository, _, digest = image.partition("@")
    if isinstance(state, Unread):
        return IMAGE.unknown(state)
    match state:
        case ImageState.THERE:
            return IMAGE.ok(repository)
        case ImageState.NO_REPOSITORY:
            return IMAGE.failed(
                NotFoundError, f"{repository}: no such repository", _made(repository, off_in)
            )
        case ImageState.NO_IMAGE:
            return IMAGE.failed(
                NotFoundError,
                f"{repository} has no {digest}",
                "Write one that is there to tpuflex:serving.image (`tpuflex catalog images`).",
            )


def _made(repository: str, off_in: str) -> str:
    """What makes the repository: a mirror of Docker Hub, as in README."""
    host, project, name, *_ = (*repository.split("/"), "", "")
    location = host.removesuffix("-docker.pkg.dev")
    if location == host:  # of Container Registry, whose repositories bear the host's name
        return "https://cloud.google.com/artifact-registry/docs/transition/setup-gcr-repo"
    mirror = create_mirror(name, upstream="docker-hub", location=location, project=project)
    remark = "a mirror of Docker Hub, for an image that is there"
    if off_in:
        later = "may refuse until the first has taken effect, a minute later"
        return f"{enable_services(off_in, SERVICE)}\n{mirror}\n(the second {later}; {remark})"
    return f"{mirror}\n({remark})"
