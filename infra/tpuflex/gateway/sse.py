"""The events of a streamed answer, cut from the bytes as they come. Nothing here reads or writes.

Most of an answer is handed on as it came: an event is parsed until there is one with content, and
later only where its bytes say that it may be the usage, an error or the end.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

#: Bytes of one event, and of what comes before the first content. The longest real ones have the
#: log probabilities of a whole prompt.
MOST_BYTES = 8 * 1024 * 1024
#: Tokens of a request: what an upstream says beyond that is no count.
_MOST_TOKENS = 10**9
#: A line ends with LF, CR or both; an event with an empty line
#: (https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream).
_END = re.compile(rb"(?>\r\n|\n|\r)(?>\r\n|\n|\r)")
#: The same where there is no CR, as from all servers there are: found ten times as fast.
_LF_END = re.compile(rb"\n\n")
#: Of a choice or its delta, what is there before anything was generated.
_BEFORE = frozenset(("role", "index", "logprobs", "prompt_token_ids", "delta"))


class TooLongError(ValueError):
    """An event does not end."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What an upstream says that a request has used, in tokens."""

    prompt: int
    generated: int

    @classmethod
    def of(cls, document: object) -> Usage | None:
        """The usage in an answer or an event; None where there is none."""
        found = document.get("usage") if isinstance(document, dict) else None
        if not isinstance(found, dict):
            return None
        prompt, generated = found.get("prompt_tokens"), found.get("completion_tokens", 0)
        if type(prompt) is not int or type(generated) is not int:
            return None
        if not (0 <= prompt <= _MOST_TOKENS and 0 <= generated <= _MOST_TOKENS):
            return None
        return cls(prompt, generated)


class StreamedAnswer:
    """One streamed answer.

    Args:
        hand_on_usage: whether the event that has nothing but the usage is handed on.

    Attributes:
        answers: whether there was any part of an answer, if only the role.
        begun: whether there was content, reasoning, a tool call or a reason to finish.
        done: whether its end was there: ``[DONE]``.
        error: the data of the event with which the upstream gave up; None if it did not. Nothing
            that comes after it counts.
        usage: what the upstream says that was used; None as long as it has not.
        events: how many events there were from the first with content on.
    """

    def __init__(self, *, hand_on_usage: bool) -> None:
        self.answers = self.begun = False
        self.done = False
        self.error: bytes | None = None
        self.usage: Usage | None = None
        self.events = 0
        self._bytes = 0
        self._smallest = MOST_BYTES
        self._hand_on_usage = hand_on_usage
        self._rest = bytearray()

    @property
    def ended(self) -> bool:
        """Whether nothing more is handed on."""
        return self.done or self.error is not None

    def take(self, data: bytes) -> bytes:
        """Take what has come. Returns what of it, and of what came before, is handed on: whole
        events.

        Raises:
            TooLongError: an event does not end.
        """
        if self.begun and not self._rest and not self.ended and _is_content(data):
            self._count(data, data.count(b"\n\n"))
            return data
        return b"".join(each for each in self._cut(data) if self._is_handed_on(each))

    def _cut(self, data: bytes) -> Iterator[bytes]:
        # Of the line ends that were looked at already up to three may be part of the end.
        at = max(len(self._rest) - 3, 0)
        self._rest += data
        begin = 0
        event_end = _END if b"\r" in self._rest else _LF_END
        for end in event_end.finditer(self._rest, at):
            yield bytes(self._rest[begin : end.end()])
            begin = end.end()
        del self._rest[:begin]
        if len(self._rest) > MOST_BYTES:
            raise TooLongError(f"an event is longer than {MOST_BYTES} bytes")

    def _is_handed_on(self, event: bytes) -> bool:
        if self.ended:
            return False
        if self.begun and not _may_matter(event):
            self._count(event, 1)
            return True
        name, data = _fields(event)
        if data == b"[DONE]":
            self.done = True
            return True
        try:
            document = json.loads(data) if data else None
        except (ValueError, RecursionError):
            document = None
        if name == b"error" or _is_error(document):
            self.error = data
            return False
        usage = Usage.of(document)
        if usage is not None:
            self.usage = usage
        choices = document.get("choices") if isinstance(document, dict) else None
        if usage is not None and not choices and not self._hand_on_usage:
            return False
        self.answers = self.answers or bool(choices)
        self.begun = self.begun or _has_content(choices)
        if self.begun:
            self._count(event, 1)
        return True

    @property
    def most_tokens(self) -> int:
        """How many tokens have come, at most: one for each event, and one for each byte by which
        events are longer than the shortest, since a server that waits for its reader puts several
        into one event."""
        return self.events + self._bytes - self.events * self._smallest if self.events else 0

    def _count(self, data: bytes, events: int) -> None:
        self.events += events
        self._bytes += len(data)
        self._smallest = min(self._smallest, len(data) // events)


def _is_content(data: bytes) -> bool:
    """Whether ``data`` is whole events, all of them content, as far as bytes show without parsing;
    most of what comes is one such event."""
    return data.endswith(b"\n\n") and not _may_matter(data) and b"\r" not in data


def _may_matter(event: bytes) -> bool:
    """Whether it may be the usage, an error or the end. Within a text quotes are escaped, so that
    ``"usage"`` is a key, or all of a text."""
    return (
        b"error" in event
        or b"[DONE]" in event
        or (b'"usage"' in event and event.count(b'"usage"') > event.count(b'"usage":null'))
    )


def _fields(event: bytes) -> tuple[bytes, bytes]:
    """The event's name, and its data."""
    name, data = b"", []
    for line in event.splitlines():
        field, _, value = line.partition(b":")
        if field == b"data":
            data.append(value.removeprefix(b" "))
        elif field == b"event":
            name = value.strip()
    return name, b"\n".join(data).strip()


def _is_error(document: object) -> bool:
    if not isinstance(document, dict):
        return False
    return bool(document.get("error")) or document.get("object") == "error"


def _has_content(choices: Any) -> bool:
    """Whether something was generated: content, reasoning, a tool call, or a reason to finish."""
    if not isinstance(choices, list):
        return False
    for choice in choices:
        if isinstance(choice, dict) and (_says(choice) or _says(choice.get("delta"))):
            return True
    return False


def _says(part: object) -> bool:
    """Whether a choice or its delta has anything that was generated."""
    if not isinstance(part, dict):
        return False
    return any(value and key not in _BEFORE for key, value in part.items())
