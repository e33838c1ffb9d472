"""Texts without what looks like a credential: what a plugin, a log or another program says ends up
on consoles, in CI logs and in reports."""

from __future__ import annotations

import re
from collections.abc import Iterable

from pulumi_plugin.printable import printable

#: What stands in a credential's place.
REMOVED = "[removed]"

_CREDENTIALS = (
    re.compile(r"ya29\.[A-Za-z0-9._-]+"),  # Google OAuth access tokens
    re.compile(r"(?i)bearer\s+[^\s\"',]+"),
    re.compile(r"(?i)(?<=authorization: )basic\s+[^\s\"',]+"),
    re.compile(r"AIza[A-Za-z0-9_-]{20,}"),  # Google API keys
    re.compile(r"1//[A-Za-z0-9_-]{20,}"),  # Google OAuth refresh tokens
    re.compile(r"hf_[A-Za-z0-9]{8,}"),  # Hugging Face tokens
    # OpenAI's keys, Google's OAuth clients, GitHub's, Pulumi's and Slack's tokens
    re.compile(r"\b(?:sk-|GOCSPX-|gh[opsu]_|github_pat_|pul-|xox[abp]-)[\w-]{16,}"),
    re.compile(r"\bAKIA[0-9A-Z]{16}\b"),  # AWS access keys
    re.compile(r"eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+"),  # JSON web tokens
    re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|$)", re.S),
    re.compile(r"(?i)(?<=[?&])(access_token|key|token|signature|x-goog-signature)=[^&\s]+"),
    re.compile(r"(?<=://)[^\s/@:]*:[^\s/@]+(?=@)"),  # user and password of a URL
    # Options and variables by their names
    re.compile(r"(?<=--api-key[ =])[^\s,\]]+"),
    re.compile(
        r"(?i)(?<![a-z])(?:api_key|hf_token|passwo?r?d|passphrase|client_secret|access_token"
        r"|refresh_token|private_key)['\"]?\s*[:=]\s*['\"\[(]*[^\s'\",\])]{8,}"
    ),
)


def scrub(text: str, known: Iterable[str] = ()) -> str:
    """``text`` as it may be shown: without what looks like a credential, and printable.

    Args:
        text: anything. A key of several lines is found as a whole alone: scrub lines together.
        known: secrets that are removed wherever they stand, the longest first.
    """
    for secret in known:
        text = text.replace(secret, REMOVED)
    for pattern in _CREDENTIALS:
        text = pattern.sub(REMOVED, text)
    return printable(text, lines=True)
