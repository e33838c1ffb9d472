"""Texts and documents without secrets, as they may leave this machine or be shown to others."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from pulumi_plugin.credentials import REMOVED, scrub
from tpuflex.errors import NotFoundError, TpuflexError
from tpuflex.files.trusted import open_regular
from tpuflex.settings.secret_shapes import names_secret

if TYPE_CHECKING:
    from tpuflex.stack.connection import Connection

#: More names of variables than settings refuse: to remove too much does no harm here. PWD is none.
_SECRET_VARIABLE = re.compile(r"(?:TOKENS|KEYS|SECRETS|_PASS|_PWD?|_AUTH)$", re.IGNORECASE)
#: Named as if they held a secret; they hold a path, and the address of an API.
_NO_SECRETS = ("GOOGLE_APPLICATION_CREDENTIALS", "CLOUDSDK_API_ENDPOINT_OVERRIDES_IAMCREDENTIALS")
_FILE = "_FILE"
#: Base64 as it stands in URLs and in JSON web tokens.
_URL_SAFE = str.maketrans("+/", "-_")
#: Shorter words are no secrets: they would be removed everywhere. A whole value may be as short as
#: the second length, if it is neither a word nor a number; it is removed where it stands alone.
_SHORTEST, _SHORTEST_WHOLE = 8, 5
#: Bytes of a file with a secret that are read.
_LARGEST = 64 * 1024
#: Characters of a line of a log that are kept.
_LONGEST_LINE = 8 * 1024


class Scrubber:
    """Removes known secrets, in the spellings in which logs have them, and what looks like one.

    Args:
        known: the secrets; one of several lines is removed line by line, too.
    """

    def __init__(self, known: Iterable[str] = ()) -> None:
        values = {text.strip() for text in known}
        words = {word for text in values for word in (text, *text.split())}
        # Of a PEM file, what every one has is no secret.
        words = {word for word in words if len(word) >= _SHORTEST and "----" not in word}
        spelled = {each for word in words for each in _spellings(word)}
        self._known = sorted(spelled, key=len, reverse=True)
        short = [re.escape(text) for text in sorted(values) if _is_short_secret(text)]
        self._short = re.compile(rf"(?<!\w)(?:{'|'.join(short)})(?!\w)") if short else None

    def __call__(self, text: str) -> str:
        """``text`` without them."""
        return scrub(self._without_known(text))

    def lines(self, lines: Iterable[str]) -> tuple[str, ...]:
        """``lines`` without them, scrubbed together: a private key has several."""
        text = self._without_known("\n".join(line.replace("\n", " ") for line in lines))
        cut = "\n".join(line[:_LONGEST_LINE] for line in text.split("\n"))
        return tuple(scrub(cut).split("\n")) if text else ()

    def document(self, value: object, longest: int | None = None) -> Any:
        """A JSON document without them, its texts cut to so many characters."""
        if isinstance(value, str):
            return self(value)[:longest]
        if isinstance(value, Mapping):
            return {self(str(key)): self.document(each, longest) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return [self.document(each, longest) for each in value]
        return value

    def _without_known(self, text: str) -> str:
        for secret in self._known:
            text = text.replace(secret, REMOVED)
        if self._short is not None:
            text = self._short.sub(REMOVED, text)
        unbroken = "".join(text.split())
        for secret in self._known:
            if secret in unbroken:  # with blanks or ends of lines in it
                text = re.sub(r"\s*".join(map(re.escape, secret)), REMOVED, text)
        return text


def _is_short_secret(value: str) -> bool:
    return (
        _SHORTEST_WHOLE <= len(value) < _SHORTEST and not value.isalpha() and not value.isdecimal()
    )


def _spellings(word: str) -> tuple[str, ...]:
    """``word`` as it is, in a URL, in JSON, and in Base64."""
    return (word, quote(word, safe=""), json.dumps(word)[1:-1], *_in_base64(word))


def _in_base64(word: str) -> Iterable[str]:
    """What the Base64 of any text with ``word`` in it has, such as that of ``user:word``: it may
    begin at each of three places in a group of letters."""
    content = word.encode("utf-8", "replace")
    for before in range(3):
        letters = base64.b64encode(bytes(before) + content).decode()
        begin, end = -(-before * 8 // 6), (before + len(content)) * 8 // 6
        yield letters[begin:end]
        yield letters[begin:end].translate(_URL_SAFE)


def secrets_in(environ: Mapping[str, str]) -> list[str]:
    """The secrets of an environment: the values of variables that are named like secrets, and the
    content of files that such variables name."""
    found = []
    for name, value in environ.items():
        if name in _NO_SECRETS:
            continue
        if _is_secret(name):
            found.append(value)
        elif name.endswith(_FILE) and _is_secret(name.removesuffix(_FILE)):
            with suppress(OSError, ValueError), open_regular(Path(value).expanduser()) as file:
                found.append(file.read(_LARGEST).decode("utf-8", "replace"))
    return found


def _is_secret(variable: str) -> bool:
    return names_secret(variable) or _SECRET_VARIABLE.search(variable) is not None


def scrubber_of(cloud: Connection) -> tuple[Scrubber, tuple[str, ...]]:
    """What removes the secrets of a stack and of the caller's environment; and the names of secrets
    of the stack that could not be read, which are removed only if they look like credentials."""
    values = [*secrets_in(cloud.environ), cloud.hub_token]
    unread = []
    for role in cloud.stack.settings.secrets.roles:
        try:
            values.append(cloud.secrets.access(cloud.secret_version(role)))
        except NotFoundError:
            continue
        except TpuflexError:
            unread.append(str(role))
    return Scrubber(values), tuple(unread)
