"""What clients have used of what they may: requests, tokens and dollars in a minute or a day.

A request is counted before it is let through, with the most that it can use; afterwards what it did
not use is given back. So a budget is never overspent, in whichever order requests come and go, and
whether one gateway counts or several do in one Redis. Windows are those of the clock, in UTC, and
the number of a window is part of its key: what comes late for one that is over changes no other.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import defaultdict
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from limits.aio.storage import RedisStorage
from limits.errors import StorageError
from redis import exceptions as redis_errors
from redis.asyncio import BlockingConnectionPool
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from tpuflex.errors import ApiError, UnauthenticatedError
from tpuflex.files.trusted import read_private
from tpuflex.gateway.door import RejectedError, unavailable
from tpuflex.gateway.outcome import Reason
from tpuflex.stack.progress import silent

if TYPE_CHECKING:
    from pathlib import Path

    from tpuflex.gateway.clients import Client
    from tpuflex.settings.gateway import BudgetStore, ClientLimits

MICROS = 1_000_000
#: Seconds in which a request has to be counted.
_DEADLINE_S = 1.0
#: Connections to Redis; a request that finds none free waits for one.
_CONNECTIONS = 32
#: Seconds over which retries are spread, so that they do not all come as a window begins.
_JITTER_S = 2.0
_MINUTE, _DAY = 60, 86_400

_T = TypeVar("_T")


class _Unit(StrEnum):
    REQUESTS = "requests"
    TOKENS = "tokens"
    USD_MICROS = "US dollars"


#: Of each limit: what it counts, and the seconds of its window.
_LIMITS = {
    "requests_per_minute": (_Unit.REQUESTS, _MINUTE),
    "requests_per_day": (_Unit.REQUESTS, _DAY),
    "tokens_per_minute": (_Unit.TOKENS, _MINUTE),
    "tokens_per_day": (_Unit.TOKENS, _DAY),
    "usd_per_day": (_Unit.USD_MICROS, _DAY),
}


@dataclass(slots=True)
class _Charge:
    """What is counted for a request in one window.

    Attributes:
        unit: what is counted.
        amount: how much.
        most: how much all requests of the window may use.
        key: the window's, in the storage.
        seconds: how long the window is.
        ends: when it ends, in seconds since the epoch.
    """

    unit: _Unit
    amount: int
    most: int
    key: str
    seconds: int
    ends: int

    def exceeded(self, now: float) -> RejectedError:
        """The answer to a request for which too little is left."""
        a_time = "minute" if self.seconds == _MINUTE else "day (UTC)"
        left = self.ends - now
        if self.amount > self.most:
            message = (
                f"This request may need {self._said(self.amount)}, and this key may use"
                f" {self._said(self.most)} a {a_time}: ask for fewer tokens with `max_tokens`."
            )
            retry_after = None
        else:
            message = (
                f"This key may use {self._said(self.most)} a {a_time}, and too little of that is"
                f" left for this request: the next {a_time.split()[0]} begins in {left:.0f} s."
            )
            retry_after = left + random.uniform(0, _JITTER_S)  # noqa: S311 - jitter
        return RejectedError(
            429, message, Reason.LIMIT, kind="rate_limit_error", retry_after=retry_after
        )

    def _said(self, amount: int) -> str:
        if self.unit is _Unit.USD_MICROS:
            return f"{Decimal(amount) / MICROS:,.2f} {self.unit.value}"
        return f"{amount:,} {self.unit.value if amount != 1 else self.unit.value[:-1]}"


_Change = tuple[_Charge, int]


class Reservation:
    """What is counted for a request that is under way.

    Args:
        charges: what is counted; nothing for a client without limits.
        change: adds to what is counted, as far as that can be done.
    """

    __slots__ = ("_change", "_charges")

    def __init__(
        self, charges: Sequence[_Charge], change: Callable[[Sequence[_Change]], Awaitable[None]]
    ) -> None:
        self._charges, self._change = charges, change

    async def settle(self, tokens: int, usd_micros: int) -> None:
        """Count what was used instead of what was reserved. A second time this does nothing; it
        goes on if the caller is cancelled, and raises nothing: what cannot be given back stays
        counted.

        Args:
            tokens: of the prompt and generated.
            usd_micros: what they cost.
        """
        await self._count({_Unit.TOKENS: tokens, _Unit.USD_MICROS: usd_micros})

    async def cancel(self) -> None:
        """Count nothing, not even the request: no upstream has had it. Else as :meth:`settle`."""
        await self._count(dict.fromkeys(_Unit, 0))

    async def _count(self, used: Mapping[_Unit, int]) -> None:
        charges, self._charges = self._charges, ()
        changes = [
            (each, more)
            for each in charges
            if (more := used.get(each.unit, each.amount) - each.amount) != 0
        ]
        if changes:
            await self._change(changes)


class Counts(Protocol):
    """Where what was used is counted: a storage of limits, or :class:`MemoryCounts`."""

    async def incr(self, key: str, expiry: int, amount: int = 1) -> int:
        """Add to a count, and return it.

        Raises:
            StorageError: it cannot be counted.
        """


class Budgets:
    """What clients have used.

    Args:
        storage: where it is counted.
        report: receives that it cannot be counted any more, and that it can again.
        now: the clock, in seconds since the epoch.
    """

    def __init__(
        self,
        storage: Counts,
        *,
        report: Callable[[str], None] = silent,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._storage, self._report, self._now = storage, report, now
        self._lost = False
        #: Whether counting is waited for; else nobody can leave halfway, and nothing is late.
        self._waits = type(storage) is not MemoryCounts
        #: What goes on though its request was cancelled.
        self._tasks: set[asyncio.Task[Any]] = set()
        #: By client and limit: the end of the window, and what was used of it as it was counted
        #: last.
        self._used: dict[str, tuple[int, int]] = {}

    async def reserve(
        self, client: Client, tokens: int, usd_micros: int, *, requests: int = 1
    ) -> Reservation:
        """Count a request before it is let through, in all windows of its client or in none.

        Args:
            client: whose request it is.
            tokens: the most that it can use, of its prompt and generated.
            usd_micros: the most that they can cost.
            requests: 0 for one that is counted already, and is computed again elsewhere.

        Raises:
            RejectedError: 429: too little is left, and says when there is more; 503: it cannot be
                counted.
        """
        now = self._now()
        charges = tuple(_charges(client, requests, tokens, usd_micros, now))
        if not charges:
            return Reservation(charges, self._settle)
        for each in charges:
            if each.amount > each.most:
                raise each.exceeded(now)
        if self._waits:
            # It ends by itself if the caller is cancelled: halfway, nobody would know what to give
            # back.
            task = self._start(self._add(charges))
            try:
                exceeded = await asyncio.shield(task)
            except asyncio.CancelledError:
                self._start(self._take_back(task, charges))
                raise
        else:
            exceeded = await self._add(charges)
        if exceeded is not None:
            raise exceeded.exceeded(now)
        return Reservation(charges, self._settle)

    def used(self) -> Mapping[str, Mapping[str, int]]:
        """What clients have used of their limits in the windows that run now, by client and limit;
        dollars in micro-dollars. Where gateways share a storage, it is what this one was told when
        it counted last."""
        now, found = self._now(), defaultdict[str, dict[str, int]](dict)
        for window, (ends, used) in self._used.items():
            if now < ends:
                client, _, limit = window.partition("/")
                found[client][limit] = used
        return found

    async def settled(self) -> None:
        """Wait for what goes on though its request was cancelled."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _add(self, charges: Sequence[_Charge]) -> _Charge | None:
        """Count all, or nothing. Returns that for which too little is left.

        Raises:
            RejectedError: it cannot be counted.
        """
        added: list[_Change] = []
        exceeded = None
        try:
            async with self._deadline():
                for each in charges:
                    if not each.amount:
                        continue
                    used = await self._increase(each, each.amount)
                    added.append((each, -each.amount))
                    if used > each.most:
                        exceeded = each
                        break
        except (StorageError, TimeoutError) as error:
            self._start(self._change(added))
            self.lost(error)
            raise unavailable(
                "What this key has used cannot be counted at present.",
                Reason.BUDGETS_UNREACHABLE,
            ) from error
        if self._lost:
            self._lost = False
            self._report("What clients use is counted again.")
        if exceeded is not None:
            await self._change(added)
        return exceeded

    def lost(self, error: StorageError | TimeoutError) -> None:
        """It cannot be counted, until it can again."""
        if not self._lost:
            self._lost = True
            self._report(
                f"What clients use cannot be counted: {_said(error)}. Those with limits get status"
                " 503 until it can."
            )

    async def _take_back(
        self, adding: asyncio.Task[_Charge | None], charges: Sequence[_Charge]
    ) -> None:
        await asyncio.wait([adding])
        if adding.exception() is None and adding.result() is None:
            await self._change([(each, -each.amount) for each in charges if each.amount])

    def _deadline(self) -> AbstractAsyncContextManager[object]:
        return asyncio.timeout(_DEADLINE_S) if self._waits else nullcontext()

    async def _settle(self, changes: Sequence[_Change]) -> None:
        if self._waits:
            await asyncio.shield(self._start(self._change(changes)))
        else:
            await self._change(changes)

    async def _change(self, changes: Sequence[_Change]) -> None:
        """Add to what is counted, as far as that can be done."""
        try:
            async with self._deadline():
                for charge, amount in changes:
                    await self._increase(charge, amount)
        except (StorageError, TimeoutError):
            return

    async def _increase(self, charge: _Charge, amount: int) -> int:
        # Twice as long as its window: a storage whose clock runs ahead must not forget a count that
        # still matters.
        used = await self._storage.incr(charge.key, 2 * charge.seconds, amount)
        window = charge.key.rpartition("/")[0]
        if charge.ends >= self._used.get(window, (0, 0))[0]:
            self._used[window] = charge.ends, used
        return used

    def _start(self, work: Coroutine[Any, Any, _T]) -> asyncio.Task[_T]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


