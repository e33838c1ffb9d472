"""A container image made of its blobs: which ones it has, and the archive that docker loads.

The blobs are those of an OCI image layout
(https://github.com/opencontainers/image-spec/blob/main/image-layout.md), each under its own
SHA-256 in ``blobs/sha256``. So the image's digest says what every one of them has to be: it is the
hash of a document that names the others by theirs. Nothing is loaded that this does not reach.

Run by the startup script: ``image_archive.py tag IMAGE`` prints the name under which docker keeps
the image, ``… check IMAGE DIRECTORY`` the ids of which docker gives it one, ``… archive IMAGE
DIRECTORY`` writes what `docker load` reads. The command line has the same reading of an image.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import sys
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

#: Of a document that lists other blobs, or configures the image; registries have the same
#: (https://github.com/opencontainers/distribution-spec/blob/main/spec.md#pushing-manifests).
MAX_DOCUMENT_BYTES = 4 * 2**20
#: Docker's own limit (https://docs.docker.com/engine/storage/drivers/overlayfs-driver/).
MAX_LAYERS = 128
#: Where the blobs are, and the pattern of their paths.
BLOBS = "blobs/sha256"
#: What serving hosts run.
PLATFORM = ("linux", "amd64")

_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")


class ImageError(Exception):
    """The blobs are not those of the image."""


@dataclass(frozen=True)
class Blob:
    """Part of an image: SHA-256 of its content in hex, its size in bytes, its media type."""

    sha256: str
    size: int
    kind: str

    @property
    def path(self) -> str:
        """Its path in a layout."""
        return f"{BLOBS}/{self.sha256}"


@dataclass(frozen=True)
class Image:
    """An image for one platform.

    Attributes:
        index: the document of the image's digest, where that lists several platforms.
        manifest: what config and layers are.
        config: how it is run, and what its layers are when they are unpacked.
        layers: the lowest first.
    """

    index: Blob | None
    manifest: Blob
    config: Blob
    layers: tuple[Blob, ...]

    @property
    def blobs(self) -> tuple[Blob, ...]:
        """All of it, each once."""
        first = () if self.index is None else (self.index,)
        found = (*first, self.manifest, self.config, *self.layers)
        return tuple({blob.sha256: blob for blob in found}.values())

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of which docker gives it one: the config's digest, or with containerd's store
        (https://docs.docker.com/engine/storage/containerd/) the manifest's. Both say what all of
        it is."""
        return f"sha256:{self.config.sha256}", f"sha256:{self.manifest.sha256}"


def digest_of(image: str) -> str:
    """SHA-256 in hex of the digest that the reference ``image`` ends with.

    Raises:
        ImageError: it is not pinned.
    """
    found = _DIGEST.fullmatch(image.partition("@")[2])
    if found is None:
        raise ImageError(f"{image} is not pinned by a digest")
    return found[1]


def tag_of(image: str) -> str:
    """The name under which docker keeps ``image``: its own, with the digest for a tag."""
    name = image.partition("@")[0]
    where, slash, last = name.rpartition("/")
    name = where + slash + last.partition(":")[0]
    first, slash, rest = name.partition("/")
    if not slash or not ("." in first or ":" in first or first == "localhost"):
        name = f"docker.io/{name}" if slash else f"docker.io/library/{name}"
    elif first == "index.docker.io":
        name = f"docker.io/{rest}"
    return f"{name}:sha256-{digest_of(image)}"


def read_image(digest: str, read: Callable[[str], bytes]) -> Image:
    """The image whose digest is ``digest``.

    Args:
        digest: its SHA-256 in hex.
        read: gives the content of a blob, and no more than :data:`MAX_DOCUMENT_BYTES` of it.

    Raises:
        ImageError: a document is not the one of its digest, or is none of an image for
            :data:`PLATFORM`.
    """
    top = _document(digest, read)
    try:
        index, document, sha256 = None, top, digest
        if "manifests" in top:
            index = Blob(digest, len(read(digest)), str(top.get("mediaType", _INDEX)))
            sha256 = _chosen(top).sha256
            document = _document(sha256, read)
        kind = str(document.get("mediaType", _MANIFEST))
        manifest = Blob(sha256, len(read(sha256)), kind)
        config, layers = _blob(document["config"]), tuple(map(_blob, document["layers"]))
        about = _document(config.sha256, read)
        unpacked = about["rootfs"]["diff_ids"]
        platform = (about.get("os"), about.get("architecture"))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ImageError(f"sha256:{digest} is no image that can be read: {error}") from error
    if platform != PLATFORM:
        raise ImageError(f"sha256:{digest} is an image for {platform[0]}/{platform[1]}")
    if not 0 < len(layers) <= MAX_LAYERS or len(unpacked) != len(layers):
        raise ImageError(f"sha256:{digest} has not as many layers as its config says")
    return Image(index, manifest, config, layers)


