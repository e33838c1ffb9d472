"""A server on the project of a test, its client, and the person in front of that."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from mcp.client import Client
from mcp.client.context import ClientRequestContext
from mcp.types import CallToolResult, ElicitRequestParams, ElicitResult

from tests.cli.typing import NOON
from tpuflex.google.endpoints import Endpoints
from tpuflex.google.transport import JsonObject
from tpuflex.mcp_server.server import ProjectServer
from tpuflex.mcp_server.workspace import Workspace
from tpuflex.naming import API_KEY
from tpuflex.stack.connection import Connection

T = TypeVar("T")
#: What stands in for `tpuflex` as a process: it says its words on both streams.
SCRIPT = """\
import json, sys
print(f"working on {sys.argv[-1]}", file=sys.stderr)
print(json.dumps({"words": sys.argv[1:]}))
"""


@dataclass
class Person:
    """Who is asked by the client.

    Attributes:
        types: what is typed; None to decline.
        asked: the questions.
    """

    types: str | bool | None = None
    asked: list[str] = field(default_factory=list)

    async def answer(
        self, context: ClientRequestContext, params: ElicitRequestParams
    ) -> ElicitResult:
        """What a client's callback returns."""
        del context
        self.asked.append(params.message)
        if self.types is None:
            return ElicitResult(action="decline")
        (name,) = params.requested_schema["properties"]  # type: ignore[union-attr]
        return ElicitResult(action="accept", content={name: self.types})


def add_key(cloud: Connection, value: str) -> None:
    """Make the secret of the stack's API key, with ``value`` as its first version."""
    parent, _, name = cloud.secret(API_KEY).rpartition("/")
    api = cloud.transport(Endpoints.from_environ(cloud.environ).secretmanager)
    body: JsonObject = {"replication": {"automatic": {}}}
    api.call("POST", f"/v1/{parent}?secretId={name}", body=body)
    cloud.secrets.add_version(cloud.secret(API_KEY), value)


def workspace(project: Path, cloud: Connection | None = None, script: str = SCRIPT) -> Workspace:
    """The workspace of ``project``, whose stacks are on ``cloud``, at noon."""

    def connected(*_: object, **__: object) -> Connection:
        assert cloud is not None
        return cloud

    return Workspace(
        project,
        "dev",
        {"PATH": "/usr/bin:/bin", "HOME": str(project)},
        now=lambda: NOON,
        connector=connected,
        command=(sys.executable, "-c", script),
    )


def called(
    server: ProjectServer,
    tool: str,
    arguments: dict[str, Any] | None = None,
    person: Person | None = None,
    mode: str = "auto",
) -> CallToolResult:
    """What ``tool`` answers to a client whose ``person`` can be asked; without one, nobody can.

    Args:
        server: the server.
        tool: the tool's name.
        arguments: its arguments.
        person: who is asked.
        mode: of the SDK's client: ``legacy`` speaks the protocol as it was before 2026-07-28.
    """

    async def call() -> CallToolResult:
        answer = None if person is None else person.answer
        async with Client(server, mode=mode, elicitation_callback=answer) as client:
            return await client.call_tool(tool, arguments or {})

    return run(call())


def run(asked: Coroutine[Any, Any, T]) -> T:
    """What ``asked`` comes to."""
    return asyncio.run(asked)


def document(result: CallToolResult) -> Any:
    """The document of an answer, which its text has, too."""
    (text,) = result.content
    assert json.loads(text.text) == result.structured_content  # type: ignore[union-attr]
    return result.structured_content


def error(result: CallToolResult) -> Any:
    """What an answer says that is an error."""
    assert result.is_error
    return document(result)["error"]
