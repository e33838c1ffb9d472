"""Words and codes that tell a class of failure."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import watch_rules
from watch_state import Container, Limits, Look, Server

from tests.diagnosis.recorded import HARMLESS, LOGS
from tpuflex.diagnosis.classes import CLASSES, UNKNOWN
from tpuflex.diagnosis.diagnose import diagnose_log
from tpuflex.diagnosis.findings import Certainty
from tpuflex.diagnosis.signs import (
    CAUSES,
    HOST_CODES,
    SERVER_KINDS,
    SIGNS,
    Line,
    found_in,
    meaning_of_code,
    since_it_served,
)
from tpuflex.queued_resource.causes import Cause
from tpuflex.startup.server_log import KINDS

ROOT = Path(__file__).parents[2]
#: Classes that no line of a log tells by itself: states of the slice, of the host, or of the boot.
NO_LINES = {"end-of-run", "slice-lost", "secrets", "boot-stuck", "target-down"}


@pytest.mark.parametrize(
    ("slug", "text"), [(slug, text) for slug, _, text in LOGS], ids=lambda value: str(value)[:40]
)
def test_a_log_as_it_was_reported(slug: str, text: str) -> None:
    """The class comes first, likely, with a line that shows it, a next command and a page."""
    found = diagnose_log(text, "vllm.log").findings[0]

    assert (found.failure.slug, found.certainty) == (slug, Certainty.LIKELY)
    assert found.lines
    assert {line.source for line in found.lines} == {"vllm.log"}
    assert all(line.text in text for line in found.lines)
    assert str(found.remedy)


@pytest.mark.parametrize("path", sorted((ROOT / "tests/startup/server_logs").glob("*.log")))
def test_a_log_of_the_real_vllm(path: Path) -> None:
    """What vLLM 0.32 wrote when it was given what cannot work."""
    slug = path.stem.partition("-")[0].replace("configuration", "arguments")
    found = diagnose_log(path.read_text(), path.name).findings

    assert found[0].failure.slug == slug


def test_each_class_was_reported_twice() -> None:
    """Two shapes at least for each class that lines tell."""
    counts = Counter(slug for slug, _, _ in LOGS)

    assert counts.keys() == CLASSES.keys() - NO_LINES
    assert min(counts.values()) >= 2


@pytest.mark.parametrize("text", HARMLESS)
def test_lines_that_tell_nothing(text: str) -> None:
    """A server that is well, what clients say, and others' failures are of no class: unknown, with
    what was looked at."""
    found = diagnose_log(text, "vllm.log")

    assert [each.failure for each in found.findings] == [UNKNOWN]
    assert found.evidence.looked_at == ("vllm.log",)
    assert found.exit_code == 1


def test_the_cause_comes_before_what_it_ends_in() -> None:
    """An engine that ran out of memory, and therefore dies again and again, has run out of memory;
    the crash loop is listed behind it."""
    log = (
        "scalellm exited with code 137\n"
        "2026-11-28T10:00:00Z watch: failed: the server keeps dying, the last time with status 1\n"
        "jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm\n"
    )
    slugs = [each.failure.slug for each in diagnose_log(log, "log").findings]

    assert slugs == ["hbm-out-of-memory", "crash-loop"]


def test_every_code_and_kind_has_a_meaning() -> None:
    """What the host, its server's table and Google's causes tell apart, and the manual lists, means
    a class, or says what to do without one."""
    page = (ROOT / "docs" / "how-to" / "troubleshooting.md").read_text()
    table = page.partition("## Codes of a host")[2].partition("\n## ")[0]
    codes = [row.split("`")[1].rstrip("…") for row in table.splitlines() if row.startswith("| `")]

    assert len(codes) > 25
    assert [
        code for code in codes if meaning_of_code(f"{code}x" if code[-1] == "-" else code) is None
    ] == []
    assert SERVER_KINDS.keys() == {kind for kind, _, _ in KINDS}
    assert CAUSES.keys() == {*Cause}
    meanings = [*HOST_CODES.values(), *SERVER_KINDS.values(), *CAUSES.values()]
    assert {meaning.slug for meaning in meanings} - {""} <= CLASSES.keys()
    assert {sign.slug for sign in SIGNS} <= CLASSES.keys()
    assert all(meaning.slug or meaning.remedy for meaning in meanings)


def watched(*looks: Look, ends_at: float | None = None) -> str:
    """What the watch of a host writes after ``looks``."""
    limits = Limits(30.0, 600.0, None if ends_at is None else ends_at - 30.0, ends_at)
    state = watch_rules.begin(0.0)
    for look in looks:
        state, _ = watch_rules.step(state, look, limits)
    return f"2026-11-28T10:00:00Z watch: {state.phase}: {state.reason}"


RUNS = Container("running")
BUSY = Server(in_flight=1, running=1, steps=7.0)


@pytest.mark.parametrize(
    ("looks", "ends_at", "slug"),
    [
        ([Look(at, "", RUNS, BUSY) for at in range(5, 90, 5)], None, "frozen-engine"),
        ([Look(at, "", RUNS) for at in range(5, 90, 5)], None, "frozen-engine"),
        (
            [Look(5, "", RUNS, BUSY), Look(10, "", replace(RUNS, restarts=1, exit_code=137))],
            None,
            "",  # docker starts it again
        ),
        (
            [Look(at, "", replace(RUNS, restarts=at, exit_code=1)) for at in range(1, 6)],
            None,
            "crash-loop",
        ),
        ([Look(5, "", RUNS, Server())], 20.0, "end-of-run"),
        ([Look(5, "2026-11-28T11:00:00Z", RUNS, Server())], None, "slice-lost"),
    ],
)
def test_what_the_hosts_watch_says(looks: list[Look], ends_at: float | None, slug: str) -> None:
    """The watch's own rules write the words that are read here; a single death is no crash loop."""
    line = watched(*looks, ends_at=ends_at)
    found = [each.meaning.slug for each in found_in([Line("host log", line)])]

    assert found == ([slug] if slug else []), line


def test_what_was_before_it_served_again() -> None:
    """What a log tells before the watch's last `serving` is over; what follows is not, nor what
    another log tells."""
    froze = "2026-11-28T10:00:00Z watch: degraded: no token came for 60 s; it is started once more"
    again = "2026-11-28T10:05:00Z watch: serving"
    oom = "jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm"

    assert diagnose_log(f"{oom}\n{froze}\n{again}\n", "log").findings[0].failure is UNKNOWN
    found = diagnose_log(f"{froze}\n{again}\n{oom}\n", "log").findings
    assert [each.failure.slug for each in found] == ["hbm-out-of-memory"]
    lines = (Line("server log", oom), Line("host log", again))
    assert since_it_served(lines) == lines
