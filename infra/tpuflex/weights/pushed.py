"""Which weights this home has pushed, or found equal to their source: a private file.

A manifest in the bucket is not trusted because it lies there. What was pushed from here is
remembered here, so that an `up` after `weights push` needs no other word.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from tpuflex.boot.manifest import SHA256_PATTERN
from tpuflex.files.only_maker import only_maker
from tpuflex.files.trusted import write_private

_FILE = "pushed-weights.json"


class PushedWeights:
    """SHA-256 of the manifest that was last pushed, by bucket and prefix. What is not readable as
    ours says nothing; commands that run side by side lose none of each other's.

    Args:
        home: tpuflex's state directory.
    """

    def __init__(self, home: Path) -> None:
        self._file = home / _FILE

    def get(self, bucket: str, prefix: str) -> str | None:
        """The hash of what was last pushed there from this home; None if nothing was."""
        found = self._read().get(f"{bucket}/{prefix}")
        right = isinstance(found, str) and re.fullmatch(SHA256_PATTERN, found)
        return str(found) if right else None

    def put(self, bucket: str, prefix: str, sha256: str) -> None:
        """Remember that ``sha256`` was pushed there.

        Raises:
            OSError: the file cannot be written.
        """
        with only_maker(self._file):
            known = {**self._read(), f"{bucket}/{prefix}": sha256}
            write_private(self._file, json.dumps(known, indent=1, sort_keys=True))

    def _read(self) -> dict[str, object]:
        try:
            document = json.loads(self._file.read_text("utf-8"))
        except (OSError, ValueError):
            return {}
        return document if isinstance(document, dict) else {}
