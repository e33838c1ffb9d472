"""Ask a server for what it will serve, before others do.

Run by the startup script: ``warmup.py URL CERTIFICATE MODEL TOKENS SEQUENCES SECONDS``, with the
key on standard input and ``routes.py`` and ``warmup_requests.py`` beside it. What is compiled or
allocated at a first use is then there when the first user comes. Ends with 0 and a line of what was
asked, also where SECONDS were over before or a request was refused; whether the server still serves
is for others to find out.
"""

from __future__ import annotations

import http.client
import json
import os
import queue
import sys
import threading
import time
from collections.abc import Sequence

from routes import Server
from warmup_requests import Round, ask_all

#: How a stream begins in which a server reports that it has failed.
_FAILED_STREAM = b'data: {"error"'


class TimeOverError(Exception):
    """The time was over."""


class WarmUp:
    """Asks a server.

    Args:
        url: its address.
        certificate: file with its certificate; empty without TLS.
        key: what it wants to be shown.
        seconds: how long to go on.

    Attributes:
        answered: how many requests were answered.
        refused: the answers that were none, such as ``500``, with how many there were of each.
    """

    def __init__(self, url: str, certificate: str, key: str, seconds: float) -> None:
        self._url, self._certificate = url, certificate
        self._until = time.monotonic() + seconds
        self._headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        self.answered = 0
        self.refused: dict[str, int] = {}

    def longest(self) -> int:
        """How many tokens a request may have with its answer; 0 if the server does not say.

        Raises:
            TimeOverError: the time was over first.
        """
        ((_, body),) = self._answers("GET", "/v1/models", [None])
        try:
            return int(json.loads(body)["data"][0]["max_model_len"])
        except (ValueError, LookupError, TypeError, RecursionError):
            return 0

    def send(self, asked: Round) -> float:
        """The seconds until all were answered.

        Raises:
            TimeOverError: the time was over first.
        """
        began = time.monotonic()
        contents = [json.dumps(document).encode() for document in asked.documents]
        for status, body in self._answers("POST", asked.path, contents):
            self.answered += 1
            if status == "200" and body.startswith(_FAILED_STREAM):
                status = "an error"
            if status != "200":
                # A base model has no chat template, a small vocabulary not all ids.
                self.refused[status] = self.refused.get(status, 0) + 1
        return time.monotonic() - began

    def _answers(
        self, method: str, path: str, contents: Sequence[bytes | None]
    ) -> list[tuple[str, bytes]]:
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeOverError
        answers: queue.SimpleQueue[tuple[str, bytes]] = queue.SimpleQueue()

        def one(content: bytes | None) -> None:
            try:
                server = Server(self._url, self._certificate, seconds=left + 5)
                status, body = server.ask(method, path, self._headers, content)
                answers.put((str(status), body))
            except (OSError, http.client.HTTPException) as error:
                answers.put((type(error).__name__, b""))

        for content in contents:
            threading.Thread(target=one, args=(content,), daemon=True).start()
        found = []
        for _ in contents:
            try:
                found.append(answers.get(timeout=max(0.0, self._until - time.monotonic())))
            except queue.Empty:
                raise TimeOverError from None
        return found


def warm_up(warm: WarmUp, model: str, tokens: int, sequences: int) -> list[str]:
    """Ask until all is asked or the time is over; what came of it, in words."""
    said: list[str] = []
    try:
        for words in ask_all(warm.send, warm.longest(), model, tokens, sequences):
            said.append(words)
    except TimeOverError:
        said.append("the time was over")
    return said


def main() -> None:
    """See above."""
    url, certificate, model, tokens, sequences, seconds = sys.argv[1:]
    key = sys.stdin.readline().strip()
    warm = WarmUp(url, certificate, key, float(seconds))
    began = time.monotonic()
    said = warm_up(warm, model, int(tokens), int(sequences))
    said.insert(0, f"{warm.answered} requests in {time.monotonic() - began:.1f} s")
    said += [f"{count} answered with {status}" for status, count in sorted(warm.refused.items())]
    sys.stdout.write(", ".join(said) + "\n")
    sys.stdout.flush()
    # Not waiting for requests that go on.
    os._exit(0)


if __name__ == "__main__":
    main()
