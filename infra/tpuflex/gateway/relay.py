"""One request's way to an upstream and back.

Until an upstream has sent something that was generated, the client has nothing, not even headers,
and the request may move to another upstream, once. From then on it is this upstream's: what comes
is handed on as it came, and an answer that breaks off ends with an error and without ``[DONE]``.
"""

from __future__ import annotations

import asyncio
import io
import json
import math
import random
import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, cast

import aiohttp
from aiohttp import web

from tpuflex.gateway.admission import Admission, Lease, Refused, RetryBudget
from tpuflex.gateway.answer_cache import AnswerCache, CachedAnswer, cache_key
from tpuflex.gateway.connection import USED_BEFORE
from tpuflex.gateway.door import Ask, RejectedError, check_bounds, error_body
from tpuflex.gateway.outcome import Outcome
from tpuflex.gateway.sse import MOST_BYTES, StreamedAnswer, TooLongError, Usage
from tpuflex.gateway.upstream import Reason, Want
from tpuflex.settings.gateway import SamplingSettings

if TYPE_CHECKING:
    from aiohttp.client import _RequestContextManager

    from tpuflex.gateway.budgets import Budgets, Reservation
    from tpuflex.gateway.clients import Client
    from tpuflex.gateway.connection import Connection
    from tpuflex.gateway.fleet import Fleet
    from tpuflex.gateway.upstream import Upstream
    from tpuflex.settings.gateway import ClassSettings, GatewaySettings

#: Seconds without an event after which a client gets a comment, so that nothing on its way takes
#: the connection for dead.
COMMENT_S = 15.0
#: Seconds after which a client that takes nothing is cut off.
STALLED_S = 60.0
#: Seconds without anything after which an upstream is given up in the middle of an answer. Some
#: parsers of tool calls keep back a call until it is whole.
SILENT_S = 600.0
#: Bytes of an answer that is not streamed.
MOST_ANSWER = 64 * 1024 * 1024
#: Bytes of a body above which it is not handed to a connection at once.
_LONG_BODY = 512 * 1024
#: Seconds that an upstream may take to end a stream after `[DONE]`, for its connection to be used
#: again.
_END_S = 1.0
#: How much longer than expected an answer may take that is not streamed.
_PATIENCE = 4
#: Tokens from which on the pace of a stream says something.
_PACED = 16
#: Status, in logs, of a client that has left before its answer was whole, as nginx has it.
_CLIENT_LEFT = 499
#: How often a request is sent again over another connection: one that was kept may have been closed
#: just as it was used, and so may others.
_RECONNECTS = 2
#: Requests in a row that fail at an upstream until it is suspected, where one may fail by itself.
_STRIKES = 2

#: Tokens that a chat template adds to what is written in a prompt. OpenAI's harmony has most: 70.
_TEMPLATE_TOKENS = 128

_COMMENT = b": keep-alive\n\n"
_STREAM_HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache",
    # nginx would hold back events otherwise.
    "X-Accel-Buffering": "no",
}
#: What a client gets whose answer breaks off.
_BROKEN_OFF = b"data: %b\n\n" % error_body(
    "The answer broke off: its server has failed.", "upstream_error", "upstream_failed"
)

#: What is said of each reason, and from when to when after it a request may be tried again.
_REFUSALS: Mapping[Reason, tuple[str, float, float]] = {
    Reason.NO_UPSTREAM: ("No upstream of this model is serving.", 5, 15),
    Reason.DRAINING: ("The upstreams of this model end their last requests.", 5, 15),
    Reason.RUN_ENDS: (
        "The answer would not be whole when its upstream's run ends, at {ends}: ask for fewer"
        " tokens, or when a successor serves.",
        15,
        45,
    ),
    Reason.KV_CACHE: ("The upstreams' KV caches are full.", 2, 6),
    Reason.SLOW: ("First tokens come too late at present.", 5, 10),
    Reason.FULL: ("All upstreams are busy, and so is the waiting room.", 1, 4),
    Reason.WAITED: ("No place has become free in time.", 1, 4),
}


