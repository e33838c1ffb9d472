"""The image of vLLM for TPU, through a mirror of Docker Hub in Artifact Registry."""

from __future__ import annotations

from tpuflex.catalog.catalog import Catalog
from tpuflex.catalog.zones import region_of
from tpuflex.errors import NotFoundError
from tpuflex.gcloud_commands import GcloudCommand, create_mirror

#: Docker Hub's name of vLLM for TPU.
_REPOSITORY = "vllm/vllm-tpu"
#: Repository of Artifact Registry that mirrors Docker Hub.
_MIRROR = "dockerhub"


def mirrored_image(catalog: Catalog, *, project: str, zone: str) -> str:
    """Reference of the newest known image of vLLM for TPU, in the mirror in the zone's region.

    Raises:
        NotFoundError: the catalog has no such image.
    """
    images = [row for row in catalog.images.values() if row.repository == _REPOSITORY]
    if not images:
        raise NotFoundError(
            f"The catalog has no image of {_REPOSITORY}.",
            hint="Add one to catalog.yaml: repository, digest, vllm_version. Or give one to"
            " `tpuflex init`: --set serving.image=REPOSITORY@sha256:…",
        )
    newest = max(images, key=lambda row: row.date or row.source.date)
    return f"{region_of(zone)}-docker.pkg.dev/{project}/{_MIRROR}/{_REPOSITORY}@{newest.digest}"


def is_mirrored(image: str) -> bool:
    """Whether ``image`` comes through the mirror."""
    return f"/{_MIRROR}/" in image


def mirror_command(zone: str, project: str) -> GcloudCommand:
    """The command that makes the mirror in ``project``, in the region of ``zone``."""
    location = region_of(zone)
    return create_mirror(_MIRROR, upstream="docker-hub", location=location, project=project)
