"""Codes of the provider's failures and notes, for programs.

The engine hands on nothing of a failure but its text. So the provider appends the code to the
text, as ` [waiting]`; :mod:`tpuflex.engine.events` takes it off again, and what reacts to a failure
asks for the code, never for the words. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum


class Code(StrEnum):
    """Why the provider gave up, or what a note is about.

    Of several, the first in this order decides. What no code fits has none: Google's own words,
    mostly.

    Attributes:
        meaning: the code in a sentence, for docs/lifecycle.md.
    """

    meaning: str

    def __new__(cls, value: str, meaning: str) -> Code:
        member = str.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        return member

    WAITING = ("waiting", "a deadline passed while it was waited for; the request is kept")
    CAPACITY = ("capacity", "the request failed: a stock-out, or not granted while it was valid")
    RUN_OVER = ("run-over", "the run was over before, and no other one is requested unasked")
    RUN_ENDED = ("run-ended", "the run ended while it was waited for")
    NOT_GONE = ("not-gone", "what is being deleted was not gone at the deadline")
    PROTECTED = ("protected", "refused, because it is ACTIVE and `deletion_protection` is on")
    NOT_SERVING = (
        "not-serving",
        "what is to take over does not serve; what serves until then was not touched",
    )
    NAME_TAKEN = ("name-taken", "the name belongs to somebody else")
    QUOTA = ("quota", "a quota is missing or used up")
    PERMISSION = ("permission", "Google refuses: a permission is missing")
    STOPPED = ("stopped", "the engine was told to stop; the request is kept")


_BY_VALUE = {code.value: code for code in Code}
_SUFFIX = re.compile(rf"\s\[(?P<code>{'|'.join(_BY_VALUE)})\]\s*$")


def with_code(text: str, code: Code | None) -> str:
    """``text`` with ``code`` appended, if there is one."""
    return text if code is None else f"{text} [{code}]"


def split_code(text: str) -> tuple[str, Code | None]:
    """The text and the code of what :func:`with_code` has made, or ``text`` as it is."""
    match = _SUFFIX.search(text)
    if match is None:
        return text, None
    return text[: match.start()].rstrip(), _BY_VALUE[match["code"]]


def deciding_code(codes: Iterable[Code | None]) -> Code | None:
    """The one of ``codes`` that decides; None if there is none."""
    order = [*Code]
    return min((code for code in codes if code is not None), key=order.index, default=None)
