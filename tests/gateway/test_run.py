"""`tpuflex gateway run`, as its user runs it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from tests.gateway.gateway_rig import ANSWER, HANDED_ON, MODEL, WHOLE, Scripted, pauses_after
from tpuflex.files.trusted import read_private


@asynccontextmanager
async def running(folder: Path, text: str) -> AsyncIterator[Process]:
    """The command, with ``text`` for its configuration."""
    (folder / "gateway.yaml").write_text(text)
    command = (sys.executable, "-P", "-m", "tpuflex", "gateway", "run", "--config", "gateway.yaml")
    environ = {**os.environ, "TPUFLEX_HOME": str(folder / "home")}
    process = await asyncio.create_subprocess_exec(
        *command, cwd=folder, env=environ, stdout=PIPE, stderr=PIPE
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def line_with(process: Process, words: str) -> str:
    assert process.stderr is not None
    async for line in process.stderr:
        if words in line.decode():
            return line.decode().strip()
    raise AssertionError(f"it has not said {words!r}")


@pytest.mark.parametrize("at_once", [False, True])
async def test_a_gateway_serves_until_it_is_stopped(tmp_path: Path, at_once: bool) -> None:
    """A request under way ends whole, unless it is stopped a second time."""
    script = pauses_after(*ANSWER[:3], then=ANSWER[3:], seconds=60 if at_once else 0.5)
    upstream = Scripted()
    async with upstream.serving() as port:
        text = f"""\
port: 0
upstreams: {{a: {{url: "http://127.0.0.1:{port}/v1", model: {MODEL}}}}}
"""
        async with running(tmp_path, text) as process:
            # Refused if others could read it.
            key = read_private(Path((await line_with(process, "Key: ")).removeprefix("Key: ")))
            url = (await line_with(process, "Listening")).rpartition(" ")[2]
            await line_with(process, "a is open")
            headers = {"Authorization": f"Bearer {key.strip()}"}
            body = {"model": MODEL, "messages": [{"role": "user", "content": "Count."}]}
            async with aiohttp.ClientSession(f"{url}/", headers=headers) as session:
                async with session.get("models") as response:
                    assert [each["id"] for each in (await response.json())["data"]] == [MODEL]
                async with session.post("chat/completions", json=body) as response:
                    assert await response.json() == WHOLE
                upstream.always = script
                body["stream"] = True  # type: ignore[assignment]
                async with session.post("chat/completions", json=body) as response:
                    process.send_signal(signal.SIGINT)
                    await line_with(process, "Requests under way (1)")
                    if at_once:
                        process.send_signal(signal.SIGINT)
                        with pytest.raises(aiohttp.ClientError):
                            await response.read()
                    else:
                        assert await response.read() == HANDED_ON
            assert await asyncio.wait_for(process.wait(), 10) == 0


async def test_a_port_that_is_taken_is_said(tmp_path: Path) -> None:
    """With what to write instead."""
    upstream = Scripted()
    async with upstream.serving() as port:
        text = f"""\
port: {port}
upstreams: {{a: {{url: "http://127.0.0.1:{port}/v1", model: {MODEL}}}}}
"""
        async with running(tmp_path, text) as process:
            assert str(port) in await line_with(process, "cannot be used")
            assert await process.wait() == 1
