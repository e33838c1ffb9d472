"""An assistant looks after a stack, from nothing to nothing: over standard streams, with the real
engine and the real vLLM, and a person who types the stack's name."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from tests.engine.embedded import ROOT
from tests.mcp_server.serving import Person
from tests.security.vllm_host import image_is_installed
from tpuflex.mcp_server.server import READING

pytestmark = [
    pytest.mark.engine,
    pytest.mark.vllm,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(
        not image_is_installed(), reason="vLLM for CPU is not installed: `tpuflex emulator image`"
    ),
]

TPUFLEX = (sys.executable, "-P", "-m", "tpuflex")
KEY = "sk-Canary+4TnB/8vRkE3s"
HUB_TOKEN = "hf_Canary4TnB8vRkE3s"
#: What a tool that has no default is asked.
ASKED: dict[str, dict[str, Any]] = {
    "query": {"prompt": "In one sentence, what is the capital of France?"},
    "get_help": {"topic": "assistants"},
}


@dataclass
class Project:
    """A project with the dev stack, and all that servers on it have answered.

    Attributes:
        root: its directory.
        environ: the environment of its servers.
        answers: what they have answered.
    """

    root: Path
    environ: dict[str, str]
    answers: list[str] = field(default_factory=list)

    def tpuflex(self, *words: str, stdin: str = "") -> None:
        """Type a command that has to succeed."""
        subprocess.run(
            [*TPUFLEX, *words], cwd=self.root, env=self.environ, check=True, input=stdin, text=True
        )

    @asynccontextmanager
    async def client(self, person: Person) -> AsyncIterator[Client]:
        """A client with ``person`` in front of it, of a server of its own."""
        words = [*TPUFLEX[1:], "mcp", "--allow-changes"]
        started = StdioServerParameters(
            command=TPUFLEX[0], args=words, env=self.environ, cwd=self.root
        )
        async with Client(stdio_client(started), elicitation_callback=person.answer) as client:
            yield client

    async def call(self, client: Client, tool: str, **arguments: Any) -> Any:
        """The document of an answer, an error's among them."""
        answer = await client.call_tool(tool, arguments)
        self.answers.append(answer.model_dump_json())
        return answer.structured_content

    async def carried_out(self, tool: str) -> Any:
        """How the operation of ``tool`` ends, once the person has typed the name; the server that
        started it ends at once, and another one says how far it is."""
        person = Person("dev")
        async with self.client(person) as client:
            plan = await self.call(client, tool)
            handle = await self.call(client, tool, plan_hash=plan["plan_hash"])
        assert len(person.asked) == 1, handle
        async with self.client(Person()) as client:
            while True:
                found = await self.call(client, "get_operation", operation=handle["operation"])
                if found["state"] != "running":
                    return found
                await asyncio.sleep(2)


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """A new project; what is large is this checkout's."""
    root = tmp_path / "project"
    (home := root / ".tpuflex").mkdir(parents=True, mode=0o700)
    for cache in ("engine", "vllm", "models"):
        (home / cache).symlink_to(ROOT / ".tpuflex" / cache)
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "LANG": "C.UTF-8"}
    made = Project(root, {**environ, "HF_TOKEN": HUB_TOKEN})
    made.tpuflex("init", "--cloud", "embedded", "--set", "secrets.api_key_version=1")
    made.tpuflex("emulator", "start", "--port", "0")
    try:
        made.tpuflex("secrets", "put", "api-key", "--yes", stdin=KEY)
        yield made
    finally:
        made.tpuflex("emulator", "stop")


async def test_from_nothing_to_nothing(project: Project) -> None:
    """Plan, hash, typed name: the endpoint comes up, is asked by every tool that reads, and goes. A
    stack file that is another one by then starts nothing; no answer has a secret."""
    stack_file = project.root / "stacks" / "Pulumi.dev.yaml"
    before = stack_file.read_text()
    async with project.client(Person("dev")) as client:
        plan = await project.call(client, "up")
        stack_file.write_text(before.replace("max_run_duration: 4h", "max_run_duration: 5h"))
        assert stack_file.read_text() != before
        refused = await project.call(client, "up", plan_hash=plan["plan_hash"])
        stack_file.write_text(before)
        assert refused["error"]["kind"] == "PlanChangedError"
        assert (await project.call(client, "get_operation"))["operations"] == []

    up = await project.carried_out("up")
    assert (up["state"], up["exit_code"]) == ("succeeded", 0), up
    assert up["result"]["endpoint"].startswith("http://127.")

    async with project.client(Person()) as client:
        found = {
            tool: await project.call(client, tool, **ASKED.get(tool, {}))
            for tool in READING
            if tool != "compare_benchmarks"
        }
    failed = {tool: each["error"] for tool, each in found.items() if "error" in each}
    assert failed == {}
    assert "Paris" in found["query"]["answer"]
    assert found["query"]["ttft_s"] > 0
    assert found["query"]["tokens_per_second"] > 0
    assert found["verify_model_health"]["ok"] is True
    assert found["preview"]["changes"] == []

    down = await project.carried_out("down")
    assert (down["state"], down["result"]["destroyed"]) == ("succeeded", True), down
    async with project.client(Person()) as client:
        assert (await project.call(client, "status"))["error"]["exit_code"] == 4
    assert not any(secret in json.dumps(project.answers) for secret in (KEY, HUB_TOKEN))
