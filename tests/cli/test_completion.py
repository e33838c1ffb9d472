"""TAB completes commands, options and values in real shells, quickly, and never shows an error."""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

import pytest

from tests.cli.typing import Captured, TypeIn
from tpuflex.cli.completion import SHELLS, VARIABLE, answer_shell
from tpuflex.cli.main import tpuflex

#: How a shell is started without anybody's configuration, and made ready.
READY = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], 'eval "$(tpuflex completion bash)"'),
    "zsh": (
        ["zsh", "-f", "-i"],
        'bindkey -e; autoload -U compinit; compinit -u -D; eval "$(tpuflex completion zsh)"',
    ),
    "fish": (["fish", "--no-config", "-i"], "tpuflex completion fish | source"),
}
#: What is typed before TAB, and the last word after it.
COMPLETED = {
    "tpuflex stat": "status",
    "tpuflex status --no-t": "--no-tunnel",
    "tpuflex status --stack tr": "trial",
    "tpuflex init --zone southamerica-w": "southamerica-west1-a",
    "tpuflex init --accelerator v6e-25": "v6e-256",
    "tpuflex init --template first": "first-proof",
    "tpuflex catalog models google/gemma-4-31": "google/gemma-4-31B-it",
    "tpuflex secrets put tls": "tls-certificate",
    "tpuflex emulator strictness org": "organization_policies",
}


@pytest.fixture
def several(project: Path) -> Path:
    """A project with two stacks, and a file whose name would be a command."""
    for name in ("trial", "$(touch pwned)", "tx;ls"):
        (project / "stacks" / f"Pulumi.{name}.yaml").write_text("config: {}\n")
    return project


def _environ(home: Path) -> dict[str, str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {"PATH": path, "HOME": str(home), "TERM": "dumb", "LANG": "C.UTF-8"}


@pytest.mark.parametrize("shell", SHELLS)
def test_tab_in_a_real_shell(shell: str, several: Path, tmp_path: Path) -> None:
    """A user types the beginning of a word, presses TAB, and has the rest of it."""
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell} on this machine")
    command, ready = READY[shell]
    with Terminal(command, ready, several, _environ(tmp_path)) as terminal:
        words = {typed: terminal.words_after_tab(typed) for typed in COMPLETED}

    assert {typed: last[-1] for typed, last in words.items()} == COMPLETED
    assert not (several / "pwned").exists()


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_is_clicks_own(shell: str, type_in: TypeIn) -> None:
    """`tpuflex completion` prints it without a project, too."""
    done = type_in("completion", shell)

    assert done.code == 0
    assert f"{VARIABLE}={shell}_complete" in done.out
    assert done.err == ""


