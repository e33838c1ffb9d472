"""Reports about weights in a bucket: what a push did, what is there, what is wrong."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from tpuflex.boot.manifest import Manifest
from tpuflex.planning.model_files import WeightsProblem


@dataclass(frozen=True, slots=True)
class PushReport:
    """What a push did.

    Attributes:
        manifest: what is now in the bucket; its hash is that of the object there.
        sent: files that were sent.
        kept: files that were there already.
        bytes_sent: how much was sent.
        seconds: how long it took, hashing included.
    """

    manifest: Manifest
    sent: tuple[str, ...]
    kept: tuple[str, ...]
    bytes_sent: int
    seconds: float


@dataclass(frozen=True, slots=True)
class FoundManifest:
    """A manifest in a bucket, trusted or not.

    Attributes:
        sha256: SHA-256 of the object in hex; empty if it is too long to be a manifest, and so was
            not read.
        manifest: what it says; None if it is not a manifest that could be served.
    """

    sha256: str
    manifest: Manifest | None


@dataclass(frozen=True, slots=True)
class WeightsCheck:
    """What is in a bucket, compared with its manifest.

    Attributes:
        sha256: SHA-256 of the manifest in hex.
        manifest: the manifest.
        problems: where the bucket does not match it, or a server could not load what it names.
        beside: files below the same prefix that it does not name, which no host reads: what a push
            of other weights has left, or somebody else has put there.
    """

    sha256: str
    manifest: Manifest
    problems: tuple[WeightsProblem, ...]
    beside: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StoredWeights:
    """One set of weights in a bucket.

    Attributes:
        prefix: where it is.
        manifest: its manifest, None while it is incomplete.
        files: how many objects are there, the manifest not counted.
        total_bytes: their size.
        source: where they were fetched from, with its commit; empty if that is not kept.
        beside: how many of the objects its manifest does not name.
        beside_bytes: their size.
        used: the last day of which it is known that they were used; None if nothing says.
        written: when the last of the objects was written.
        wrong: how many of the files that its manifest names are not there, or have another size or
            checksum.
    """

    prefix: str
    manifest: Manifest | None
    files: int
    total_bytes: int
    source: str = ""
    beside: int = 0
    beside_bytes: int = 0
    used: dt.date | None = None
    written: dt.datetime | None = None
    wrong: int = 0

    @property
    def complete(self) -> bool:
        """Whether all is there that its manifest names."""
        return self.manifest is not None and not self.wrong
