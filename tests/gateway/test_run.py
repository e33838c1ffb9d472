"""`tpuflex gateway run`, as its user runs it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from tests.gateway.gateway_rig import ANSWER, HANDED_ON, MODEL, WHOLE, Scripted, waits_after
from tests.gateway.running_fleet import no_stack
from tpuflex.files.trusted import read_private
from tpuflex.gateway.config import key_file, read_file
from tpuflex.gateway.gateway_status import read_status


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
    """A request under way ends whole, unless it is stopped a second time, which its client and the
    operator learn."""
    script = waits_after(*ANSWER[:3], then=ANSWER[3:], goes_on=(goes_on := asyncio.Event()))
    upstream = Scripted()
    async with upstream.serving() as port:
        text = f"""\
port: 0
upstreams: {{a: {{url: "http://127.0.0.1:{port}/v1", model: {MODEL}}}}}
"""
        async with running(tmp_path, text) as process:
            # Refused if others could read it.
            key = read_private(Path((await line_with(process, "Key: ")).partition("Key: ")[2]))
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
                        assert (await response.read()).endswith(b'"code": "gateway_stopping"}}\n\n')
                        await line_with(process, "Answers that were cut off: 1.")
                    else:
                        goes_on.set()
                        assert await response.read() == HANDED_ON
            assert await process.wait() == (1 if at_once else 0)


async def test_what_it_does_is_seen(tmp_path: Path) -> None:
    """In its access log, by `gateway status`, and in what Prometheus collects: a request that was
    answered, and one without a key."""
    upstream = Scripted()
    async with upstream.serving() as port:
        text = f"""\
port: 0
access_log: "-"
upstreams: {{a: {{url: "http://127.0.0.1:{port}/v1", model: {MODEL}}}}}
"""
        async with running(tmp_path, text) as process:
            key = read_private(Path((await line_with(process, "Key: ")).partition("Key: ")[2]))
            url = (await line_with(process, "Listening")).rpartition(" ")[2]
            await line_with(process, "a is open")
            body = {"model": MODEL, "messages": [{"role": "user", "content": "The secret."}]}
            operator = read_private(key_file(tmp_path / "home", "operator")).strip()
            async with aiohttp.ClientSession() as session:
                for each, status in ((key.strip(), 200), ("no-key", 401)):
                    headers = {"Authorization": f"Bearer {each}"}
                    where = f"{url}/chat/completions"
                    async with session.post(where, json=body, headers=headers) as response:
                        assert response.status == status
                headers = {"Authorization": f"Bearer {operator}"}
                where = f"{url.removesuffix('/v1')}/metrics"
                async with session.get(where, headers=headers) as response:
                    metrics = await response.text()
            config = read_file(tmp_path / "gateway.yaml", no_stack, {})
            found = await asyncio.to_thread(read_status, config, tmp_path / "home")
            process.send_signal(signal.SIGTERM)
            assert process.stdout is not None
            log = (await process.stdout.read()).decode()

    assert [each.name for each in found.upstreams] == ["a"]
    assert {each.name: each.answered for each in found.classes if each.answered} == {
        "interactive": 1
    }
    assert 'tpuflex_gateway_tokens_total{client="local",kind="generated"} 3.0' in metrics
    assert [json.loads(line)["status"] for line in log.splitlines()] == [200, 401]
    assert "secret" not in log
    assert key.strip() not in log + metrics
