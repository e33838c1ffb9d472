"""``MANIFEST.json``: which files a set of weights consists of, and how each is checked.

It is written last: if it is there, so is every file in it. The host serves nothing that does not
match it. Its text follows from model, revision and files alone, so the same files have the same
SHA-256 wherever they are pushed; that hash is in the host's boot document.

Schema 2 has, for each file longer than a part, the SHA-256 of its parts: a host fetches them as
ranges, side by side, and checks each as it arrives.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal
from urllib.parse import quote

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from pulumi_plugin.printable import is_printable, printable
from tpuflex.catalog.weight_formats import MANIFEST_NAME

#: Metadata of the manifest's object: the source, with its commit, that the weights came from.
SOURCE_METADATA = "tpuflex-source"
#: Bytes of a part: few enough that a stream which dies costs little, many enough that asking for
#: them costs nothing.
PART_BYTES = 64 * 2**20
#: Bounds on what a manifest may say, which keep the host's arithmetic within 64 bits. The startup
#: script has the same.
MAX_FILES = 10_000
#: The largest object of Cloud Storage, 5 TiB (https://cloud.google.com/storage/quotas).
MAX_FILE_BYTES = 5 * 2**40
#: Of a percent-encoded path, which is a file name on the host (NAME_MAX of Linux).
MAX_NAME_BYTES = 255
#: Of all files together: 3.3 TB.
MAX_PARTS = 50_000
#: Of the document: 10,000 files with long names, and all parts, stay below it.
MAX_MANIFEST_BYTES = 8 * 2**20

#: A SHA-256 in hex.
SHA256_PATTERN = r"^[0-9a-f]{64}$"


def _relative(path: str) -> str:
    parts = path.split("/")
    if any(part in ("", ".", "..") for part in parts) or PurePosixPath(path).is_absolute():
        raise ValueError(f"{path!r} is not a path below the weights")
    if not is_printable(path):
        raise ValueError(f"{printable(path)} holds a control or an invisible character")
    if path == MANIFEST_NAME:
        raise ValueError(f"a manifest cannot list {MANIFEST_NAME} itself")
    if len(quote(path, safe="")) > MAX_NAME_BYTES:
        raise ValueError(f"{path!r} is longer than {MAX_NAME_BYTES} bytes, percent-encoded")
    return path


class _Frozen(BaseModel):
    # Unknown keys are ignored, not refused: a later version may add some.
    model_config = ConfigDict(frozen=True, extra="ignore")


class WeightsFile(_Frozen):
    """One file of a set of weights."""

    path: Annotated[str, AfterValidator(_relative)]
    """Path below the prefix, with forward slashes."""
    size: int = Field(ge=0, le=MAX_FILE_BYTES)
    """Size in bytes."""
    crc32c: str = Field(pattern=r"^[A-Za-z0-9+/]{6}==$")
    """CRC32C as Cloud Storage writes it: base64 of four bytes, most significant first."""
    sha256: str = Field(pattern=SHA256_PATTERN)
    """SHA-256 in hex; what the host checks, where there are no parts."""
    parts: tuple[Annotated[str, Field(pattern=SHA256_PATTERN)], ...] = Field(
        default=(), exclude_if=lambda parts: not parts
    )
    """SHA-256 in hex of each part, where the file is longer than one."""


class Manifest(_Frozen):
    """A complete set of weights."""

    version: Literal[2] = Field(default=2, alias="schema")
    """Version of this format, ``schema`` in the document."""
    model: str
    """Name under which the model is served."""
    revision: str
    """Names this set of weights."""
    total_bytes: int = Field(ge=0)
    """Sum of all sizes."""
    part_bytes: int = Field(ge=4096, le=2**30)
    """Bytes of a part, of which the last one of a file may have fewer."""
    files: tuple[WeightsFile, ...] = Field(max_length=MAX_FILES)
    """Every file, sorted by path."""

    def to_json(self) -> str:
        """The document as stored in the bucket."""
        document = self.model_dump(mode="json", by_alias=True)
        return json.dumps(document, indent=1, ensure_ascii=False) + "\n"

    @model_validator(mode="after")
    def _has_its_parts(self) -> Manifest:
        for file in self.files:
            several = self.part_bytes < file.size
            if len(file.parts) != (-(-file.size // self.part_bytes) if several else 0):
                raise ValueError(f"{file.path!r} has not as many parts as its size says")
        if sum(len(file.parts) for file in self.files) > MAX_PARTS:
            raise ValueError(f"the files have more than {MAX_PARTS} parts")
        return self

    def same_as(self, other: Manifest) -> bool:
        """Whether both name the same files with the same content, for the same model."""
        mine, theirs = ((each.model, each.part_bytes, each.files) for each in (self, other))
        return mine == theirs

    @property
    def sha256(self) -> str:
        """SHA-256 of the document in hex."""
        return manifest_sha256(self.to_json().encode())


def manifest_sha256(document: bytes) -> str:
    """SHA-256 in hex of a manifest as it is stored."""
    return hashlib.sha256(document).hexdigest()


def read_manifest(document: bytes) -> Manifest | None:
    """The manifest that ``document`` is; None if it is not one that could be served."""
    try:
        return Manifest.model_validate(json.loads(document))
    except (ValueError, RecursionError):
        return None


def manifest(files: Iterable[WeightsFile], *, model: str, revision: str) -> Manifest:
    """The manifest of ``files``, in order of their paths.

    Raises:
        pydantic.ValidationError: there are more files, or parts of files, than a host takes.
    """
    ordered = tuple(sorted(files, key=lambda file: file.path))
    return Manifest(
        model=model,
        revision=revision,
        total_bytes=sum(file.size for file in ordered),
        part_bytes=PART_BYTES,
        files=ordered,
    )


@dataclass(slots=True)
class FileSums:
    """SHA-256 of a file and of its parts, as its bytes go by.

    Attributes:
        size: bytes so far.
    """

    size: int = 0
    _whole: Any = field(default_factory=hashlib.sha256)
    _parts: list[Any] = field(default_factory=list)

    def update(self, block: bytes) -> None:
        """Take the next bytes."""
        self._whole.update(block)
        view = memoryview(block)
        while view:
            room = PART_BYTES - self.size % PART_BYTES
            if room == PART_BYTES:
                self._parts.append(hashlib.sha256())
            piece = view[:room]
            self._parts[-1].update(piece)
            self.size += len(piece)
            view = view[room:]

    @property
    def sha256(self) -> str:
        """SHA-256 in hex of all bytes."""
        return str(self._whole.hexdigest())

    @property
    def parts(self) -> tuple[str, ...]:
        """SHA-256 in hex of each part; empty if there is only one."""
        several = len(self._parts) > 1
        return tuple(str(part.hexdigest()) for part in self._parts) if several else ()
