"""The first part of docs/tutorial.md, typed word by word as a newcomer does, and what it shows.

Real are tpuflex, the engine, its provider and the embedded cloud. The cloud's hosts run nothing and
are READY at once, and answer every question with one sentence: with the real ones, the same
commands are typed by test_end_to_end.py. Questions are answered by `--yes`.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from embedded_cloud import daemon
from tests.docs.blocks import ROOT, blocks
from tests.docs.typed_pages import TUTORIAL, untyped
from tests.engine.readme_shell import Shell, assert_shown
from tpuflex.engine.find import Engine
from tpuflex.settings.model import PLACEHOLDER_PROJECT

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300)]

#: What asks before it goes on, in a terminal.
ASKS = ("tpuflex up", "tpuflex down", "tpuflex init --template")


@pytest.fixture
def newcomer(tmp_path: Path, pulumi_engine: Engine) -> Iterator[Shell]:
    """A shell in an empty directory, with tpuflex on PATH, and what is large already there."""
    root = tmp_path / "hello"
    home = root / ".tpuflex"
    home.mkdir(parents=True, mode=0o700)
    path = f"{ROOT / '.venv' / 'bin'}:/usr/bin:/bin"
    if pulumi_engine.source == "path":
        path += f":{pulumi_engine.path.parent}"
    for cache in ("engine", "vllm", "models"):
        shared = ROOT / ".tpuflex" / cache
        shared.mkdir(parents=True, exist_ok=True)
        (home / cache).symlink_to(shared)
    state = home / "emulator"
    daemon.start(state, port=0, stub_hosts=True)
    try:
        yield Shell(root, {"PATH": path, "HOME": str(tmp_path), "LANG": "C.UTF-8"})
    finally:
        daemon.stop(state)
        shutil.rmtree(root)


def steps() -> list[tuple[list[str], str]]:
    """The lines of each block that is typed, and what the block of text after it shows."""
    tutorial = [block for block in blocks("sh", "text") if block.page == "docs/tutorial.md"]
    found = []
    for number, block in enumerate(tutorial):
        if block.language != "sh" or block.mark:
            continue
        after = tutorial[number + 1 : number + 2]
        shown = after[0].text if after and after[0].language == "text" else ""
        found.append((block.lines(), shown))
    return found


def test_the_tutorial(newcomer: Shell) -> None:
    """Each command of its first part and of the look at a stack for Google succeeds, in this
    order and without any other, and shows what the page says."""
    for lines, shown in steps():
        printed = ""
        for line in lines:
            agreed = " --yes" if line.startswith(ASKS) else ""
            own = line.replace(PLACEHOLDER_PROJECT, "acme-prod-1")
            printed += newcomer.type(f"{own}{agreed} 2>&1", printed=line)
        assert_shown(shown, printed, "\n".join(lines))

    assert len(newcomer.typed) == 15, newcomer.typed
    assert untyped(TUTORIAL, newcomer.typed) == []
