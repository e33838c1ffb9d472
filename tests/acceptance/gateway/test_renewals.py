"""A gateway before a stack with the real vLLM, whose slice is renewed under open streams.

TPUFLEX_RENEWALS=10 renews it ten times, which takes half an hour; by default twice. In every other
renewal, from the first on, the old slice's engine is killed as soon as its successor is open: under
streams that it has begun, and others that it has not.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import psutil
import pytest
import yaml
from aiohttp.test_utils import unused_port

from tests.engine.installed_shell import Shell
from tests.engine.test_end_to_end import KEY_CANARY, installed, pulumi_engine, shell

__all__ = ["installed", "pulumi_engine", "shell"]

pytestmark = [pytest.mark.engine, pytest.mark.vllm, pytest.mark.timeout(3600)]

RENEWALS = int(os.environ.get("TPUFLEX_RENEWALS", "2"))
CLIENTS = 20
MODEL = "HuggingFaceTB/SmolLM2-135M-Instruct"
#: Tokens of a stream, between these.
TOKENS = (8, 40)
#: How a request ended. Broken: with an error event, and no end. False: in no way that is one.
WHOLE, BROKEN, FALSE, REFUSED = "whole", "broken", "false", "refused"
#: On two cores, where another server boots, a first token takes as long as it takes.
CLASS = {"wait": "10m", "first_token": {"slow": 300, "very_slow": 400, "limit": 600}}


@dataclass
class Clients:
    """Clients that stream all the time, and how each request of theirs ended."""

    session: aiohttp.ClientSession
    ended: list[tuple[str, str]] = field(default_factory=list)

    def of(self, how: str) -> list[str]:
        return [said for ended, said in self.ended if ended == how]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """While the block runs; what is open then comes to its end."""
        over = asyncio.Event()
        works = [asyncio.create_task(self._work(number, over)) for number in range(CLIENTS)]
        try:
            yield
        finally:
            over.set()
            await asyncio.gather(*works)

    async def _work(self, number: int, over: asyncio.Event) -> None:
        chance = random.Random(number)  # noqa: S311 - the same in every run
        while not over.is_set():
            self.ended.append(await self._ask(chance.randint(*TOKENS)))

    async def _ask(self, tokens: int) -> tuple[str, str]:
        document = {
            "model": MODEL,
            "messages": [{"role": "user", "content": "Tell me of the sea."}],
            "max_tokens": tokens,
            "ignore_eos": True,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        try:
            async with self.session.post("/v1/chat/completions", json=document) as response:
                body = await response.text()
        except aiohttp.ClientError as error:
            return FALSE, repr(error)
        if response.status != 200:
            return REFUSED, f"{response.status} {body}"
        return how_it_ended(body, tokens), body[-600:]


def how_it_ended(body: str, tokens: int) -> str:
    """Whether a stream has all its tokens and its end, or an error and no end."""
    *events, last = [
        line.removeprefix("data: ") for line in body.splitlines() if line[:5] == "data:"
    ]
    documents = [json.loads(each) for each in events]
    if last != "[DONE]":
        begun = any(each["choices"][0]["delta"].get("content") for each in documents)
        return BROKEN if begun and "error" in json.loads(last) else FALSE
    finished = any(choice["finish_reason"] for each in documents for choice in each["choices"])
    usage = documents[-1].get("usage") or {}
    return WHOLE if finished and usage.get("completion_tokens") == tokens else FALSE


@dataclass
class Gateway:
    """A `tpuflex gateway run`."""

    port: int
    process: asyncio.subprocess.Process
    said: list[str] = field(default_factory=list)

    async def says(self, line: str, at: int = 0) -> None:
        """Wait until it has said such a line, after its first ``at``."""
        while not any(line in each for each in self.said[at:]):
            assert self.process.returncode is None, self.said
            await asyncio.sleep(0.05)


@asynccontextmanager
async def gateway(shell: Shell) -> AsyncIterator[Gateway]:
    port = unused_port()
    document = {
        "port": port,
        "upstreams": {"dev": {"stack": "dev", "in_flight": {"least": CLIENTS, "most": CLIENTS}}},
        "classes": {"patient": CLASS},
        "models": {MODEL: {"pools": [["dev"]], "request_class": "patient"}},
        # Each that can move shall move.
        "retry_share": 1,
    }
    file = shell.project / "gateway.yaml"
    file.write_text(yaml.safe_dump(document))
    process = await asyncio.create_subprocess_exec(
        shell.installed.environment / "bin" / "tpuflex",
        *("gateway", "run", "--config", str(file)),
        cwd=shell.project,
        env=shell.environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    running = Gateway(port, process)

    async def read() -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            running.said.append(line.decode())

    reading = asyncio.create_task(read())
    try:
        await running.says("is open")
        yield running
    finally:
        process.terminate()
        await process.wait()
        await reading


def engines(shell: Shell) -> list[psutil.Process]:
    """The engines of this project's servers, the oldest first."""
    found = []
    for each in psutil.process_iter():
        with suppress(psutil.Error):
            # Its title is all that there is of an engine; its server's arguments name the project.
            server = each.parent() if each.cmdline()[:1] == ["VLLM::EngineCore"] else None
            if server is not None and str(shell.home) in " ".join(server.cmdline()):
                found.append(each)
    return sorted(found, key=lambda each: each.create_time())


@contextmanager
def changed(shell: Shell) -> Iterator[dict[str, Any]]:
    """The configuration in the stack's file, to be changed."""
    file = shell.project / "stacks" / "Pulumi.dev.yaml"
    document = yaml.safe_load(file.read_text())
    yield document["config"]
    file.write_text(yaml.safe_dump(document))


async def test_renewals_under_streams(shell: Shell) -> None:
    """Nobody is refused and no stream ends falsely; none breaks but those of an engine that is
    killed, which had begun."""
    with changed(shell) as config:
        # Two servers at a time shall not bind themselves to the same core.
        config["tpuflex:serving"]["env"]["VLLM_CPU_OMP_THREADS_BIND"] = "nobind"
    shell.run("secrets", "put", "api-key", stdin=KEY_CANARY)
    await asyncio.to_thread(shell.json, "up", "--yes")
    async with gateway(shell) as before:
        key = (shell.home / "gateway" / "client.key").read_text().strip()
        async with aiohttp.ClientSession(
            f"http://127.0.0.1:{before.port}",
            headers={"Authorization": f"Bearer {key}"},
            timeout=aiohttp.ClientTimeout(total=900),
        ) as session:
            for number in range(RENEWALS):
                kills = number % 2 == 0
                clients = Clients(session)
                said = len(before.said)
                with changed(shell) as config:
                    config["tpuflex:slice"]["rerun"] = f"run-{number}"
                up = asyncio.create_task(asyncio.to_thread(shell.json, "up", "--yes"))
                # Streams all the time would leave no processor to the one that boots.
                while len(engines(shell)) < 2 and not up.done():  # noqa: ASYNC110
                    await asyncio.sleep(0.5)
                async with clients.running():
                    if kills:
                        await before.says("is open", said)
                        engines(shell)[0].kill()
                    await up
                    taken = len(clients.ended)
                    while len(clients.ended) < taken + CLIENTS:  # noqa: ASYNC110 - others fill it
                        await asyncio.sleep(0.1)
                print(number, Counter(how for how, _ in clients.ended), before.said[said:])

                assert not clients.of(FALSE)
                assert not clients.of(REFUSED)
                assert len(clients.of(BROKEN)) <= (CLIENTS if kills else 0)
                assert len(clients.of(WHOLE)) > CLIENTS