class MemoryCounts:
    """Counts of this process. limits' own storage in memory looks at every key each time that one
    is counted, which takes 14 ms a request with 10,000 clients.

    Attributes:
        counts: by key, how much, and until when it is kept.
    """

    def __init__(self) -> None:
        self.counts: dict[str, tuple[int, float]] = {}
        self._swept = 0.0

    async def incr(self, key: str, expiry: int, amount: int = 1) -> int:
        """Add to a count, which is forgotten so many seconds after it was begun."""
        now = time.monotonic()
        if now > self._swept + _MINUTE:
            self._swept = now
            self.counts = {key: found for key, found in self.counts.items() if found[1] >= now}
        count, ends = self.counts.get(key, (0, now + expiry))
        self.counts[key] = count + amount, ends
        return count + amount


@asynccontextmanager
async def open_budgets(
    store: BudgetStore | None, files: Path, report: Callable[[str], None] = silent
) -> AsyncIterator[Budgets]:
    """Budgets in memory, or in the Redis or Valkey that several gateways share.

    Args:
        store: where that is; None for memory.
        files: folder that its password's file is relative to.
        report: receives that the store does not answer any more, and that it does again.

    Raises:
        AccessError: the password's file cannot be read, or others can; or the store refuses the
            password.
        ApiError: what answers there is no such store.
    """
    if store is None:
        yield Budgets(MemoryCounts())
        return
    password = None
    if store.password_file is not None:
        password = read_private(files / store.password_file).strip()
    pool = BlockingConnectionPool.from_url(
        store.url.replace("valkey://", "redis://"),
        password=password,
        max_connections=_CONNECTIONS,
        timeout=_DEADLINE_S,
        socket_timeout=_DEADLINE_S,
        socket_connect_timeout=_DEADLINE_S,
        # Nothing is sent twice: what is given back twice could be spent twice.
        retry=Retry(NoBackoff(), 0),
    )
    storage = RedisStorage(
        "async+redis://",
        wrap_exceptions=True,
        implementation="redispy",
        key_prefix="tpuflex-gateway",
        connection_pool=pool,  # type: ignore[arg-type] # its options are typed too narrowly
    )
    budgets = Budgets(storage, report=report)
    try:
        try:
            await storage.incr("start", _MINUTE)
        except StorageError as error:
            found = error.storage_error
            if isinstance(found, redis_errors.AuthenticationError):
                raise UnauthenticatedError(
                    f"{store.url} refuses the gateway: {_said(error)}.",
                    hint="Write its password to a file, and that to budgets.password_file.",
                ) from error
            if not isinstance(found, redis_errors.ConnectionError | redis_errors.TimeoutError):
                raise ApiError(
                    f"What clients use cannot be counted at {store.url}: {_said(error)}.",
                    hint="Write the URL of a Redis or Valkey to budgets.url.",
                ) from error
            budgets.lost(error)
        yield budgets
    finally:
        await budgets.settled()
        await pool.disconnect()


def _said(error: StorageError | TimeoutError) -> str:
    """Why a store cannot be asked, in its client's words, which have no password."""
    said = str(error.storage_error) if isinstance(error, StorageError) else ""
    return said.rstrip(".") or "no answer in time"


def _charges(
    client: Client, requests: int, tokens: int, usd_micros: int, now: float
) -> Iterator[_Charge]:
    """What a request is counted as, in each window of its client."""
    amounts = {_Unit.REQUESTS: requests, _Unit.TOKENS: tokens, _Unit.USD_MICROS: usd_micros}
    for name, most in _limits(client.limits):
        unit, seconds = _LIMITS[name]
        number = int(now // seconds)
        key = f"{client.name}/{name}/{number}"
        yield _Charge(unit, amounts[unit], most, key, seconds, (number + 1) * seconds)


def _limits(limits: ClientLimits) -> Iterator[tuple[str, int]]:
    for name, (unit, _) in _LIMITS.items():
        most = getattr(limits, name)
        if most is not None:
            yield name, int(most * MICROS) if unit is _Unit.USD_MICROS else most
