"""Which upstream gets a request, which requests wait, and which are refused."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuflex.gateway.admission import Admission, ClassRules, Lease, Refused, RetryBudget
from tpuflex.gateway.first_token import LEAST, OPEN_S, PROBES, FirstTokenLimits
from tpuflex.gateway.in_flight import InFlightLimit
from tpuflex.gateway.outcome import Reason
from tpuflex.gateway.upstream import Upstream, Want

LIMITS = FirstTokenLimits(slow=1.5, very_slow=2.0)
CLASSES = {
    "interactive": ClassRules(LIMITS, wait=10, waiting=3),
    "batch": ClassRules(LIMITS, wait=60, waiting=100),
    "now": ClassRules(LIMITS, wait=0, waiting=3),
}
WANT = Want("model", "interactive", 0, 100)
BATCH = Want("model", "batch", 100, 100)


def upstream(name: str = "one", most: int = 2) -> Upstream:
    return Upstream(name, f"http://{name}/v1", "model", InFlightLimit(most, most), open=True)


class Door:
    """Requests that ask at ``now``, and what was decided."""

    def __init__(self, *pools: Collection[Upstream]) -> None:
        self.admission = Admission(CLASSES, lambda _: pools)
        self.now = 0.0
        self.decided: dict[str, Lease | Refused] = {}

    def ask(
        self, name: str, want: Want = WANT, tried: Collection[Upstream] = ()
    ) -> Callable[[], None]:
        def decided(found: Lease | Refused) -> None:
            assert name not in self.decided
            self.decided[name] = found

        return self.admission.ask(want, self.now, decided, tried)

    def lease(self, name: str) -> Lease:
        found = self.decided[name]
        assert isinstance(found, Lease)
        return found

    def end(self, name: str) -> None:
        self.lease(name).end(self.now)

    def reason(self, name: str) -> Reason:
        found = self.decided[name]
        assert isinstance(found, Refused)
        return found.reason

    @property
    def placed(self) -> list[str]:
        return [name for name, found in self.decided.items() if isinstance(found, Lease)]


def late(server: Upstream, seconds: float, request_class: str = "interactive") -> None:
    """Its first tokens come after so many seconds."""
    breaker = server.breaker(request_class, LIMITS)
    for _ in range(LEAST):
        breaker.first_token(breaker.begin(-seconds), 0)


def test_a_request_goes_where_most_room_is() -> None:
    """By the share of the limit that is used."""
    small, large = upstream("small", 2), upstream("large", 4)
    door = Door([small, large])

    for name in "abcdef":
        door.ask(name)

    assert (small.in_flight, large.in_flight) == (2, 4)
    assert [door.lease(name).upstream.name for name in "abc"] == ["small", "large", "large"]


def test_requests_wait_and_go_by_priority() -> None:
    """The more urgent class first, each in the order in which its requests came."""
    door = Door([upstream(most=1)])
    door.ask("first")

    door.ask("batch 1", BATCH)
    door.ask("1")
    door.ask("batch 2", BATCH)
    door.ask("2")
    order = ["first"]
    while len(order) < 5:
        door.end(order[-1])
        order.append(door.placed[-1])

    assert order == ["first", "1", "2", "batch 1", "batch 2"]


def test_an_urgent_request_does_not_pass_those_of_its_class() -> None:
    """A place that is free goes to those who wait, where one could not be given it yet."""
    server = upstream(most=1)
    door = Door([server])
    door.ask("first")
    door.ask("waits")

    server.limit.value = 2
    door.ask("later")

    assert door.placed == ["first"]
    door.admission.pump(0)
    assert door.placed == ["first", "waits"]


def test_the_waiting_room_is_bounded() -> None:
    """In number, by class, and in time."""
    door = Door([upstream(most=1)])
    door.ask("first")

    for name in "abcd":
        door.ask(name)
    door.ask("not at all", replace(WANT, request_class="now"))
    assert door.reason("d") is Reason.FULL
    assert door.reason("not at all") is Reason.FULL
    door.now = 10.0
    door.admission.expire(door.now)
    assert [door.reason(name) for name in "abc"] == [Reason.WAITED] * 3
    door.end("first")
    assert door.placed == ["first"]
    assert door.admission.waiting("interactive") == 0


def of(client: str, want: Want = WANT) -> Want:
    return replace(want, client=client)


def test_each_client_has_its_turn() -> None:
    """However many of its requests wait, and whenever another comes; those that left or have had
    their place cost it none."""
    door = Door([upstream(most=1)])
    door.ask("first")
    for name in ("a1", "a2", "a3", "a4"):
        door.ask(name, of("a", BATCH))
    door.ask("a5", of("a", BATCH))()
    door.ask("b1", of("b", BATCH))
    order = ["first"]
    for _ in range(2):
        door.end(order[-1])
        order.append(door.placed[-1])
    for name in ("c1", "c2", "b2"):
        door.ask(name, of(name[0], BATCH))
    while len(order) < 9:
        door.end(order[-1])
        order.append(door.placed[-1])

    assert order == ["first", "a1", "b1", "c1", "a2", "c2", "b2", "a3", "a4"]


def test_a_full_waiting_room_has_room_for_a_client_with_fewer_seats() -> None:
    """Who has most gives up its youngest; a client alone may have all of them."""
    door = Door([upstream(most=1)])
    door.ask("first")

    for name in ("a1", "a2", "a3", "a4"):
        door.ask(name, of("a"))
    assert list(door.decided) == ["first", "a4"]
    door.ask("b1", of("b"))
    assert door.reason("a3") is Reason.FULL
    door.ask("b2", of("b"))
    assert door.reason("b2") is Reason.FULL
    door.ask("c1", of("c"))
    assert door.reason("a2") is Reason.FULL
    door.ask("d1", of("d"))
    assert door.reason("d1") is Reason.FULL
    assert door.admission.waiting("interactive") == 3


def test_the_successor_of_a_slice_that_drains_is_waited_for() -> None:
    """For as long as for a place; then the reason is that it drains."""
    old, new = upstream("old"), upstream("new")
    old.draining, new.open = True, False
    found, not_found = Door([old, new]), Door([old])
    for door in (found, not_found):
        door.ask("a")
        assert not door.decided

    new.open = True
    found.admission.pump(1)
    not_found.admission.expire(10)

    assert found.lease("a").upstream is new
    assert not_found.reason("a") is Reason.DRAINING


def test_a_request_that_met_the_drain_waits_for_the_successor() -> None:
    """It was sent before the drain was known, and does not go there again."""
    old, new = upstream("old"), upstream("new")
    new.open = False
    door = Door([old, new])
    old.draining = True
    door.ask("a", tried=(old,))
    old.draining = False
    door.admission.pump(1)
    assert door.reason("a") is Reason.NO_UPSTREAM

    old.draining = True
    door.ask("b", tried=(old,))
    new.open = True
    door.admission.pump(2)

    assert door.lease("b").upstream is new


def test_who_has_left_holds_up_nobody() -> None:
    """Nor until the next one ends: who comes gets the place that is free."""
    server = upstream(most=1)
    door = Door([server])
    door.ask("first")
    door.ask("leaves")()
    server.limit.value = 2

    door.ask("comes")

    assert door.placed == ["first", "comes"]


def test_a_client_that_leaves_gives_up_its_seat() -> None:
    """The next one gets the place."""
    door = Door([upstream(most=1)])
    door.ask("first")
    take_back = door.ask("leaves")
    door.ask("stays")

    take_back()
    take_back()
    door.end("first")

    assert door.placed == ["first", "stays"]


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        ({"open": False}, Reason.NO_UPSTREAM),
        ({"kv_use": 0.86}, Reason.KV_CACHE),
        ({"ends": 16.0, "rate": 10.0}, Reason.RUN_ENDS),
        ({"ends": 16.0}, Reason.RUN_ENDS),
    ],
)
def test_what_cannot_take_a_request_is_passed_over(what: dict[str, float], reason: Reason) -> None:
    """For the next upstream or pool; without one the request is refused, at once."""
    server = upstream("one")
    for name, value in what.items():
        setattr(server, name, value)
    alone, second = Door([server]), Door([server], [upstream("two")])

    alone.ask("a")
    second.ask("a")

    assert alone.reason("a") is reason
    assert (second.lease("a").upstream.name, second.lease("a").pool) == ("two", 1)


def test_an_answer_has_to_be_there_before_its_run_ends() -> None:
    """100 tokens at 20 a second, a first token of at most 2 seconds, 5 seconds to spare."""
    server = upstream(most=9)
    server.ends, server.rate = 12.0, 20.0
    door = Door([server])

    door.ask("in time")
    door.now = 0.1
    door.ask("too late")

    assert door.placed == ["in time"]
    assert door.decided["too late"] == Refused(Reason.RUN_ENDS, ends=12.0)


def test_slow_first_tokens_send_requests_to_the_next_pool() -> None:
    """Of one class alone. Where there is none, the slow upstream still gets them, and a very slow
    one does not."""
    slow, second = upstream("slow", 9), upstream("second", 9)
    late(slow, 1.8)
    both, alone = Door([slow], [second]), Door([slow])

    both.ask("a")
    both.ask("batch", BATCH)
    alone.ask("a")
    assert both.lease("a").upstream is second
    assert both.lease("batch").upstream is slow
    assert alone.lease("a").upstream is slow
    late(second, 2.5)
    both.ask("b")
    assert both.lease("b").upstream is slow
    very_slow = upstream()
    late(very_slow, 2.5)
    door = Door([very_slow])
    door.ask("a")
    assert door.reason("a") is Reason.SLOW


def test_slow_upstreams_share_what_nothing_else_can_take() -> None:
    """Those of the first pool."""
    one, two, second = (upstream(name, 4) for name in ("one", "two", "second"))
    for each in (one, two, second):
        late(each, 1.8)
    door = Door([one, two], [second])

    for name in "abcd":
        door.ask(name)

    assert (one.in_flight, two.in_flight, second.in_flight) == (2, 2, 0)


def test_exactly_so_many_probes_begin_under_500_callers() -> None:
    """Of an upstream that was very slow; the others are refused."""
    server = upstream(most=1000)
    late(server, 2.5)
    door = Door([server])
    door.ask("while it is open")

    for number in range(500):
        door.now = OPEN_S + number / 10_000
        door.ask(f"{number}")

    assert door.placed == [f"{number}" for number in range(PROBES)]
    refused = [door.reason(name) for name in door.decided if name not in door.placed]
    assert refused == [Reason.SLOW] * (501 - PROBES)


def test_a_request_that_moves_gets_another_upstream() -> None:
    """It waits for one that is full, without keeping back those who wait behind it."""
    one, two = upstream("one", 1), upstream("two", 1)
    door = Door([one, two])
    door.ask("a")
    door.ask("b")
    assert [door.lease(name).upstream for name in "ab"] == [one, two]

    door.end("a")
    door.ask("a again", tried=[one])
    door.ask("c", replace(WANT, request_class="now"))
    assert door.lease("c").upstream is one
    door.end("b")
    assert door.lease("a again").upstream is two


def test_retries_are_a_share_of_requests() -> None:
    """Three more may move, of which a gateway that has just started has need."""
    budget = RetryBudget(0.25)
    for _ in range(100):
        budget.request()

    assert sum(budget.retry() for _ in range(100)) == 28
    assert not RetryBudget(0).retry()


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["ask", "batch", "end", "leave", "expire", "open", "close", "limit"]),
            st.integers(0, 30),
        ),
        max_size=120,
    )
)
def test_every_request_is_decided_once_and_no_place_is_lost(
    steps: list[tuple[str, int]],
) -> None:
    """Whatever happens in whichever order: in flight are the places that have not ended, never more
    than the limit lets in; who waits does so because nothing is free."""
    servers = [upstream("one", 2), upstream("two", 3)]
    door = Door([servers[0]], [servers[1]])
    waiting: dict[str, Callable[[], None]] = {}
    ended: set[str] = set()
    for number, (step, which) in enumerate(steps):
        name = f"{number}"
        if step in ("ask", "batch"):
            client = of(f"{which % 3}", BATCH if step == "batch" else WANT)
            waiting[name] = door.ask(name, client)
        elif step == "end" and (open_ := [each for each in door.placed if each not in ended]):
            ended.add(open_[which % len(open_)])
            door.end(open_[which % len(open_)])
        elif step == "leave" and (left := [e for e in waiting if e not in door.decided]):
            waiting.pop(left[which % len(left)])()
        elif step == "expire":
            door.now += which
            door.admission.expire(door.now)
        elif step in ("open", "close"):
            servers[which % 2].open = step == "open"
            door.admission.pump(door.now)
        elif step == "limit":
            servers[which % 2].limit.value = 1 + which % 5
            door.admission.pump(door.now)
        in_flight = [e for e in door.placed if e not in ended]
        assert sum(each.in_flight for each in servers) == len(in_flight)
        undecided = [each for each in waiting if each not in door.decided]
        count = sum(door.admission.waiting(each) for each in CLASSES)
        assert len(undecided) == count
        if count:
            assert all(not s.open or s.in_flight >= s.limit.value for s in servers)
