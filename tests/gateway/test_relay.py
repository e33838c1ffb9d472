"""One request's way to an upstream and back, with upstreams that fail at every point."""

from __future__ import annotations

import asyncio
import gc
import json
import time
from typing import Any, NoReturn

import aiohttp
import pytest

from tests.gateway.gateway_rig import (
    ANSWER,
    DONE,
    GOOD,
    HANDED_ON,
    OTHER_KEY,
    ROLE,
    USAGE,
    WHOLE,
    Script,
    Scripted,
    answers,
    delta,
    dies_after,
    gateway_before,
    pauses_after,
    stalls_after,
    streams,
    within,
)
from tests.gateway.running_fleet import until
from tpuflex.gateway.connection import NotOursError
from tpuflex.gateway.in_flight import InFlightLimit
from tpuflex.gateway.passage import Passage
from tpuflex.settings.gateway import ClientLimits, GatewaySettings

#: As vLLM reports that its engine has died.
GIVEN_UP = b'data: {"error": {"message": "EngineCore encountered an issue", "code": 500}}\n\n'


async def test_a_stream_is_handed_on_as_it_came() -> None:
    """But for the usage, which is counted and was not asked for; the upstream is asked for it, by
    the name of the model there."""
    async with gateway_before(upstream := Scripted()) as rig, rig.stream() as response:
        assert response.status == 200
        assert response.headers["Content-Type"].startswith("text/event-stream")
        assert await response.read() == HANDED_ON

    [asked], [outcome] = upstream.asked, rig.outcomes
    assert asked.document["model"] == "model-there"
    assert asked.document["stream_options"] == {"include_usage": True}
    assert outcome.id == response.headers["x-request-id"]
    assert (outcome.status, outcome.reason, outcome.moved) == (200, None, None)
    assert (outcome.prompt_tokens, outcome.generated_tokens) == (7, 3)
    assert outcome.first_token_s is not None
    assert rig.in_flight == 0


async def test_the_usage_is_handed_on_to_who_asks_for_it() -> None:
    """As OpenAI does."""
    async with gateway_before(Scripted()) as rig:
        _, body = await rig.streamed(stream_options={"include_usage": True})

    assert body == b"".join(ANSWER)


async def test_an_answer_that_is_not_streamed_is_handed_on() -> None:
    """Whole, with what it has used; and it says nothing about first tokens."""
    async with gateway_before(upstream := Scripted()) as rig, rig.ask() as response:
        assert response.status == 200
        assert await response.json() == WHOLE

    [outcome] = rig.outcomes
    assert (outcome.prompt_tokens, outcome.generated_tokens) == (7, 3)
    assert outcome.first_token_s is None
    assert "stream_options" not in upstream.asked[0].document
    assert rig.in_flight == 0


async def test_answers_that_are_not_streamed_raise_the_limit_in_flight() -> None:
    """They have no first token; without them it would stay at its least for clients that never
    stream. One that fails does not count."""
    async with gateway_before(Scripted([answers(500)])) as rig:
        [upstream] = rig.upstreams.connections
        upstream.limit = InFlightLimit(1, 8)
        for status, limit in ((502, 1), (200, 2)):
            assert (await rig.whole())[0] == status
            upstream.limit.second(rig.clock(), waiting=0)
            assert upstream.limit.value == limit


async def test_a_class_has_its_sampling_and_its_priority() -> None:
    """The upstream gets both; a client that says more than it may is refused before."""
    upstream = Scripted()
    rules = {"priority": 7, "sampling": {"temperature": 0, "max_tokens": 50, "enforce": True}}
    settings = GatewaySettings.model_validate({"classes": {"interactive": rules}})
    async with gateway_before(upstream, settings=settings) as rig:
        [connection] = rig.upstreams.connections.values()
        await rig.streamed(max_tokens=10**9, temperature=1)
        connection.priority_scheduling = True
        await rig.streamed(max_tokens=5)

    first, second = (each.document for each in upstream.asked)
    assert (first["temperature"], first["max_tokens"]) == (0, 50)
    assert "priority" not in first
    assert (second["max_tokens"], second["priority"]) == (5, 7)


async def test_what_a_request_had_is_freed_as_it_ends() -> None:
    """Without a collection, which would cost a tenth of a short request."""
    async with gateway_before(Scripted()) as rig:
        await rig.streamed()
        gc.collect()
        gc.disable()
        try:
            for _ in range(5):
                await rig.streamed()
                await rig.whole()
            kept = sum(type(each) is Passage for each in gc.get_objects())
        finally:
            gc.enable()

    assert kept <= 2  # the last of each connection


