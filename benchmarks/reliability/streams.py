"""Clients that stream completions all the time from whatever address `status` names.

A client keeps an address for as long as it is answered there. Where it is refused (503, or nobody
listens) it reads the address again and asks once more, at once; a second refusal is a failure.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import requests

from tpuflex.errors import TpuflexError
from tpuflex.operate.endpoint_connection import direct_session

Json = dict[str, Any]

#: How a request ended. Cut: it was answered 200 and did not come to its end.
WHOLE, CUT, REFUSED, FAILED = "whole", "cut", "refused", "failed"
CLIENTS = 3
#: Between two requests of a client: a server that never rests leaves no processor on a small
#: machine for the one that boots to take over from it.
_THINKS_S = 2.0
#: Tokens of a stream, between these; each has as many as it asks for, whatever the model says.
TOKENS = (30, 120)
#: Seconds to get a connection, and between two pieces of an answer.
_TIMEOUT = (5.0, 200.0)
_SAMPLE_S = 0.5
#: How often a request is asked at most, each time where the status says.
_TRIES = 2
#: After a failure: a client that is refused everywhere must not fill the machine.
_PAUSE_S = 0.5
#: No client goes on for longer.
_LONGEST_S = 1_200.0


@dataclass(frozen=True, slots=True)
class Stream:
    """One request: where it was asked last, and how it ended, which is never refused."""

    began: float
    ended: float
    address: str
    outcome: str
    said: str = ""
    refusals: int = 0


@dataclass(frozen=True, slots=True)
class Sample:
    """What was named at a moment."""

    at: float
    endpoint: str
    said: str = ""


class Reader(Protocol):
    """What clients know of the stack (:class:`reliability.status_reader.StatusReader`)."""

    @property
    def key(self) -> str:
        """The endpoint's key."""

    @property
    def model(self) -> str:
        """Name of the model that is served."""

    def endpoint(self) -> str:
        """The address that serves; empty for none."""


@dataclass
class Clients:
    """The clients of one stack, and what they have met."""

    reader: Reader
    streams: list[Stream] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    _over: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def running(self) -> Iterator[None]:
        """While the block runs, requests are made; those that are open then come to their end."""
        works = [self._sample, *[lambda n=n: self._ask(n) for n in range(CLIENTS)]]
        threads = [threading.Thread(target=work, daemon=True) for work in works]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._over.set()
            for thread in threads:
                thread.join(_TIMEOUT[1] + 60)

    def of(self, outcome: str) -> list[Stream]:
        """The requests that ended so."""
        return [each for each in self.streams if each.outcome == outcome]

    def seconds(self, counts: Callable[[Sample], bool]) -> float:
        """For how long the samples were such that ``counts``."""
        pairs = zip(self.samples, self.samples[1:], strict=False)
        return sum(later.at - each.at for each, later in pairs if counts(each))

    def _sample(self) -> None:
        while not self._over.is_set():
            said, endpoint = "", ""
            try:
                endpoint = self.reader.endpoint()
            except TpuflexError as error:
                said = error.message
            self.samples.append(Sample(time.monotonic(), endpoint, said))
            self._over.wait(_SAMPLE_S)

    def _ask(self, number: int) -> None:
        chance = random.Random(number)  # noqa: S311 - the same in every run
        end, address = time.monotonic() + _LONGEST_S, ""
        while not self._over.is_set() and time.monotonic() < end:
            done = self.request(address, chance.randint(*TOKENS))
            self.streams.append(done)
            well = done.outcome == WHOLE
            address = done.address if well else ""
            self._over.wait(chance.uniform(0, _THINKS_S) if well else _PAUSE_S)

    def request(self, address: str, tokens: int) -> Stream:
        """One request, asked again once where it is refused."""
        began, refusals = time.monotonic(), 0
        outcome, said = REFUSED, ""
        while outcome == REFUSED and refusals < _TRIES:
            if not address or refusals:
                address = self._named()
            if not address:
                outcome, said = FAILED, "status names no address that serves"
            else:
                outcome, said = self.ask(address, tokens)
                refusals += outcome == REFUSED
        outcome = FAILED if outcome == REFUSED else outcome
        return Stream(began, time.monotonic(), address, outcome, said, refusals)

    def _named(self) -> str:
        try:
            return self.reader.endpoint()
        except TpuflexError:
            return ""

    def ask(self, address: str, tokens: int) -> tuple[str, str]:
        """Stream one completion of so many tokens; how that ended, and why not well."""
        document: Json = {
            "model": self.reader.model,
            "messages": [{"role": "user", "content": "Tell me of the sea."}],
            "max_tokens": tokens,
            "ignore_eos": True,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        headers = {"Authorization": f"Bearer {self.reader.key}", "Connection": "close"}
        url = f"{address}/chat/completions"
        answered = False
        try:
            with direct_session().post(
                url, json=document, headers=headers, timeout=_TIMEOUT, stream=True
            ) as answer:
                if answer.status_code == 503:
                    return REFUSED, "503"
                if answer.status_code != 200:
                    return FAILED, f"{answer.status_code}: {answer.text[:200]}"
                answered = True
                return _read(answer, tokens)
        except requests.RequestException as error:
            if answered:
                return CUT, str(error)
            refused = "Connection refused" in str(error)
            return (REFUSED, "nobody listens") if refused else (FAILED, str(error))


def _read(answer: requests.Response, tokens: int) -> tuple[str, str]:
    """Whether a stream is whole: by its last event, and by the tokens that the server has counted,
    for it may join several of them in one event."""
    counted, last = 0, ""
    for line in answer.iter_lines():
        if not line.startswith(b"data: "):
            continue
        last = line.removeprefix(b"data: ").decode()
        if last != "[DONE]":
            document = json.loads(last)
            if "error" in document:
                return CUT, last[:200]
            counted = (document.get("usage") or {}).get("completion_tokens", counted)
    if last != "[DONE]" or counted != tokens:
        return CUT, f"{counted} of {tokens} tokens, the last event: {last[:100]!r}"
    return WHOLE, ""
