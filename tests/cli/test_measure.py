"""What `verify`, `details` and `metrics` print, on 80 columns and for scripts."""

from __future__ import annotations

import json
from collections.abc import Generator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial

import pytest

from tests.cli.typing import Captured, TypeIn
from tests.measure.fake_server import AFTER, BEFORE, FakeServer
from tpuflex.cli.invocation import Invocation
from tpuflex.cli.measure.endpoint import show_details, show_usage, show_verification
from tpuflex.cli.options import watch
from tpuflex.measure.details import details_of
from tpuflex.measure.metrics import EngineMetrics
from tpuflex.measure.usage import Cost, Usage
from tpuflex.measure.verify import examine
from tpuflex.stack.stack import Stack

AT = datetime(2026, 11, 29, 12, tzinfo=UTC)
FIVE = timedelta(seconds=5)


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")


@pytest.fixture
def invocation() -> Invocation:
    """A terminal with 80 columns."""
    return Invocation(environ={"COLUMNS": "80"}, now=lambda: AT)


def usage(**changes: object) -> Usage:
    """A look, five seconds after another one, at a server that costs $5.54 an hour."""
    metrics = EngineMetrics.parse(AFTER, AT)
    metrics = replace(metrics, running=3.0, waiting=1.0, kv_use=0.125)
    started = AT - timedelta(hours=2)
    cost = Cost(Decimal("5.54"), Decimal("13.85"), started, Decimal("11.08"))
    interval = metrics.since(EngineMetrics.parse(BEFORE, AT - FIVE))
    return replace(Usage("dev", "http://host/v1", metrics, cost, interval), **changes)  # type: ignore[arg-type]


def test_metrics(invocation: Invocation, capsys: Captured) -> None:
    """Requests, cache, cost, counts with their rates and prices, latencies with their quantiles."""
    show_usage(invocation, usage())

    assert capsys.readouterr().out == (
        "Endpoint of stack dev, 2026-11-29 12:00:00 UTC\n"
        "  requests     3 running, 1 waiting\n"
        "  KV cache     12.5 % of 46,592 tokens in use\n"
        "  ended        46 length\n"
        "  cost so far  $13.85 of this run, at $5.54 an hour\n"
        "               $11.08 since the server's start at 2026-11-29 10:00 UTC\n"
        "\n"
        "COUNTED            SINCE START  LAST 5 S  PER SECOND  USD PER MILLION\n"
        "prompt tokens      9,336        3,684     736.8       $1,186.80\n"
        "  computed         3,448        612       122.4       $3,213.46\n"
        "  cached           5,888        3,072     614.4       $1,881.79\n"
        "generated tokens   1,108        356       71.2        $10,000.00\n"
        "preemptions        0            0         0.0\n"
        "prefix-cache hits  63.1 %       83.4 %\n"
        "\n"
        "SECONDS         P50     P95     P99     MEAN   OF\n"
        "first token     1.214   3.850   4.770   1.298  46\n"
        "  last 5 s      0.75-1  1-2.5   1-2.5   0.921  12\n"
        "between tokens  0.112   0.334   0.494   0.136  1,062\n"
        "  last 5 s      0.116   0.274   0.380   0.124  344\n"
        "whole answer    3.864   12.125  14.425  4.434  46\n"
        "  last 5 s      2.5-5   5-10    5-10    4.489  12\n"
        "in the queue    <0.3    3.562   4.712   0.508  46\n"
        "  last 5 s      <0.3    1-1.5   1-1.5   0.320  12\n"
    )


def test_metrics_of_an_engine_that_stands_still(invocation: Invocation, capsys: Captured) -> None:
    """Its last words say that nothing runs; the requests in flight and the step that is missing say
    otherwise, and what tells more."""
    metrics = EngineMetrics.parse(BEFORE, AT)
    show_usage(invocation, usage(metrics=metrics, in_flight=1, stalled=True))

    shown = capsys.readouterr().out
    assert "  requests     0 running, 0 waiting; 1 in flight\n" in shown
    assert (
        "1 request in flight, and the engine has made no step since the last look:\n"
        "`tpuflex verify` says whether it is frozen.\n"
    ) in shown


def test_metrics_of_a_server_that_says_little(invocation: Invocation, capsys: Captured) -> None:
    """What is not known is a question mark, and no failure."""
    metrics = EngineMetrics.parse("vllm:num_requests_running 1\n", AT)
    show_usage(
        invocation,
        usage(metrics=metrics, interval=None, cost=Cost(None, None, None, None)),
    )

    shown = capsys.readouterr().out
    assert "1 running, ? waiting" in shown
    assert "cost so far  not known: no price for this region" in shown
    assert "generated tokens   ?" in shown