def write_archive(image: Image, name: str, directory: Path, to: IO[bytes]) -> None:
    """Write the archive of ``image`` as `docker load` reads it, with either store of images.

    Args:
        image: the image.
        name: what docker is to call it.
        directory: the layout that has its blobs.
        to: where it is written.
    """
    described: dict[str, Any] = {
        "mediaType": image.manifest.kind,
        "digest": f"sha256:{image.manifest.sha256}",
        "size": image.manifest.size,
        "annotations": {
            "io.containerd.image.name": name,
            "org.opencontainers.image.ref.name": name.rpartition(":")[2],
        },
    }
    listed = {
        "Config": image.config.path,
        "RepoTags": [name],
        "Layers": [layer.path for layer in image.layers],
    }
    with tarfile.open(fileobj=to, mode="w|") as archive:
        for path, document in (
            ("oci-layout", {"imageLayoutVersion": "1.0.0"}),
            ("index.json", {"schemaVersion": 2, "mediaType": _INDEX, "manifests": [described]}),
            ("manifest.json", [listed]),
        ):
            text = json.dumps(document).encode()
            archive.addfile(_member(path, len(text)), io.BytesIO(text))
        for blob in (image.manifest, image.config, *dict.fromkeys(image.layers)):
            with (directory / blob.path).open("rb") as file:
                archive.addfile(_member(blob.path, blob.size), file)


_INDEX = "application/vnd.oci.image.index.v1+json"
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"


def _member(path: str, size: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(path)
    member.size, member.mode = size, 0o644
    return member


def _document(sha256: str, read: Callable[[str], bytes]) -> dict[str, Any]:
    text = read(sha256)
    if len(text) > MAX_DOCUMENT_BYTES:
        raise ImageError(f"sha256:{sha256} is longer than such a document may be")
    if hashlib.sha256(text).hexdigest() != sha256:
        raise ImageError(f"sha256:{sha256} has another content than its digest says")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ImageError(f"sha256:{sha256} is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise ImageError(f"sha256:{sha256} is no document of an image")
    return document


def _chosen(index: dict[str, Any]) -> Blob:
    """The manifest for :data:`PLATFORM`: the first one, as docker chooses."""
    for entry in index["manifests"]:
        platform = entry.get("platform") or {}
        if (platform.get("os"), platform.get("architecture")) == PLATFORM:
            return _blob(entry)
    raise ImageError(f"it has no manifest for {'/'.join(PLATFORM)}")


def _blob(entry: dict[str, Any]) -> Blob:
    found = _DIGEST.fullmatch(entry["digest"])
    size = entry["size"]
    if found is None or type(size) is not int or size < 0:
        raise ValueError(f"{entry['digest']!r} is no blob that can be checked")
    return Blob(found[1], size, str(entry.get("mediaType", "")))


def blob_reader(directory: Path) -> Callable[[str], bytes]:
    """What reads documents among the blobs of the layout ``directory``.

    Raises:
        ImageError: one is not there.
    """

    def read(sha256: str) -> bytes:
        try:
            with (directory / BLOBS / sha256).open("rb") as file:
                return file.read(MAX_DOCUMENT_BYTES + 1)
        except OSError as error:
            raise ImageError(f"sha256:{sha256} is not there: {error.strerror}") from error

    return read


def _checked(image: str, directory: Path) -> Image:
    """The image in ``directory``, which has exactly its blobs, each of the right size."""
    found = read_image(digest_of(image), blob_reader(directory))
    sizes = {path.name: path.stat().st_size for path in (directory / BLOBS).iterdir()}
    if sizes != {blob.sha256: blob.size for blob in found.blobs}:
        raise ImageError("its blobs are not those that its manifest names")
    return found


def main() -> None:
    """See above."""
    command, image, *where = sys.argv[1:]
    try:
        if command == "tag":
            sys.stdout.write(f"{tag_of(image)}\n")
            return
        directory = Path(*where)
        found = _checked(image, directory)
        if command == "check":
            sys.stdout.write("".join(f"{id_}\n" for id_ in found.ids))
        else:
            write_archive(found, tag_of(image), directory, sys.stdout.buffer)
    except (ImageError, OSError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
