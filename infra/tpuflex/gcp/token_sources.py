"""Sources of access tokens, and those that are one token from outside."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from tpuflex.gcp.credentials import TOKEN_VARIABLE, Credential, Kind

#: What all tokens of the embedded cloud begin with; Google makes none such.
EMBEDDED_TOKEN = "ya29.tpuflex-embedded"  # noqa: S105 - not a token


class TokenSource(Protocol):
    """Hands out access tokens."""

    def token(self) -> str:
        """A token that is valid now, as far as can be told without asking Google."""

    def refresh(self) -> None:
        """Get a new token, because the API answered 401."""

    def credential(self) -> Credential:
        """What the tokens come from."""


class StaticToken:
    """One token from outside, which cannot be renewed.

    Args:
        token: the token.
        quota_project: project that quota is taken from; empty if the environment names none.
    """

    def __init__(self, token: str, quota_project: str = "") -> None:
        self._token = token
        self._credential = Credential(
            Kind.ACCESS_TOKEN, TOKEN_VARIABLE, quota_project=quota_project
        )

    def token(self) -> str:
        """The token."""
        return self._token

    def refresh(self) -> None:
        """Nothing to renew: the next 401 is reported."""

    def credential(self) -> Credential:
        """What the token comes from."""
        return self._credential


class EmbeddedToken:
    """The embedded cloud's token: another one after each of its starts.

    Args:
        token: the one that the environment gives.
        file: where the running cloud keeps its own; empty if that is not known.
    """

    def __init__(self, token: str, file: str) -> None:
        self._token = token
        self._file = file

    def token(self) -> str:
        """The token."""
        return self._token

    def refresh(self) -> None:
        """Take the one that the cloud has now; without any, the next 401 is reported."""
        try:
            found = Path(self._file).read_text("utf-8") if self._file else ""
        except (OSError, UnicodeDecodeError):
            return
        if found.startswith(EMBEDDED_TOKEN):
            self._token = found

    def credential(self) -> Credential:
        """What the token comes from."""
        return Credential(Kind.ACCESS_TOKEN, TOKEN_VARIABLE)
