"""The clients of docs/examples, in Node and in Python, before a gateway whose upstream is scripted.

Each does the same: what was generated is never asked for twice, what was not is, and who takes
nothing or leaves costs nothing.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import signal
import subprocess
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from aiohttp import web

from tests.acceptance.environments import ROOT, environment
from tests.gateway.gateway_rig import (
    DONE,
    KEY,
    MODEL,
    ROLE,
    Asked,
    Scripted,
    answers,
    delta,
    event,
    gateway_before,
    stalls_after,
    streams,
)
from tpuflex.settings.gateway import ClientLimits

NODE = Path(__file__).parent / "node"
EXAMPLES = ROOT / "docs" / "examples"
USED = event(choices=[], usage={"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10})
WHOLE = (ROLE, delta(content="one "), delta("stop", content="two"), USED, DONE)
AFTER_A_SECOND = {"Retry-After": "1"}
#: More than the buffers of all sockets, pipes and libraries on the way hold together.
PIECES, PIECE = 400, 64 * 1024

#: In each language, a reader that takes one piece and no second one.
PAUSES = {
    "node": (
        "import OpenAI from 'openai';"
        " import { ask, TokenBudget } from './built/gateway_client.js';"
        " const question = {model: process.env.OPENAI_MODEL, prompt: 'Count.', maxTokens: 9};"
        " for await (const _ of ask(new OpenAI(), new TokenBudget(1000), question))"
        " { console.log('first'); await new Promise((go) => setTimeout(go, 1e6)); }"
    ),
    "python": (
        "import asyncio, os, gateway_client as example, openai\n"
        "async def main():\n"
        "    budget, model = example.TokenBudget(1000), os.environ['OPENAI_MODEL']\n"
        "    asked = {'model': model, 'prompt': 'Count.', 'max_tokens': 9}\n"
        "    async for _ in example.ask(openai.AsyncOpenAI(), budget, **asked):\n"
        "        print('first', flush=True)\n"
        "        await asyncio.sleep(1e6)\n"
        "asyncio.run(main())\n"
    ),
}


@dataclass(frozen=True)
class Example:
    """A client of docs/examples.

    Attributes:
        program: runs it.
        script: runs a text of its language, beside it.
        directory: where both run.
    """

    program: tuple[str, ...]
    script: tuple[str, ...]
    directory: Path

    @asynccontextmanager
    async def running(self, port: int, *command: str, budget: int = 0) -> AsyncIterator[Process]:
        process = await asyncio.create_subprocess_exec(
            *command,
            cwd=self.directory,
            env={
                "PATH": os.environ["PATH"],
                "OPENAI_BASE_URL": f"http://127.0.0.1:{port}/v1",
                "OPENAI_API_KEY": KEY,
                "OPENAI_MODEL": MODEL,
                **({"TOKEN_BUDGET": str(budget)} if budget else {}),
            },
            stdout=PIPE,
            stderr=PIPE,
        )
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
            await process.communicate()

    async def ended(self, port: int, *questions: str, budget: int = 0) -> tuple[int, str, str]:
        """It asks these questions. Returns its exit code, and what it wrote."""
        async with self.running(port, *self.program, *questions, budget=budget) as process:
            out, err = await process.communicate()
            assert process.returncode is not None
            return process.returncode, out.decode(), err.decode()


@pytest.fixture(scope="module")
def packages() -> Path:
    """What the lock of npm has, with the example compiled beside it; its types are checked."""
    if shutil.which("npm") is None:
        pytest.skip("there is no Node: install Node 20 or later, with npm")
    lock = hashlib.sha256((NODE / "package-lock.json").read_bytes()).hexdigest()[:16]
    directory = ROOT / ".tpuflex" / "checks" / f"gateway-node-{lock}"
    directory.mkdir(parents=True, exist_ok=True)
    for file in (*NODE.iterdir(), EXAMPLES / "gateway_client.ts"):
        shutil.copy(file, directory)
    if not (directory / ".ready").exists():
        install = ("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
        subprocess.run(install, cwd=directory, check=True)
        (directory / ".ready").touch()
    compiled = subprocess.run(
        ("node_modules/.bin/tsc", "--project", "."), cwd=directory, capture_output=True, text=True
    )
    assert compiled.returncode == 0, compiled.stdout
    return directory


@pytest.fixture(params=["node", "python"])
def language(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def example(language: str, request: pytest.FixtureRequest) -> Example:
    if language == "python":
        python = str(environment("gateway-tools") / "python")
        return Example((python, "gateway_client.py"), (python, "-c"), EXAMPLES)
    directory = request.getfixturevalue("packages")
    script = ("node", "--input-type=module", "--eval")
    return Example(("node", "built/gateway_client.js"), script, directory)


def test_they_are_short() -> None:
    """So that they are read before they are copied."""
    for file in ("gateway_client.ts", "gateway_client.py"):
        assert len((EXAMPLES / file).read_text().splitlines()) < 120


async def test_answers_and_a_budget(example: Example) -> None:
    """What the usage says is what is taken from the budget; a request that may need more than is
    left is not sent."""
    upstream = Scripted(always=streams(*WHOLE))
    async with gateway_before(upstream) as rig:
        code, out, err = await example.ended(rig.port, "Count.", "Again.", budget=1170)

    assert (code, out) == (0, "one two\none two\n")
    assert err == "1160 tokens are left.\n1150 tokens are left.\n"
    async with gateway_before(upstream) as rig:
        code, out, err = await example.ended(rig.port, "Count.", budget=500)
    assert (code, out, len(upstream.asked)) == (1, "", 2)
    assert "582 tokens, and 500 are left" in err


async def test_an_answer_that_breaks_off(example: Example) -> None:
    """It raises, whatever has come of it, and is not asked for again."""
    broken = (ROLE, delta(content="one "), event(error={"message": "died", "code": 500}), DONE)
    upstream = Scripted([streams(*broken)])
    async with gateway_before(upstream) as rig:
        code, out, err = await example.ended(rig.port, "Count.")

    assert (code, out.strip()) == (1, "one")
    assert "died" in err
    assert len(upstream.asked) == 1


async def test_an_answer_that_ends_too_soon(example: Example) -> None:
    """Not even where nothing says that something is wrong, as behind a proxy that hides it."""
    upstream = Scripted([streams(ROLE, delta(content="one "))])
    async with upstream.serving() as port:
        code, _, err = await example.ended(port, "Count.")

    assert (code, len(upstream.asked)) == (1, 1)
    assert "ended before it was whole" in err


async def test_a_refusal_is_tried_again_when_it_says(example: Example) -> None:
    """What was refused has generated nothing."""
    refused = answers(503, '{"error": {"message": "busy", "code": "overloaded"}}', **AFTER_A_SECOND)
    upstream = Scripted([refused], always=streams(*WHOLE))
    async with upstream.serving() as port:
        began = time.monotonic()
        code, out, _ = await example.ended(port, "Count.")

    assert (code, out, len(upstream.asked)) == (0, "one two\n", 2)
    assert time.monotonic() - began >= 1


async def test_a_refusal_for_the_day_is_final(example: Example) -> None:
    """Nobody waits for hours: the gateway says that it is not to be tried again."""
    upstream = Scripted(always=streams(*WHOLE))
    async with gateway_before(upstream, limits=ClientLimits(requests_per_day=1)) as rig:
        code, out, err = await example.ended(rig.port, "Count.", "Again.")

    assert (code, out) == (1, "one two\n")
    assert "client_limit" in err


async def test_who_leaves_ends_the_request(example: Example) -> None:
    """Ctrl-C closes the connection, and the gateway closes that to the upstream."""
    upstream = Scripted([stalls_after(ROLE, delta(content="one "))])
    async with (
        gateway_before(upstream) as rig,
        example.running(rig.port, *example.program, "Count.") as process,
    ):
        assert process.stdout is not None
        assert await process.stdout.readexactly(4) == b"one "
        process.send_signal(signal.SIGINT)
        await asyncio.wait_for(upstream.asked[0].left.wait(), 10)
        assert await process.wait() != 0


async def test_who_pauses_holds_the_server_back(example: Example, language: str) -> None:
    """Of 25 MiB that it streams it gets rid of what buffers hold, and no more; the client's memory
    does not grow."""
    written = [0]

    async def floods(asked: Asked) -> web.StreamResponse:
        response = await asked.stream(ROLE)
        piece = delta(content="x" * PIECE)
        for _ in range(PIECES):
            await response.write(piece)
            written[0] += 1
        return response

    upstream = Scripted([floods])
    async with (
        gateway_before(upstream) as rig,
        example.running(rig.port, *example.script, PAUSES[language]) as process,
    ):
        assert process.stdout is not None
        assert await process.stdout.readline() == b"first\n"
        before = -1
        while written[0] != before:  # until nothing has moved for a while
            before = written[0]
            await asyncio.sleep(0.5)

        assert before * PIECE < 16 * 2**20
        assert before < PIECES
