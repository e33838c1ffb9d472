"""Rules about the key that encrypts what a stack makes."""

from __future__ import annotations

from collections.abc import Iterator

from tpuflex.errors import Finding
from tpuflex.settings.model import Draft, StackSettings

_KEY = "tpuflex:encryption.kms_key"


def encryption_findings(draft: Draft) -> Iterator[Finding]:
    """What keeps the key from being used. Each of the services takes keys of the place alone where
    its data is, and everything of a stack is in one region:
    https://cloud.google.com/storage/docs/encryption/customer-managed-keys,
    https://cloud.google.com/secret-manager/docs/cmek, https://cloud.google.com/tpu/docs/cmek-tpu.
    """
    if draft.encryption is None or draft.slice is None:
        return
    location, regions = draft.encryption.location, draft.slice.regions
    # A key with zones in several regions is refused with these (region_rules).
    if location and len(regions) == 1 and location != regions[0]:
        region = regions[0]
        yield Finding(
            _KEY,
            f"the key is in {location}, and what it is to encrypt is in {region}",
            f"Write a key in {region}.",
        )


def encryption_warnings(settings: StackSettings) -> Iterator[Finding]:
    """What somebody who asks for a key may not expect."""
    weights = settings.model.weights
    if settings.encryption.kms_key is None or weights.bucket == "own":
        return
    home = "the library" if weights.brought is None else weights.brought.url
    yield Finding(
        _KEY,
        f"it does not encrypt the weights: they are kept in {home}, which the stack does not make",
        "Write tpuflex:model.weights.bucket: own, or a bucket of yours with a key of its own.",
    )
