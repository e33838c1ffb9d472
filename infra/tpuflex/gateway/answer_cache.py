"""Answers that were given before, for routes with `cache: true`."""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

#: Bytes and number of all answers that are kept, and bytes of one.
_MOST_BYTES = 64 * 1024 * 1024
_MOST_ANSWERS = 10_000
_LONGEST = 1024 * 1024
#: Seconds that an answer is kept: the model behind a name may be replaced.
_KEPT_S = 3600.0


@dataclass(frozen=True, slots=True)
class CachedAnswer:
    """An answer as the upstream gave it.

    Attributes:
        body: its body.
        content_type: what that is.
    """

    body: bytes
    content_type: str


def cache_key(client: str, path: str, document: Mapping[str, Any]) -> bytes | None:
    """What identical requests of a client have in common; None for a request whose answer may
    differ each time, or is streamed.

    Args:
        client: name of the client: no other gets its answers.
        path: where it is asked for.
        document: what is asked for, with the parameters of its class.
    """
    temperature = document.get("temperature")
    if document.get("stream") or temperature is None or temperature != 0:
        return None
    asked = json.dumps([client, path, document], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(asked.encode()).digest()


class AnswerCache:
    """Answers by the key of their requests; the least recently used go first."""

    def __init__(self) -> None:
        self._answers: OrderedDict[bytes, tuple[CachedAnswer, float]] = OrderedDict()
        self._bytes = 0

    def find(self, key: bytes, now: float) -> CachedAnswer | None:
        """The answer that was given; None if there is none, or it is old."""
        found = self._answers.get(key)
        if found is None:
            return None
        answer, kept_until = found
        if now >= kept_until:
            self._forget(key)
            return None
        self._answers.move_to_end(key)
        return answer

    def keep(self, key: bytes, answer: CachedAnswer, now: float) -> None:
        """Keep the answer to a request that ended well."""
        if len(answer.body) > _LONGEST:
            return
        self._forget(key)
        self._answers[key] = (answer, now + _KEPT_S)
        self._bytes += len(answer.body)
        while self._bytes > _MOST_BYTES or len(self._answers) > _MOST_ANSWERS:
            self._forget(next(iter(self._answers)))

    def _forget(self, key: bytes) -> None:
        found = self._answers.pop(key, None)
        if found is not None:
            self._bytes -= len(found[0].body)
