"""What ``docker load`` reads, and what of it the host has then.

As the docker daemon does (https://github.com/moby/moby/blob/master/daemon/internal/image/tarexport/load.go),
it takes an archive apart, unpacks every layer and compares its hash with the one in the image's
config; the hash of the config is the image's id. The layers themselves are not kept: their programs
are this machine's.
"""

from __future__ import annotations

import hashlib
import json
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from embedded_cloud.docker.errors import DockerError

_BLOCK = 2**20
_GZIP = b"\x1f\x8b"
_TAG = re.compile(r"(?P<name>[a-z0-9][a-z0-9._/:-]*):[\w][\w.-]{0,127}")
_ID = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class LoadedImages:
    """The images that a host was given as archives.

    Attributes:
        host: the host's directory.
    """

    host: Path

    def find(self, name: str) -> tuple[str, str] | None:
        """Id and tag of the image ``name``, one of both; None if there is none."""
        for file in self._records():
            tag = file.read_text(encoding="utf-8")
            if name in (f"sha256:{file.name}", tag, tag.removeprefix("docker.io/")):
                return f"sha256:{file.name}", tag
        return None

    def reference(self, name: str) -> str:
        """The image ``name`` as one pinned by its digest, if it was loaded; else ``name``.

        Raises:
            DockerError: it is an id that no image has.
        """
        found = self.find(name)
        if found is not None:
            return f"{found[1].rpartition(':')[0]}@{found[0]}"
        if _ID.fullmatch(name):
            raise DockerError(f"Error response from daemon: No such image: {name}", 125)
        return name

    def load(self, archive: IO[bytes]) -> list[str]:
        """Take the images of ``archive``; their tags.

        Raises:
            DockerError: it is none that docker loads, or a layer is not what the config says.
        """
        import tarfile  # as in :mod:`embedded_cloud.docker.pull`

        layers: dict[str, str] = {}
        documents: dict[str, bytes] = {}
        try:
            with tarfile.open(fileobj=archive, mode="r|") as members:
                for member in members:
                    content = members.extractfile(member)
                    if content is not None:
                        start = content.read(_BLOCK)
                        if len(start) < _BLOCK:
                            documents[member.name] = start
                        layers[member.name] = _unpacked(start, content)
            listed = json.loads(documents["manifest.json"])
            return [self._keep(image, documents, layers) for image in listed]
        except (tarfile.TarError, zlib.error, ValueError, KeyError, TypeError) as error:
            raise DockerError(f"Error processing tar file: {error}", 1) from error

    def _keep(
        self, image: dict[str, Any], documents: dict[str, bytes], sums: dict[str, str]
    ) -> str:
        config = documents[image["Config"]]
        wanted = json.loads(config)["rootfs"]["diff_ids"]
        if len(wanted) != len(image["Layers"]):
            raise DockerError("invalid manifest, layers length mismatch", 1)
        for number, (diff_id, path) in enumerate(zip(wanted, image["Layers"], strict=True)):
            if sums[path] != diff_id:
                raise DockerError(
                    f"invalid diffID for layer {number}: expected {diff_id!r}, got {sums[path]!r}",
                    1,
                )
        (tag,) = image["RepoTags"]
        if not _TAG.fullmatch(tag):
            raise DockerError(f"invalid tag {tag!r}", 1)
        record = self._directory() / hashlib.sha256(config).hexdigest()
        record.parent.mkdir(parents=True, exist_ok=True)
        record.write_text(tag, encoding="utf-8")
        return str(tag)

    def _records(self) -> Iterator[Path]:
        directory = self._directory()
        return directory.iterdir() if directory.is_dir() else iter(())

    def _directory(self) -> Path:
        return self.host / "root" / "var" / "lib" / "docker-loaded"


def _unpacked(start: bytes, rest: IO[bytes]) -> str:
    """The digest of a file that begins with ``start`` as it is when unpacked."""
    digest = hashlib.sha256()
    unzip = zlib.decompressobj(wbits=31) if start.startswith(_GZIP) else None
    while start:
        digest.update(start if unzip is None else unzip.decompress(start))
        start = rest.read(_BLOCK)
    if unzip is not None:
        digest.update(unzip.flush())
        if not unzip.eof:
            raise zlib.error("unexpected EOF")
    return f"sha256:{digest.hexdigest()}"