class _FailedError(Exception):
    """An upstream did not answer as it should, and the client has nothing yet.

    Attributes:
        reason: why, for programs.
        status: what the client gets if the request cannot move.
        strikes: how much it says against the upstream: of :data:`_STRIKES` in a row it is
            suspected.
        moves: whether another upstream may do better.
        reconnects: whether a connection that was there before broke without a byte of an answer, as
            one does that the upstream closed for want of use.
        answer: the upstream's own answer, which the client gets if the request cannot move; None
            for one of ours.
    """

    def __init__(
        self,
        message: str,
        reason: str = "upstream_failed",
        *,
        status: int = 502,
        strikes: int,
        moves: bool = True,
        reconnects: bool = False,
        answer: web.Response | None = None,
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.status = status
        self.strikes = strikes
        self.moves = moves
        self.reconnects = reconnects
        self.answer = answer


@dataclass(slots=True)
class _Bound:
    """The most that a request can use, and what it costs.

    Attributes:
        prompt: tokens of its prompts.
        generated: tokens of all its answers.
        tokens: tokens in all.
        usd_micros: micro-dollars.
    """

    prompt: int
    generated: int
    tokens: int
    usd_micros: int


@dataclass(slots=True, eq=False)
class _Passage:
    """A request under way, and what becomes of it."""

    id: str
    client: Client
    ask: Ask
    want: Want
    rules: ClassSettings
    bound: _Bound
    request: web.BaseRequest
    began: float
    upstream: Upstream | None = None
    pool: int | None = None
    status: int = _CLIENT_LEFT
    reason: str | None = "client_left"
    moved: str | None = None
    waited: float = 0.0
    first_token: float | None = None
    usage: Usage | None = None
    generated: int | None = None
    cached: bool = False
    #: Micro-dollars for a token of the prompt, and for a generated one.
    prices: tuple[float, float] = (0.0, 0.0)

    @property
    def used(self) -> Usage:
        """What it has used, as far as is known; else no less than that."""
        if self.usage is not None:
            return self.usage
        if self.generated is not None:
            return Usage(self.bound.prompt, self.generated)
        if self.status == _CLIENT_LEFT:
            return Usage(self.bound.prompt, 0 if self.ask.stream else self.bound.generated)
        return Usage(0, 0)

    def ended(self, status: int, reason: str | None = None) -> None:
        self.status, self.reason = status, reason

    def outcome(self, now: float) -> Outcome:
        usage = self.usage
        return Outcome(
            id=self.id,
            client=self.client.name,
            request_class=self.want.request_class,
            model=self.want.model,
            upstream=None if self.upstream is None else self.upstream.name,
            pool=self.pool,
            status=self.status,
            reason=self.reason,
            streamed=self.ask.stream,
            moved=self.moved,
            waited_s=self.waited,
            first_token_s=self.first_token,
            seconds=now - self.began,
            prompt_tokens=None if usage is None else usage.prompt,
            generated_tokens=self.generated if usage is None else usage.generated,
            cached=self.cached,
        )


@dataclass(slots=True, eq=False)
class _Stream:
    """A stream whose headers are out.

    Attributes:
        upstream: the answer that is handed on.
        client: the answer that the client gets.
        request: the client's request.
        heard: when something came from the upstream.
        said: when the client got something.
        writing: since when the client has not taken what it got; None while it has.
        silent: whether the upstream was given up for its silence.
        comments: those that are on their way.
    """

    upstream: aiohttp.ClientResponse
    client: web.StreamResponse
    request: web.BaseRequest
    heard: float
    said: float
    writing: float | None = None
    silent: bool = False
    comments: set[asyncio.Task[None]] = field(default_factory=set)

    def tick(self, now: float) -> None:
        """Look after it, once in a while: cheaper than timers that each event sets again."""
        if self.writing is not None:
            transport = self.request.transport
            if now - self.writing > STALLED_S and transport is not None:
                transport.abort()
        elif now - self.heard > SILENT_S:
            self.silent = True
            self.upstream.close()
        elif now - self.said > COMMENT_S:
            self.said = now
            task = asyncio.ensure_future(self._comment())
            self.comments.add(task)
            task.add_done_callback(self.comments.discard)

    async def _comment(self) -> None:
        # Only whole events are written, so a comment never comes within one.
        with suppress(ConnectionError):
            await self.client.write(_COMMENT)


class Relay:
    """Answers completions from upstreams.

    Args:
        settings: classes of requests, and the share that may move.
        fleet: the upstreams.
        admission: who of those that ask gets a place.
        budgets: what clients have used.
        ended: receives how each request has ended.
        now: the clock, monotonic.
    """

    def __init__(
        self,
        settings: GatewaySettings,
        fleet: Fleet,
        admission: Admission,
        budgets: Budgets,
        *,
        ended: Callable[[Outcome], None],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._classes = settings.all_classes
        self._sampled = {
            name for name, each in self._classes.items() if each.sampling != SamplingSettings()
        }
        self._cached = {name for name, each in settings.models.items() if each.cache}
        self._fleet, self._admission, self._budgets = fleet, admission, budgets
        self._retries = RetryBudget(settings.retry_share)
        self._ended, self._now = ended, now
        self._cache = AnswerCache()
        self._streams: set[_Stream] = set()
        #: Requests in a row that failed, by upstream.
        self._strikes: dict[Upstream, int] = {}
        #: How many requests have no answer yet, or not all of it.
        self.under_way = 0

    def tick(self) -> None:
        """Refuse those who have waited for too long, and look after streams. To be called about
        twice a second."""
        now = self._now()
        self._admission.expire(now)
        for each in tuple(self._streams):
            each.tick(now)

    async def complete(
        self, request: web.BaseRequest, client: Client, ask: Ask, request_id: str
    ) -> web.StreamResponse:
        """Answer a completion.

        Raises:
            RejectedError: it gets no answer; nothing has been sent.
        """
        began = self._now()
        name = self._fleet.request_class(ask.model) or client.request_class
        rules = self._classes[name]
        if name in self._sampled:
            ask = ask.sampled(rules.sampling)
        try:
            check_bounds(ask, self._settings.requests)
        except RejectedError as rejected:
            self.rejected(rejected, request_id, client, began)
            raise
        tokens, bound = self._bound(ask)
        want = Want(ask.model, name, rules.priority, tokens)
        passage = _Passage(request_id, client, ask, want, rules, bound, request, began)
        self._retries.request()
        self.under_way += 1
        reservation: Reservation | None = None
        try:
            key = None
            if ask.model in self._cached:
                key = cache_key(client.name, ask.path, ask.document)
            kept = None if key is None else self._cache.find(key, began)
            if kept is not None:
                await self._budgets.reserve(client, 0, 0)
                passage.cached = True
                passage.ended(200)
                return web.Response(
                    body=kept.body,
                    headers={"Content-Type": kept.content_type, "x-request-id": request_id},
                )
            reservation = await self._budgets.reserve(client, bound.tokens, bound.usd_micros)
            answer = await self._answer(passage)
            if key is not None and isinstance(answer, web.Response) and answer.status == 200:
                body = cast("bytes", answer.body)
                kept = CachedAnswer(body, answer.headers["Content-Type"])
                self._cache.keep(key, kept, self._now())
            return answer
        except RejectedError as rejected:
            passage.ended(rejected.status, rejected.reason)
            raise
        finally:
            self.under_way -= 1
            self._ended(passage.outcome(self._now()))
            if reservation is not None:
                await self._settle(passage, reservation)

    def rejected(
        self, rejected: RejectedError, request_id: str, client: Client | None, began: float
    ) -> None:
        """Count a completion that was refused before it was known what it asks for."""
        self._ended(
            Outcome(
                id=request_id,
                client="" if client is None else client.name,
                request_class="",
                model="",
                upstream=None,
                pool=None,
                status=rejected.status,
                reason=rejected.reason,
                streamed=False,
                moved=None,
                waited_s=0.0,
                first_token_s=None,
                seconds=self._now() - began,
                prompt_tokens=None,
                generated_tokens=None,
            )
        )

    def _bound(self, ask: Ask) -> tuple[int, _Bound]:
        """The most tokens that one sequence may be expected to have, and what all can use."""
        lengths: set[int | None] = set()
        prompt_price, generated_price = 0.0, 0.0
        for pool in self._fleet.pools(ask.model):
            for each in pool:
                connection = self._fleet.connection(each)
                lengths.add(connection.max_model_len)
                prompt_price = max(prompt_price, connection.prompt_usd_micros or 0.0)
                generated_price = max(generated_price, connection.generated_usd_micros or 0.0)
        most = self._settings.requests.max_tokens
        known = [each for each in lengths if each is not None]
        longest = max(known, default=most) if len(known) == len(lengths) else None
        context = most if longest is None else longest
        generated = ask.n * (context if ask.max_tokens is None else ask.max_tokens)
        prompt = context * ask.prompts
        if ask.prompt_bytes is not None:
            written = ask.prompt_bytes + _TEMPLATE_TOKENS * ask.prompts
            prompt = written if longest is None else min(prompt, written)
        tokens = prompt + generated
        if longest is not None:
            # Prompt and answer together are no longer than the model's context.
            tokens = min(tokens, ask.n * longest)
        micros = math.ceil(prompt * prompt_price + generated * generated_price)
        bound = _Bound(prompt, generated, tokens, micros)
        return min(context, most) if ask.max_tokens is None else ask.max_tokens, bound

    async def _settle(self, passage: _Passage, reservation: Reservation) -> None:
        """Count what a request has used instead of what it could have."""
        upstream = passage.upstream
        if upstream is None:
            await reservation.cancel()
            return
        used = passage.used
        micros = used.prompt * passage.prices[0] + used.generated * passage.prices[1]
        await reservation.settle(used.prompt + used.generated, math.ceil(micros))

    async def _answer(self, passage: _Passage) -> web.StreamResponse:
        found = await self._place(passage)
        if isinstance(found, Refused):
            raise self._refusal(found)
        lease, reconnects = found, 0
        try:
            while True:
                try:
                    return await self._ask(passage, lease)
                except _FailedError as error:
                    failure = error
                if failure.reconnects and reconnects < _RECONNECTS:
                    reconnects += 1
                    continue
                self._strike(lease.upstream, failure)
                lease.end(self._now())
                other = await self._move(passage, lease.upstream, failure)
                if other is None:
                    return self._give_up(passage, failure)
                lease = other
        finally:
            lease.end(self._now())

    async def _place(self, passage: _Passage, tried: tuple[Upstream, ...] = ()) -> Lease | Refused:
        """A place at an upstream, perhaps after a wait."""
        began = self._now()
        decision: list[Lease | Refused] = []
        waits: asyncio.Future[None] | None = None

        def decided(found: Lease | Refused) -> None:
            decision.append(found)
            if waits is not None and not waits.done():
                waits.set_result(None)

        leave = self._admission.ask(passage.want, began, decided, tried)
        if not decision:
            waits = asyncio.get_running_loop().create_future()
            try:
                await waits
            except asyncio.CancelledError:
                leave()
                for each in decision:
                    if isinstance(each, Lease):
                        each.end(self._now())
                raise
            finally:
                passage.waited += self._now() - began
        [found] = decision
        if isinstance(found, Lease):
            passage.upstream, passage.pool = found.upstream, found.pool
        return found

    async def _move(
        self, passage: _Passage, upstream: Upstream, failure: _FailedError
    ) -> Lease | None:
        """A place at another upstream than ``upstream``; None if the request has to stay."""
        if not failure.moves or passage.moved is not None or not self._retries.retry():
            return None
        found = await self._place(passage, (upstream,))
        if isinstance(found, Refused):
            return None
        passage.moved = failure.reason
        return found

    def _strike(self, upstream: Upstream, failure: _FailedError) -> None:
        """Count a failure against ``upstream``."""
        if failure.strikes:
            strikes = self._strikes.get(upstream, 0) + failure.strikes
            self._strikes[upstream] = strikes
            if strikes >= _STRIKES:
                self._suspect(upstream, str(failure).rstrip("."))

    def _suspect(self, upstream: Upstream, why: str) -> None:
        self._strikes.pop(upstream, None)
        self._fleet.suspect(upstream, why)

    def _give_up(self, passage: _Passage, failure: _FailedError) -> web.StreamResponse:
        """The answer to a request that failed and does not move."""
        if failure.answer is None:
            raise RejectedError(
                failure.status,
                str(failure),
                failure.reason,
                kind="upstream_error",
                retry_after=random.uniform(1, 4),  # noqa: S311 - jitter
            ) from failure
        passage.ended(failure.status, failure.reason)
        return failure.answer

    def _refusal(self, refused: Refused) -> RejectedError:
        message, soonest, latest = _REFUSALS[refused.reason]
        if refused.ends is not None:
            ends = datetime.now(UTC) + timedelta(seconds=refused.ends - self._now())
            message = message.format(ends=f"{ends:%H:%M:%S} UTC")
        return RejectedError(
            503,
            message,
            refused.reason,
            kind="service_unavailable_error",
            retry_after=random.uniform(soonest, latest),  # noqa: S311 - jitter
        )

    async def _ask(self, passage: _Passage, lease: Lease) -> web.StreamResponse:
        """Ask an upstream, and hand on what it answers.

        Raises:
            _FailedError: it has not answered as it should, and nothing was sent to the client.
        """
        connection = self._fleet.connection(lease.upstream)
        passage.prices = (
            connection.prompt_usd_micros or 0.0,
            connection.generated_usd_micros or 0.0,
        )
        if not passage.ask.stream:
            lease.unmeasured()
            return await self._whole(passage, lease.upstream, connection)
        answer = StreamedAnswer(hand_on_usage=passage.ask.wants_usage)
        try:
            async with asyncio.timeout(passage.rules.first_token.limit):
                response, held = await self._begin(passage, connection, answer)
        except TimeoutError as error:
            raise _FailedError(
                "No first token has come in time.", "first_token_timeout", status=504, strikes=1
            ) from error
        try:
            self._strikes.pop(lease.upstream, None)
            passage.first_token = lease.first_token(self._now())
            return await self._hand_on(passage, lease.upstream, response, answer, held)
        finally:
            response.close()

    async def _whole(
        self, passage: _Passage, upstream: Upstream, connection: Connection
    ) -> web.StreamResponse:
        """Ask for an answer that is not streamed."""
        limit = passage.rules.first_token.limit
        expected = upstream.seconds_for(passage.want.tokens, limit)
        try:
            async with asyncio.timeout(_PATIENCE * expected):
                async with self._request(passage, connection) as response:
                    body = await _read(response)
        except (aiohttp.ClientError, TooLongError) as error:
            raise _failed(error) from error
        except TimeoutError as error:
            raise _FailedError(
                "The upstream has not answered in time.", "timeout", status=504, strikes=1
            ) from error
        _check(response, body, passage)
        self._strikes.pop(upstream, None)
        with suppress(ValueError, RecursionError):
            passage.usage = Usage.of(json.loads(body))
        passage.ended(200)
        return web.Response(body=body, headers=_headers(response, passage))

    async def _begin(
        self, passage: _Passage, connection: Connection, answer: StreamedAnswer
    ) -> tuple[aiohttp.ClientResponse, bytes]:
        """Ask for a stream, and wait until something was generated. Returns what came until
        then."""
        try:
            response = await self._request(passage, connection)
            try:
                if response.status != 200:
                    _check(response, await _read(response), passage)
                if response.content_type != "text/event-stream":
                    raise _FailedError("The upstream's answer is no stream.", strikes=1)
                held: list[bytes] = []
                size = 0
                while not (answer.begun or answer.done):
                    data = await response.content.readany()
                    size += len(data)
                    if size > MOST_BYTES:
                        raise TooLongError
                    held.append(answer.take(data))
                    if answer.error is not None:
                        raise _FailedError("The upstream has given up.", strikes=1)
                    if not data:
                        raise _FailedError("The upstream's answer is empty.", strikes=_STRIKES)
                return response, b"".join(held)
            except BaseException:
                response.close()
                raise
        except (aiohttp.ClientError, TooLongError) as error:
            raise _failed(error) from error

    def _request(self, passage: _Passage, connection: Connection) -> _RequestContextManager:
        ask, document = passage.ask, dict(passage.ask.document)
        document["model"] = connection.upstream.model
        if ask.stream:
            options = document.get("stream_options") or {}
            document["stream_options"] = {**options, "include_usage": True}
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

    async def _hand_on(
        self,
        passage: _Passage,
        upstream: Upstream,
        response: aiohttp.ClientResponse,
        answer: StreamedAnswer,
        out: bytes,
    ) -> web.StreamResponse:
        """Hand on a stream that has begun. From here on nothing moves, and nothing is raised."""
        client = web.StreamResponse(headers={**_STREAM_HEADERS, "x-request-id": passage.id})
        began = self._now()
        stream = _Stream(response, client, passage.request, began, began)
        self._streams.add(stream)
        failure = ""
        try:
            try:
                stream.writing = began
                await client.prepare(passage.request)
                while not answer.ended:
                    if out:
                        stream.writing = stream.said = stream.heard
                        await client.write(out)
                    stream.writing = None
                    data = await response.content.readany()
                    stream.heard = self._now()
                    if not data:
                        failure = "it ended in the middle of an answer"
                        break
                    out = answer.take(data)
            except (aiohttp.ClientError, TooLongError) as error:
                if stream.writing is not None:
                    return client  # it has left
                failure = "it fell silent" if stream.silent else f"it broke off: {error!r}"
            if failure:
                passage.ended(200, "upstream_failed")
                self._suspect(upstream, failure)
                out = _BROKEN_OFF
            elif answer.error is not None:
                passage.ended(200, "upstream_error")
                self._strike(upstream, _FailedError("it has given up a request", strikes=1))
                out += answer.error if b'"error"' in answer.error else _BROKEN_OFF
            else:
                passage.ended(200)
                _pace(upstream, passage.ask, answer.usage, stream.heard - began)
            stream.writing = self._now()
            with suppress(ConnectionError):
                await client.write_eof(out)
        finally:
            self._streams.discard(stream)
            for comment in stream.comments:
                comment.cancel()
            passage.usage, passage.generated = answer.usage, answer.events
        if answer.done:
            await _end(response)
        return client


def _pace(upstream: Upstream, ask: Ask, usage: Usage | None, seconds: float) -> None:
    """Tell ``upstream`` how fast a stream was."""
    if usage is not None and usage.generated >= _PACED * ask.n:
        upstream.streamed(usage.generated // ask.n - 1, seconds)


def _check(response: aiohttp.ClientResponse, body: bytes, passage: _Passage) -> None:
    """Refuse an answer that has not what was asked for.

    Raises:
        _FailedError: always, but for status 200.
    """
    status = response.status
    if status == 200:
        return
    said = f"The upstream has answered with status {status}."
    if status in (401, 403):
        # It is the gateway's own key that is refused, and no client can mend that.
        raise _FailedError("The upstream refuses the gateway.", "upstream_key", strikes=_STRIKES)
    if 400 <= status < 500:
        answer = web.Response(status=status, body=body, headers=_headers(response, passage))
        # At 429 it is the gateway's own limit there.
        raise _FailedError(
            said, "upstream_refused", status=status, strikes=0, moves=status == 429, answer=answer
        )
    raise _FailedError(said, strikes=_STRIKES if status == 503 else 1)


def _headers(response: aiohttp.ClientResponse, passage: _Passage) -> dict[str, str]:
    """The headers of an answer that is handed on: nothing else of the upstream's is."""
    headers = {
        "Content-Type": response.headers.get("Content-Type", "application/json"),
        "x-request-id": passage.id,
    }
    if (after := response.headers.get("Retry-After")) is not None:
        headers["Retry-After"] = after
    return headers


def _failed(error: aiohttp.ClientError | TooLongError) -> _FailedError:
    if isinstance(error, TooLongError):
        return _FailedError("The upstream's answer is too long.", strikes=1)
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
        return _FailedError("The upstream cannot be reached.", strikes=_STRIKES)
    return _FailedError(
        "The upstream broke off before it answered.",
        strikes=_STRIKES,
        reconnects=USED_BEFORE.get()
        and isinstance(error, aiohttp.ServerDisconnectedError | aiohttp.ClientOSError),
    )


async def _read(response: aiohttp.ClientResponse) -> bytes:
    """All of an answer.

    Raises:
        TooLongError: it is too long.
    """
    parts: list[bytes] = []
    size = 0
    while data := await response.content.readany():
        parts.append(data)
        size += len(data)
        if size > MOST_ANSWER:
            raise TooLongError
    return b"".join(parts)


async def _end(response: aiohttp.ClientResponse) -> None:
    """Read the end of a stream, so that its connection can be used again."""
    with suppress(TimeoutError, aiohttp.ClientError):
        async with asyncio.timeout(_END_S):
            while await response.content.readany():
                pass
