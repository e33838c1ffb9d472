"""Many requests at once, before upstreams that fail at any event: whose answer is whose, and that
none is lost that could have moved."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

from aiohttp import web

from tests.gateway.gateway_rig import (
    DONE,
    ROLE,
    Asked,
    Scripted,
    delta,
    gateway_before,
)
from tpuflex.settings.gateway import GatewaySettings

_TOKENS = 12
_ALL_MAY_MOVE = GatewaySettings(retry_share=1)


def answer(number: int) -> list[bytes]:
    """The events of the answer to one request, and to no other."""
    tokens = [delta(content=f"{number}.{token} ") for token in range(_TOKENS)]
    return [ROLE, *tokens, delta("stop"), DONE]


class Failing:
    """What fails at a random event of its answer, in a random way, three times of five."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 - what fails, and nothing secret
        self.failed: Counter[str] = Counter()

    async def __call__(self, asked: Asked) -> web.StreamResponse:
        events = answer(int(asked.document["user"]))
        how = self._random.choice(("dies", "ends", "errs", "is well", "is well"))
        at = self._random.randrange(len(events))
        if how == "is well":
            return await asked.stream(*events)
        begun = at > 1
        self.failed["after" if begun else "before"] += 1
        response = await asked.stream(*events[:at])
        if how == "errs":
            await response.write(b'data: {"error": {"message": "gone", "code": 500}}\n\n' + DONE)
        if how == "dies":
            await asyncio.sleep(0.02)
            asked.die()
        return response


async def well(asked: Asked) -> web.StreamResponse:
    return await asked.stream(*answer(int(asked.document["user"])))


async def test_no_answer_is_lost_doubled_or_another_s() -> None:
    """What fails before anything was generated is answered by another upstream; what fails later
    is cut where it failed, with an error and without the end."""
    failing = Failing(seed=1)
    first = Scripted(always=failing)
    async with gateway_before(first, Scripted(always=well), settings=_ALL_MAY_MOVE) as rig:
        asked = [rig.streamed(user=str(number)) for number in range(300)]
        answers = await asyncio.gather(*asked)

    cut = 0
    for number, (status, body) in enumerate(answers):
        whole = b"".join(answer(number))
        assert status == 200
        if body == whole:
            continue
        cut += 1
        said, _, error = body.rpartition(b"data: ")
        assert whole.startswith(said)
        assert said
        assert error.startswith(b'{"error"')
    assert failing.failed["before"] > 10
    # Errors that come with the first word were not handed on yet, and move, too.
    assert cut <= failing.failed["after"]
    moved = sum(each.moved is not None for each in rig.outcomes)
    assert moved + cut == failing.failed.total()
    assert rig.in_flight == 0
