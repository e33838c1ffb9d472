"""Single lines and small tables, and what `tpuflex up` ends with."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest

from tests.cli.samples import NODE, status
from tests.cli.typing import NOON, Captured
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
from tpuflex.terminal.output import Output, one_line, table_lines


def test_line_that_is_redrawn() -> None:
    """It is truncated to the terminal's width, with a mark; what fits is left alone."""
    assert one_line("in the queue", 12) == "in the queue"
    assert one_line("in the queue", 8) == "in the…"


def test_table() -> None:
    """Columns are as wide as necessary; no line ends in a space."""
    assert table_lines(("A", "B"), [("long", ""), ("x", "y")]) == ["A     B", "long", "x     y"]


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
    assert "tpuflex ask --stack tpu --endpoint http://127.0.0.1:8000/v1" in text


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
