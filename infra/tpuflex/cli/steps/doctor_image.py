"""What `tpuflex doctor` reads of an image that hosts load from the library."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuflex.boot.places import image_prefix
from tpuflex.cli.library_image import PATTERNS, push_command
from tpuflex.cli.library_weights import require_library
from tpuflex.errors import AlreadyExistsError, NotFoundError
from tpuflex.gcp.weights import weights_bucket
from tpuflex.operate.doctor.check import Check
from tpuflex.operate.doctor.image import IMAGE, stored_check
from tpuflex.operate.doctor.reading import attempt

if TYPE_CHECKING:
    from tpuflex.cli.cloud import Cloud
    from tpuflex.gcp.weights_report import WeightsCheck


def stored_image_check(cloud: Cloud) -> Check:
    """How the stack's image stands in the library's bucket in the region of the chips."""
    serving, project = cloud.stack.settings.serving, cloud.stack.settings.project
    prefix = image_prefix(serving.image)

    def read() -> WeightsCheck | Check | None:
        try:
            require_library(cloud)
        except (AlreadyExistsError, NotFoundError) as error:
            return IMAGE.failed(type(error), error.message, command)
        bucket = weights_bucket(cloud.bucket, project=project, environ=cloud.environ)
        try:
            return bucket.verify(prefix, PATTERNS)
        except NotFoundError:
            return None

    place, command = f"gs://{cloud.bucket}/{prefix}", push_command(cloud.stack)
    found = attempt(read)
    if isinstance(found, Check):
        return found
    return stored_check(place, str(serving.image_manifest_sha256), found, command)
