"""``MANIFEST.json``: which files a set of weights consists of, and how each is checked.

It is written last, so that its presence means that every file in it is there; the host serves
nothing that does not match it.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from pulumi_plugin.printable import is_printable, printable

MANIFEST_NAME = "MANIFEST.json"


def _relative(path: str) -> str:
    parts = path.split("/")
    if any(part in ("", ".", "..") for part in parts) or PurePosixPath(path).is_absolute():
        raise ValueError(f"{path!r} is not a path below the weights")
    if not is_printable(path):
        raise ValueError(f"{printable(path)} holds a control or an invisible character")
    if path == MANIFEST_NAME:
        raise ValueError(f"a manifest cannot list {MANIFEST_NAME} itself")
    return path


class _Frozen(BaseModel):
    # Unknown keys are ignored, not refused: a later version may add some.
    model_config = ConfigDict(frozen=True, extra="ignore", use_attribute_docstrings=True)


class WeightsFile(_Frozen):
    """One file of a set of weights."""

    path: Annotated[str, AfterValidator(_relative)]
    """Path below the prefix, with forward slashes."""
    size: int = Field(ge=0)
    """Size in bytes."""
    crc32c: str = Field(pattern=r"^[A-Za-z0-9+/]{6}==$")
    """CRC32C as Cloud Storage writes it: base64 of four bytes, most significant first."""
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    """SHA-256 in hex; what the host checks."""


class Manifest(_Frozen):
    """A complete set of weights."""

    version: Literal[1] = Field(default=1, alias="schema")
    """Version of this format, ``schema`` in the document."""
    model: str
    """Name under which the model is served."""
    revision: str
    """Names this set of weights."""
    created: str
    """When it was pushed, RFC 3339 in UTC."""
    total_bytes: int = Field(ge=0)
    """Sum of all sizes."""
    files: tuple[WeightsFile, ...]
    """Every file, sorted by path."""

    def to_json(self) -> str:
        """The document as stored in the bucket."""
        return self.model_dump_json(by_alias=True, indent=1) + "\n"


def manifest(
    files: tuple[WeightsFile, ...], *, model: str, revision: str, created: str
) -> Manifest:
    """The manifest of ``files``, in order of their paths."""
    ordered = tuple(sorted(files, key=lambda file: file.path))
    return Manifest(
        model=model,
        revision=revision,
        created=created,
        total_bytes=sum(file.size for file in ordered),
        files=ordered,
    )
