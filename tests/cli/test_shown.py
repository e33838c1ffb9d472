"""Single lines and small tables, and what `tpuflex up` ends with."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.samples import NODE, status
from tests.cli.typing import NOON, Captured, TypeIn
from tests.planning.test_cost import priced
from tpuflex.cli.up.run import show_endpoint
from tpuflex.deploy.boot import host_log
from tpuflex.deploy.stack_up import UpResult
from tpuflex.errors import NotFoundError
from tpuflex.operate.endpoint_connection import unreachable_hint
from tpuflex.operate.question import Answer
from tpuflex.planning.cost import cost_in
from tpuflex.settings.load import parse
from tpuflex.stack.connection import Connection
from tpuflex.stack.emulator import Daemon
from tpuflex.stack.stack import Stack
from tpuflex.terminal.output import Output, one_line, table_lines, wrapped


def test_line_that_is_redrawn() -> None:
    """It is truncated to the terminal's width, with a mark; what fits is left alone."""
    assert one_line("in the queue", 12) == "in the queue"
    assert one_line("in the queue", 8) == "in the…"


def test_table() -> None:
    """Columns are as wide as necessary; no line ends in a space."""
    assert table_lines(("A", "B"), [("long", ""), ("x", "y")]) == ["A     B", "long", "x     y"]


def test_a_table_that_is_too_wide() -> None:
    """Its cells are wrapped between words; where the words themselves are too wide, each row is a
    block that names what it has."""
    rows = [("us-east5-a", "v6e", "granted within 5 minutes"), ("us-west4-a", "-", "")]

    assert table_lines(("ZONE", "CHIPS", "NOTE"), rows, 32) == [
        "ZONE        CHIPS  NOTE",
        "us-east5-a  v6e    granted",
        "                   within 5",
        "                   minutes",
        "us-west4-a  -",
    ]
    assert table_lines(("ZONE", "CHIPS", "NOTE"), rows, 24) == [
        "us-east5-a",
        "  CHIPS v6e",
        "  NOTE granted within 5",
        "    minutes",
        "us-west4-a",
    ]


_COMMAND = "gcloud services enable tpu.googleapis.com --project=my-project-id"


@pytest.mark.parametrize(
    "line",
    [
        _COMMAND,
        f"/opt/bin/{_COMMAND}",
        f"$ {_COMMAND}",
        f"    -> {_COMMAND}",
        "/a/path/that/is/longer/than/that",
    ],
)
def test_what_is_copied_stays_whole(line: str) -> None:
    """A command or a path is not broken, however narrow the terminal is."""
    assert wrapped(line, 30) == [line]
    assert wrapped(f"Type `{_COMMAND}` and wait.", 30) == [f"Type `{_COMMAND}`", "and wait."]


@given(
    words=st.lists(st.text("abc.", min_size=1, max_size=9), min_size=1),
    indent=st.sampled_from(["", "  "]),
    columns=st.integers(12, 40),
)
def test_nothing_is_cut(words: list[str], indent: str, columns: int) -> None:
    """A line of words that fit is wrapped to lines that fit, below its indent, with every word."""
    lines = wrapped(indent + " ".join(words), columns)

    assert " ".join(line.removeprefix(indent) for line in lines) == " ".join(words)
    assert all(len(line) <= columns and line.startswith(indent) for line in lines)


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize(
    "words",
    [
        "doctor",
        "cost",
        "memory",
        "catalog",
        *(f"catalog {kind}" for kind in ("accelerators", "zones", "prices", "models", "images")),
        "recommend --model google/gemma-4-31B-it --context 16384 --concurrency 8",
        "recommend --scenario list",
    ],
)
def test_commands_fit_the_terminal(words: str, columns: int, type_in: TypeIn) -> None:
    """No line is wider than the terminal, but for one word or one command that is."""
    shown = type_in(*words.split(), COLUMNS=str(columns)).out

    wide = [line for line in shown.splitlines() if len(line) > columns]
    assert [line for line in wide if len(line.split()) > 1 and "-> " not in line] == []
    assert shown


