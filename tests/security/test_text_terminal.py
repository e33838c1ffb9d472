"""S10: no text of a host, a service, a model or a file acts on the terminal that shows it."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios

import pytest

from tests.security.terminal_sources import BEGINS, HOSTILE, ROOT, SOURCES
from tpuflex.terminal.output import Output

#: What a terminal would act on, and no command writes by itself.
ACTS = (b"\x1b]", b"\x1b[2J", b"\x1b[1;1H", b"\x07", b"\x7f", b"\x08", b"\rM")
#: Bidirectional controls and invisible characters, in UTF-8, and any C1 control.
HIDES = tuple(letter.encode() for letter in "\u202e\u2066\u200b\U000e0041") + tuple(
    chr(code).encode() for code in range(0x80, 0xA0)
)
SPELLED = rb"A\x1b]0;owned\x07B"


@pytest.fixture(scope="module")
def on_terminal() -> dict[str, bytes]:
    """What each source writes to a terminal of 900 columns."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 900, 0, 0))
    # A terminal may say its width in the environment, too, and that would win.
    environ = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    with subprocess.Popen(
        [sys.executable, "-m", "tests.security.terminal_sources"],
        cwd=ROOT,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env={**environ, "TERM": "xterm-256color", "PYTHONPATH": "infra:."},
    ):
        os.close(slave)
        shown = b""
        while True:
            try:
                piece = os.read(master, 65536)
            except OSError:  # Linux reports the closed end of a terminal as an error
                break
            if not piece:
                break
            shown += piece
    os.close(master)
    parts = {}
    for name in reversed(SOURCES):
        shown, _, parts[name] = shown.partition(f"{BEGINS.format(name)}\r\n".encode())
    return parts


@pytest.mark.parametrize("source", SOURCES)
def test_no_text_acts_on_the_terminal(on_terminal: dict[str, bytes], source: str) -> None:
    """S10: title, clipboard, links, cursor, C1 and bidirectional controls are spelled out,
    wherever the text comes from and however it was cut; markup is only text."""
    shown = on_terminal[source]

    assert [sequence for sequence in (*ACTS, *HIDES) if sequence in shown] == []
    assert SPELLED in shown, shown.decode(errors="replace")
    assert b"M[link=https://evil.example]N[/link]O:smile:P" in shown


def test_json_stays_json(capsys: pytest.CaptureFixture[str]) -> None:
    """S10: with --json the text arrives whole, escaped by JSON itself."""
    Output(json=True, verbose=False).document({"detail": HOSTILE})

    shown = capsys.readouterr().out
    assert json.loads(shown) == {"detail": HOSTILE}
    assert shown.isascii()
    assert shown.replace("\n", "").isprintable()
