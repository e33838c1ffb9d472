"""What Cloud Storage answers of an object."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tpuflex.copier.errors import CopyError
from tpuflex.copier.http import RefusedError, Response, UnreachableError


@dataclass(frozen=True, slots=True)
class Stored:
    """An object as Cloud Storage describes it.

    Attributes:
        generation: which one of its name.
        size: in bytes.
        crc32c: its CRC32C, in base64.
        md5: its MD5, in base64; empty for one that was composed.
        metadata: what its writer has noted.
    """

    generation: int
    size: int
    crc32c: str
    md5: str
    metadata: Mapping[str, str]


def answered(answer: Response) -> dict[str, Any]:
    """The document that ``answer`` is; an empty one for none.

    Raises:
        RefusedError: it is a refusal.
        UnreachableError: it broke off.
    """
    if answer.status == 204:
        return {}
    if answer.status != 200:
        raise RefusedError(answer)
    try:
        found = json.loads(answer.body())
    except ValueError as error:
        raise UnreachableError("half an answer") from error
    if not isinstance(found, dict):
        raise UnreachableError("half an answer")
    return found


def stored_of(found: Mapping[str, Any]) -> Stored:
    """The object that a document describes."""
    return Stored(
        int(found.get("generation", 0)),
        int(found.get("size", -1)),
        str(found.get("crc32c", "")),
        str(found.get("md5Hash", "")),
        found.get("metadata") or {},
    )


def conflict(name: str) -> CopyError:
    """What is raised where ``name`` is not what was seen a moment ago."""
    return CopyError("conflict", f"{name}: somebody else is writing the same weights")
