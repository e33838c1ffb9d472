"""What a client may use, from its request to what its upstream has counted."""

from __future__ import annotations

import asyncio
import json
import random
from decimal import Decimal
from typing import Any

import pytest
from aiohttp import web

from tests.gateway.gateway_rig import (
    BODY,
    KEY,
    MODEL,
    ROLE,
    WHOLE,
    Asked,
    Rig,
    Script,
    Scripted,
    answers,
    delta,
    dies_after,
    gateway_before,
    stalls_after,
    streams,
    within,
)
from tests.gateway.running_fleet import until
from tpuflex.gateway.sse import Usage
from tpuflex.settings.gateway import ClientLimits, GatewaySettings

CACHED = GatewaySettings.model_validate(
    {"models": {MODEL: {"pools": [["u0"]], "cache": True}}, "retry_share": 1}
)


async def status(rig: Rig, **document: Any) -> int:
    async with rig.ask(**document) as response:
        await response.read()
        return int(response.status)


class Counting(Scripted):
    """An upstream that says how many tokens it has used: as many as it may, or fewer."""

    def __init__(self) -> None:
        super().__init__(always=self._count)
        self.used = 0

    async def _count(self, asked: Asked) -> web.StreamResponse:
        await asyncio.sleep(0)
        generated = random.choice([0, 1, asked.document["max_tokens"]])  # noqa: S311
        self.used += 30 + generated
        usage = Usage(prompt=30, generated=generated)
        counts = {"prompt_tokens": usage.prompt, "completion_tokens": usage.generated}
        return web.json_response({**WHOLE, "usage": counts})


async def test_200_requests_at_once_use_no_more_than_their_client_may() -> None:
    """And it may use all of that."""
    async with gateway_before(
        upstream := Counting(), limits=ClientLimits(tokens_per_day=20_000), most=16
    ) as rig:
        found = await asyncio.gather(*(status(rig, max_tokens=300) for _ in range(200)))
        assert set(found) <= {200, 429}
        assert upstream.used <= 20_000
        while await status(rig, max_tokens=300) == 200:
            pass

    assert 20_000 - 1000 < upstream.used <= 20_000


async def test_what_was_reserved_and_not_used_is_given_back() -> None:
    """The next request has the rest; what no upstream had does not count at all."""
    upstream = Scripted()
    limits = ClientLimits(tokens_per_day=1000)
    async with gateway_before(upstream, limits=limits) as rig:
        # 7 + 3 tokens are used of about 800 that are reserved.
        for _ in range(5):
            assert (await rig.streamed(max_tokens=700))[0] == 200
        [only] = rig.upstreams.connections
        only.open = False
        for _ in range(5):
            assert (await rig.streamed(max_tokens=700))[0] == 503
        only.open = True
        assert (await rig.streamed(max_tokens=700))[0] == 200
        async with rig.ask(max_tokens=990) as response:
            assert response.status == 429
            assert response.headers["x-tpuflex-reason"] == "client_limit"
        async with rig.ask(max_tokens=1001) as response:  # at no time
            assert (response.status, response.headers["x-should-retry"]) == (429, "false")
            assert "Retry-After" not in response.headers
    assert len(upstream.asked) == 6


async def test_a_refusal_says_what_is_used_up_and_until_when() -> None:
    async with gateway_before(Scripted(), limits=ClientLimits(requests_per_day=1)) as rig:
        assert await status(rig) == 200
        async with rig.ask() as response:
            error = (await response.json())["error"]

    assert response.status == 429
    assert (error["type"], error["code"]) == ("rate_limit_error", "client_limit")
    assert "1 request a day" in error["message"]
    assert 0 < int(response.headers["Retry-After"]) <= 86_403
    assert rig.outcomes[-1].reason == "client_limit"


@pytest.mark.parametrize("context", [4096, None])
async def test_an_answer_without_a_limit_may_be_as_long_as_the_context(context: int | None) -> None:
    """Or, where an upstream does not say that, as a request may ask for."""
    limits = ClientLimits(tokens_per_day=context or 32_768)
    async with gateway_before(Scripted(), limits=limits) as rig:
        [connection] = rig.upstreams.connections.values()
        connection.max_model_len = context
        assert await status(rig) == (200 if context else 429)
        assert await status(rig, max_tokens=1000) == 200


async def test_a_client_that_leaves_has_used_what_it_got() -> None:
    pieces = [delta(content="x") for _ in range(50)]
    limits = ClientLimits(tokens_per_day=1000)
    async with gateway_before(Scripted([stalls_after(*pieces)]), limits=limits) as rig:
        async with rig.stream(max_tokens=500) as response:
            await response.content.readexactly(len(b"".join(pieces)))
        await until(lambda: bool(rig.outcomes))
        assert rig.outcomes[0].generated_tokens == 50
        # Its prompt has at most about 240 tokens.
        assert await status(rig, max_tokens=300) == 200
        assert await status(rig, max_tokens=950) == 429


