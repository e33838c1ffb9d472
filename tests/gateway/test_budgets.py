"""What clients may use is never overspent."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from limits.errors import StorageError

from tpuflex.gateway.budgets import Budgets, MemoryCounts, open_budgets
from tpuflex.gateway.clients import Client
from tpuflex.gateway.door import RejectedError
from tpuflex.settings.gateway import BudgetStore, ClientLimits

NOON = 1_800_000_000 // 86_400 * 86_400 + 43_200


@dataclass
class Clock:
    time: float = NOON

    def __call__(self) -> float:
        return self.time


def client(**limits: int | Decimal) -> Client:
    return Client("somebody", "interactive", None, ClientLimits.model_validate(limits))


def counting(clock: Clock) -> Budgets:
    return Budgets(MemoryCounts(), now=clock)


async def refused(budgets: Budgets, who: Client, tokens: int = 0, usd: int = 0) -> RejectedError:
    with pytest.raises(RejectedError) as caught:
        await budgets.reserve(who, tokens, usd)
    return caught.value


@pytest.mark.parametrize(
    ("limits", "tokens", "usd_micros", "message"),
    [
        ({"requests_per_minute": 2}, 0, 0, "may use 2 requests a minute"),
        ({"requests_per_day": 2}, 0, 0, "may use 2 requests a day (UTC)"),
        ({"tokens_per_minute": 250}, 100, 0, "may use 250 tokens a minute"),
        ({"tokens_per_day": 2500}, 1000, 0, "may use 2,500 tokens a day (UTC)"),
        ({"usd_per_day": Decimal("2.50")}, 0, 1_000_000, "may use 2.50 US dollars a day (UTC)"),
    ],
)
async def test_what_is_used_up_is_refused_until_the_window_ends(
    limits: dict[str, int], tokens: int, usd_micros: int, message: str
) -> None:
    clock = Clock(NOON + 18)
    budgets, who = counting(clock), client(**limits)
    length = 60 if "minute" in message else 86_400
    left = length - clock.time % length

    for _ in range(2):
        await budgets.reserve(who, tokens, usd_micros)
    error = await refused(budgets, who, tokens, usd_micros)

    assert (error.status, error.reason) == (429, "client_limit")
    assert message in str(error)
    assert error.retry_after is not None
    assert left <= error.retry_after <= left + 2
    await budgets.reserve(Client("else", "interactive", None, who.limits), tokens, usd_micros)
    clock.time += left
    await budgets.reserve(who, tokens, usd_micros)


async def test_what_is_not_used_is_given_back_and_what_was_used_beyond_is_counted() -> None:
    budgets, who = counting(Clock()), client(tokens_per_minute=100, usd_per_day=1)

    reservation = await budgets.reserve(who, 100, 1_000_000)
    await refused(budgets, who, 1)
    await reservation.settle(40, 0)
    await reservation.settle(0, 0)  # counted once
    await refused(budgets, who, 61)
    reservation = await budgets.reserve(who, 60, 1_000_000)
    await reservation.settle(59, 2_000_000)  # a price that was not foreseen
    await refused(budgets, who, 1, 1)
    await budgets.reserve(who, 1, 0)
    await refused(budgets, who, 1)


async def test_what_no_upstream_has_had_does_not_count_at_all() -> None:
    budgets, who = counting(Clock()), client(requests_per_day=1, tokens_per_day=10)

    await (await budgets.reserve(who, 10, 0)).cancel()
    await (await budgets.reserve(who, 10, 0)).settle(0, 0)
    await refused(budgets, who)  # a request counts that was asked


async def test_one_window_that_is_used_up_leaves_the_others_as_they_were() -> None:
    clock = Clock()
    budgets, who = counting(clock), client(requests_per_day=3, tokens_per_minute=10)

    await budgets.reserve(who, 10, 0)
    for _ in range(10):
        await refused(budgets, who, 1)
    clock.time += 60
    await budgets.reserve(who, 10, 0)
    clock.time += 60
    await budgets.reserve(who, 10, 0)
    clock.time += 60
    await refused(budgets, who, 1)


async def test_what_ends_in_the_next_window_gives_nothing_back_to_it() -> None:
    clock = Clock()
    budgets, who = counting(clock), client(tokens_per_minute=100)

    reservation = await budgets.reserve(who, 100, 0)
    clock.time += 60
    await reservation.settle(0, 0)
    await budgets.reserve(who, 100, 0)
    await refused(budgets, who, 1)


async def test_what_never_fits_is_refused_for_good_and_counted_nowhere() -> None:
    budgets, who = counting(Clock()), client(requests_per_day=1, tokens_per_day=1000)

    error = await refused(budgets, who, 1001)

    assert (error.status, error.retry_after) == (429, None)
    assert "1,001 tokens" in str(error)
    assert "`max_tokens`" in str(error)
    await budgets.reserve(who, 1000, 0)


async def test_a_client_without_limits_is_not_counted() -> None:
    no_storage: Any = None

    reservation = await Budgets(no_storage).reserve(client(), 10**9, 10**9)
    await reservation.settle(1, 1)


@dataclass
class _Call:
    tokens: int
    used: float
    begins: int
    lasts: int
    cancelled: int | None


_CALLS = st.lists(
    st.builds(
        _Call,
        tokens=st.integers(0, 60),
        used=st.floats(0, 1),
        begins=st.integers(0, 60),
        lasts=st.integers(0, 20),
        cancelled=st.none() | st.integers(0, 40),
    ),
    min_size=150,
    max_size=200,
)


class _Distant(MemoryCounts):
    """Takes a while to answer, in another order than it was asked, as over a network; fails where
    it should, before or after it has counted."""

    def __init__(self, clock: Clock, order: random.Random, failures: float) -> None:
        super().__init__()
        self._clock, self._order, self._failures = clock, order, failures

    async def incr(self, key: str, expiry: int, amount: int = 1) -> int:
        await self._pause()
        used = await super().incr(key, expiry, amount)
        await self._pause()
        return used

    async def _pause(self) -> None:
        for _ in range(self._order.randrange(4)):
            await asyncio.sleep(0)
        self._clock.time += self._order.random() / 10
        if self._order.random() < self._failures:
            raise StorageError(OSError())


@dataclass
class _Ledger:
    """What is reserved or used, by window, as the test itself counts it."""

    limits: ClientLimits
    used: Counter[tuple[str, int]] = field(default_factory=Counter)

    def add(self, began: float, tokens: int, requests: int) -> None:
        for name, amount, seconds in (
            ("requests_per_minute", requests, 60),
            ("requests_per_day", requests, 86_400),
            ("tokens_per_minute", tokens, 60),
            ("tokens_per_day", tokens, 86_400),
        ):
            window = (name, int(began // seconds))
            self.used[window] += amount
            assert 0 <= self.used[window] <= getattr(self.limits, name), window


# Shrinking 200 calls takes minutes, and what is left says little.
@settings(max_examples=15, deadline=None, phases=[Phase.reuse, Phase.generate])
@given(calls=_CALLS, seed=st.integers(0, 10**6), failures=st.sampled_from([0, 0, 0.05]))
def test_no_order_of_concurrent_calls_spends_more_than_there_is(
    calls: list[_Call], seed: int, failures: float
) -> None:
    """Calls come, end and are cancelled while minutes pass, and at midnight a day; afterwards no
    reservation is left over."""
    clock = Clock(NOON + 43_200 - 60)
    storage = _Distant(clock, random.Random(seed), failures)  # noqa: S311 - an order
    budgets = Budgets(storage, now=clock)
    who = client(
        requests_per_minute=40, requests_per_day=90, tokens_per_minute=900, tokens_per_day=2000
    )
    ledger = _Ledger(who.limits)

    async def call(it: _Call) -> None:
        for _ in range(it.begins):
            await asyncio.sleep(0)
        began = clock.time
        with suppress(RejectedError):
            reservation = await budgets.reserve(who, it.tokens, 0)
            ledger.add(began, it.tokens, 1)
            used = 0
            try:
                for _ in range(it.lasts):
                    await asyncio.sleep(0)
                used = int(it.tokens * it.used)
            finally:
                # Also of one that was cancelled, as it ends.
                ledger.add(began, used - it.tokens, 0)
                await reservation.settle(used, 0)

    async def cancel(task: asyncio.Task[None], after: int) -> None:
        for _ in range(after):
            await asyncio.sleep(0)
        task.cancel()

    async def all_of_them() -> None:
        tasks = [asyncio.create_task(call(each)) for each in calls]
        cancels = [
            cancel(task, each.begins + each.cancelled)
            for task, each in zip(tasks, calls, strict=True)
            if each.cancelled is not None
        ]
        await asyncio.gather(*tasks, *cancels, return_exceptions=True)
        for task in tasks:
            if not task.cancelled():
                task.result()
        await budgets.settled()

    asyncio.run(all_of_them())

    if not failures:
        minute, day = int(clock.time // 60), int(clock.time // 86_400)
        for name, window in [
            ("requests_per_minute", minute),
            ("requests_per_day", day),
            ("tokens_per_minute", minute),
            ("tokens_per_day", day),
        ]:
            counted, _ = storage.counts.get(f"somebody/{name}/{window}", (0, 0.0))
            assert counted == ledger.used[name, window], name


class _Broken(MemoryCounts):
    """Fails, or does not answer, from the second increment on."""

    def __init__(self, *, silent: bool) -> None:
        super().__init__()
        self._silent, self._times = silent, 0

    async def incr(self, key: str, expiry: int, amount: int = 1) -> int:
        self._times += 1
        if self._times > 1:
            if self._silent:
                await asyncio.Event().wait()
            raise StorageError(ConnectionError())
        return await super().incr(key, expiry, amount)


@pytest.mark.parametrize("silent", [False, True])
async def test_nothing_is_let_through_that_cannot_be_counted(
    silent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tpuflex.gateway.budgets._DEADLINE_S", 0.01)
    lines: list[str] = []
    budgets = Budgets(_Broken(silent=silent), report=lines.append)

    error = await refused(budgets, client(requests_per_minute=5, tokens_per_day=100), 10)

    assert (error.status, error.reason) == (503, "budgets_unreachable")
    assert error.retry_after is not None
    await budgets.settled()
    [line] = lines
    assert line.startswith("What clients use cannot be counted: ")


async def test_what_cannot_be_given_back_stays_counted_and_harms_nobody() -> None:
    budgets = Budgets(_Broken(silent=False))

    reservation = await budgets.reserve(client(tokens_per_day=100), 10, 0)
    await reservation.settle(1, 0)


async def test_a_store_that_does_not_answer_is_said_at_the_start(unused_tcp_port: int) -> None:
    store = BudgetStore(url=f"valkey://127.0.0.1:{unused_tcp_port}")

    lines = list[str]()
    async with open_budgets(store, Path(), lines.append) as budgets:
        with pytest.raises(RejectedError) as caught:
            await budgets.reserve(client(tokens_per_day=100), 1, 0)
        await budgets.reserve(client(), 1, 0)
    assert caught.value.reason == "budgets_unreachable"
    [line] = lines
    assert "Those with limits get status 503 until it can." in line


async def test_what_is_used_can_be_looked_at() -> None:
    """In the windows that run now, with what is reserved; without asking the storage."""
    clock = Clock()
    budgets, who = counting(clock), client(tokens_per_minute=1000, requests_per_day=10)
    reservation = await budgets.reserve(who, 400, 0)
    assert budgets.used() == {"somebody": {"tokens_per_minute": 400, "requests_per_day": 1}}

    await reservation.settle(100, 0)
    assert budgets.used()["somebody"]["tokens_per_minute"] == 100
    clock.time += 60
    assert budgets.used() == {"somebody": {"requests_per_day": 1}}
