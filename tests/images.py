"""Small container images, as registries have them: real documents, real layers, real digests."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"


@dataclass(frozen=True)
class TestImage:
    """An image.

    Attributes:
        digest: what it is pinned by.
        config: SHA-256 in hex of its config.
        manifest: SHA-256 in hex of its manifest for linux/amd64.
        blobs: what it consists of, by SHA-256 in hex.
    """

    __test__ = False

    digest: str
    config: str
    manifest: str
    blobs: dict[str, bytes]

    def files(self) -> dict[str, bytes]:
        """Its blobs by their path in a layout."""
        return {f"blobs/sha256/{name}": content for name, content in self.blobs.items()}

    def layout(self, directory: Path) -> Path:
        """Write its layout into ``directory``."""
        for path, content in self.files().items():
            target = directory / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        return directory


def sha256(content: bytes) -> str:
    """In hex."""
    return hashlib.sha256(content).hexdigest()


def layer(name: str, content: bytes) -> bytes:
    """An unpacked layer with one file."""
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w") as archive:
        member = tarfile.TarInfo(name)
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    return whole.getvalue()


def image(
    *layers: bytes,
    architecture: str = "amd64",
    index: bool = True,
    diff_ids: list[str] | None = None,
) -> TestImage:
    """An image of unpacked ``layers``, by default in an index beside one for arm64, whose blobs are
    not there."""
    blobs: dict[str, bytes] = {}

    def put(content: bytes, kind: str) -> dict[str, Any]:
        blobs[sha256(content)] = content
        return {"mediaType": kind, "digest": f"sha256:{sha256(content)}", "size": len(content)}

    unpacked = diff_ids or [f"sha256:{sha256(each)}" for each in layers]
    packed = [
        put(gzip.compress(each, mtime=0), "application/vnd.oci.image.layer.v1.tar+gzip")
        for each in layers
    ]
    rootfs = {"type": "layers", "diff_ids": unpacked}
    about = {"os": "linux", "architecture": architecture, "rootfs": rootfs}
    config = put(json.dumps(about).encode(), "application/vnd.oci.image.config.v1+json")
    document = {"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": packed}
    manifest = put(json.dumps(document).encode(), MANIFEST)
    top = manifest
    if index:
        other = {"mediaType": MANIFEST, "digest": "sha256:" + "e" * 64, "size": 3}
        platforms = [
            {**other, "platform": {"os": "linux", "architecture": "arm64"}},
            {**manifest, "platform": {"os": "linux", "architecture": architecture}},
        ]
        listed = {"schemaVersion": 2, "mediaType": INDEX, "manifests": platforms}
        top = put(json.dumps(listed).encode(), INDEX)
    names = [each["digest"].removeprefix("sha256:") for each in (config, manifest)]
    return TestImage(top["digest"], names[0], names[1], blobs)


def small_image() -> TestImage:
    """One of two layers, the first of which takes several parts."""
    numbers = (number.to_bytes(2, "big") for number in range(1200))
    noise = b"".join(hashlib.sha256(number).digest() for number in numbers)
    return image(layer("usr/lib/large", noise), layer("usr/bin/vllm", b"#!/bin/sh\n"))
