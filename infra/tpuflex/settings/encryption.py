"""The section ``tpuflex:encryption``: the key with which data at rest is encrypted."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import Field

from tpuflex.queued_resource.limits import PROJECT_PATTERN
from tpuflex.settings.base import Frozen, Remedy

#: https://cloud.google.com/kms/docs/resource-hierarchy; a domain may precede an old project's id.
_ID = r"[A-Za-z0-9_-]{1,63}"
KEY_PATTERN = (
    rf"^projects/(?:[a-z0-9.-]{{1,60}}:)?{PROJECT_PATTERN}/locations/[a-z0-9-]{{2,40}}"
    rf"/keyRings/{_ID}/cryptoKeys/{_ID}$"
)
_LOCATION = re.compile(r"^projects/[^/]+/locations/(?P<location>[^/]+)/")


class EncryptionSettings(Frozen):
    """With which key of yours data at rest is encrypted; with Google's own by default."""

    kms_key: Annotated[
        Annotated[str, Field(pattern=KEY_PATTERN)] | None,
        Remedy(
            "Write projects/PROJECT/locations/REGION/keyRings/RING/cryptoKeys/KEY, without a"
            " version."
        ),
    ] = None
    """A key of yours in Cloud KMS, in the region of the zones:
    `projects/PROJECT/locations/REGION/keyRings/RING/cryptoKeys/KEY`. It encrypts what the stack
    makes: bucket, secrets, and the hosts' boot disks. It is
    neither made, changed nor deleted, and nobody is granted anything on it."""

    @property
    def location(self) -> str:
        """Where the key is; empty without one."""
        found = _LOCATION.match(self.kms_key or "")
        return found["location"] if found else ""
