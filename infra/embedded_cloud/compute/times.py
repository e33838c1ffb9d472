"""Points in time as Compute Engine writes them."""

from __future__ import annotations

from datetime import UTC, datetime


def rfc3339_offset(epoch: float) -> str:
    """``epoch`` seconds with milliseconds and a numeric offset.

    Google writes its Pacific offset; ours is always UTC.
    """
    return datetime.fromtimestamp(epoch, UTC).isoformat(timespec="milliseconds")
