"""One question to a running endpoint, and its streamed answer.

What answers may not be the server that was started: its chunks are checked one by one, and their
length is bounded.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import requests
from pydantic import BaseModel, Field, ValidationError
from urllib3.exceptions import HTTPError, MaxRetryError

from tpuflex.advice import Advice
from tpuflex.errors import AccessError, ApiError
from tpuflex.operate.endpoint_connection import (
    api_key,
    connected,
    direct_session,
    serving_slice,
    session,
    unreachable_hint,
)
from tpuflex.operate.health import KEY_REFUSED
from tpuflex.stack.progress import Report, silent

if TYPE_CHECKING:
    from tpuflex.stack.connection import Connection

#: Seconds to get a connection, and between two pieces of the answer (a long prompt is read
#: before the first piece comes).
TIMEOUT = (10.0, 300.0)
#: Bytes of one line of the stream, which holds one token or an error, and of a whole answer.
LONGEST_LINE = 1024 * 1024
LONGEST_ANSWER = 64 * 1024 * 1024
#: Tokens that a server may say to have counted: more than any context holds.
MOST_TOKENS = 1_000_000_000
_PIECE = 512
_SHOWN_OF_AN_ERROR = 300
#: Bytes of it that are read: a key in it is found also where it would be cut.
_READ_OF_AN_ERROR = 4096
_NO_COMPLETION = "The endpoint answered something that is no chat completion."


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, of whom.

    Attributes:
        endpoint: base URL that ends in ``/v1``.
        model: served model name.
        text: the question.
        max_tokens: the answer is cut off after so many tokens.
        temperature: 0 gives the most likely answer each time.
        reach: how the endpoint is reached; shown when it cannot be.
    """

    endpoint: str
    model: str
    text: str
    max_tokens: int = 256
    temperature: float = 0.0
    reach: Advice | str = ""

    def body(self) -> dict[str, object]:
        """The request of the OpenAI chat completions API."""
        return {
            "model": self.model,
            "messages": [{"role": "user", "content": self.text}],
            "max_tokens": self.max_tokens,
            "temperature": self.temperature,
            "stream": True,
            "stream_options": {"include_usage": True},
        }


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer, and how fast it came.

    Attributes:
        text: the answer.
        ttft: seconds until the first piece of text.
        seconds: seconds until the end.
        prompt_tokens: tokens of the question, as the server counted them.
        tokens: tokens of the answer, as the server counted them.
        finish_reason: ``stop`` or ``length``.
    """

    text: str
    ttft: float
    seconds: float
    prompt_tokens: int
    tokens: int
    finish_reason: str

    @property
    def tokens_per_second(self) -> float | None:
        """Tokens per second after the first; None when there was no more than one."""
        rest = self.seconds - self.ttft
        return (self.tokens - 1) / rest if self.tokens > 1 and rest > 0 else None

    @property
    def summary(self) -> str:
        """How fast it came, on one line."""
        speed = self.tokens_per_second
        rate = f", {speed:.1f} tokens/s" if speed is not None else ""
        cut = ", cut off by --max-tokens" if self.finish_reason == "length" else ""
        return f"TTFT {self.ttft * 1000:.0f} ms{rate} ({self.tokens} tokens{cut})"

    def to_json(self) -> dict[str, object]:
        """The document that ``tpuflex ask --json`` prints."""
        speed = self.tokens_per_second
        return {
            "answer": self.text,
            "ttft_s": round(self.ttft, 4),
            "seconds": round(self.seconds, 4),
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.tokens,
            "tokens_per_second": None if speed is None else round(speed, 2),
            "finish_reason": self.finish_reason,
        }


def ask(
    cloud: Connection,
    question: Question,
    show: Callable[[str], None] = lambda _piece: None,
    report: Report = silent,
    *,
    tunnel: bool = True,
    within: float = math.inf,
) -> Answer:
    """Ask the endpoint of the stack of ``cloud``, with its API key from Secret Manager.

    Args:
        cloud: the stack's cloud.
        question: the question; one without an endpoint is for the stack's own.
        show: takes the answer piece by piece, as it comes.
        report: receives why a tunnel is opened.
        tunnel: whether a tunnel may be opened to the stack's own endpoint.
        within: as for :func:`stream_answer`.

    Raises:
        NotFoundError: the stack is not up, or its host has no address yet.
        AccessError: the key would be sent in clear, or it was refused.
        TpuflexError: there is no API key, no way to the endpoint, or it did not answer.
    """

    def streamed(asked: Question) -> Answer:
        connections = session(cloud, asked.endpoint)
        now = time.perf_counter
        return stream_answer(asked, key, show=show, now=now, session=connections, within=within)

    if question.endpoint:
        key = api_key(cloud)
        return streamed(question)
    status, key = serving_slice(cloud), api_key(cloud)
    with connected(cloud, status, report, tunnel=tunnel) as found:
        hint = unreachable_hint(cloud, status, through=found.through)
        return streamed(replace(question, endpoint=found.url, reach=hint))


def stream_answer(
    question: Question,
    api_key: str,
    *,
    show: Callable[[str], None],
    now: Callable[[], float],
    session: requests.Session | None = None,
    within: float = math.inf,
) -> Answer:
    """Stream the answer to ``show`` piece by piece and return it whole.

    Args:
        question: the question.
        api_key: the endpoint's API key.
        show: takes the pieces.
        now: a clock, in seconds.
        session: what it is asked over.
        within: seconds that the whole answer may take, however steadily its pieces come.

    Raises:
        AccessError: the endpoint refused the API key.
        ApiError: the endpoint cannot be reached, answered with an error, broke off, or took longer.
    """
    url = f"{question.endpoint}/chat/completions"
    began = now()
    silence = min(TIMEOUT[1], within)
    try:
        with (session or direct_session()).post(
            url,
            json=question.body(),
            headers={"Authorization": f"Bearer {api_key}"},
            timeout=(TIMEOUT[0], silence),
            stream=True,
        ) as response:
            _check(response, url, api_key)
            pieces: Iterable[bytes] = response.iter_content(_PIECE)
            if within < math.inf:
                pieces = _in_time(pieces, within, lambda: now() - began, url)
            received = lines(pieces, url)
            return _collect(chunks(received, url), show, now, began, url, api_key)
    except (requests.ConnectionError, requests.ConnectTimeout) as error:
        # urllib3 gives up with that error where there was no connection; of one that breaks, not.
        unconnected = isinstance(next(iter(error.args), None), MaxRetryError)
        said = "cannot be reached from here." if unconnected else "broke off before an answer."
        raise ApiError(f"{question.endpoint} {said}", url=url, hint=question.reach) from error
    except requests.Timeout as error:
        raise ApiError(
            f"The endpoint gave nothing for {silence:.0f} s.",
            url=url,
            hint=Advice("`{status}` says whether it makes tokens."),
        ) from error
    except (requests.RequestException, HTTPError) as error:
        raise ApiError(f"The endpoint broke off: {type(error).__name__}.", url=url) from error


def _in_time(
    pieces: Iterable[bytes], within: float, passed: Callable[[], float], url: str
) -> Iterator[bytes]:
    for piece in pieces:
        if passed() > within:
            raise ApiError(f"The endpoint's answer took longer than {within:.0f} s.", url=url)
        yield piece


class _Delta(BaseModel):
    content: str | None = None


class _Choice(BaseModel):
    delta: _Delta | None = None
    finish_reason: str | None = None


class _Usage(BaseModel):
    prompt_tokens: int = Field(default=0, ge=0, le=MOST_TOKENS)
    completion_tokens: int | None = Field(default=None, ge=0, le=MOST_TOKENS)


class Chunk(BaseModel):
    """One chunk of a streamed chat completion, as far as it matters here.

    https://platform.openai.com/docs/api-reference/chat-streaming
    """

    choices: tuple[_Choice, ...] | None = None
    usage: _Usage | None = None
    error: object = None


def lines(pieces: Iterable[bytes], url: str) -> Iterator[bytes]:
    """The lines that ``pieces`` hold together.

    Raises:
        ApiError: one of them, or all together, are longer than any answer.
    """
    rest, received = b"", 0
    for piece in pieces:
        received += len(piece)
        *whole, rest = (rest + piece).split(b"\n")
        if len(rest) > LONGEST_LINE or received > LONGEST_ANSWER:
            raise ApiError("The endpoint's answer does not end.", url=url)
        yield from whole
    yield rest


def chunks(received: Iterable[bytes], url: str) -> Iterator[Chunk]:
    """The documents of a server-sent event stream, up to ``[DONE]``.

    Raises:
        ApiError: one of them is no chunk of a chat completion.
    """
    for line in received:
        if not line.startswith(b"data:"):
            continue
        data = line[len(b"data:") :].strip()
        if data == b"[DONE]":
            return
        try:
            yield Chunk.model_validate_json(data)
        except ValidationError as error:
            raise ApiError(_NO_COMPLETION, url=url) from error


def _check(response: requests.Response, url: str, api_key: str) -> None:
    if response.ok and not response.is_redirect:
        return
    if response.status_code in (401, 403):
        raise AccessError("The endpoint refused the API key.", hint=KEY_REFUSED.sentence())
    beginning = next(response.iter_content(_READ_OF_AN_ERROR), b"").decode(errors="replace")
    raise ApiError(
        f"The endpoint answered {response.status_code}: {_shown(beginning, api_key)}",
        status=response.status_code,
        method="POST",
        url=url,
    )


def _shown(text: str, api_key: str) -> str:
    """The beginning of an error that the endpoint sent, on one line and without the key, which it
    may have sent back."""
    line = " ".join(text.split())
    return (line.replace(api_key, "(the API key)") if api_key else line)[:_SHOWN_OF_AN_ERROR]


def _collect(
    stream: Iterable[Chunk],
    show: Callable[[str], None],
    now: Callable[[], float],
    began: float,
    url: str,
    api_key: str,
) -> Answer:
    pieces: list[str] = []
    first: float | None = None
    usage = _Usage()
    reason = ""
    for chunk in stream:
        if chunk.error is not None:
            shown = _shown(str(chunk.error), api_key)
            raise ApiError(f"The endpoint broke off: {shown}", url=url)
        usage = chunk.usage or usage
        for choice in chunk.choices or ():
            text = (choice.delta and choice.delta.content) or ""
            reason = choice.finish_reason or reason
            if text:
                first = first if first is not None else now()
                pieces.append(text)
                show(text)
    if not reason:
        raise ApiError("The answer broke off before its end.", url=url)
    end = now()
    return Answer(
        text="".join(pieces),
        ttft=(first if first is not None else end) - began,
        seconds=end - began,
        prompt_tokens=usage.prompt_tokens,
        tokens=len(pieces) if usage.completion_tokens is None else usage.completion_tokens,
        finish_reason=reason,
    )
