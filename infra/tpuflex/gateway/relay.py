"""One request's way to an upstream and back.

Until an upstream has sent something that was generated, the client has nothing, not even headers,
and the request may move to another upstream, once. From then on it is this upstream's: what comes
is handed on as it came, and an answer that breaks off ends with an error and without ``[DONE]``.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from aiohttp import web

from tpuflex.gateway.admission import Admission, Lease, Refused, RetryBudget
from tpuflex.gateway.answer_cache import AnswerCache, CachedAnswer, cache_key
from tpuflex.gateway.connection import NEW_CONNECTION
from tpuflex.gateway.door import Ask, RejectedError, check_bounds, unavailable
from tpuflex.gateway.handed_stream import HandedStream
from tpuflex.gateway.outcome import Outcome, Reason
from tpuflex.gateway.passage import Bound, Passage
from tpuflex.gateway.sse import StreamedAnswer
from tpuflex.gateway.upstream import Want
from tpuflex.gateway.upstream_answer import Blame, FailedError, Wait, begun_stream, whole_answer
from tpuflex.settings.gateway import SamplingSettings

if TYPE_CHECKING:
    from tpuflex.gateway.budgets import Budgets, Reservation
    from tpuflex.gateway.clients import Client
    from tpuflex.gateway.fleet import Fleet
    from tpuflex.gateway.upstream import Upstream
    from tpuflex.settings.gateway import GatewaySettings

#: What is said of each reason, and the least and the most seconds until the request may be tried
#: again.
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
    Reason.STOPPING: ("The gateway is stopping.", 1, 4),
}


class Relay:
    """Answers completions from upstreams.

    Args:
        settings: classes of requests, and the share that may move.
        fleet: the upstreams.
        admission: decides which requests get a place, and where.
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
        #: By client, so that none can use up the others'.
        self._retries = defaultdict[str, RetryBudget](partial(RetryBudget, settings.retry_share))
        self._ended, self._now = ended, now
        self._cache = AnswerCache()
        self._looked_after: set[HandedStream | Wait] = set()
        #: Requests that have no answer yet, or not all of it, by the task that answers.
        self._under_way: dict[asyncio.Task[Any] | None, Passage] = {}
        self._stopping, self._idle = False, asyncio.Event()
        #: How many answers were cut off.
        self.cut_off = 0

    @property
    def under_way(self) -> int:
        """How many requests have no answer yet, or not all of it."""
        return len(self._under_way)

    def tick(self) -> None:
        """Refuse those who have waited for too long, and look after answers. To be called about
        twice a second."""
        now = self._now()
        self._admission.expire(now)
        for each in tuple(self._looked_after):
            each.tick(now)

    async def drain(self, seconds: float) -> None:
        """Refuse what comes, and wait until all that is under way has ended, for so many seconds
        at most."""
        self._stopping = True
        if self._under_way:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._idle.wait(), seconds)

    def cut(self) -> None:
        """Refuse what comes, and end what is under way with an error."""
        self._stopping = True
        self.cut_off += self.under_way
        for task, passage in self._under_way.items():
            if task is not None:
                passage.cut = True
                task.cancel()

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
            if self._stopping:
                raise self._refusal(Refused(Reason.STOPPING))
            check_bounds(ask, self._settings.requests)
        except RejectedError as rejected:
            self.rejected(rejected, request_id, client, began)
            raise
        bound = self._bound(ask)
        want = Want(ask.model, name, rules.priority, bound.sequence, client.name)
        passage = Passage(request_id, client, ask, want, rules, bound, request, began)
        self._retries[client.name].request()
        task = asyncio.current_task()
        self._under_way[task] = passage
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
            passage.reservation = await self._budgets.reserve(
                client, bound.tokens, bound.usd_micros
            )
            answer = await self._answer(passage)
            if key is not None and isinstance(answer, web.Response) and answer.status == 200:
                body = cast("bytes", answer.body)
                kept = CachedAnswer(body, answer.headers["Content-Type"])
                self._cache.keep(key, kept, self._now())
            return answer
        except RejectedError as rejected:
            passage.ended(rejected.status, rejected.reason)
            raise
        except RecursionError:
            # What could just be read may be too deep to be written, from within more calls.
            passage.ended(400, Reason.INVALID_REQUEST)
            raise RejectedError(
                400, "The body is nested too deeply.", Reason.INVALID_REQUEST
            ) from None
        except asyncio.CancelledError:
            if not passage.cut or request.writer.output_size > 0:
                raise
            stopping = self._refusal(Refused(Reason.STOPPING))
            passage.ended(stopping.status, stopping.reason)
            raise stopping from None
        except Exception:
            passage.ended(500, Reason.FAILED)
            raise
        finally:
            del self._under_way[task]
            if self._stopping and not self._under_way:
                self._idle.set()
            self._ended(passage.outcome(self._now()))
            if passage.reservation is not None:
                await self._settle(passage, passage.reservation)

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

    def _bound(self, ask: Ask) -> Bound:
        pools = self._fleet.pools(ask.model)
        connections = (self._fleet.connection(each) for pool in pools for each in pool)
        return Bound.of(ask, connections, self._settings.requests.max_tokens)

    async def _settle(self, passage: Passage, reservation: Reservation) -> None:
        """Count what a request has used instead of what it could have."""
        if passage.upstream is None:
            await reservation.cancel()
            return
        await reservation.settle(passage.used_tokens, passage.used_usd_micros)

    async def _answer(self, passage: Passage) -> web.StreamResponse:
        found = await self._place(passage)
        if isinstance(found, Refused):
            raise self._refusal(found)
        lease = found
        try:
            while True:
                try:
                    return await self._ask(passage, lease)
                except FailedError as error:
                    failure = error
                if failure.reconnects and passage.first_token is None:
                    NEW_CONNECTION.set(True)
                    continue
                passage.computed = failure.computed
                self._blame(lease.upstream, failure)
                lease.end(self._now())
                other = await self._move(passage, lease.upstream, failure)
                if other is None:
                    return self._give_up(passage, failure)
                lease = other
        finally:
            lease.end(self._now(), left=True)

    async def _place(self, passage: Passage, tried: tuple[Upstream, ...] = ()) -> Lease | Refused:
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
        self, passage: Passage, upstream: Upstream, failure: FailedError
    ) -> Lease | None:
        """A place at another upstream than ``upstream``; None if the request has to stay.

        Raises:
            RejectedError: its client may not use so much.
        """
        if (
            not failure.moves
            or passage.moved is not None
            or not self._retries[passage.client.name].retry()
        ):
            return None
        found = await self._place(passage, (upstream,))
        if isinstance(found, Refused):
            return None
        if failure.computed:
            # What is reserved stays counted for that, and as much again may be used.
            bound = passage.bound
            try:
                passage.reservation = await self._budgets.reserve(
                    passage.client, bound.tokens, bound.usd_micros, requests=0
                )
            except BaseException:
                found.end(self._now())
                raise
        passage.moved = failure.reason
        return found

    def _blame(self, upstream: Upstream, failure: FailedError) -> None:
        """Close ``upstream`` where it has failed for certain; have it looked at where it may
        have."""
        if failure.blame is Blame.CERTAIN:
            # In the words of the upstream's watch, which asks it next: the same reason again is not
            # reported again.
            why = f"it{str(failure).removeprefix('The upstream')}".rstrip(".")
            self._fleet.suspect(upstream, why)
        elif failure.blame is Blame.DOUBT:
            self._fleet.doubt(upstream)

    def _give_up(self, passage: Passage, failure: FailedError) -> web.StreamResponse:
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
        return unavailable(message, refused.reason, soonest, latest)

    async def _ask(self, passage: Passage, lease: Lease) -> web.StreamResponse:
        """Ask an upstream, and hand on what it answers.

        Raises:
            FailedError: it has not answered as it should, and nothing was sent to the client.
        """
        connection = self._fleet.connection(lease.upstream)
        passage.computed = True
        passage.prices = (
            connection.prompt_usd_micros or 0.0,
            connection.generated_usd_micros or 0.0,
        )
        upstream = lease.upstream
        doubt = partial(self._fleet.doubt, upstream)
        wait = Wait(doubt, passage.rules.first_token.limit, self._now())
        with self._looking_after(wait):
            if not passage.ask.stream:
                lease.unmeasured()
                whole = await whole_answer(passage, connection, wait)
                lease.whole_answer(self._now())
                return whole
            answer = StreamedAnswer(hand_on_usage=passage.ask.wants_usage)

            def first_token() -> None:
                passage.first_token = lease.first_token(self._now())

            passage.asked, passage.first_token = self._now(), None
            response, held = await begun_stream(passage, connection, answer, first_token, wait)
        try:
            stream = HandedStream(passage, upstream, response, doubt, self._now)
            with self._looking_after(stream):
                return await stream.hand_on(answer, held)
        finally:
            response.close()

    @contextmanager
    def _looking_after(self, each: HandedStream | Wait) -> Iterator[None]:
        self._looked_after.add(each)
        try:
            yield
        finally:
            self._looked_after.discard(each)
