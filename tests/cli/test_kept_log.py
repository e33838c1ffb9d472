"""`tpuflex logs` of what Cloud Logging keeps: its parts, and what is written meanwhile."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from tests.cli.boot_logs import WrittenBoot
from tests.cli.typing import NOON, Captured, TypeIn
from tpuflex.cli.endpoint.logs import run_logs
from tpuflex.cli.invocation import Invocation
from tpuflex.errors import NotFoundError
from tpuflex.google import cloud_logging
from tpuflex.google.cloud_logging import BootEntry, boot_entries
from tpuflex.operate import host_log
from tpuflex.operate.host_log import Part, new_entries
from tpuflex.stack.connection import Connection


@pytest.fixture
def failed(cloud: Connection) -> WrittenBoot:
    """The newest boot, which has failed; an older one, and those of others, are there as well."""
    old = WrittenBoot(cloud, NOON - timedelta(hours=1))
    old.write("READY", 9, "old")
    for name in ("tpuflex-stack", "tpuflex-name", "tpuflex-project"):
        other = WrittenBoot(cloud, NOON + timedelta(hours=1), labels={name: "o"})
        other.write("READY", 9, "of another endpoint")
    boot = WrittenBoot(cloud, generation=2)
    boot.write("config", 1, "a", "phase config")
    boot.write("weights", 2, "\x1b[2Jphase weights")
    boot.write("health", 5, "phase health", "gave up", error="slow: late", container="x\ny")
    return boot


HEAD = "The end of the boot log of n-g2 in us-east5-a, 2026-11-21T12:00:05.000000000Z, phase health"


@pytest.mark.usefixtures("failed")
@pytest.mark.parametrize(
    ("part", "out"),
    [
        (Part(50), "a\nphase config\n\\x1b[2Jphase weights\nphase health\ngave up\nx\ny\n"),
        (Part(1), "gave up\ny\n"),
        (Part(2, "config"), "a\nphase config\n"),
        (Part(50, server=True), "x\ny\n"),
    ],
)
def test_parts_of_the_last_boot(
    part: Part, out: str, cloud: Connection, invocation: Invocation, capsys: Captured
) -> None:
    """All of it, the last lines, a phase, or what the server wrote; nobody else's, made
    printable, and no host is asked."""
    run_logs(invocation, cloud, part, follow=False, kept=True)
    shown = capsys.readouterr()
    assert shown.out == out
    assert shown.err.startswith(f"{HEAD}: slow: late\n")


def test_lines_that_were_written_twice(
    cloud: Connection, invocation: Invocation, capsys: Captured
) -> None:
    """Where the answer to a request is lost, the host writes its lines once more with what came
    since, under the same ids: they are shown once."""
    boot = WrittenBoot(cloud)
    boot.write("config", 1, "phase config")
    boot.write("weights", 1, "phase weights")
    boot.write("weights", 9, "phase weights", "half of it")
    run_logs(invocation, cloud, Part(50), follow=False, kept=True)
    assert capsys.readouterr().out == "phase config\nphase weights\nhalf of it\n"


@pytest.mark.usefixtures("failed")
def test_the_last_boot_as_a_document(
    cloud: Connection, invocation: Invocation, capsys: Captured
) -> None:
    """A script reads whose boot it is, how it ended, and its lines."""
    invocation.json = True
    run_logs(invocation, cloud, Part(1), follow=False, kept=True)
    assert json.loads(capsys.readouterr().out) == {
        "source": "projects/tpuflex-dev/logs/tpuflex-boot",
        "node": "n-g2",
        "zone": "us-east5-a",
        "generation": 2,
        "worker": 0,
        "time": "2026-11-21T12:00:05.000000000Z",
        "phase": "health",
        "error": "slow: late",
        "lines": ["gave up"],
        "server": ["y"],
    }


@pytest.mark.usefixtures("failed")
def test_a_phase_that_the_boot_did_not_reach(cloud: Connection, invocation: Invocation) -> None:
    """Exit code 4, with the phases that there are."""
    with pytest.raises(NotFoundError, match="no phase completion") as caught:
        run_logs(invocation, cloud, Part(9, "completion"), follow=False)
    assert str(caught.value.hint) == "It has: config, weights, health."


def test_a_phase_of_another_version(
    type_in: TypeIn, cloud: Connection, invocation: Invocation, capsys: Captured
) -> None:
    """A host boots with the script that its slice was made with, whose phases may be others than
    this version's."""
    WrittenBoot(cloud).write("warm-up", 5, "warm")
    run_logs(invocation, cloud, Part(9, "warm-up"), follow=False)
    assert capsys.readouterr().out == "warm\n"
    assert "is not one of" not in type_in("logs", "--phase", "warm-up").err


