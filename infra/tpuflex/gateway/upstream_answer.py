"""An upstream's answer: asked for, and judged before the client gets anything of it."""

from __future__ import annotations

import asyncio
import io
import json
import math
import secrets
from contextlib import suppress
from enum import Enum
from typing import TYPE_CHECKING

import aiohttp
from aiohttp import web

from tpuflex.gateway.connection import NOT_CONNECTED, USED_BEFORE, lacks_descriptors
from tpuflex.gateway.door import error_body
from tpuflex.gateway.outcome import Reason
from tpuflex.gateway.sse import MOST_BYTES, StreamedAnswer, TooLongError, Usage

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiohttp.client import _RequestContextManager

    from tpuflex.gateway.connection import Connection
    from tpuflex.gateway.passage import Passage

#: Seconds without anything after which an upstream is given up in the middle of an answer. Some
#: parsers hold back a tool call until it is whole.
SILENT_S = 600.0
#: Bytes of an answer that is not streamed.
_MOST_ANSWER = 64 * 1024 * 1024
#: Bytes of an error that may be handed on, and characters of each of its parts.
_MOST_ERROR = 64 * 1024
_MOST_ERROR_PART = 2048
#: Bytes of a body above which it is not handed to a connection at once.
_LONG_BODY = 512 * 1024
#: How much longer than expected an answer may take that is not streamed.
_PATIENCE = 4
#: Seconds that an upstream may take to end a stream after `[DONE]`, for its connection to be used
#: again.
_END_S = 1.0


class Blame(Enum):
    """What a failure says of the upstream."""

    NONE = "nothing"
    DOUBT = "it may have failed, or the request may be one at which every upstream fails"
    CERTAIN = "it has failed"