BEFORE = {
    "dies": dies_after(),
    "dies after its headers": dies_after(b": hello\n\n"),
    "dies after the role": dies_after(ROLE),
    "ends after the role": streams(ROLE),
    "ends at once": streams(),
    "errs, then says that it is done": streams(ROLE, GIVEN_UP, DONE),
    "errs with its first word": streams(ROLE + delta(content="one ") + GIVEN_UP + DONE),
    "503": answers(503),
    "500": answers(500, '{"error": {"message": "cannot schedule new futures after shutdown"}}'),
    "429": answers(429),
    "has no such model any more": answers(404),
    "refuses our key": answers(401, "Bearer something-secret"),
    "is no stream": answers(200),
    "redirects": answers(302, Location="/elsewhere"),
}


@pytest.mark.parametrize("failure", BEFORE.values(), ids=BEFORE)
async def test_a_request_moves_until_something_was_generated(failure: Script) -> None:
    """The client sees nothing of what the first upstream said, and no answer is computed twice
    elsewhere."""
    first, second = Scripted(always=failure), Scripted()
    async with gateway_before(first, second) as rig:
        assert await rig.streamed() == (200, HANDED_ON)

    [outcome] = rig.outcomes
    assert (outcome.upstream, outcome.pool) == ("u1", 1)
    assert outcome.moved is not None
    assert outcome.moved.startswith("upstream_")
    assert len(second.asked) == 1
    assert rig.in_flight == 0


@pytest.mark.parametrize("events", [(), (b": hello\n\n",), (ROLE,)])
async def test_a_request_moves_whose_first_token_does_not_come(events: tuple[bytes, ...]) -> None:
    """And the upstream that stalls is left, and looked at: it may be frozen, or only the prompt of
    this request long."""
    first, second = Scripted(always=stalls_after(*events)), Scripted()
    async with gateway_before(first, second, settings=within(0.2)) as rig:
        assert await rig.streamed() == (200, HANDED_ON)
        await asyncio.wait_for(first.asked[0].left.wait(), 5)

    assert (rig.upstreams.suspected, rig.upstreams.doubted) == ([], ["u0"])


@pytest.mark.parametrize("is_known", [True, False])
async def test_text_that_is_held_back_is_no_late_first_token(is_known: bool) -> None:
    """A parser or a stop sequence may hold back much of what is generated. Where the role is known
    to come with the first token the request waits, and it is no late one; else it moves."""
    script = pauses_after(ROLE, then=ANSWER[1:], seconds=0.5)
    async with gateway_before(Scripted(always=script), Scripted(), settings=within(0.2)) as rig:
        first, _ = rig.upstreams.connections.values()
        first.role_with_first_token = is_known
        assert await rig.streamed() == (200, HANDED_ON)

    [outcome] = rig.outcomes
    assert (outcome.moved is None) == is_known
    assert outcome.first_token_s is not None
    assert outcome.first_token_s < 0.2


@pytest.mark.parametrize("count", range(2, len(ANSWER)))
@pytest.mark.parametrize("death", ["dies", "ends"])
async def test_an_answer_that_breaks_off_ends_with_an_error(count: int, death: str) -> None:
    """At whichever event: nothing of it is lost or doubled, it does not move, and nothing says that
    it was whole."""
    events = ANSWER[:count]
    script = dies_after(*events) if death == "dies" else streams(*events)
    first, second = Scripted(always=script), Scripted()
    async with gateway_before(first, second) as rig:
        status, body = await rig.streamed()

    said = b"".join(each for each in events if each is not USAGE)
    assert status == 200
    assert body.startswith(said)
    assert b"[DONE]" not in body
    error = json.loads(body.removeprefix(said).removeprefix(b"data: "))["error"]
    assert error["code"] == "upstream_failed"
    assert (len(first.asked), len(second.asked)) == (1, 0)
    assert rig.outcomes[0].reason == "upstream_failed"
    assert rig.upstreams.doubted == ["u0"]
    assert rig.in_flight == 0


@pytest.mark.parametrize("together", [False, True])
async def test_an_error_in_the_middle_is_the_end(together: bool) -> None:
    """The client gets the upstream's error, and not the `[DONE]` that vLLM sends after it."""
    said = ROLE + delta(content="one ")
    then = [GIVEN_UP + DONE] if together else [GIVEN_UP, DONE]
    script = pauses_after(said, then=then)
    async with gateway_before(Scripted(always=script), second := Scripted()) as rig:
        status, body = await rig.streamed()

    assert status == 200
    assert body.startswith(said)
    error = json.loads(body.removeprefix(said).removeprefix(b"data: "))["error"]
    assert (error["message"], error["code"]) == ("EngineCore encountered an issue", "500")

    assert second.asked == []
    assert rig.outcomes[0].reason == "upstream_error"


