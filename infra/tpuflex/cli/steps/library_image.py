"""The steps of `tpuflex library image push`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuflex.boot.places import image_prefix
from tpuflex.cli.library_image import push_image, require_in_library
from tpuflex.cli.region_weights import image_set
from tpuflex.cli.steps.push import fill_further
from tpuflex.cli.steps.weights import ensure_bucket
from tpuflex.planning.storage_cost import month_text

if TYPE_CHECKING:
    from pathlib import Path

    from tpuflex.cli.cloud import Cloud
    from tpuflex.cli.invocation import Invocation


def run_image_push(
    invocation: Invocation, cloud: Cloud, layout: Path | None, *, again: bool
) -> None:
    """Bring the image of the stack of ``cloud`` to the library, to the bucket of each region of its
    zones, and print what to write.

    Raises:
        SettingsError: the stack has no library.
        InterruptedByUser: the user does not want one.
        TpuflexError: as :func:`~tpuflex.cli.library_image.push_image`.
    """
    stack, output = cloud.stack, invocation.output
    image = stack.settings.serving.image
    require_in_library(stack)
    ensure_bucket(invocation, cloud)
    report = push_image(cloud, image, layout, output, again=again)
    copies = fill_further(cloud, image_set(cloud, report.manifest.sha256), output, again=again)
    place = f"gs://{cloud.bucket}/{image_prefix(image)}"
    sha256, size = report.manifest.sha256, report.manifest.total_bytes
    output.document(
        {
            "image": image,
            "place": place,
            "bytes": size,
            "sent": list(report.sent),
            "kept": list(report.kept),
            "bytes_sent": report.bytes_sent,
            "manifest_sha256": sha256,
            **copies,
        }
    )
    region = stack.settings.region
    output.result(f"{image}\n  is in {place}: {size / 2**30:.2f} GiB, {month_text(size, region)}.")
    if stack.settings.serving.image_manifest_sha256 == sha256:
        return
    output.result(
        "Hosts load it from there with this in the stack file:\n\n"
        "  tpuflex:serving:\n"
        "    image_source: library\n"
        f"    image_manifest_sha256: {sha256}"
    )
