"""Texts without what looks like a credential: what a plugin, a log or another program says ends up
on consoles, in CI logs and in reports.

Others choose these texts, so no pattern may read a run of letters twice: whether a run is a token
is decided after it was matched.
"""

from __future__ import annotations

import re

from pulumi_plugin.printable import printable

#: What stands in a credential's place.
REMOVED = "[removed]"
#: Length of a part that is no word, and of one with a digit in it.
_LONG, _LONG_WITH_DIGIT = 16, 8

_SHAPES = (
    re.compile(  # a private key, also one that the text breaks off in
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,10}-----.*?"
        r"(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,10}-----|\Z)",
        re.DOTALL,
    ),
    re.compile(r"ya29\.[\w.-]{8,}"),  # Google OAuth access tokens
    # A placeholder of documentation is no token: `$KEY`, or a short word.
    re.compile(r"(?i)bearer\s+[^\s\"',$<{][^\s\"',]{7,}"),
    re.compile(r"(?i)(?<=authorization: )basic\s+[^\s\"',$<{][^\s\"',]*"),
    re.compile(r"AIza[\w-]{16,}"),  # Google API keys
    re.compile(r"GOCSPX-[\w-]{16,}"),  # Google OAuth clients
    re.compile(r"1//[\w-]{20,}"),  # Google OAuth refresh tokens
    # GitHub, GitLab, Slack, Docker, Pulumi, AWS
    re.compile(r"gh[oprsu]_[A-Za-z0-9]{16,}|github_pat_\w{16,}"),
    re.compile(r"glpat-[\w-]{16,}|xox[abeprs]-[\w-]{8,}|dckr_pat_[\w-]{16,}"),
    re.compile(r"(?<![A-Za-z0-9])pul-[\w-]{16,}"),
    re.compile(r"\bA[KS]IA[A-Z0-9]{12,}"),
    re.compile(r"eyJ[\w-]{10,}[\w.=-]*"),  # JSON in Base64: JSON web tokens, and their parts
    re.compile(r"v1:[A-Za-z0-9+/]{11,}=*:[A-Za-z0-9+/]{16,}=*"),  # what Pulumi has encrypted
    re.compile(r"(?i)(?<=[?&])(?:access_token|key|token|signature|x-goog-signature)=[^&\s]+"),
    re.compile(r"(?<=://)[^\s/@]+(?=@)"),  # who logs in, and how, in a URL
    # Options and variables by their names
    re.compile(r"(?<=--api-key[ =])[^\s,\]$<{][^\s,\]]*"),
    re.compile(
        r"(?i)(?<![a-z])(?:api_key|hf_token|passwo?r?d|passphrase|client_secret|access_token"
        r"|refresh_token|private_key)['\"]?\s*[:=]\s*['\"\[(]*[^\s'\",\])]{8,}"
    ),
)
#: Tokens of OpenAI and others, and of Hugging Face; names of models and variables begin so, too.
_MAYBE_TOKEN = re.compile(r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))sk-[\w-]+|hf_[\w-]+")
_KEY_KINDS = ("sk-proj-", "sk-ant-", "sk-svcacct-", "sk-admin-", "sk-or-")
#: A line of a private key whose first line the text does not have; or a digest.
_MAYBE_KEY_LINE = re.compile(r"(?<![A-Za-z0-9+/=])[A-Za-z0-9+/]{64}(?![A-Za-z0-9+/=])")


def scrub(text: str) -> str:
    """``text`` as it may be shown: without what looks like a credential, and printable.

    A key of several lines is only found in a text that has all of them.
    """
    return printable(without_credentials(text), lines=True)


def without_credentials(text: str, mark: str = REMOVED) -> str:
    """``text`` with ``mark`` in the place of what looks like a credential."""
    for pattern in _SHAPES:
        text = pattern.sub(lambda _: mark, text)
    text = _MAYBE_TOKEN.sub(lambda found: mark if _is_token(found[0]) else found[0], text)
    return _MAYBE_KEY_LINE.sub(lambda found: mark if _is_key_line(found[0]) else found[0], text)


def holds_credential(text: str) -> bool:
    """Whether anything in ``text`` looks like a credential."""
    return without_credentials(text, "\0") != text


def _is_token(run: str) -> bool:
    """Whether what follows the prefix of ``run`` is random, rather than words."""
    body = run[3:]
    if len(body) >= _LONG and run.startswith(_KEY_KINDS):
        return True
    if run.startswith("sk-") and len(body) < _LONG:
        return False
    return any(
        len(part) >= _LONG or (len(part) >= _LONG_WITH_DIGIT and _has_digit(part))
        for part in re.split(r"[-_]", body)
    )


def _is_key_line(run: str) -> bool:
    """Whether ``run`` is Base64, rather than a digest in hexadecimal."""
    return _has_digit(run) and not run.islower() and not run.isupper()


def _has_digit(text: str) -> bool:
    return any(map(str.isdigit, text))