def test_no_words_of_the_server(cloud: Connection, invocation: Invocation) -> None:
    """While a host boots, what its server writes is on the host alone."""
    WrittenBoot(cloud).write("health", 5, "phase health")
    with pytest.raises(NotFoundError, match="nothing that the server of n-g1 wrote"):
        run_logs(invocation, cloud, Part(9, server=True), follow=False)


def test_no_log_at_all(cloud: Connection, invocation: Invocation) -> None:
    """Exit code 4, with how long a log is kept."""
    with pytest.raises(NotFoundError, match="has no boot log of stack dev") as caught:
        run_logs(invocation, cloud, Part(9), follow=False, kept=True)
    assert "30 days" in str(caught.value.hint)


@pytest.mark.usefixtures("failed")
def test_a_log_is_followed(
    cloud: Connection,
    invocation: Invocation,
    failed: WrittenBoot,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Captured,
) -> None:
    """What is written later is shown once, in order, the next boot's, too, until Ctrl-C."""
    polls: list[float] = []

    def sleep(_cloud: Connection, seconds: float) -> None:
        polls.append(seconds)
        if len(polls) == 1:
            # The second has come late.
            WrittenBoot(cloud, NOON + timedelta(minutes=9), 3).write("config", 1, "third")
            failed.write("completion", 6, "late")
        elif len(polls) == 2:
            WrittenBoot(cloud, NOON + timedelta(minutes=8, seconds=30), 3).write("config", 0, "in")
        elif len(polls) == 4:
            raise KeyboardInterrupt

    monkeypatch.setattr(Connection, "sleep", sleep)
    with pytest.raises(KeyboardInterrupt):
        run_logs(invocation, cloud, Part(1), follow=True, kept=True)
    assert capsys.readouterr().out == "gave up\ny\nlate\nthird\nin\n"
    assert polls == [host_log._POLL_SECONDS] * 4


def test_entries_of_all_pages_are_in_order(cloud: Connection) -> None:
    """Pages of one entry are one list, in order of time and then of their ids, either way."""
    boots = [WrittenBoot(cloud, worker=worker) for worker in range(3)]
    for phase in ("config", "capacity"):
        for boot in boots:
            boot.write(phase, 0 if phase == "config" else 1)
    names, project = cloud.stack.names, cloud.stack.settings.project
    listed = [*boot_entries(cloud.logging, project, names, page_entries=1)]
    assert [(entry.phase, entry.worker) for entry in listed] == [
        (phase, worker) for phase in ("config", "capacity") for worker in range(3)
    ]
    turned = boot_entries(cloud.logging, project, names, page_entries=4, newest_first=True)
    assert [*turned] == sorted(listed, key=lambda entry: entry.time, reverse=True)


def test_of_too_many_entries_the_newest_are_shown(
    cloud: Connection,
    invocation: Invocation,
    capsys: Captured,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The newest are shown, and that older ones are missing is said."""
    boot = WrittenBoot(cloud)
    for second in range(201):
        boot.write(f"phase-{second}", second, f"line {second}")
    monkeypatch.setattr(cloud_logging, "_PAGES", 1)
    run_logs(invocation, cloud, Part(500), follow=False, kept=True)
    shown = capsys.readouterr()
    assert shown.out.splitlines() == [f"line {second}" for second in range(1, 201)]
    assert "Of the boot log, there are too many entries: only the newest 200 were read." in (
        shown.err
    )


def test_an_entry_is_shown_once() -> None:
    """Entries of one time are told apart by their ids; older ones than those shown at first are
    not shown."""
    first = BootEntry("n", "z", "2026-11-21T12:00:00Z", "config", "", (), id="1")
    second = BootEntry("n", "z", "2026-11-21T12:00:00Z", "config", "", (), id="2")
    asked = []

    def read(since: object) -> list[BootEntry]:
        asked.append(since)
        return [first, second]

    entries = new_entries(read, (first,), lambda: None)
    assert next(entries) == second
    assert asked == [NOON]


def test_of_an_entry_that_is_written_twice_the_rest_is_shown() -> None:
    """Its lines have been shown; under the same id come those of the meantime."""
    first = BootEntry("n", "z", "2026-11-21T12:00:00Z", "weights", "", ("a",), id="1")
    again = replace(first, time="2026-11-21T12:00:09Z", lines=("a", "b"))
    third = replace(again, time="2026-11-21T12:00:19Z", lines=("a", "b", "c"))

    entries = new_entries(lambda _since: [first, again, third], (first,), lambda: None)
    assert [next(entries).lines, next(entries).lines] == [("b",), ("c",)]


def test_words_that_exclude_each_other(type_in: TypeIn) -> None:
    """A phase has no words of the server, and a table is no log: exit code 2, nothing is asked."""
    typed = type_in("logs", "--phase", "weights", "--server")
    assert (typed.code, typed.out) == (2, "")
    assert "--phase is of the script's lines, --server of the server's." in typed.err
    table = type_in("logs", "--boots", "--kept")
    assert (table.code, table.out) == (2, "")
    assert "--boots is a table of boots" in table.err
