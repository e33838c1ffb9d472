"""What is let in: paths, headers and bodies as a client may send them. Pure: bytes in, a value out.

What an upstream gets is written from what was parsed here, never the client's own bytes: it cannot
read a request in another way than it was judged.
"""

from __future__ import annotations

import json
import math
import random
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from tpuflex.gateway.outcome import Reason
from tpuflex.settings.gateway import RequestLimits, SamplingSettings

#: Where completions are asked for.
COMPLETIONS = ("/v1/chat/completions", "/v1/completions")
#: All that exists, by method: the path as it stands in the request, without a query.
ALLOWED = frozenset(
    (
        *(("POST", path) for path in COMPLETIONS),
        ("GET", "/v1/models"),
        ("GET", "/health"),
        # As load balancers and monitors ask.
        ("HEAD", "/health"),
        ("GET", "/metrics"),
        ("GET", "/tpuflex/gateway"),
    )
)
#: Names of the most tokens of an answer: vLLM looks at the second first, where it has both.
TOKEN_LIMITS = ("max_tokens", "max_completion_tokens")
#: Tokens that vLLM and OpenAI generate for /v1/completions where nothing is said.
_COMPLETION_TOKENS = 16
_LONGEST_KEY = 512
#: The most that any count may be.
_MOST = 1_000_000_000
#: Most stop sequences, each of which a server looks for at every token; and characters of one: vLLM
#: holds back so many of what it generates, as if its first token were late.
_STOPS, _LONGEST_STOP = 64, 64
#: Most brackets and commas of a body outside of its strings. Each stands for a value, which takes
#: up to 0.5 us to read and write, while every stream stands still. The ids of 128K tokens are
#: fewer.
_MOST_VALUES = 200_000
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


