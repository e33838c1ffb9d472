"""Which weights this home has pushed, or found equal to their source: a private file.

A manifest in the bucket is not trusted because it lies there. What was pushed from here is
remembered here, so that an `up` after `weights push` needs no other word.
"""

from __future__ import annotations

import re
from pathlib import Path

from tpuflex.boot.manifest import SHA256_PATTERN
from tpuflex.operate.private_notes import PrivateNotes

_FILE = "pushed-weights.json"


class PushedWeights:
    """SHA-256 of the manifest that was last pushed, by bucket and prefix.

    Args:
        home: tpuflex's state directory.
    """

    def __init__(self, home: Path) -> None:
        self._notes = PrivateNotes(home / _FILE)

    def get(self, bucket: str, prefix: str) -> str | None:
        """The hash of what was last pushed there from this home; None if nothing was."""
        found = self._notes.get(bucket, prefix)
        return found if found is not None and re.fullmatch(SHA256_PATTERN, found) else None

    def put(self, bucket: str, prefix: str, sha256: str) -> None:
        """Remember that ``sha256`` was pushed there.

        Raises:
            OSError: the file cannot be written.
        """
        self._notes.put(bucket, prefix, sha256)
