"""Whether an image is in a registry of Google's: its repository, and its manifest.

https://github.com/opencontainers/distribution-spec/blob/main/spec.md#pulling-manifests; an access
token is accepted as it is
(https://cloud.google.com/artifact-registry/docs/docker/authentication#token).
"""

from __future__ import annotations

import json
from enum import Enum
from typing import TYPE_CHECKING, Protocol

import requests

from pulumi_plugin.printable import printable
from tpuflex.errors import AccessError, ApiError, NotFoundError, TpuflexError

if TYPE_CHECKING:
    from tpuflex.gcp.endpoints import Endpoints

#: Connect and read timeouts in seconds. A repository that mirrors another registry asks that first.
_TIMEOUT = (5.0, 15.0)
#: The documents that an image may be.
MANIFESTS = ", ".join(
    (
        "application/vnd.oci.image.index.v1+json",
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
        "application/vnd.docker.distribution.manifest.v2+json",
    )
)


#: What to do where a registry of Google's refuses.
READER = "It needs roles/artifactregistry.reader."


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
    """Whether ``image`` (``HOST/NAME@DIGEST``) is there.

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
            url, headers={"Accept": MANIFESTS}, timeout=_TIMEOUT, allow_redirects=False
        )
    except requests.RequestException as error:
        raise ApiError(f"{host} does not answer ({type(error).__name__})") from error
    if answer.status_code == requests.codes.ok:
        return ImageState.THERE
    code, _ = _refusal(answer.content)
    if answer.status_code == requests.codes.not_found:
        return ImageState.NO_REPOSITORY if code == "NAME_UNKNOWN" else ImageState.NO_IMAGE
    raise refused(host, answer.status_code, answer.content)


def refused(host: str, status: int, content: bytes, *, denied: str = READER) -> TpuflexError:
    """What the registry ``host`` means by an answer with this ``status`` and ``content``; with
    ``denied``, what to do where it does not let the caller."""
    code, message = _refusal(content)
    text = f"{host}: {status} {code}: {message}"
    if status in (requests.codes.unauthorized, requests.codes.forbidden):
        return AccessError(text, hint=denied)
    if status == requests.codes.not_found:
        return NotFoundError(text)
    limited = status == requests.codes.too_many
    hint = "It limits requests by the minute: run it again in a minute." if limited else ""
    return ApiError(text, status=status, hint=hint)


def _refusal(content: bytes) -> tuple[str, str]:
    """Code and message of a registry's error."""
    try:
        errors = json.loads(content)["errors"]
        return printable(str(errors[0]["code"])), printable(str(errors[0].get("message", "")))
    except (ValueError, LookupError, TypeError, AttributeError):
        return "", "no error text"