class RejectedError(Exception):
    """A request gets an error for its answer.

    Attributes:
        status: HTTP status.
        reason: why, for programs: `code` in the answer, and `x-tpuflex-reason`.
        kind: `type` in the answer, as OpenAI has it.
        retry_after: seconds after which it may be tried again; None if that does not help.
    """

    def __init__(
        self,
        status: int,
        message: str,
        reason: Reason,
        *,
        kind: str = "invalid_request_error",
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.kind = kind
        self.retry_after = retry_after

    @property
    def body(self) -> bytes:
        """The answer, in OpenAI's form."""
        return error_body(str(self), self.kind, self.reason)


def unavailable(
    message: str, reason: Reason, soonest: float = 1, latest: float = 4
) -> RejectedError:
    """The answer to a request that may be tried again some time from ``soonest`` to ``latest``, in
    seconds: were all to come back at once, they would be refused again."""
    return RejectedError(
        503,
        message,
        reason,
        kind="service_unavailable_error",
        retry_after=random.uniform(soonest, latest),  # noqa: S311 - jitter
    )


def error_body(message: str, kind: str, reason: Reason) -> bytes:
    """An error in OpenAI's form."""
    error = {"message": message, "type": kind, "param": None, "code": reason}
    return json.dumps({"error": error}).encode()


# Not frozen, which takes five times as long to make; there is one for each request.
@dataclass(slots=True)
class Ask:
    """A completion that is asked for.

    Attributes:
        path: where, one of :data:`COMPLETIONS`.
        model: the model as the client calls it.
        document: the body.
        stream: whether the answer is streamed.
        wants_usage: whether the client asked for the usage at the end of the stream.
        n: sequences that are generated, of all prompts together.
        prompts: how many prompts there are.
        max_tokens: most tokens of one sequence; None if the rest of the context is meant.
        prompt_bytes: bytes of the body, which are more than the tokens of its prompts; None where
            they need not be, as with a picture.
    """

    path: str
    model: str
    document: Mapping[str, Any]
    stream: bool
    wants_usage: bool
    n: int
    prompts: int
    max_tokens: int | None
    prompt_bytes: int | None

    def sampled(self, sampling: SamplingSettings) -> Ask:
        """The same with the sampling parameters of its class."""
        document = with_sampling(self.document, sampling)
        chat = self.path == COMPLETIONS[0]
        return replace(self, document=document, max_tokens=_max_tokens(document, chat=chat))


def with_sampling(document: Mapping[str, Any], sampling: SamplingSettings) -> dict[str, Any]:
    """A completion's document with the parameters of its class.

    Args:
        document: the body of a completion.
        sampling: what it gets where it says nothing itself; with ``enforce`` also where it does,
            but of two limits of tokens the lower holds.
    """
    completed = dict(document)
    for name in ("temperature", "top_p"):
        value = getattr(sampling, name)
        if value is not None and (sampling.enforce or completed.get(name) is None):
            completed[name] = value
    most = sampling.max_tokens
    if most is None:
        return completed
    said = [name for name in TOKEN_LIMITS if completed.get(name) is not None]
    if not said:
        # The older name: servers that do not know the newer one would leave out the limit.
        completed["max_tokens"] = most
    elif sampling.enforce:
        for name in said:
            completed[name] = min(completed[name], most)
    return completed


def check_framing(method: str, version: tuple[int, int], transfer_encoding: str | None) -> None:
    """Refuse a request of which a proxy in front of the gateway may see the end elsewhere.

    Args:
        method: as it stands in the request.
        version: HTTP's.
        transfer_encoding: the header; None if there is none.

    Raises:
        RejectedError: 501; its connection has to be closed: what follows may not be a request.
    """
    chunked = version == (1, 1) and (transfer_encoding or "").lower() == "chunked"
    plain = version in ((1, 0), (1, 1)) and transfer_encoding is None
    if method == "CONNECT" or not (chunked or plain):
        raise RejectedError(
            501, "A request is one of HTTP/1.1, sent as it is or in chunks.", Reason.BAD_FRAMING
        )


def check_path(method: str, path: str) -> None:
    """Refuse a path that does not exist.

    Args:
        method: as it stands in the request.
        path: as it stands in the request, undecoded.

    Raises:
        RejectedError: 404, or 405 for another method.
    """
    if (method, path) in ALLOWED:
        return
    if any(path == each for _, each in ALLOWED):
        raise RejectedError(405, f"{path} takes no {method}.", Reason.NO_METHOD)
    # A base URL without /v1, with it twice, or with a query: libraries add the rest by themselves.
    raise RejectedError(
        404,
        f"There is no such path here, but {', '.join(COMPLETIONS)} and /v1/models, without a query:"
        " a client's base URL ends with /v1.",
        Reason.NO_PATH,
    )


def bearer_key(authorizations: Sequence[str]) -> bytes:
    """The key in a request's ``Authorization`` headers.

    Raises:
        RejectedError: 401: there is not exactly one, or it has no key.
    """
    if len(authorizations) == 1:
        scheme, _, key = authorizations[0].partition(" ")
        if scheme.lower() == "bearer" and 0 < len(key) <= _LONGEST_KEY:
            return key.encode("utf-8", "surrogateescape")
    raise unknown_key()


def unknown_key() -> RejectedError:
    """The answer to an unknown key, or to none."""
    return RejectedError(
        401,
        "No known API key was given: send it as `Authorization: Bearer KEY`.",
        Reason.INVALID_KEY,
    )


def request_id(given: str | None) -> str:
    """The request's id: the client's, if it is safe in a log, else a new one."""
    if given is not None and _REQUEST_ID.fullmatch(given):
        return given
    return secrets.token_hex(12)


def read_ask(path: str, body: bytes) -> Ask:
    """The completion that is asked for with ``body``.

    Raises:
        RejectedError: 400: it cannot be read, or says what a gateway cannot honour.
    """
    document = _read_object(body)
    model = document.get("model")
    if not isinstance(model, str) or not model:
        _refuse("`model` is missing.")
    stream = document.get("stream")
    if stream is not None and not isinstance(stream, bool):
        _refuse("`stream` is neither true nor false.")
    options = document.get("stream_options")
    if options is not None and not isinstance(options, dict):
        _refuse("`stream_options` is no object.")
    if "priority" in document:
        _refuse("`priority` follows from the class of the client: leave it out.")
    _check_stop(document.get("stop"))
    chat = path == COMPLETIONS[0]
    prompts, bounded = (1, _is_text(document)) if chat else _prompts(document.get("prompt"))
    sequences = max(_count(document, "n") or 1, _count(document, "best_of") or 1)
    return Ask(
        path=path,
        model=model,
        document=document,
        stream=bool(stream),
        wants_usage=bool(options and options.get("include_usage")),
        n=prompts * sequences,
        prompts=prompts,
        max_tokens=_max_tokens(document, chat=chat),
        prompt_bytes=len(body) if bounded else None,
    )


def check_bounds(ask: Ask, limits: RequestLimits) -> None:
    """Refuse more answers or tokens than one request may ask for.

    Raises:
        RejectedError: 400.
    """
    if ask.n > limits.n:
        _refuse(
            f"{ask.n} answers are asked for, by `n` for each prompt, and at most {limits.n} may be:"
            " write less, or have the gateway's `requests.n` raised."
        )
    if ask.max_tokens is not None and ask.max_tokens > limits.max_tokens:
        _refuse(
            f"{ask.max_tokens} tokens are asked for, and at most {limits.max_tokens} may be:"
            " write less for `max_tokens`."
        )


def _read_object(body: bytes) -> dict[str, Any]:
    if len(body) > _MOST_VALUES and _has_too_many_values(body):
        _refuse(f"The body has more than {_MOST_VALUES:,} brackets and commas outside of texts.")
    try:
        document = _JSON.decode(body.decode())
    except (ValueError, RecursionError):  # also what is no UTF-8, and numbers that are too long
        _refuse("The body is no JSON that can be read.")
    if not isinstance(document, dict):
        _refuse("The body is no JSON object.")
    return document


def _has_too_many_values(body: bytes) -> bool:
    if _values(body) <= _MOST_VALUES:
        return False
    # Most of them may be in texts, which end at the next quote that is not escaped.
    bare = body.replace(rb"\\", b"").replace(rb"\"", b"")
    quotes = bare.count(b'"')
    return quotes > 4 * _MOST_VALUES or _values(b"".join(bare.split(b'"')[::2])) > _MOST_VALUES


def _values(body: bytes) -> int:
    return sum(body.count(each) for each in b"[{,")


def _check_stop(stop: object) -> None:
    stops = stop if isinstance(stop, list) else [stop]
    if len(stops) > _STOPS or any(
        isinstance(each, str) and len(each) > _LONGEST_STOP for each in stops
    ):
        _refuse(
            f"`stop` has more than {_STOPS} sequences, or one of more than {_LONGEST_STOP}"
            " characters."
        )


def _no_number(name: str) -> NoReturn:
    raise ValueError(name)


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


_JSON = json.JSONDecoder(parse_constant=_no_number, parse_float=_finite)


def _is_text(document: Mapping[str, Any]) -> bool:
    """Whether all messages of a chat are text, so that they have no more tokens than bytes."""
    messages = document.get("messages")
    if not isinstance(messages, list):
        return True  # the upstream says what is wrong
    return all(
        isinstance(part, str) or (isinstance(part, dict) and part.get("type") == "text")
        for message in messages
        if isinstance(message, dict) and isinstance(content := message.get("content"), list)
        for part in content
    )


def _prompts(prompt: object) -> tuple[int, bool]:
    """How many prompts there are, and whether they have no more tokens than bytes."""
    if isinstance(prompt, list) and prompt and not isinstance(prompt[0], int):
        return len(prompt), True
    return 1, prompt is not None


def _max_tokens(document: Mapping[str, Any], *, chat: bool) -> int | None:
    said = {name: _count(document, name) for name in TOKEN_LIMITS}
    if not chat:
        found = said["max_tokens"]
        return _COMPLETION_TOKENS if found is None else found
    # Which of both a server goes by is not known: vLLM takes the newer, older servers the other.
    return max((each for each in said.values() if each is not None), default=None)


def _count(document: Mapping[str, Any], name: str) -> int | None:
    value = document.get(name)
    if value is None:
        return None
    if type(value) is not int or not 0 <= value <= _MOST:
        _refuse(f"`{name}` is no whole number from 0 to {_MOST}.")
    return value


def _refuse(message: str) -> NoReturn:
    raise RejectedError(400, message, Reason.INVALID_REQUEST)
