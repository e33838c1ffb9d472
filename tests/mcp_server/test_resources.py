"""Resources: stack files, runbooks, benchmarks, and nothing else of this machine."""

from __future__ import annotations

import os
from pathlib import Path

from mcp.client import Client
from mcp.shared.exceptions import MCPError
from mcp.types import ReadResourceResult, Resource

from tests.mcp_server.serving import called, document, run, workspace
from tpuflex.mcp_server.answers import UNTRUSTED
from tpuflex.mcp_server.server import ProjectServer


def uris(server: ProjectServer) -> list[str]:
    async def listed() -> list[str]:
        async with Client(server) as client:
            return [str(each.uri) for each in (await client.list_resources()).resources]

    return run(listed())


def text(server: ProjectServer, uri: str) -> str | None:
    """The text at ``uri``; None where that is refused."""

    async def read() -> str | None:
        async with Client(server) as client:
            try:
                (found,) = (await client.read_resource(uri)).contents
            except MCPError:
                return None
            return found.text  # type: ignore[union-attr]

    return run(read())


def test_what_is_there_now(project: Path) -> None:
    """A stack file and a benchmark that come later are listed; a secret in one is not read out."""
    server = ProjectServer(workspace(project))
    assert "tpuflex://stacks/dev" in uris(server)
    (project / "stacks" / "Pulumi.new.yaml").write_text(
        "# hf_Canary4TnB8vRkE3s\nconfig: {a: {secure: v1:x}}\n"
    )
    (project / "bench").mkdir()
    (project / "bench" / "run.md").write_text("# Run\n")

    assert {"tpuflex://stacks/new", "tpuflex://benchmarks/run.md"} <= {*uris(server)}
    assert text(server, "tpuflex://stacks/new") == "# [removed]\nconfig: {a: {secure: [removed]}}\n"
    assert text(server, "tpuflex://benchmarks/run.md") == "# Run\n"


def test_names_that_cannot_be_shown(project: Path) -> None:
    """A file whose name is no UTF-8, or has a line's end in it, is left out of all lists; what the
    project's files say is marked as data."""
    (project / "bench").mkdir()
    for name in (b"\xff.md", b"a\nb.md", b"run.md"):
        Path(os.fsdecode(os.fsencode(project / "bench") + b"/" + name)).write_text("# Run\n")
    server = ProjectServer(workspace(project))

    async def looked_at() -> tuple[list[Resource], ReadResourceResult]:
        async with Client(server) as client:
            listed = (await client.list_resources()).resources
            return listed, await client.read_resource("tpuflex://benchmarks/run.md")

    listed, read = run(looked_at())
    marked = {str(each.uri): each.meta for each in listed if "runbooks" not in str(each.uri)}
    said = {"untrusted": UNTRUSTED}
    assert marked == {"tpuflex://stacks/dev": said, "tpuflex://benchmarks/run.md": said}
    assert read.contents[0].meta == said
    found = document(called(server, "list_benchmarks"))
    assert (found["files"], found["untrusted"]) == (["run.md"], UNTRUSTED)


NONE = (
    "tpuflex://stacks/nope",
    "tpuflex://stacks/..%2F..%2Fsecret",
    "tpuflex://benchmarks/linked.md",
    "tpuflex://benchmarks/long.md",
    "tpuflex://runbooks/..%2Fsecurity",
    "file:///etc/passwd",
)


def test_what_is_no_resource(project: Path) -> None:
    """Names that lead elsewhere, links, and what is too long are refused."""
    directory = project / "bench"
    directory.mkdir()
    (directory / "linked.md").symlink_to(project / "Pulumi.yaml")
    (directory / "long.md").write_text("x" * (1024 * 1024 + 1))

    server = ProjectServer(workspace(project))

    assert [uri for uri in NONE if text(server, uri) is not None] == []
    assert "# " in str(text(server, "tpuflex://runbooks/kv-cache-full"))
