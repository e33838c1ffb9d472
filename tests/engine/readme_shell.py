"""The blocks of commands in pages, and a shell to type them in."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.docs.blocks import lines_of_shell
from tests.docs.typed_pages import lines_of
from tests.engine.embedded import ROOT, write_project
from tpuflex.engine.find import Engine
from tpuflex.settings.model import PLACEHOLDER_PROJECT
from tpuflex.stack.emulator import Daemon


def commands(page: str, after: str) -> list[str]:
    """The commands of the first block of ``page`` behind the text ``after``, without comments."""
    text = (ROOT / page).read_text().partition(after)[2]
    block = re.search(r"```sh\n(.*?)```", text, re.DOTALL)
    assert block is not None
    return lines_of_shell(block[1])


def assert_shown(shown: str, printed: str, typed: str) -> None:
    """Every line of ``shown`` is printed, in this order; `…` stands for anything."""
    rest = printed
    for line in shown.splitlines():
        if line == "…":
            continue
        pattern = ".*?".join(re.escape(part) for part in line.split("…"))
        match = re.search(f"^{pattern}", rest, re.MULTILINE)
        assert match, f"{typed}\ndoes not show, or not there: {line}\n{printed}"
        rest = rest[match.end() :]


@dataclass
class Shell:
    """A shell in a fresh clone.

    Attributes:
        root: its directory.
        environ: its variables.
        said: what the last line printed on standard error.
        typed: the lines so far, as the pages print them.
    """

    root: Path
    environ: dict[str, str]
    said: str = ""
    typed: list[str] = field(default_factory=list)

    def type(self, line: str, *, printed: str = "") -> str:
        """Type ``line``, which a page may have ``printed`` otherwise, and which succeeds; returns
        what it prints on standard output."""
        self.typed.append(printed or line)
        done = subprocess.run(
            ["/bin/bash", "-c", line],
            cwd=self.root,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, f"{line}:\n{done.stdout}\n{done.stderr}"
        self.said = done.stderr
        return done.stdout

    def enter(self, line: str) -> None:
        """Take over the variables that ``line`` sets."""
        lines = self.type(f"{line}; env -0", printed=line).split("\0")
        self.environ = dict(line.split("=", 1) for line in lines if "=" in line)


@contextmanager
def rehearsed(tmp_path: Path, engine: Engine, project: str) -> Iterator[Shell]:
    """A clone whose stack `first-proof` has got its ``project``, in a shell as docs/rehearsal.md
    sets one up; a minute of its cloud's clock takes three seconds."""
    root = write_project(tmp_path / "clone")
    stack = (ROOT / "stacks" / "Pulumi.first-proof.yaml").read_text()
    (root / "stacks" / "Pulumi.first-proof.yaml").write_text(
        stack.replace(PLACEHOLDER_PROJECT, project)
    )
    home = root / ".tpuflex"
    home.mkdir(mode=0o700)
    path = f"{ROOT / '.venv' / 'bin'}:/usr/bin:/bin"
    if engine.source == "path":
        path += f":{engine.path.parent}"
    else:
        (home / "engine").symlink_to(engine.path.parents[1])
    if (gcloud := shutil.which("gcloud")) is not None:
        path += f":{Path(gcloud).parent}"
    shell = Shell(root, {"PATH": path, "HOME": str(tmp_path), "LANG": "C.UTF-8"})
    start, enter, *_ = lines_of("docs/rehearsal.md")
    shell.type(start)
    try:
        shell.enter(enter)
        Daemon(home).call("POST", "clock", {"speed": 20})
        yield shell
    finally:
        Daemon(home).stop()
