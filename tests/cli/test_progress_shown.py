"""Progress as it is written into a log: of the engine, of the host, of a transfer."""

from __future__ import annotations

from itertools import pairwise

from tests.cli.samples import step
from tests.cli.typing import Captured
from tpuflex.engine.events import Failed, Finished, Note, Started
from tpuflex.host.report import HostReport
from tpuflex.terminal.output import Output
from tpuflex.terminal.progress import Elapsed, EngineProgress, HostProgress


def test_of_the_engine(capsys: Captured) -> None:
    """In a log: a line for each finished resource, and each message once."""
    ticks = iter(range(100))
    slice_step = step("create", "tpuflex:tpu:QueuedResource", "vllm")
    with EngineProgress(Output(json=False, verbose=False), 2, lambda: next(ticks)) as progress:
        for event in (
            Started(step("create")),
            Finished(step("create")),
            Started(step("same", name="old")),
            Started(slice_step),
            Note("info", "WAITING_FOR_RESOURCES: in the queue", "vllm", passing=True),
            Note("info", "WAITING_FOR_RESOURCES: in the queue", "vllm", passing=True),
            Note("warning", "no price", ""),
            Note("error", "told at the end", "vllm"),
            Failed(slice_step),
        ):
            progress.listen(event)

    assert capsys.readouterr().err == (
        "  created  Bucket weights (1.0 s)\n"
        "  request  QueuedResource vllm\n"
        "           vllm: WAITING_FOR_RESOURCES: in the queue\n"
        "  warning  no price\n"
        "  failed   QueuedResource vllm\n"
    )


def test_a_week_of_waiting_in_a_log(capsys: Captured) -> None:
    """A line a minute at first, then one every five: never a longer silence."""
    now, said = 0.0, []
    with EngineProgress(Output(json=False, verbose=False), 2, lambda: now) as progress:
        for minute in range(7 * 24 * 60):
            now = minute * 60.0
            for name in ("vllm", "other"):
                progress.listen(Note("info", f"waiting for {minute}m", name, passing=True))
                if f"{name}: waiting for {minute}m\n" in capsys.readouterr().err:
                    said.append((name, now))

    moments = [at for name, at in said if name == "vllm"]
    gaps = [later - earlier for earlier, later in pairwise(moments)]
    assert set(gaps[:10]) == {60}
    assert max(gaps) == 300
    assert len(moments) < 2100
    assert len(said) == 2 * len(moments)


def test_what_the_plan_has_shown(capsys: Captured) -> None:
    """A note shown above the plan is not repeated; a new one is shown."""
    output = Output(json=False, verbose=False)
    with EngineProgress(output, 1, shown=frozenset({"the node was lost"})) as progress:
        progress.listen(Note("warning", "the node was lost", "vllm"))
        progress.listen(Note("warning", "the zone is out", "vllm"))

    assert capsys.readouterr().err == "  warning  vllm: the zone is out\n"


def test_after_ctrl_c(capsys: Captured) -> None:
    """Interrupted by Ctrl-C is stopped, not failed: a request goes on waiting."""
    slice_step = step("create", "tpuflex:tpu:QueuedResource", "vllm")
    output = Output(json=False, verbose=False)
    with EngineProgress(output, 1, stopped=lambda: True) as progress:
        progress.listen(Failed(slice_step))

    assert capsys.readouterr().err == "  stopped  QueuedResource vllm\n"


def test_of_the_host(capsys: Captured) -> None:
    """Each phase and detail once, and a heartbeat every half minute."""
    now = [0.0]
    with HostProgress(Output(json=False, verbose=False), lambda: now[0]) as progress:
        progress.changed(HostReport("weights", "1 of 2 GB"))
        progress.changed(HostReport("weights", "2 of 2 GB"))
        progress.changed(HostReport("health", "the server is starting"))
        for now[0] in (10.0, 29.0, 31.0, 40.0):
            progress.tick()

    assert capsys.readouterr().err == (
        "  host     weights: 1 of 2 GB\n"
        "  host     weights: 2 of 2 GB\n"
        "  host     health: the server is starting\n"
        "  host     health: the server is starting (31 s)\n"
    )


def test_of_a_server_with_rights(capsys: Captured) -> None:
    """A server that got all rights on its host is named, once; an isolated one is not."""
    privileged = HostReport("health", "slow", isolation="privileged: no device")
    with HostProgress(Output(json=False, verbose=False)) as progress:
        progress.changed(HostReport("health", "slow", isolation="isolated"))
        progress.changed(privileged)
        progress.changed(privileged)

    assert capsys.readouterr().err == (
        "  host     health: slow\n  host     the server is privileged: no device\n"
    )


def test_of_a_transfer(capsys: Captured) -> None:
    """In a log: a line every few seconds, and always the last, once."""
    now = [0.0]
    output = Output(json=False, verbose=False, clock=lambda: now[0])
    with output.transfer("weights") as show:
        for now[0], done in ((0.0, 0), (1.0, 1_000_000), (6.0, 2_000_000), (6.1, 3_000_000)):
            show(done, 3_000_000)
        show(3_000_000, 3_000_000)

    assert capsys.readouterr().err == (
        "weights: 0.0 of 3.0 MB\nweights: 2.0 of 3.0 MB\nweights: 3.0 of 3.0 MB\n"
    )


def test_a_clock_beside_what_tells_nothing() -> None:
    """On a terminal, a line says what is being done, and for how long by now."""
    now = 100.0
    shown = Elapsed("Planning", lambda: now)
    now = 107.4

    assert shown.__rich__().plain == "Planning … 7 s"
