"""Ask a running endpoint one question and stream the answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import requests

from tpuflex.errors import AccessError, ApiError

#: Seconds to get a connection, and between two pieces of the answer (a long prompt is read
#: before the first piece comes).
TIMEOUT = (10.0, 300.0)


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
    reach: str = ""

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
    question: Question,
    api_key: str,
    *,
    show: Callable[[str], None],
    now: Callable[[], float],
    session: requests.Session | None = None,
) -> Answer:
    """Stream the answer to ``show`` piece by piece and return it whole.

    Raises:
        AccessError: the endpoint refused the API key.
        ApiError: the endpoint cannot be reached, answered with an error, or broke off.
    """
    url = f"{question.endpoint}/chat/completions"
    began = now()
    try:
        with (session or direct_session()).post(
            url,
            json=question.body(),
            headers={"Authorization": f"Bearer {api_key}"},
            timeout=TIMEOUT,
            stream=True,
        ) as response:
            _check(response, url)
            return _collect(events(response.iter_lines()), show, now, began, url)
    except (requests.ConnectionError, requests.ConnectTimeout) as error:
        raise ApiError(
            f"{question.endpoint} cannot be reached from here.", url=url, hint=question.reach
        ) from error
    except requests.RequestException as error:
        raise ApiError(f"The endpoint broke off: {type(error).__name__}.", url=url) from error


def direct_session() -> requests.Session:
    """A session that takes no proxy and no credentials from the environment."""
    session = requests.Session()
    session.trust_env = False
    return session


def events(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """The JSON documents of a server-sent event stream, up to ``[DONE]``."""
    for line in lines:
        if not line.startswith(b"data:"):
            continue
        data = line[len(b"data:") :].strip()
        if data == b"[DONE]":
            return
        yield json.loads(data)


def _check(response: requests.Response, url: str) -> None:
    if response.ok:
        return
    if response.status_code in (401, 403):
        raise AccessError(
            "The endpoint refused the API key.",
            hint="tpuflex:secrets.api_key_version must be the version that the host booted with.",
        )
    raise ApiError(
        f"The endpoint answered {response.status_code}: {' '.join(response.text.split())[:300]}",
        status=response.status_code,
        method="POST",
        url=url,
    )


def _collect(
    stream: Iterable[dict[str, Any]],
    show: Callable[[str], None],
    now: Callable[[], float],
    began: float,
    url: str,
) -> Answer:
    pieces: list[str] = []
    first: float | None = None
    usage: dict[str, int] = {}
    reason = ""
    for event in stream:
        if "error" in event:
            raise ApiError(f"The endpoint broke off: {event['error']}", url=url)
        usage = event.get("usage") or usage
        for choice in event.get("choices") or ():
            text = (choice.get("delta") or {}).get("content") or ""
            reason = choice.get("finish_reason") or reason
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
        prompt_tokens=usage.get("prompt_tokens", 0),
        tokens=usage.get("completion_tokens", len(pieces)),
        finish_reason=reason,
    )
