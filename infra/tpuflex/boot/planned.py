"""Which weights a node was made for, read back from its metadata: the state's, or the cloud's."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from tpuflex.boot.manifest import SHA256_PATTERN
from tpuflex.host.report import CONFIG_KEY


@dataclass(frozen=True, slots=True)
class PlannedWeights:
    """The weights that a node's configuration names.

    Attributes:
        bucket: bucket name; of several, that in the stack's home.
        prefix: prefix of their objects.
        manifest_sha256: SHA-256 of their manifest.
        copies: the buckets of other regions with the same weights: a host reads that of its own.
    """

    bucket: str
    prefix: str
    manifest_sha256: str
    copies: frozenset[str] = frozenset()

    def holds(self, bucket: str) -> bool:
        """Whether ``bucket`` is one that the node reads, or might have in another region."""
        return bucket == self.bucket or bucket in self.copies


def planned_weights(metadata: object) -> PlannedWeights | None:
    """The weights that ``metadata`` of a node names; None where it is not ours, or not readable."""
    text = metadata.get(CONFIG_KEY) if isinstance(metadata, Mapping) else None
    try:
        weights = json.loads(str(text))["weights"]
        bucket, prefix = weights["bucket"], weights["prefix"]
        sha256 = weights["manifest_sha256"]
        copies = frozenset(weights.get("buckets", {}).values()) - {bucket}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    if not all(isinstance(each, str) for each in (bucket, prefix, sha256, *copies)):
        return None
    if not re.fullmatch(SHA256_PATTERN, sha256):
        return None
    return PlannedWeights(bucket, prefix, sha256, copies)
