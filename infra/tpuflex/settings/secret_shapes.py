"""What secrets look like, by the names of variables and wherever their values stand. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

_NAME = re.compile(r"(TOKEN|KEY|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?)$", re.IGNORECASE)
#: Tokens of Hugging Face, OpenAI, GitHub, Google, GitLab, Slack and AWS. The name of a model may
#: begin like one, and goes on in words.
_SHAPES = (
    r"hf_[A-Za-z0-9]{6,}(?!\w)|sk-(?=[\w-]*\d)(?=[\w-]*[A-Z])[\w-]{16,}|gh[opsu]_[A-Za-z0-9]{16,}"
    r"|github_pat_\w{16,}|AIza[\w-]{16,}|ya29\.[\w.-]{8,}|glpat-[\w-]{16,}|xox[abp]-[\w-]{8,}"
    r"|AKIA[A-Z0-9]{12,}"
)
#: Such a token, a private key, or who logs in, and how, in an address.
_VALUE = re.compile(
    rf"(?<![A-Za-z0-9])(?:{_SHAPES})|-----BEGIN [^-]{{1,40}}-----|(?<=://)[^/\s@]{{1,300}}(?=@)"
)


def names_secret(variable: str) -> bool:
    """Whether ``variable`` is named as those are that hold a secret."""
    return _NAME.search(variable) is not None


def holds_secret(value: object) -> bool:
    """Whether ``value``, or anything in it, looks like a secret."""
    match value:
        case str():
            return _VALUE.search(value) is not None
        case Mapping():
            return any(holds_secret(each) for pair in value.items() for each in pair)
        case list() | tuple():
            return any(map(holds_secret, value))
    return False


def masked(text: str) -> str:
    """``text`` without what looks like a secret."""
    return _VALUE.sub("…", text)
