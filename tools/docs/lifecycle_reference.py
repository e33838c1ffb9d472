"""The text of docs/lifecycle.md, from the tables of states, edges, outcomes and generations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tpuflex.codes import Code
from tpuflex.engine.failure import OUTCOMES
from tpuflex.operate.slice import STATUS_FIELDS
from tpuflex.provider.stages import TABLE as GENERATIONS
from tpuflex.provider.stages import Stage
from tpuflex.queued_resource.edges import COMMANDS, EDGES, Edge
from tpuflex.queued_resource.outcomes import (
    ACCEPTED,
    BOOT_FAILED_DELETED,
    BOOT_FAILED_KEPT,
    BOOTING,
    DEGRADED,
    DRAINING,
    HOST_FAILED,
    KEPT,
    NOT_TAKEN_OVER,
    PROTECTED,
    RUN_ACCEPTED,
    SERVER_FAILED,
    STUCK_DOWN,
    STUCK_UP,
    TABLE,
    TAKEN_OVER,
    UNREAD,
    Outcome,
)

_HEAD = """\
# The life of a queued resource

Generated from `tpuflex.queued_resource.outcomes`, `.edges`, `tpuflex.provider.stages` and
`tpuflex.operate.slice` by `make docs`; do not edit.
"""
_ROWS = """\
## What each command says

The exact words, among other lines, and the exit code. A dash: nothing about the slice. `refresh` is
`pulumi refresh`; the others are `tpuflex` commands, and the `pulumi` commands say the same of the
slice. A command that waits says this, and fails, only when its time is up.
"""
_CODES = """\
## Codes of the provider's failures

What fails in the provider for one of these reasons ends with the code in brackets, ` [not-gone]`
for example, wherever Pulumi shows or stores it: on the console of `pulumi up`, in its log, in the
state (`initErrors`). Search for it there. `tpuflex` shows the text without the code and exits as
this table says, whatever the words are; of several codes, the upper one decides. `[run-over]` also
ends the line in which a preview says so, and the warning of an `up` that succeeds because
`on_run_end` is `accept`.
"""
_EDGES = """\
## Every edge

The states of queued resource and node before and after, in Google's words, and the row above that
applies afterwards, but for the commands named behind it: what those say is beside the rows, or that
`preview` shows an update. The embedded cloud takes edges marked * only when told to; where the
states stay, it is the host that reports something else.
"""
_GENERATIONS = """\
## From one generation to the next

A replacement is created before the old slice is deleted, and takes over when it serves
([ADR 36](adr/0036-what-takes-over-first-serves.md)). This is what the provider does with each
generation, by the stage that it has for a resource in one run of the engine: during a hand-over
both generations have one. Pulumi's state does not have the stage, but `takesOverFrom` while a
generation is to take over, and `drainsUntil` while its hosts drain. A code ends the failure with
which the provider answers.
"""
_FIELDS = """\
## `tpuflex status --json`

The exit code is the row's, or 7 where what says READY does not answer, or its API key is gone. If
there is no request of ours (gone, foreign), the document is an `error` with `kind`, `message`,
`hint` and `exit_code`. Otherwise it always has these fields under `slice`, beside `stack`, `cloud`,
`model`, `ready` (the host says so, and what was asked has answered), `health` (what came of asking:
`answers`, null where it was not asked, and `why`), `endpoint`, `usd_per_hour`, `usd_so_far` and
`boot_seconds`, how long each phase of the host's boot took that has ended (`image` and
`weights` go on at once: what they took is not to be added up):
"""


def lifecycle_reference() -> str:
    """The document."""
    said = [_ROWS, *_rows(), "", _beside(), "", _CODES, _codes()]
    turns = [_GENERATIONS, _stages(), "", _generations(), ""]
    parts = [_HEAD, *said, "", _EDGES, _edges(), "", *turns, _FIELDS, _fields()]
    return "\n".join(parts).rstrip() + "\n"


def _rows() -> Iterator[str]:
    for condition, row in TABLE.items():
        yield f"### {condition.value}\n\n{row.meaning[:1].upper()}{row.meaning[1:]}.\n"
        lines = [
            (f"`{command}`", str(outcome.exit_code), str(outcome.text) or "-")
            for command in COMMANDS
            for outcome in (getattr(row, command),)
        ]
        yield _table(("command", "exit", "says"), lines) + "\n"


def _beside() -> str:
    lines = [
        ("`preview` and `up` after the run, with `on_run_end: accept`", RUN_ACCEPTED),
        ("`status` after the run, with `on_run_end: accept`", ACCEPTED),
        ("`status` of an ACTIVE slice whose host is booting", BOOTING),
        ("`status` of an ACTIVE slice whose host's report cannot be read", UNREAD),
        ("`status` after the boot has failed", HOST_FAILED),
        ("`status` of a host that drains", DRAINING),
        ("`status` of a host whose server is started again", DEGRADED),
        ("`status` of a host whose server has failed", SERVER_FAILED),
        ("`up`, when a successor serves; behind it, the name of what served", TAKEN_OVER),
        ("`up`, when a successor does not; before it, the name of what serves", NOT_TAKEN_OVER),
        ("`up` after a failed boot, with `on_boot_failure: delete`", BOOT_FAILED_DELETED),
        ("the same, of a slice that may have served, or is not ours", BOOT_FAILED_KEPT),
        ("`up`, when what blocks it is not deleted in time", STUCK_UP),
        ("`down`, when something is not deleted in time", STUCK_DOWN),
        ("`down` of a protected ACTIVE slice", PROTECTED),
        ("`down` of what Pulumi must keep", KEPT),
    ]
    return "### Beside the rows\n\n" + _table(
        ("when", "exit", "says"), [(when, *_cells(outcome)) for when, outcome in lines]
    )


def _cells(outcome: Outcome) -> tuple[str, str]:
    return str(outcome.exit_code), str(outcome.text)


def _codes() -> str:
    exits = {code: str(outcome.error.exit_code) for code, outcome in OUTCOMES.items()}
    exits[Code.NOT_GONE] += f"; `down`: {STUCK_DOWN.exit_code}"
    rows = [(f"`{code}`", exits[code], code.meaning) for code in Code]
    return _table(("code", "exit", "meaning"), rows)


def _edges() -> str:
    return _table(
        ("edge", "before", "after", "row", "source"),
        [
            (
                edge.name if edge.emulated else f"{edge.name} *",
                str(edge.before),
                str(edge.after),
                _row(edge),
                edge.source,
            )
            for edge in EDGES
        ],
    )


def _row(edge: Edge) -> str:
    others = ", ".join(f"`{command}`" for command in edge.others)
    return f"{edge.condition.value}, but for {others}" if others else edge.condition.value


def _stages() -> str:
    return _table(("stage", "meaning"), [(stage, stage.meaning) for stage in Stage])


def _generations() -> str:
    return _table(
        ("stage", "event", "the provider", "stage afterwards", "writes to the state", "code"),
        [
            (
                ", ".join(row.before),
                row.event.value,
                row.action.value,
                row.after or "the same",
                row.written or "-",
                f"`{row.code}`" if row.code else "-",
            )
            for row in GENERATIONS
        ],
    )


def _fields() -> str:
    return _table(
        ("field", "meaning"), [(f"`{name}`", text) for name, text in STATUS_FIELDS.items()]
    )


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
