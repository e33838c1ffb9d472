"""Whether the serving image is where its hosts will pull it from."""

from __future__ import annotations

from tpuflex.errors import NotFoundError
from tpuflex.gcloud_commands import create_mirror, enable_services
from tpuflex.gcp.image_registry import ImageState
from tpuflex.operate.doctor.check import Check, Group, Subject
from tpuflex.operate.doctor.reading import Unread

IMAGE = Subject(Group.SERVED, "image")
#: The API in which repositories are made.
SERVICE = "artifactregistry.googleapis.com"


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
