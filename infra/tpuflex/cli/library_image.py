"""Images in the library: where they are, and bringing one there from its registry."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

from tpuflex.boot.places import image_prefix
from tpuflex.cli.library_weights import BUCKET_KEY, in_library
from tpuflex.errors import Finding, SettingsError, WeightsError
from tpuflex.startup.image_archive import (
    BLOBS,
    ImageError,
    blob_reader,
    digest_of,
    read_image,
)

if TYPE_CHECKING:
    from pathlib import Path

    from tpuflex.boot.manifest import Manifest
    from tpuflex.cli.cloud import Cloud
    from tpuflex.cli.output import Output
    from tpuflex.cli.stack import OpenStack
    from tpuflex.gcp.weights_report import PushReport
    from tpuflex.startup.image_archive import Image

#: Of the files of an image, none of which is a data format of weights.
PATTERNS = (f"{BLOBS}/*",)
#: What the manifest of every image names as its model. With the digest for a revision, its text
#: follows from the image alone, so that it has one hash in all regions.
MODEL = "container image"


def push_command(stack: OpenStack) -> str:
    """The command that brings the stack's image to the library."""
    return f"tpuflex --stack {stack.name} library image push"


def require_in_library(stack: OpenStack) -> None:
    """Check that the stack keeps its weights in the library, where its image is to be, too.

    Raises:
        SettingsError: it does not.
    """
    if not in_library(stack):
        found = stack.settings.model.weights.bucket
        finding = Finding(BUCKET_KEY, f"is {found}, so this stack has no library", "Write library.")
        raise SettingsError(f"the stack {stack.name}", (finding,))


def push_image(
    cloud: Cloud, image: str, layout: Path | None, output: Output, *, again: bool
) -> PushReport:
    """Bring ``image`` to the library's bucket in the region of the stack of ``cloud``.

    Args:
        cloud: the stack's cloud.
        image: the image, pinned by its digest.
        layout: an OCI image layout that has it; by default it is fetched from its registry, into
            the project's home until it is in the bucket.
        output: shows the progress.
        again: send every blob, whatever the bucket holds.

    Raises:
        WeightsError: the layout does not hold it, or what the registry sends is not it.
        NotFoundError, AccessError, ApiError: registry or bucket refuse, or cannot be reached.
        ConflictError: another push to the same place is under way.
    """
    if layout is not None:
        return _push(cloud, image, layout, read_layout(image, layout), output, again=again)
    from tpuflex.only_maker import only_maker

    fetched = cloud.stack.project.home / "images" / digest_of(image)
    fetched.parent.mkdir(mode=0o700, parents=True, exist_ok=True)

    def waits() -> None:
        output.progress(f"Another push of {image} is under way on this machine: waiting for it …")

    # Held until it is gone again: another push would otherwise lose what it reads.
    with only_maker(fetched, waits):
        found = _fetch(cloud, image, fetched, output)
        try:
            report = _push(cloud, image, fetched, found, output, again=again)
        except WeightsError:  # damaged since it was fetched: the next push fetches it anew
            shutil.rmtree(fetched)
            raise
        shutil.rmtree(fetched)
    return report


def _push(
    cloud: Cloud, image: str, layout: Path, found: Image, output: Output, *, again: bool
) -> PushReport:
    with output.transfer("  pushing  image") as show:
        return cloud.weights.push(
            layout,
            image_prefix(image),
            model=MODEL,
            revision=f"sha256:{digest_of(image)}",
            progress=show,
            extra_files=PATTERNS,
            check=lambda wanted, _found: require_digests(image, wanted),
            again=again,
            source=image.partition("@")[0],
            used=cloud.now().date(),
            names=tuple(sorted(blob.path for blob in found.blobs)),
        )


def read_layout(image: str, layout: Path) -> Image:
    """The ``image`` in the OCI image layout ``layout``.

    Raises:
        WeightsError: it is not there, or not whole.
    """
    try:
        found = read_image(digest_of(image), blob_reader(layout))
        missing = [blob.path for blob in found.blobs if not (layout / blob.path).is_file()]
        if missing:
            raise ImageError(f"{missing[0]} is not there")
    except ImageError as error:
        has = ", ".join(_digests_in(layout))
        raise WeightsError(
            f"{layout} does not hold {image}: {error}"
            + (f" (what it lists: {has})" if has else ""),
            hint=f"It is to be an OCI image layout with the blobs of linux/amd64 in {BLOBS}, such"
            f" as this makes: skopeo copy --all --preserve-digests docker://{image} oci:{layout}\n"
            "An image whose manifest is Docker's own (schema 2) gets another digest where it is"
            " converted to OCI, as skopeo does otherwise, and `docker save` of most stores. This"
            f" converts nothing: crane pull --format=oci {image} {layout}",
        ) from error
    return found


def _digests_in(layout: Path) -> list[str]:
    """The images that the index of a layout lists, by their digests."""
    try:
        listed = json.loads((layout / "index.json").read_bytes())["manifests"]
        return [str(each["digest"])[:71] for each in listed[:3]]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return []  # the layout needs none: blobs are found by their digests


def require_digests(image: str, wanted: Manifest) -> None:
    """Check that every file that ``wanted`` names is what its name, the digest of a blob, says.

    Raises:
        WeightsError: one is not.
    """
    for file in wanted.files:
        if file.path != f"{BLOBS}/{file.sha256}":
            raise WeightsError(
                f"{image}: {file.path} has another content than its digest says. Nothing was sent.",
                hint="Fetch the image anew.",
            )


def _fetch(cloud: Cloud, image: str, directory: Path, output: Output) -> Image:
    from requests import Session

    from tpuflex.gcp.endpoints import Endpoints
    from tpuflex.gcp.session import authorized_session
    from tpuflex.operate.image_layout import fetch_layout
    from tpuflex.operate.registry import Registry

    endpoints = Endpoints.from_environ(cloud.environ)

    def google() -> Session:
        project = cloud.stack.settings.project
        return authorized_session(endpoints, cloud.environ, project, renews=True)

    registry = Registry(image, endpoints, google, pause=cloud.sleep)
    with output.transfer("  fetching image") as show:
        return fetch_layout(registry, directory, show)
