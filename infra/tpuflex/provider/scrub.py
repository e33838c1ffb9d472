"""Takes credentials out of text that leaves the provider.

Whatever a provider says ends up on the console and in CI logs.
"""

from __future__ import annotations

import re

_PATTERNS = (
    re.compile(r"ya29\.[A-Za-z0-9._-]+"),  # Google OAuth access tokens
    re.compile(r"(?i)bearer\s+[^\s\"',]+"),
    re.compile(r"AIza[A-Za-z0-9_-]{20,}"),  # Google API keys
    re.compile(r"1//[A-Za-z0-9_-]{20,}"),  # Google OAuth refresh tokens
    re.compile(r"hf_[A-Za-z0-9]{8,}"),  # Hugging Face tokens
    re.compile(r"eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+"),  # JSON web tokens
    re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|$)", re.S),
    re.compile(r"(?i)(?<=[?&])(access_token|key|token|signature|x-goog-signature)=[^&\s]+"),
)


def scrub(text: str) -> str:
    """``text`` with everything that looks like a credential replaced."""
    for pattern in _PATTERNS:
        text = pattern.sub("[removed]", text)
    return text