@pytest.mark.parametrize("status", [400, 422])
async def test_what_an_upstream_says_of_the_request_is_handed_on(status: int) -> None:
    """Another one would say the same; what is no error in OpenAI's form is not repeated."""
    said = {"message": "too long a prompt", "type": "Bad", "param": None, "code": "x"}
    told = answers(status, json.dumps({"error": said, "more": "sk-secret"}), Server="vllm")
    other = answers(status, '{"detail": "sk-secret"}')
    first = Scripted([told, told], always=other)
    async with gateway_before(first, second := Scripted()) as rig:
        for stream in (True, False):
            async with rig.ask(stream=stream) as response:
                assert response.status == status
                assert await response.json() == {"error": said}
                assert response.headers.get("Server") != "vllm"
        async with rig.ask() as response:
            assert response.status == status
            assert (await response.json())["error"]["code"] == "upstream_refused"

    assert second.asked == []
    assert rig.upstreams.suspected == rig.upstreams.doubted == []


async def test_an_upstream_that_has_not_what_the_gateway_asks_for_is_doubted() -> None:
    """Its path and the model's name there are the gateway's: were it open for good, so would all
    requests be refused. A client that stays there still gets what it says."""
    first = Scripted(always=answers(404, '{"error": {"message": "no such model"}}'))
    async with gateway_before(first) as rig, rig.ask() as response:
        assert response.status == 404
        assert (await response.json())["error"]["message"] == "no such model"

    assert rig.upstreams.doubted == ["u0"]


async def test_a_key_of_the_gateways_that_is_refused_is_no_client_s_business() -> None:
    """What the upstream says of it is not handed on."""
    refusing = Scripted(always=answers(401, "key sk-secret"))
    async with gateway_before(refusing) as rig, rig.ask() as response:
        assert response.status == 502
        assert "sk-secret" not in await response.text()

    assert rig.upstreams.suspected == ["u0"]


@pytest.mark.parametrize("failure", [answers(500), dies_after(), streams(ROLE, GIVEN_UP)])
async def test_a_request_at_which_every_upstream_fails_closes_none(failure: Script) -> None:
    """However often it is sent: each of them is looked at, and the request was there once."""
    first, second, third = (Scripted(always=failure) for _ in range(3))
    async with gateway_before(first, second, third) as rig:
        for _ in range(3):
            assert (await rig.streamed())[0] == 502

    assert rig.upstreams.suspected == []
    assert rig.upstreams.doubted == 3 * ["u0", "u1"]
    assert [len(each.asked) for each in (first, second, third)] == [3, 3, 0]


async def test_a_request_that_kills_connections_is_sent_three_times_at_most() -> None:
    """Over one that was there before, and may have been closed for want of use; over a new one; and
    to another upstream."""
    first, second = Scripted([GOOD, GOOD], always=dies_after()), Scripted(always=dies_after())
    async with gateway_before(first, second) as rig:
        await asyncio.gather(rig.streamed(), rig.streamed())  # two connections are kept
        assert (await rig.streamed())[0] == 502

    assert (len(first.asked), len(second.asked)) == (4, 1)


@pytest.mark.parametrize(
    "script",
    [
        answers(200, "<html>Maintenance"),
        answers(200, '{"error": {"message": "busy"}}'),
        answers(200, '{"choices": [{"message"'),
        answers(200, "compressed", **{"Content-Encoding": "gzip"}),
    ],
)
async def test_what_is_no_completion_is_not_handed_on(script: Script) -> None:
    """Whatever its status says: the request moves."""
    async with gateway_before(Scripted([script]), Scripted()) as rig, rig.ask() as response:
        assert response.status == 200
        assert await response.json() == WHOLE

    assert rig.outcomes[0].moved is not None


async def test_a_count_of_each_event_is_not_asked_for() -> None:
    """It is that of one choice of several, and would be taken for all."""
    async with gateway_before(upstream := Scripted()) as rig:
        options = {"include_usage": True, "continuous_usage_stats": True}
        await rig.streamed(stream_options=options)

    assert upstream.asked[0].document["stream_options"] == {"include_usage": True}


async def test_a_request_moves_once() -> None:
    """With two upstreams that fail, it fails; a third is not tried."""
    third = Scripted()
    failing = [Scripted(always=answers(503)), Scripted(always=answers(503))]
    async with gateway_before(*failing, third) as rig, rig.stream() as response:
        assert response.status == 502
        assert response.headers["x-tpuflex-reason"] == "upstream_failed"
        assert int(response.headers["Retry-After"]) >= 1
        assert (await response.json())["error"]["code"] == "upstream_failed"

    assert third.asked == []