def test_a_stream_of_ascii_gets_utf_8(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it cannot encode would end the command in the middle of its work."""
    written = io.BytesIO()
    monkeypatch.setattr("sys.stderr", io.TextIOWrapper(written, encoding="ascii"))
    Output(json=False, verbose=False).progress("waiting …")

    assert written.getvalue() == "waiting …\n".encode()


def test_styles_are_for_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    """A heading is bold, and the word before an error red, where somebody looks; a log has neither
    of them."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    shown = []
    for stream in (Terminal, io.StringIO):
        out, err = stream(), stream()
        monkeypatch.setattr("sys.stdout", out)
        monkeypatch.setattr("sys.stderr", err)
        output = Output(json=False, verbose=False)
        output.heading("A stack")
        output.failure(NotFoundError("there is none"))
        shown.append((out.getvalue(), err.getvalue()))

    assert shown == [
        ("\x1b[1mA stack\x1b[0m\n", "\x1b[31m\x1b[1mError:\x1b[0m there is none\n"),
        ("A stack\n", "Error: there is none\n"),
    ]


def test_speed() -> None:
    """The line after an answer: time to first token, rate, and whether it was cut off."""
    answer = Answer("Paris", 0.075, 1.075, 10, 41, "length")

    assert answer.summary == ("TTFT 75 ms, 40.0 tokens/s (41 tokens, cut off by --max-tokens)")


@pytest.mark.parametrize(
    ("hosts", "expected"),
    [
        (
            [{"node": NODE, "worker": 0, "root": "/h/n/root", "serial_log": "/h/n/serial.log"}],
            "/h/n/",
        ),
        ([{"node": NODE, "stub": True}], "`tpuflex logs`"),
        ([], "`tpuflex logs`"),
    ],
)
def test_log_on_the_embedded_cloud(
    stack: Stack, hosts: list[object], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log of an emulated host is a file, where the embedded cloud says that it is."""
    monkeypatch.setattr(Daemon, "call", lambda *_: {"hosts": hosts})

    assert str(host_log(Connection(stack, {}), status())).startswith(expected)


def test_way_to_a_private_endpoint(stack: Stack) -> None:
    """On Google, an endpoint that cannot be reached comes with the tunnel to type."""
    google = stack.settings.model_copy(update={"cloud": "google"})
    cloud = Connection(Stack(stack.project, "tpu", stack.file, google), {})

    text = unreachable_hint(cloud, status(address="10.0.0.2")).for_stack("tpu", {})

    assert "tpuflex:network.allowed_cidrs" in text
    assert (
        "gcloud alpha compute tpus tpu-vm ssh n --zone=us-east5-a --project=p "
        "--tunnel-through-iap -- -N -o ServerAliveInterval=15 -o ServerAliveCountMax=3 "
        "-L 127.0.0.1:8000:10.0.0.2:8000\n"
        "  (needs gcloud's component: gcloud components install alpha)\n"
    ) in text
    assert "tpuflex ask --stack tpu --url http://127.0.0.1:8000/v1" in text


@pytest.mark.parametrize(
    ("zone", "price"), [("us-east5-a", "$4.00 per hour"), ("europe-west4-a", "$8.00 per hour")]
)
def test_the_price_is_that_of_the_zone_that_granted(
    stack: Stack, capsys: Captured, zone: str, price: str
) -> None:
    """While it waited for capacity in two regions, the dearer one was said; now it is known."""
    settings = parse(priced(us_east5="1", europe_west4="2"), "test")
    stack = replace(stack, settings=settings)
    result = UpResult(stack, status(zone=zone), cost_in(settings, zone), NOON)
    show_endpoint(Output(json=False, verbose=False), result, {})

    assert f"price     {price}, at most" in capsys.readouterr().out
    dollars = float(price.removeprefix("$").partition(" ")[0])
    assert result.to_json()["usd_per_hour"] == dollars
