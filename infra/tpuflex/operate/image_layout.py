"""Fetch a container image from its registry into an OCI image layout, every byte checked."""

from __future__ import annotations

import hashlib
from pathlib import Path

from tpuflex.errors import WeightsError
from tpuflex.gcp.weights_files import Progress, Tally
from tpuflex.operate.registry import Registry
from tpuflex.operate.resumed_download import Download, fetch_all, require_room
from tpuflex.startup.image_archive import BLOBS, Blob, Image


def fetch_layout(registry: Registry, directory: Path, progress: Progress) -> Image:
    """Fetch the image of ``registry`` into the layout ``directory``, or go on with it.

    Args:
        registry: the image's registry.
        directory: where it goes; made if it is not there.
        progress: called with the bytes that are there and the total, by one thread at a time.

    Raises:
        WeightsError: there is no room, or what came is not what its digest says.
        NotFoundError, AccessError, ApiError: the registry refuses, or cannot be reached.
    """
    image, documents = registry.read()
    blobs = directory / BLOBS
    blobs.mkdir(mode=0o700, parents=True, exist_ok=True)
    require_room(registry.image, sum(blob.size for blob in image.blobs), blobs)
    for sha256, text in documents.items():
        (blobs / sha256).write_bytes(text)
    layers = [_download(registry, blob, blobs) for blob in dict.fromkeys(image.layers)]
    fetch_all(layers, Tally(sum(blob.size for blob in image.layers), progress).add)
    return image


def _download(registry: Registry, blob: Blob, blobs: Path) -> Download:
    """``blob`` on its way into the directory ``blobs``."""
    wrong = WeightsError(
        f"{registry.image}: what came for sha256:{blob.sha256} is not what its digest says",
        hint="Run it again: it is fetched anew. If it happens again, something between here and"
        " the registry alters what it sends.",
    )
    return Download(
        place=blobs / blob.sha256,
        size=blob.size,
        digest=hashlib.sha256,
        sum=blob.sha256,
        blocks=lambda start: registry.blocks(blob, start),
        failed=registry.failed,
        wrong=wrong,
    )
