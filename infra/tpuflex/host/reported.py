"""What a host reports as JSON in guest attributes.

Whoever is root on the host writes it, so nothing in it is trusted to be of the right kind.
"""

from __future__ import annotations

import json
from typing import Any

#: No count is larger: what is was not counted.
MOST = 2**53


def reported_object(text: str) -> dict[str, Any] | None:
    """The JSON object in ``text``; None where it is empty or cannot be read."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):  # numbers of thousands of digits, lists in lists
        return None
    return document if isinstance(document, dict) else None


def reported_count(value: object) -> int:
    """``value`` as a count; 0 if it is none."""
    return value if type(value) is int and 0 <= value <= MOST else 0
