"""An error of an API without the call that was refused, which only makes a line long. Pure."""

from __future__ import annotations

import re

#: What such an error begins with, also where the bucket stands before it.
_CALL = re.compile(r"(^|: )[A-Z]+ https?://\S+: ")


def without_call(text: str) -> str:
    """``text`` without method and URL of the call."""
    return _CALL.sub(r"\1", text)