class FailedError(Exception):
    """An upstream did not answer as it should, and the client has nothing yet.

    Attributes:
        reason: why, for programs.
        status: what the client gets if the request cannot move.
        blame: what it says of the upstream.
        moves: whether another upstream may do better.
        computed: whether the upstream may have computed the request all the same.
        reconnects: whether a connection that was there before broke without a byte of an answer, as
            one does that the upstream closed for want of use; a new one tells.
        answer: the upstream's own answer, which the client gets if the request cannot move; None
            for one of ours.
    """

    def __init__(
        self,
        message: str,
        reason: Reason = Reason.UPSTREAM_FAILED,
        *,
        status: int = 502,
        blame: Blame = Blame.DOUBT,
        moves: bool = True,
        computed: bool = True,
        reconnects: bool = False,
        answer: web.Response | None = None,
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.status = status
        self.blame = blame
        self.moves = moves
        self.computed = computed
        self.reconnects = reconnects
        self.answer = answer


class Patience:
    """Waits for an upstream as long as what it has may end well.

    Args:
        doubt: has it found out whether the upstream makes tokens; says whether what it has may end
            well.
        every: seconds without anything from there after which it is doubted, and then again.
    """

    def __init__(self, doubt: Callable[[], asyncio.Future[bool]], every: float) -> None:
        self._doubt, self._every = doubt, every
        self._asked = -math.inf

    # `over` is not an attribute: it is a method of the object that has this one, and such a cycle
    # would keep each request in memory until the next collection.
    def tick(self, now: float, heard: float, over: Callable[[], None]) -> None:
        """Look after it, where something came at ``heard``; ``over`` is called if it may not end
        well."""

        def found(ends_well: asyncio.Future[bool]) -> None:
            if not ends_well.cancelled() and not ends_well.result():
                over()

        if now - max(heard, self._asked) >= self._every:
            self._asked = now
            self._doubt().add_done_callback(found)


class Wait:
    """The wait for what can be handed on of an answer, as long as that may end well.

    Args:
        doubt: as of :class:`Patience`.
        every: seconds after which the upstream is doubted, and then again.
        began: when the wait begins.

    Attributes:
        failure: why it is over; None if it is not, or for another reason.
    """

    def __init__(
        self, doubt: Callable[[], asyncio.Future[bool]], every: float, began: float
    ) -> None:
        self._patience, self._began = Patience(doubt, every), began
        self._timeout: asyncio.Timeout | None = None
        self.failure: FailedError | None = None

    def within(self, seconds: float) -> asyncio.Timeout:
        """Wait no longer than that."""
        self._timeout = asyncio.timeout(seconds)
        return self._timeout

    def tick(self, now: float) -> None:
        """Look after it, once in a while."""
        self._patience.tick(now, self._began, self._give_up)

    def _give_up(self) -> None:
        self.failure = FailedError(
            "The upstream makes no tokens any more.", status=504, blame=Blame.NONE
        )
        if self._timeout is not None:
            with suppress(RuntimeError):  # what was waited for is there by now
                self._timeout.reschedule(0)


async def whole_answer(passage: Passage, connection: Connection, wait: Wait) -> web.Response:
    """Ask for an answer that is not streamed.

    Raises:
        FailedError: there is none.
    """
    limit = passage.rules.first_token.limit
    expected = connection.upstream.seconds_for(passage.want.tokens, limit)
    try:
        async with wait.within(_PATIENCE * expected), _request(passage, connection) as response:
            body = await _read(response)
    except (aiohttp.ClientError, TooLongError) as error:
        raise _failed(error) from error
    except TimeoutError as error:
        late = FailedError("The upstream has not answered in time.", Reason.TIMEOUT, status=504)
        raise wait.failure or late from error
    return _completion(passage, response, body)


def _completion(passage: Passage, response: aiohttp.ClientResponse, body: bytes) -> web.Response:
    """The answer for the client.

    Raises:
        FailedError: it is no completion.
    """
    _check(response, body, passage)
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise FailedError("The upstream's answer is no JSON.") from error
    if not (isinstance(document, dict) and document.get("choices")):
        raise FailedError("The upstream's answer is no completion.")
    passage.usage = Usage.of(document)
    passage.ended(200)
    return web.Response(body=body, headers=_headers(response, passage))


async def begun_stream(
    passage: Passage,
    connection: Connection,
    answer: StreamedAnswer,
    first_token: Callable[[], None],
    wait: Wait,
) -> tuple[aiohttp.ClientResponse, bytes]:
    """Ask for a stream, and wait until it has something that was generated.

    Args:
        passage: the request.
        connection: the upstream that is asked.
        answer: takes what comes.
        first_token: called once, when the first token was generated, as far as can be seen.
        wait: for what comes first.

    Returns:
        The stream, and what has come of it that is handed on.

    Raises:
        FailedError: nothing was generated, or not in time.
    """

    def generates() -> None:
        if wait.failure is None and not answer.begun:
            # The first token was made in time; what a parser holds back of it may take far longer.
            timeout.reschedule(asyncio.get_running_loop().time() + SILENT_S)
        first_token()

    try:
        async with wait.within(passage.rules.first_token.limit) as timeout:
            response = await _request(passage, connection)
            try:
                role = connection.role_with_first_token
                return response, await _until_begun(passage, response, answer, role, generates)
            except BaseException:
                response.close()
                raise
    except (aiohttp.ClientError, TooLongError) as error:
        raise _failed(error) from error
    except TimeoutError as error:
        late = FailedError("No first token has come in time.", Reason.TOO_LATE, status=504)
        raise wait.failure or late from error


async def _until_begun(
    passage: Passage,
    response: aiohttp.ClientResponse,
    answer: StreamedAnswer,
    role_with_first_token: bool,
    generates: Callable[[], None],
) -> bytes:
    if response.status != 200:
        _check(response, await _read(response), passage)
    if response.content_type != "text/event-stream":
        raise FailedError("The upstream's answer is no stream.")
    _check_encoding(response)
    held: list[bytes] = []
    size, generated = 0, False
    while not (answer.begun or answer.done):
        data = await response.content.readany()
        size += len(data)
        if size > MOST_BYTES:
            raise TooLongError
        held.append(answer.take(data))
        if answer.error is not None:
            raise FailedError("The upstream has given up.")
        if not data:
            raise FailedError("The upstream's answer is empty.")
        if role_with_first_token and answer.answers and not generated:
            generated = True
            generates()
    if not generated:
        generates()
    return b"".join(held)


def _request(passage: Passage, connection: Connection) -> _RequestContextManager:
    ask, document = passage.ask, dict(passage.ask.document)
    document["model"] = connection.upstream.model
    if ask.stream:
        options = document.get("stream_options") or {}
        document["stream_options"] = {
            **{key: value for key, value in options.items() if key != "continuous_usage_stats"},
            "include_usage": True,
        }
    if connection.priority_scheduling:
        document["priority"] = passage.want.priority
    body = json.dumps(document, separators=(",", ":")).encode()
    return connection.request(
        "POST",
        ask.path.removeprefix("/v1"),
        # aiohttp has a file written piece by piece.
        data=io.BytesIO(body) if len(body) > _LONG_BODY else body,
        # vLLM takes it for its own name of the request, of which there may not be two.
        headers={
            "Content-Type": "application/json",
            "X-Request-Id": f"{passage.id}-{secrets.token_hex(3)}",
        },
    )


def _check(response: aiohttp.ClientResponse, body: bytes, passage: Passage) -> None:
    """Refuse an answer that has not what was asked for.

    Raises:
        FailedError: always, but for status 200.
    """
    status = response.status
    if status == 200:
        return
    said = f"The upstream has answered with status {status}."
    if status in (401, 403):
        # It is the gateway's own key that is refused, and no client can mend that.
        raise FailedError(
            "The upstream refuses the gateway.",
            Reason.UPSTREAM_KEY,
            blame=Blame.CERTAIN,
            computed=False,
        )
    if 400 <= status < 500:
        own = error_body(said, "upstream_error", Reason.UPSTREAM_REFUSED)
        words = error_for_client(body) or own
        answer = web.Response(status=status, body=words, headers=_headers(response, passage))
        # At 429 it is the gateway's own limit there, and at 404 its own path or name of the model.
        raise FailedError(
            said,
            Reason.UPSTREAM_REFUSED,
            status=status,
            blame=Blame.DOUBT if status == 404 else Blame.NONE,
            moves=status in (404, 429),
            computed=False,
            answer=answer,
        )
    blame = Blame.CERTAIN if status == 503 else Blame.DOUBT
    raise FailedError(said, blame=blame, computed=False)


def error_for_client(said: bytes) -> bytes | None:
    """An upstream's error as a client gets it: what OpenAI's form has, as text that is not long.
    None if it is in no such form."""
    try:
        document = json.loads(said) if len(said) <= _MOST_ERROR else None
    except (ValueError, RecursionError):
        return None
    # Older ones of vLLM have it at the top.
    error = document.get("error", document) if isinstance(document, dict) else None
    if not isinstance(error, dict) or not isinstance(error.get("message"), str):
        return None
    parts = {
        name: str(value)[:_MOST_ERROR_PART]
        if isinstance(value := error.get(name), str | int)
        else None
        for name in ("message", "type", "param", "code")
    }
    return json.dumps({"error": parts}).encode()


def _check_encoding(response: aiohttp.ClientResponse) -> None:
    """Refuse an answer that is compressed, which was not asked for.

    Raises:
        FailedError: it is.
    """
    if response.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise FailedError("The upstream's answer is compressed.")


def _headers(response: aiohttp.ClientResponse, passage: Passage) -> dict[str, str]:
    """The headers of an answer that is handed on: nothing else of the upstream's is."""
    headers = {
        "Content-Type": "application/json",
        "x-request-id": passage.id,
    }
    if (after := response.headers.get("Retry-After")) is not None:
        headers["Retry-After"] = after
    return headers


def _failed(error: aiohttp.ClientError | TooLongError) -> FailedError:
    if isinstance(error, TooLongError):
        return FailedError("The upstream's answer is too long.")
    if lacks_descriptors(error):
        return FailedError(
            "The gateway may open no more connections.",
            Reason.FULL,
            status=503,
            blame=Blame.NONE,
            moves=False,
            computed=False,
        )
    if isinstance(error, NOT_CONNECTED):
        return FailedError("The upstream cannot be reached.", blame=Blame.CERTAIN, computed=False)
    return FailedError(
        "The upstream broke off before it answered.",
        reconnects=USED_BEFORE.get()
        and isinstance(error, aiohttp.ServerDisconnectedError | aiohttp.ClientOSError),
    )


async def _read(response: aiohttp.ClientResponse) -> bytes:
    """All of an answer.

    Raises:
        TooLongError: it is too long.
    """
    _check_encoding(response)
    parts: list[bytes] = []
    size = 0
    while data := await response.content.readany():
        parts.append(data)
        size += len(data)
        if size > _MOST_ANSWER:
            raise TooLongError
    return b"".join(parts)


async def end_stream(response: aiohttp.ClientResponse) -> None:
    """Read the end of a stream, so that its connection can be used again."""
    if response.content.is_eof():
        return
    with suppress(TimeoutError, aiohttp.ClientError):
        async with asyncio.timeout(_END_S):
            while await response.content.readany():
                pass
