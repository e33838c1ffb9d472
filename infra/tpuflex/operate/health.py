"""Whether an endpoint serves now: it is asked for one token.

`GET /health` needs no key, and is asked first; but it answers 200 on an engine that is frozen
(measured with vLLM 0.32), so that only a completion is a proof.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass

import requests
from pydantic import BaseModel, Field, ValidationError
from urllib3.exceptions import HTTPError

from tpuflex.advice import Advice
from tpuflex.errors import AccessError, BootError, ConflictError, NotFoundError, TpuflexError

#: Seconds to get a connection, and between two pieces of an answer; and for a completion, which may
#: wait for others.
_TIMEOUT = (3.0, 5.0)
_COMPLETION_TIMEOUT = (3.0, 10.0)
#: Seconds between two looks at what the engine counts.
_BETWEEN_LOOKS_S = 1.0
#: Bytes of a server's metrics that are read, and of a completion; and seconds in which they come.
_METRICS_BYTES = 4 * 1024 * 1024
_COMPLETION_BYTES = 1024 * 1024
_ANSWER_S = 15.0
_PIECE = 64 * 1024
#: What the engine counts: the steps that made tokens.
_STEPS = re.compile(rb"^vllm:iteration_tokens_total_count(?:\{[^\n]*\})? (\S{1,30})$", re.MULTILINE)

#: What to do about a server that does not answer.
NO_ANSWER = Advice(
    "its host notices that within some minutes and starts the server again, which `{logs}` shows;"
    " `{restart}` does it now. If that does not help, `{reboot}` boots the machine again"
)
#: What to do about a key that the host does not know.
KEY_REFUSED = Advice(
    "a host reads its keys when it boots, so that it has another value than Secret Manager. If"
    " tpuflex:secrets was changed: `{up}`. If the secret was deleted and made again: `{restart}`"
    " has the host read it"
)


class _Choice(BaseModel):
    text: str
    finish_reason: str = Field(max_length=40)


class _Usage(BaseModel):
    completion_tokens: int = Field(ge=1, le=1_000_000_000)


class _Completion(BaseModel):
    """What a server answers that has completed text.

    https://platform.openai.com/docs/api-reference/completions/object
    """

    choices: tuple[_Choice, ...] = Field(min_length=1)
    usage: _Usage


@dataclass(frozen=True, slots=True)
class Completion:
    """What a server has completed.

    Attributes:
        text: how it goes on.
        finish_reason: why it ends there: ``length`` or ``stop``.
        tokens: how many tokens that is, at least one.
    """

    text: str
    finish_reason: str
    tokens: int

    @classmethod
    def read(cls, document: bytes) -> Completion | None:
        """The completion in an answer of the completions API; None if there is no token in it."""
        try:
            found = _Completion.model_validate_json(document)
        except ValidationError:
            return None
        first = found.choices[0]
        return cls(first.text, first.finish_reason, found.usage.completion_tokens)


@dataclass(frozen=True, slots=True)
class Health:
    """Whether a server answers, and if not, why.

    Attributes:
        answers: whether it answered a completion; None if it was not asked for one.
        through: ``direct`` or ``iap``; empty if nothing was asked.
        why: why it does not answer, or was not asked; of one that makes tokens but is too busy to
            answer soon, that; else empty.
        seconds: how long the answer took.
        problem: what somebody has to do something about, with its remedy.
        completion: what it answered.
        frozen: whether it took the question for a completion, and neither answered nor made a step.
    """

    answers: bool | None
    through: str = ""
    why: str = ""
    seconds: float | None = None
    problem: TpuflexError | None = None
    completion: Completion | None = None
    frozen: bool = False

    @classmethod
    def no(cls, through: str, why: str, *, frozen: bool = False) -> Health:
        """A server that does not answer."""
        message = f"The host was READY, and its server does not answer: {why}."
        problem = BootError(message, hint=NO_ANSWER.sentence())
        return cls(False, through, why, problem=problem, frozen=frozen)

    def __str__(self) -> str:
        way = " (through IAP)" if self.through == "iap" else ""
        if self.answers is None:
            return f"not asked{way}: {self.why}"
        if not self.answers:
            return f"NO{way}: {self.why}"
        if self.seconds is None:
            return f"yes{way}, but {self.why}"
        return f"yes, in {self.seconds * 1000:.0f} ms{way}"

    def to_json(self) -> dict[str, object]:
        """The document under ``health`` that ``tpuflex status --json`` and ``up --json`` print."""
        return {
            "answers": self.answers,
            "through": self.through or None,
            "why": self.why or None,
            "seconds": None if self.seconds is None else round(self.seconds, 4),
        }


@dataclass(frozen=True, slots=True)
class Probe:
    """Asks one server.

    Attributes:
        endpoint: its base URL, which ends in ``/v1``.
        model: served model name.
        session: connections to it.
        through: ``direct`` or ``iap``.
        now: a monotonic clock, in seconds.
        pause: waits that many seconds.
    """

    endpoint: str
    model: str
    session: requests.Session
    through: str
    now: Callable[[], float]
    pause: Callable[[float], None]

    def ask(self, key: Callable[[], str], prompt: str = "Hello", tokens: int = 1) -> Health:
        """Ask it to go on with ``prompt``, for one token.

        Args:
            key: reads the API key, which is not sent to what does not answer at all.
            prompt: the beginning.
            tokens: the most tokens that it goes on for.
        """
        try:
            with get(self.session, self.endpoint, "/health") as response:
                code = response.status_code
        except requests.Timeout:
            return Health.no(self.through, "/health did not answer in time")
        except requests.exceptions.SSLError:
            return Health.no(self.through, "the server has not the stack's certificate")
        except (requests.RequestException, HTTPError):
            return Health.no(self.through, "no connection")
        if code != requests.codes.ok:
            return Health.no(self.through, f"/health answered {code}")
        try:
            return self._complete(key(), prompt, tokens)
        except (NotFoundError, ConflictError) as gone:
            return Health(None, self.through, gone.message, problem=gone)
        except TpuflexError as error:
            why = f"/health answered, and the API key cannot be read: {error.message} {error.hint}"
            return Health(None, self.through, why.strip())

    def _complete(self, key: str, prompt: str, tokens: int) -> Health:
        headers = {"Authorization": f"Bearer {key}"}
        # Every model that serves completes text; not every one has a chat template.
        body = {
            "model": self.model,
            "prompt": prompt,
            "max_tokens": tokens,
            "temperature": 0,
        }
        began = self.now()
        try:
            with response_within(
                lambda: self.session.post(
                    f"{self.endpoint}/completions",
                    json=body,
                    headers=headers,
                    timeout=_COMPLETION_TIMEOUT,
                    stream=True,
                    allow_redirects=False,
                )
            ) as response:
                # The answer comes as a whole, when the tokens are there.
                code = response.status_code
                answer = read_body(response, _COMPLETION_BYTES)
        except requests.Timeout:
            return self._busy_or_frozen(headers)
        except (requests.RequestException, HTTPError):
            return Health.no(self.through, "it broke off a completion")
        if code in (requests.codes.unauthorized, requests.codes.forbidden):
            return self._refused()
        if code != requests.codes.ok:
            return Health.no(self.through, f"a completion was answered with {code}")
        completion = Completion.read(answer)
        if completion is None:
            return Health.no(self.through, "a completion was answered without a token")
        seconds = self.now() - began
        return Health(True, self.through, seconds=seconds, completion=completion)

    def _busy_or_frozen(self, headers: dict[str, str]) -> Health:
        """What a server is that answered no completion in time: behind a long queue none is, and
        tokens come all the same."""
        why = f"no token came within {_COMPLETION_TIMEOUT[1]:.0f} s"
        first = self._steps(headers)
        self.pause(_BETWEEN_LOOKS_S)
        if first is None or self._steps(headers) in (None, first):
            return Health.no(self.through, why, frozen=True)
        return Health(True, self.through, f"it is busy: {why}, others get theirs")

    def _steps(self, headers: dict[str, str]) -> bytes | None:
        """The engine's count of steps; None where it does not say."""
        try:
            with get(self.session, self.endpoint, "/metrics", headers) as response:
                text = read_body(response, _METRICS_BYTES)
        except (requests.RequestException, HTTPError):
            return None
        return b" ".join(_STEPS.findall(text)) or None

    def _refused(self) -> Health:
        error = AccessError(
            "The host is READY, and refuses the stack's API key.", hint=KEY_REFUSED.sentence()
        )
        return Health(False, self.through, "it refuses the stack's API key", problem=error)


