"""Which weights this home has pushed, or found equal to their source: a private file; and which
sets are a stack's own for that.

A manifest in the bucket is not trusted because it lies there. What was pushed from here is
remembered here, so that an `up` after `weights push` needs no other word."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

from tpuflex.boot.manifest import SHA256_PATTERN
from tpuflex.files.trusted import creation_lock, write_private

if TYPE_CHECKING:
    from tpuflex.boot.planned import PlannedWeights
    from tpuflex.weights.stack_weights import StackWeights
    from tpuflex.weights.stored_set import FoundManifest

_FILE = "pushed-weights.json"


class PushedWeights:
    """SHA-256 of the manifest that was last pushed, by bucket and prefix. A file that cannot be
    read counts as empty; commands that run side by side lose none of each other's.

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
        with creation_lock(self._file):
            known = {**self._read(), f"{bucket}/{prefix}": sha256}
            write_private(self._file, json.dumps(known, indent=1, sort_keys=True))

    def _read(self) -> dict[str, object]:
        try:
            document = json.loads(self._file.read_text("utf-8"))
        except (OSError, ValueError):
            return {}
        return document if isinstance(document, dict) else {}


def remember(weights: StackWeights, manifest_sha256: str) -> None:
    """Remember that the weights with this manifest are the right ones for the stack's place in
    its bucket."""
    place = weights.prefix
    known = PushedWeights(weights.stack.own_files)
    if known.get(weights.bucket, place) != manifest_sha256:
        known.put(weights.bucket, place, manifest_sha256)


def is_own(
    weights: StackWeights, served: PlannedWeights | None, found: FoundManifest | None
) -> bool:
    """Whether the set of the manifest ``found`` in the place of ``weights`` is the stack's own: one
    that it has served, or that was pushed there from here. By place and name alone it may be a
    colleague's.

    Args:
        weights: the stack's weights, in one of its regions.
        served: the weights that the slice in the state was made for.
        found: what is there; None for files without a manifest, which are the stack's where its
            weights were.
    """
    if found is None:
        return _was_there(weights, served)
    return found.sha256 in known_manifests(weights, served)


def known_manifests(weights: StackWeights, served: PlannedWeights | None) -> frozenset[str]:
    """SHA-256 of the manifests that are the stack's own in the bucket of ``weights``. What is the
    stack's in its home is it in every region, which the home's is copied to.

    Args:
        weights: the stack's weights, in one of its regions.
        served: the weights that the slice in the state was made for.
    """
    home = weights.cloud.bucket
    prefix = weights.prefix
    pushed = PushedWeights(weights.stack.own_files)
    known = {pushed.get(bucket, prefix) for bucket in (weights.bucket, home)}
    if (
        served is not None
        and served.prefix == prefix
        and (served.holds(weights.bucket) or served.holds(home))
    ):
        known.add(served.manifest_sha256)
    return frozenset(each for each in known if each)


def _was_there(weights: StackWeights, served: PlannedWeights | None) -> bool:
    """Whether weights of the stack were ever in the bucket of ``weights``."""
    prefix = weights.prefix
    if served is not None and served.prefix == prefix and served.holds(weights.bucket):
        return True
    return PushedWeights(weights.stack.own_files).get(weights.bucket, prefix) is not None