async def test_requests_move_no_more_often_than_their_share() -> None:
    """So that an overload is not made worse."""
    first, second = Scripted(always=answers(503)), Scripted()
    async with gateway_before(first, second, settings=GatewaySettings(retry_share=0.2)) as rig:
        statuses = [(await rig.streamed())[0] for _ in range(40)]

        # Three in any case, and a fifth.
        assert statuses.count(200) == 3 + 40 // 5
        assert len(second.asked) == statuses.count(200)
        # What one client has used up is another's still.
        assert (await rig.streamed(key=OTHER_KEY))[0] == 200


class _Unconnected(aiohttp.TCPConnector):
    """Makes no connection."""

    error: Exception

    async def connect(self, *_how: Any, **_more: Any) -> NoReturn:
        raise self.error


@pytest.mark.parametrize(
    "error",
    [
        NotOursError("another user's"),
        aiohttp.ServerFingerprintMismatch(b"expected", b"got", "localhost", 8000),
    ],
)
async def test_what_no_upstream_got_costs_nothing(error: Exception) -> None:
    """A stranger listens in its place: it has certainly failed, and was sent nothing."""
    limits = ClientLimits(tokens_per_day=100_000)
    async with gateway_before(Scripted(), limits=limits) as rig:
        [connection] = rig.upstreams.connections.values()
        await connection.session.close()
        connector = _Unconnected()
        connector.error = error
        async with aiohttp.ClientSession(connector=connector) as connection.session:
            assert (await rig.whole())[0] == 502
        await rig.budgets.settled()
        assert rig.budgets.used()["somebody"]["tokens_per_day"] == 0

    assert rig.upstreams.suspected == ["u0"]


async def test_a_request_that_the_gateway_itself_fails_is_no_client_that_left() -> None:
    """It counts as failed, with the status that its client gets."""
    async with gateway_before(Scripted()) as rig:
        [connection] = rig.upstreams.connections.values()
        await connection.session.close()  # aiohttp raises a RuntimeError
        assert (await rig.whole())[0] == 500

    [outcome] = rig.outcomes
    assert (outcome.status, outcome.reason) == (500, "failed")
    assert rig.in_flight == 0


async def test_a_connection_that_was_closed_for_want_of_use_loses_nothing() -> None:
    """An upstream may close it just as it is used again: the request goes over a new one."""
    upstream = Scripted([GOOD, dies_after(), GOOD])
    async with gateway_before(upstream) as rig:
        for _ in range(2):
            assert await rig.streamed() == (200, HANDED_ON)

    assert rig.upstreams.suspected == []
    assert [each.moved for each in rig.outcomes] == [None, None]


async def test_an_upstream_that_dies_costs_a_request_one_move() -> None:
    """Whether its connection was there before or not: three of them move in any case."""
    first = Scripted([GOOD], always=dies_after())
    async with gateway_before(first, Scripted(), settings=GatewaySettings(retry_share=0.01)) as rig:
        statuses = [(await rig.streamed())[0] for _ in range(5)]

    assert statuses == [200, 200, 200, 200, 502]
    assert [each.moved for each in rig.outcomes] == [None, *3 * ["upstream_failed"], None]


async def test_connections_are_used_again() -> None:
    """Those of streams, too: many requests over one connection."""
    async with gateway_before(upstream := Scripted()) as rig:
        for _ in range(30):
            assert await rig.streamed() == (200, HANDED_ON)

    assert len({each.peer for each in upstream.asked}) == 1


@pytest.mark.parametrize("begun", [False, True])
async def test_an_upstream_is_left_when_the_client_leaves(begun: bool) -> None:
    """Within 100 ms, with or without something generated; of five tries one is enough, since other
    programs run on this machine, too."""
    events = (ROLE, delta(content="one ")) if begun else ()
    upstream, took = Scripted(always=stalls_after(*events)), list[float]()
    async with gateway_before(upstream) as rig:
        while len(took) < 5 and min(took, default=1.0) > 0.1:
            asking = asyncio.ensure_future(rig.streamed())
            await until(lambda: len(upstream.asked) > len(took))
            await asyncio.sleep(0.05)
            asking.cancel()
            left = time.monotonic()
            await upstream.asked[-1].left.wait()
            took.append(time.monotonic() - left)
        await until(lambda: rig.in_flight == 0)

    assert min(took) < 0.1
    assert {(each.status, each.reason) for each in rig.outcomes} == {(499, "client_left")}


async def test_a_whole_answer_is_given_up_when_the_client_leaves() -> None:
    """Nobody would read it."""
    upstream = Scripted(always=stalls_after())
    async with gateway_before(upstream) as rig:
        asking = asyncio.ensure_future(rig.ask().__aenter__())
        await upstream.got_one.wait()
        asking.cancel()
        await upstream.asked[0].left.wait()
