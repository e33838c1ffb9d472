"""What names a person, a project or a machine is replaced before evidence leaves this one. Pure.

The replacement keeps what is the same the same: each distinct value gets a number of its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial

#: Replaced wherever they occur, in this order. Documentation ranges and loopback tell nothing.
_PATTERNS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("PEM", re.compile(r"-----BEGIN [A-Z ]+-----.*?-----END [A-Z ]+-----", re.DOTALL)),
    (
        "TOKEN",
        re.compile(r"\bya29\.[\w.-]{8,}|\beyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*|\b1//[\w-]{16,}"),
    ),
    ("KEY", re.compile(r"\b(?:sk-|hf_|AIza|GOCSPX-)[\w-]{16,}")),
    ("SSH-KEY", re.compile(r"\b(?:ssh-(?:rsa|ed25519)|ecdsa-sha2-\S+) [A-Za-z0-9+/=]{40,}")),
    # A session of an upload lets anyone who knows it write.
    ("UPLOAD", re.compile(r"(?<=upload_id=)[\w%.~-]+")),
    ("EMAIL", re.compile(r"\b[\w.+-]+(?:@|%40)(?:[\w-]+\.)+[a-z]{2,}\b", re.IGNORECASE)),
    ("BILLING", re.compile(r"\b[0-9A-F]{6}-[0-9A-F]{6}-[0-9A-F]{6}\b", re.IGNORECASE)),
    (
        "ADDRESS",
        re.compile(r"(?<![\d.])(?!127\.|169\.254\.169\.254)(?:\d{1,3}\.){3}\d{1,3}(?![\d.])"),
    ),
    (
        "ADDRESS",
        re.compile(
            r"(?<![\w:])(?:[0-9a-f]{1,4}:){3,7}(?::?[0-9a-f]{1,4})+(?![\w:])", re.IGNORECASE
        ),
    ),
    (
        "NUMBER",
        re.compile(
            r"(?<=projects/)\d{6,}|(?<=service-)\d{6,}|(?<=organizations/)\d+|(?<=folders/)\d+"
            r"|(?<=projectNumber\": \")\d+|(?<=projectNumber\":\")\d+"
        ),
    ),
)


class Scrubber:
    """Replaces what is private; the same value always by the same word.

    Args:
        known: values that are private here (project id, project number, user, home directory),
            by the word that takes their place.
    """

    def __init__(self, known: Mapping[str, str]) -> None:
        longest_first = sorted(known.items(), key=lambda item: -len(item[1]))
        self._known = [(word, value) for word, value in longest_first if len(value) > 1]
        self._numbers: dict[str, dict[str, int]] = {}

    def __call__(self, text: str) -> str:
        """``text`` without private values."""
        for word, value in self._known:
            text = re.sub(rf"(?<![A-Za-z0-9]){re.escape(value)}(?![A-Za-z0-9])", word, text)
        for word, pattern in _PATTERNS:
            text = pattern.sub(partial(self._word, word), text)
        return text

    def _word(self, word: str, match: re.Match[str]) -> str:
        numbers = self._numbers.setdefault(word, {})
        return f"{word}-{numbers.setdefault(match[0], len(numbers) + 1)}"
