"""Thousands of requests over connections that an upstream keeps, or closes at the wrong moment."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from aiohttp import web

from tests.gateway.gateway_rig import HANDED_ON, Asked, Scripted, gateway_before

REQUESTS = 5000


async def test_a_kept_connection_carries_all_of_them() -> None:
    """Whole streams, one after another."""
    async with gateway_before(upstream := Scripted()) as rig:
        for _ in range(REQUESTS):
            assert await rig.streamed() == (200, HANDED_ON)

    assert len({each.peer for each in upstream.asked}) == 1


async def test_no_request_is_lost_to_connections_that_are_closed() -> None:
    """By an upstream that closes those that it takes for idle, just as they are used again."""
    chance = random.Random(2)  # noqa: S311 - what fails, and nothing secret
    last: dict[tuple[str, int], Asked] = {}

    def close(asked: Asked, transport: Any) -> None:
        if last[asked.peer] is asked:  # as far as it knows, nobody uses it
            transport.close()

    async def closes(asked: Asked) -> web.StreamResponse:
        last[asked.peer] = asked
        response = await asked.stream(HANDED_ON)
        await response.write_eof()
        if chance.random() < 0.04:
            late = chance.random() / 200
            asyncio.get_running_loop().call_later(late, close, asked, asked.request.transport)
        return response

    upstream = Scripted(always=closes)
    async with gateway_before(upstream) as rig:

        async def ask(times: int) -> None:
            for _ in range(times):
                assert await rig.streamed() == (200, HANDED_ON)

        await asyncio.gather(*(ask(REQUESTS // 8) for _ in range(8)))

    assert len({each.peer for each in upstream.asked}) > 100
    assert [each.reason for each in rig.outcomes] == [None] * REQUESTS