@pytest.mark.parametrize(
    ("stale", "line"),
    [
        (False, "No answer; 9 s old: /metrics of http://host/v1 answered 503."),
        (True, "STALE, 9 s old: /metrics of http://host/v1 answered 503."),
    ],
)
def test_metrics_that_are_old(
    invocation: Invocation, capsys: Captured, stale: bool, line: str
) -> None:
    """Their age stands above them, with the reason."""
    why = "/metrics of http://host/v1 answered 503."
    show_usage(invocation, usage(age=9.2, stale=stale, why=why))

    assert capsys.readouterr().out.splitlines()[1] == line


def looks() -> Generator[Usage]:
    yield usage(interval=None)
    yield usage()
    raise KeyboardInterrupt


def test_a_watch_that_is_written_to_a_file(invocation: Invocation, capsys: Captured) -> None:
    """Block after block, until Ctrl-C, which is its regular end."""
    watch(invocation.output, looks(), partial(show_usage, invocation))

    assert capsys.readouterr().out.count("Endpoint of stack dev, ") == 2


def test_a_watch_that_is_stopped_before_its_first_look(invocation: Invocation) -> None:
    """It is an interruption like any other: nothing was shown."""

    def none() -> Generator[Usage]:
        raise KeyboardInterrupt
        yield usage()

    with pytest.raises(KeyboardInterrupt):
        watch(invocation.output, none(), partial(show_usage, invocation))


def test_a_watch_for_scripts(capsys: Captured) -> None:
    """A document on a line each."""
    invocation = Invocation(environ={}, json=True)

    watch(invocation.output, looks(), partial(show_usage, invocation))

    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert (first["interval"], second["interval"]["generation_tokens"]) == (None, 356)
    assert second["cost"]["usd_per_million"]["generated"] == 10_000


def test_verify(invocation: Invocation, capsys: Captured) -> None:
    """A row for each check, then what to do, each remedy once; and the exit code."""
    fake = FakeServer()
    fake.documents |= {"/v1/completions": ["{}"], "/metrics": [BEFORE]}
    with fake.running() as server:
        found = examine(server, "big", lambda _version: "")
    with pytest.raises(SystemExit) as ended:
        show_verification(invocation, replace(found, endpoint="http://host/v1"))

    assert ended.value.code == 7
    assert capsys.readouterr().out == (
        "Endpoint of stack big: http://host/v1\n"
        "CHECK         RESULT  FOUND\n"
        "health        ok      /health answers 200\n"
        "model         ok      org/model, up to 512 tokens\n"
        "version       ok      vLLM 0.32.0, not below the security floor\n"
        "key required  ok      a request without the key is refused with 401\n"
        "completion    FAILED  /health answers 200, and a completion was answered without\n"
        "                      a token\n"
        "tokens move   FAILED  the engine counted none meanwhile\n"
        "\n"
        "2 of 6 checks failed.\n"
        "  -> Its host notices that within some minutes and starts the server again,\n"
        "     which `tpuflex logs --stack big` shows; `tpuflex restart --stack big` does\n"
        "     it now. If that does not help, `tpuflex reboot --stack big` boots the\n"
        "     machine again.\n"
    )


def test_details(invocation: Invocation, stack: Stack, capsys: Captured) -> None:
    """Each figure, with who says so where that is not the server."""
    fake = FakeServer()
    fake.documents["/version"] = [404]
    with fake.running() as server:
        found = details_of(server, "dev", stack.settings)
    show_details(invocation, replace(found, endpoint="http://host/v1"))

    shown = capsys.readouterr().out
    assert "  KV tokens       46,592\n" in shown
    assert "  compute         bfloat16 (stack file)\n" in shown
    assert "not known: /version of http://127.0.0.1:" in shown
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.parametrize("command", ["verify", "details", "metrics"])
def test_a_stack_that_is_not_up(type_in: TypeIn, command: str) -> None:
    """Its cloud does not run: nothing is started to find nothing."""
    typed = type_in(command)

    assert typed.code == 9


@pytest.mark.parametrize("seconds", ["0", "nan", "x"])
def test_an_interval_that_is_none(type_in: TypeIn, seconds: str) -> None:
    """It is refused before anything is asked."""
    assert type_in("metrics", "--watch", seconds).code == 2
