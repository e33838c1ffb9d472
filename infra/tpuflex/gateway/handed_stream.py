"""A stream on its way to the client, from its first token to its end.

What comes is handed on as it came, no faster than the client takes it. An answer that breaks off
ends with an error, and without ``[DONE]``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import aiohttp
from aiohttp import web

from tpuflex.gateway.door import error_body
from tpuflex.gateway.outcome import Reason
from tpuflex.gateway.sse import TooLongError
from tpuflex.gateway.upstream_answer import (
    SILENT_S,
    Patience,
    end_stream,
    error_for_client,
)

if TYPE_CHECKING:
    from tpuflex.gateway.passage import Passage
    from tpuflex.gateway.sse import StreamedAnswer
    from tpuflex.gateway.upstream import Upstream

#: Seconds without an event after which a client gets a comment, so that nothing on its way takes
#: the connection for dead.
COMMENT_S = 15.0
#: Seconds after which a client that takes nothing is cut off.
STALLED_S = 60.0
#: Seconds for which one write may take, for the stream to go as fast as its upstream.
_HELD_UP_S = 1.0
#: Tokens from which on the pace of a stream says something.
_PACED = 16

_COMMENT = b": keep-alive\n\n"
_HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache",
    # nginx would hold back events otherwise.
    "X-Accel-Buffering": "no",
}
#: What a client gets whose answer breaks off.
_BROKEN_OFF = b"data: %b\n\n" % error_body(
    "The answer broke off: its server has failed.", "upstream_error", Reason.UPSTREAM_FAILED
)
_STOPPING = b"data: %b\n\n" % error_body(
    "The answer broke off: the gateway is stopping.", "service_unavailable_error", Reason.STOPPING
)


class _Answer(web.StreamResponse):
    """A stream's answer, whose head goes with its first event, in one packet."""

    _send_headers_immediately = False


class HandedStream:
    """A stream that has begun.

    Args:
        passage: the request.
        upstream: where it comes from.
        response: what comes from there.
        doubt: has it found out whether the upstream makes tokens; says whether the stream may
            still end well.
        now: the clock, monotonic.
    """

    def __init__(
        self,
        passage: Passage,
        upstream: Upstream,
        response: aiohttp.ClientResponse,
        doubt: Callable[[], asyncio.Future[bool]],
        now: Callable[[], float],
    ) -> None:
        self._passage, self._upstream, self._response = passage, upstream, response
        self._doubt, self._now = doubt, now
        self._client = _Answer(headers={**_HEADERS, "x-request-id": passage.id})
        #: When something came from the upstream, and when the client got something.
        self._heard = self._said = now()
        #: Since when the client has not taken what it got; None while it has.
        self._writing: float | None = self._heard
        self._held_up = False
        self._limit = passage.rules.first_token.limit
        self._patience = Patience(doubt, self._limit)
        self._comments: set[asyncio.Task[None]] = set()

    def tick(self, now: float) -> None:
        """Look after it, once in a while: cheaper than timers that each event sets again."""
        if self._writing is not None:
            transport = self._passage.request.transport
            self._held_up |= now - self._writing > _HELD_UP_S
            if now - self._writing > STALLED_S and transport is not None:
                transport.abort()
            return
        if now - self._heard > SILENT_S:
            self._give_up()
        self._patience.tick(now, self._heard, self._give_up)
        if now - self._said > COMMENT_S:
            self._said = now
            task = asyncio.ensure_future(self._comment())
            self._comments.add(task)
            task.add_done_callback(self._comments.discard)

    def _give_up(self) -> None:
        if self._now() - self._heard > self._limit:  # nothing has come while that was found out
            self._response.close()

    async def _comment(self) -> None:
        # Only whole events are written, so a comment never comes within one; nor may it come after
        # the end, if that is being written by now.
        if self._writing is None:
            with suppress(ConnectionError):
                await self._client.write(_COMMENT)

    async def hand_on(self, answer: StreamedAnswer, out: bytes) -> web.StreamResponse:
        """Hand it on until it ends, or the client leaves. Nothing is raised.

        Args:
            answer: takes what comes.
            out: what has come already.

        Returns:
            What the client got.
        """
        passage = self._passage
        try:
            rest = await self._pump(answer, out)
            if rest is None:
                return self._client
            if rest is _STOPPING:
                passage.ended(200, Reason.STOPPING)
            elif rest is _BROKEN_OFF:
                passage.ended(200, Reason.UPSTREAM_FAILED)
                self._doubt()
            elif answer.error is not None:
                passage.ended(200, Reason.UPSTREAM_ERROR)
                self._doubt()
                error = error_for_client(answer.error)
                rest += _BROKEN_OFF if error is None else b"data: %b\n\n" % error
            else:
                passage.ended(200)
                self._tell_pace(answer)
            self._writing = self._now()
            with suppress(ConnectionError):
                await self._client.write_eof(rest)
        finally:
            for comment in self._comments:
                comment.cancel()
            passage.usage, passage.generated = answer.usage, answer.events
            passage.received = answer.most_tokens
        if answer.done:
            await end_stream(self._response)
        return self._client

    async def _pump(self, answer: StreamedAnswer, out: bytes) -> bytes | None:
        """Hand on all but the last of it, which is returned: the stream's own, or the error of one
        that broke off; None if the client has left."""
        try:
            await self._client.prepare(self._passage.request)
            while not answer.ended:
                if out:
                    self._writing = self._said = self._heard
                    await self._client.write(out)
                self._writing = None
                data = await self._response.content.readany()
                self._heard = self._now()
                if not data:
                    return _BROKEN_OFF
                out = answer.take(data)
        except asyncio.CancelledError:
            if not self._passage.cut:
                raise
            return _STOPPING
        except (aiohttp.ClientError, TooLongError):
            return _BROKEN_OFF if self._writing is None else None
        return out

    def _tell_pace(self, answer: StreamedAnswer) -> None:
        """Tell the upstream how fast one of its streams was, unless its reader was slower."""
        usage, n = answer.usage, self._passage.ask.n
        if usage is not None and usage.generated >= _PACED * n and not self._held_up:
            # What parsers and stop sequences held back was generated before the first that came.
            seconds = self._heard - self._passage.asked
            self._upstream.streamed(usage.generated // n, seconds)
