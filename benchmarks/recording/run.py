"""Record a real run on the embedded cloud as pictures for the README: `make recording`.

Brings the dev stack up in a project of its own, asks it, looks at it and takes it down, at a
terminal, and draws what was shown: docs/pictures/run-light.svg and run-dark.svg. Takes one to two
minutes where the engine and vLLM are installed. ``--render`` draws the last run again.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from recording.picture import DARK, LIGHT, picture
from recording.screen import lines_of
from recording.session import Command, Session

ROOT = Path(__file__).resolve().parents[2]
BIN = ROOT / ".venv" / "bin"
STATE = ROOT / ".tpuflex"
CAST = STATE / "recording" / "run.cast"
PICTURES = ROOT / "docs" / "pictures"
COLUMNS, ROWS = 100, 40
#: Height of the pictures, in lines.
ROWS_SHOWN = 33
#: What the first line begins with that is shown where nothing moves.
_STILL = "READY:"
_OWN = re.compile(r"/(?:tmp|home|root|Users|var|work)/")
TITLE = "tpuflex up, ask, status, down: a real run on the embedded cloud, with its waits shortened"
TPUFLEX = str(BIN / "tpuflex")
QUESTION = "In one sentence, what is the capital of France?"
SESSION = (
    Command("tpuflex up", (TPUFLEX, "up"), {"Go ahead?": "y"}),
    Command(f'tpuflex ask "{QUESTION}"', (TPUFLEX, "ask", QUESTION)),
    Command("tpuflex status", (TPUFLEX, "status")),
    Command("tpuflex down", (TPUFLEX, "down"), {"to go ahead": "dev"}),
)


@contextmanager
def project() -> Iterator[tuple[Path, dict[str, str]]]:
    """A new project of the embedded cloud, and the environment of its commands; engine, vLLM and
    model are those that are installed here."""
    with tempfile.TemporaryDirectory(prefix="recording-") as scratch:
        directory = Path(scratch) / "demo"
        state = directory / ".tpuflex"
        environ = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        environ |= {"TERM": "xterm-256color", "LANG": "C.UTF-8"}
        _quietly([TPUFLEX, "init", str(directory), "--cloud", "embedded", "--yes"], ROOT, environ)
        state.mkdir(mode=0o700, exist_ok=True)
        for name in ("engine", "vllm", "models"):
            if (STATE / name).exists() and not (state / name).exists():
                (state / name).symlink_to((STATE / name).resolve())
        for words in (["emulator", "image"], ["emulator", "start", "--port", "0"]):
            _quietly([TPUFLEX, *words], directory, environ)
        try:
            yield directory, environ
        finally:
            _quietly([TPUFLEX, "emulator", "stop"], directory, environ)


def record() -> Session:
    """Run the session."""
    session = Session(COLUMNS, ROWS)
    with project() as (directory, environ):
        for command in SESSION:
            session.run(command, directory, environ)
    return session


def write_cast(session: Session, file: Path) -> None:
    """Keep the session as an asciicast, which other players read, too."""
    file.parent.mkdir(parents=True, exist_ok=True)
    header = {"version": 2, "width": session.columns, "height": session.rows}
    lines = [header, *([at, "o", text] for at, text in session.events)]
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")


def read_cast(file: Path) -> Session:
    """The session in ``file``."""
    header, *lines = (json.loads(line) for line in file.read_text(encoding="utf-8").splitlines())
    events = [(float(at), str(text)) for at, _, text in lines]
    return Session(int(header["width"]), int(header["height"]), events)


def draw(session: Session) -> None:
    """Write the pictures.

    Raises:
        SystemExit: they would show a path of this machine.
    """
    lines = lines_of(session)
    texts = ["".join(run.text for run in line.runs) for line in lines]
    own = [text for text in texts if _OWN.search(text)]
    if own:
        sys.exit(f"A path of this machine was shown: {own}")
    still = next(row for row, text in enumerate(texts) if text.startswith(_STILL))
    PICTURES.mkdir(exist_ok=True)
    for name, theme in (("light", LIGHT), ("dark", DARK)):
        text = picture(
            lines, columns=session.columns, rows=ROWS_SHOWN, still=still, title=TITLE, theme=theme
        )
        (PICTURES / f"run-{name}.svg").write_text(text, encoding="utf-8")


def _quietly(words: list[str], directory: Path, environ: dict[str, str]) -> None:
    done = subprocess.run(
        words, cwd=directory, env=environ, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--render", action="store_true", help="draw the last run again")
    if not parser.parse_args().render:
        write_cast(record(), CAST)
    draw(read_cast(CAST))


if __name__ == "__main__":
    main()
