"""What may leave this machine, or be shown to many: texts and documents without secrets."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from pulumi_plugin.credentials import scrub
from tpuflex.errors import NotFoundError, TpuflexError

if TYPE_CHECKING:
    from tpuflex.stack.connection import Connection

#: Names of variables whose values are secrets.
_SECRET_VARIABLE = re.compile(r"(?:TOKEN|SECRET|PASSWORD|PASSPHRASE|_PASS|_KEY)$", re.IGNORECASE)
#: Shorter words are no secrets: they would be removed everywhere.
_SHORTEST = 8


class Scrubber:
    """Removes known secrets, in the spellings that logs give them, and what looks like one.

    Args:
        known: the secrets; one of several lines is removed line by line, too.
    """

    def __init__(self, known: Iterable[str] = ()) -> None:
        words = {word for text in known for word in (text.strip(), *text.split())}
        # Of a PEM file, what every one has is no secret.
        words = {word for word in words if len(word) >= _SHORTEST and "----" not in word}
        spelled = {each for word in words for each in _spellings(word)}
        self._known = sorted(spelled, key=len, reverse=True)

    def __call__(self, text: str) -> str:
        """``text`` without them."""
        return scrub(text, self._known)

    def lines(self, lines: Iterable[str]) -> tuple[str, ...]:
        """``lines`` without them, scrubbed together: a key has several."""
        text = "\n".join(line.replace("\n", " ") for line in lines)
        return tuple(self(text).split("\n")) if text else ()

    def document(self, value: object) -> object:
        """A JSON document without them."""
        if isinstance(value, str):
            return self(value)
        if isinstance(value, Mapping):
            return {self(str(key)): self.document(each) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return [self.document(each) for each in value]
        return value


def _spellings(word: str) -> tuple[str, ...]:
    """``word`` as it is, in a URL, in JSON, and in Base64."""
    encoded = base64.b64encode(word.encode("utf-8", "replace")).decode()
    return (word, quote(word, safe=""), json.dumps(word)[1:-1], encoded.rstrip("="))


def scrubber_of(cloud: Connection) -> tuple[Scrubber, tuple[str, ...]]:
    """What removes the secrets of a stack, and of the caller's environment; and the secrets of the
    stack whose values could not be read, which only their looks can give away."""
    values = [text for name, text in cloud.environ.items() if _SECRET_VARIABLE.search(name)]
    values.append(cloud.hub_token)
    with suppress(OSError, KeyError):
        file = Path(cloud.environ["CLOUDSDK_AUTH_ACCESS_TOKEN_FILE"])
        values.append(file.read_text("utf-8", "replace"))
    unread = []
    for role in cloud.stack.settings.secrets.roles:
        try:
            values.append(cloud.secrets.access(cloud.secret_version(role)))
        except NotFoundError:
            continue
        except TpuflexError:
            unread.append(str(role))
    return Scrubber(values), tuple(unread)