def _offered(line: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> tuple[int, str, str]:
    words = line.split(" ")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
    monkeypatch.setenv(VARIABLE, "bash_complete")
    code = answer_shell(tpuflex)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_only_plain_names_are_offered(
    several: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    """A file of a checkout cannot put a command on somebody's command line."""
    monkeypatch.chdir(several)

    assert _offered("tpuflex up -s ", monkeypatch, capsys) == (0, "plain,dev\nplain,trial\n", "")


def test_the_project_of_the_command_line(
    several: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    """Stacks and own rows of the catalog are those of the project that -C names."""
    (several / "catalog.yaml").write_text("accelerators:\n  - {name: v9-mine}\n")
    monkeypatch.chdir(tmp_path)

    for line, name in (("up --stack t", "trial"), ("memory --accelerator v9", "v9-mine")):
        offered = _offered(f"tpuflex -C {several} {line}", monkeypatch, capsys)
        assert offered == (0, f"plain,{name}\n", "")


@pytest.mark.parametrize(
    "text",
    ["", "name: [", "- a\n- b\n", "stackConfigDir: [1]\n", "stackConfigDir: 'no/such'\n", "\0"],
)
@pytest.mark.parametrize("line", ["tpuflex up -s d", "tpuflex catalog models x", "tpuflex x y "])
def test_nothing_is_offered_rather_than_an_error(
    text: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    """Whatever the project's files hold, the line that is being typed is left alone."""
    (tmp_path / "Pulumi.yaml").write_text(text)
    (tmp_path / "catalog.yaml").write_text(f"models: {text or 3}")
    monkeypatch.chdir(tmp_path)

    _, out, err = _offered(line, monkeypatch, capsys)

    assert err == ""
    assert all(shown.startswith("plain,") for shown in out.split())


def test_a_question_that_nobody_can_understand(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    """Without the variables of a shell the answer is an exit code."""
    monkeypatch.setenv(VARIABLE, "bash_complete")
    monkeypatch.delenv("COMP_WORDS", raising=False)

    assert answer_shell(tpuflex) == 1
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    "line", ["tpuflex ", "tpuflex up --", "tpuflex up -s ", "tpuflex init --zone "]
)
def test_nothing_heavy_is_imported(line: str, several: Path) -> None:
    """Somebody waits for the key; nothing that can reach a network is loaded either."""
    heavy = "pulumi google pydantic rich requests grpc aiohttp psutil urllib3"
    program = (
        "import atexit, sys; from tpuflex.cli.main import main\n"
        f"heavy = set('{heavy}'.split())\n"
        "atexit.register(lambda: print(*heavy & set(sys.modules), file=sys.stderr))\n"
        "main([])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        cwd=several,
        env={
            **os.environ,
            VARIABLE: "bash_complete",
            "COMP_WORDS": line,
            "COMP_CWORD": str(len(line.split(" ")) - 1),
        },
    )

    assert done.stdout.startswith("plain,")
    assert done.stderr.strip() == ""


#: Makes standard input the controlling terminal, and becomes the shell.
_ON_TERMINAL = (
    "import fcntl, os, sys, termios; os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    "os.execvp(sys.argv[1], sys.argv[1:])"
)
PROMPT = "READY>"
#: Keys of all shells with the bindings of Emacs.
TAB, TO_START, TO_END, ENTER = "\t", "\x01", "\x05", "\r"
_SECONDS = 60.0


class Terminal:
    """A shell at a terminal.

    Args:
        command: the shell.
        prompt: what makes it ask for commands with :data:`PROMPT`.
        directory: where it runs.
        environ: its environment.
    """

    def __init__(
        self, command: list[str], prompt: str, directory: Path, environ: Mapping[str, str]
    ) -> None:
        self._master, terminal = os.openpty()
        self._process = subprocess.Popen(
            [sys.executable, "-c", _ON_TERMINAL, *command],
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            cwd=directory,
            env=dict(environ),
        )
        os.close(terminal)
        self._shown = ""
        self.run(prompt)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._master)

    def run(self, line: str) -> None:
        """Type a line and wait until it is done."""
        self.press(f"{line}{ENTER}")
        self.press(f"printf '<%s>' done{ENTER}")
        self.read_until("<done>")

    def press(self, keys: str) -> None:
        """Press keys."""
        os.write(self._master, keys.encode())

    def words_after_tab(self, typed: str) -> list[str]:
        """The words of the line after TAB was pressed behind ``typed``."""
        self.press(f"{typed}{TAB}")
        # Type-ahead: the shell takes these keys when it has completed.
        self.press(f"{TO_START}printf '<%s>' {TO_END} '' end{ENTER}")
        shown = self.read_until("<end>")
        return shown.rpartition("<tpuflex>")[2].removesuffix("<><end>")[1:-1].split("><")

    def read_until(self, text: str) -> str:
        """What is shown until ``text`` is."""
        end = time.monotonic() + _SECONDS
        while text not in self._shown:
            ready, _, _ = select.select([self._master], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                raise AssertionError(f"{text!r} was not shown, but: {self._shown!r}")
            self._shown += os.read(self._master, 65536).decode(errors="replace")
        shown, _, self._shown = self._shown.partition(text)
        return shown + text
