"""Check a manifest of weights, and write down what is to be fetched.

Run by the startup script: ``manifest.py STATE_DIR BUCKET PREFIX PATTERN…``, with the manifest in
``STATE_DIR/manifest.json``. Writes ``weights.records``, a JSON list of files that
``download.py`` reads, and ``weights.bytes``, the sum of their sizes; ends with a message if the
manifest is not one that may be served. Whoever writes to the bucket may have written it: nothing
is computed with a number, and nothing opened under a name, before its bounds are checked. The
command line has the same bounds (``infra/tpuflex/boot/manifest.py``).
"""

from __future__ import annotations

import json
import re
import sys
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TypedDict
from urllib.parse import quote

MAX_FILES = 10_000
#: The largest object of Cloud Storage (https://cloud.google.com/storage/quotas).
MAX_FILE_BYTES = 5 * 2**40
MAX_NAME_BYTES = 255
MAX_PARTS = 50_000
PART_BYTES = range(4096, 2**30 + 1)

_SHA256 = re.compile(r"[0-9a-f]{64}")


class Record(TypedDict):
    """One file to fetch: ``sums`` has the SHA-256 of each part of ``part_bytes`` (the last one is
    shorter), or that of the whole file alone; ``flat`` is its path as one file name."""

    path: str
    size: int
    sha256: str
    part_bytes: int
    sums: list[str]
    url: str
    flat: str


class ManifestError(Exception):
    """The manifest is not one that may be served."""


def records(manifest: Any, bucket: str, prefix: str, patterns: list[str]) -> list[Record]:
    """The files of ``manifest``.

    Raises:
        ManifestError: something in it is missing, malformed or out of bounds.
    """
    try:
        if manifest["schema"] != 2:
            raise ManifestError("its schema is not known to this script (2 is known)")
        part_bytes = manifest["part_bytes"]
        if type(part_bytes) is not int or part_bytes not in PART_BYTES:
            raise ManifestError("its part_bytes is not valid")
        if len(manifest["files"]) > MAX_FILES:
            raise ManifestError(f"it names more than {MAX_FILES} files")
        found = [
            _record(entry, part_bytes, f"b/{quote(bucket)}/o/", prefix, patterns)
            for entry in manifest["files"]
        ]
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ManifestError(f"a part is missing or has the wrong form: {error}") from error
    if not found:
        raise ManifestError("it names no files")
    if len({record["flat"] for record in found}) != len(found):
        raise ManifestError("a path is there twice")
    if sum(len(record["sums"]) for record in found) > MAX_PARTS:
        raise ManifestError(f"its files have more than {MAX_PARTS} parts")
    return found


def _record(entry: Any, part_bytes: int, base: str, prefix: str, patterns: list[str]) -> Record:
    path, size, sha256 = entry["path"], entry["size"], entry["sha256"]
    names = path.split("/")
    if any(name in ("", ".", "..") for name in names) or re.search(r"[\x00-\x1f\x7f]", path):
        raise ManifestError(f"it names a path that is not below the weights: {path!r}")
    flat = quote(path, safe="")
    if len(flat) > MAX_NAME_BYTES:
        raise ManifestError(f"a path is too long: {path[:100]!r}")
    if not any(fnmatchcase(path if "/" in each else names[-1], each) for each in patterns):
        raise ManifestError(
            f"{path!r} is no data format; tpuflex:model.weights.extra_files may allow it"
        )
    if type(size) is not int or not 0 <= size <= MAX_FILE_BYTES:
        raise ManifestError(f"the size of {path!r} is not valid")
    if not _SHA256.fullmatch(sha256):
        raise ManifestError(f"the sha256 of {path!r} is not valid")
    sums = [sha256]
    if part_bytes < size:
        sums = entry["parts"]
        if len(sums) != -(-size // part_bytes) or not all(map(_SHA256.fullmatch, sums)):
            raise ManifestError(f"the parts of {path!r} are not valid")
    url = f"{base}{quote(f'{prefix}/{path}', safe='')}?alt=media"
    return Record(
        path=path, size=size, sha256=sha256, part_bytes=part_bytes, sums=sums, url=url, flat=flat
    )


def main() -> None:
    """Read the manifest of the arguments and write its records."""
    state, bucket, prefix, *patterns = sys.argv[1:]
    directory = Path(state)
    try:
        manifest = json.loads((directory / "manifest.json").read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        sys.exit(f"it is not JSON: {error}")
    try:
        found = records(manifest, bucket, prefix, patterns)
    except ManifestError as error:
        sys.exit(str(error))
    (directory / "weights.records").write_text(json.dumps(found), encoding="utf-8")
    total = sum(record["size"] for record in found)
    (directory / "weights.bytes").write_text(str(total), encoding="ascii")


if __name__ == "__main__":
    main()