def get(
    session: requests.Session, endpoint: str, path: str, headers: Mapping[str, str] | None = None
) -> requests.Response:
    """What a server answers to ``GET path``, its headers read and its body not: see
    :func:`read_body`.

    Args:
        session: connections to it.
        endpoint: its base URL, which ends in ``/v1``; ``path`` is below its root.
        path: the path.
        headers: the headers; the key, where one is needed.

    Raises:
        requests.Timeout: it did not answer in time.
        requests.RequestException, HTTPError: there is no connection, or it broke.
    """
    url = f"{endpoint.removesuffix('/v1')}{path}"
    return response_within(
        lambda: session.get(
            url, headers=headers, timeout=_TIMEOUT, stream=True, allow_redirects=False
        )
    )


def response_within(
    ask: Callable[[], requests.Response], seconds: float = _ANSWER_S
) -> requests.Response:
    """The response that ``ask`` gets, with its headers, within so many seconds.

    A server can send headers, or ``100 Continue``, without end: a connection's own limit begins
    again with every byte. The thread that still reads then ends with its connection, or with us.

    Raises:
        requests.Timeout: it was not there after so many seconds.
    """
    response: Future[requests.Response] = Future()

    def run() -> None:
        try:
            response.set_result(ask())
        except Exception as error:  # raised again below
            response.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    try:
        return response.result(seconds)
    except TimeoutError:
        raise requests.Timeout from None


def read_body(response: requests.Response, most: int, seconds: float = _ANSWER_S) -> bytes:
    """The body of ``response``, up to so many bytes, and as long as it goes on coming.

    A connection's own limit begins again with every byte.

    Raises:
        requests.Timeout: it was not whole after so many seconds.
        HTTPError: the connection broke.
    """
    until = time.monotonic() + seconds
    body = bytearray()
    while piece := response.raw.read1(_PIECE, decode_content=True):
        body += piece
        if len(body) > most:
            return bytes(body[:most])
        if time.monotonic() > until:
            raise requests.Timeout
    return bytes(body)