#: What a request for 300 tokens may use: the bytes of its body, its template, and those.
BOUND = len(json.dumps({**BODY, "stream": True, "max_tokens": 300})) + 128 + 300


@pytest.mark.parametrize(
    ("failure", "lost"),
    [(stalls_after(), BOUND), (dies_after(ROLE), BOUND), (streams(ROLE), BOUND), (answers(503), 0)],
    ids=["stalls", "dies", "ends", "refuses"],
)
async def test_what_the_first_upstream_has_computed_counts_too(failure: Script, lost: int) -> None:
    """As the most that it can be, where nothing is known of it; the request counts once."""
    limits = ClientLimits(tokens_per_day=10_000, requests_per_day=1, usd_per_day=Decimal(1))
    async with gateway_before(
        Scripted(always=failure), Scripted(), limits=limits, settings=within(0.2)
    ) as rig:
        for each in rig.upstreams.connections.values():
            each.prompt_usd_micros = each.generated_usd_micros = 2.0
        assert (await rig.streamed(max_tokens=300))[0] == 200
        await until(lambda: bool(rig.outcomes))
        used = rig.budgets.used()["somebody"]

    assert used == {
        "tokens_per_day": lost + 10,
        "usd_per_day": 2 * (lost + 10),
        "requests_per_day": 1,
    }
    assert rig.outcomes[0].moved is not None


async def test_a_client_that_leaves_before_the_first_token_may_have_used_all() -> None:
    upstream, limits = Scripted(always=stalls_after(ROLE)), ClientLimits(tokens_per_day=10_000)
    async with gateway_before(upstream, limits=limits) as rig:
        asking = asyncio.ensure_future(rig.streamed(max_tokens=300))
        await upstream.got_one.wait()
        asking.cancel()
        await until(lambda: bool(rig.outcomes))
        assert rig.budgets.used()["somebody"]["tokens_per_day"] == BOUND


async def test_a_request_moves_only_if_its_client_may_use_as_much_again() -> None:
    second, limits = Scripted(), ClientLimits(tokens_per_day=2 * BOUND - 50)
    async with (
        gateway_before(Scripted(always=dies_after(ROLE)), second, limits=limits) as rig,
        rig.stream(max_tokens=300) as response,
    ):
        assert response.status == 429
        assert (await response.json())["error"]["code"] == "client_limit"
        assert rig.budgets.used()["somebody"]["tokens_per_day"] == BOUND
        assert rig.in_flight == 0

    assert second.asked == []


async def test_an_identical_request_at_temperature_0_gets_the_answer_of_the_one_before() -> None:
    """It counts as a request, and uses no tokens."""
    limits = ClientLimits(requests_per_day=5, tokens_per_day=600)
    async with gateway_before(upstream := Scripted(), settings=CACHED, limits=limits) as rig:
        asked: dict[str, Any] = {"temperature": 0, "max_tokens": 300}
        for _ in range(3):
            async with rig.ask(**asked) as response:
                assert await response.json() == WHOLE  # which looks at its Content-Type, too
        assert [each.cached for each in rig.outcomes] == [False, True, True]
        assert await status(rig, **asked, seed=1) == 200
        assert await status(rig, **asked, max_completion_tokens=301) == 200
        assert await status(rig, **asked) == 429

    assert len(upstream.asked) == 3


async def test_what_fails_or_is_at_another_temperature_is_asked_for_again() -> None:
    failing = Scripted([answers(400), answers(400)])
    async with gateway_before(failing, settings=CACHED) as rig:
        assert [await status(rig, temperature=0) for _ in range(3)] == [400, 400, 200]
        assert [await status(rig, temperature=1) for _ in range(2)] == [200, 200]
    assert len(failing.asked) == 5


@pytest.mark.parametrize("settings", [CACHED, GatewaySettings()])
async def test_a_body_that_is_too_deep_is_a_wrong_request(settings: GatewaySettings) -> None:
    """At whichever depth it cannot be read, compared or written any more."""
    async with gateway_before(Scripted(), settings=settings) as rig:
        whole, headers = json.dumps({**BODY, "temperature": 0}), {"Authorization": f"Bearer {KEY}"}
        for depth in range(900, 1000):
            body = whole[:-1] + ', "nested": ' + depth * "[" + depth * "]" + "}"
            path = "/v1/chat/completions"
            async with rig.session.post(path, data=body, headers=headers) as response:
                assert response.status in (200, 400)

    assert {each.status for each in rig.outcomes} == {200, 400}


async def test_nothing_is_kept_where_the_route_does_not_ask_for_it() -> None:
    async with gateway_before(upstream := Scripted()) as rig:
        for _ in range(2):
            assert await status(rig, temperature=0) == 200
    assert len(upstream.asked) == 2
