"""The text of docs/lifecycle.md, from the tables of states, edges and outcomes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tpuflex.operate.status_fields import STATUS_FIELDS
from tpuflex.request.edges import COMMANDS, EDGES
from tpuflex.request.outcomes import (
    BOOTING,
    HOST_FAILED,
    KEPT,
    PROTECTED,
    STUCK_DOWN,
    STUCK_UP,
    TABLE,
    Outcome,
)

_HEAD = """\
# The life of a queued resource

Made from `tpuflex.request.outcomes`, `tpuflex.request.edges` and `tpuflex.operate.status_fields` by
`make docs`; do not edit. Figures 5 and 5p of [reliability.md](reliability.md) walk along every
edge and compare what each command says, and its exit code, with these tables.
"""
_ROWS = """\
## What each command says

What is said, word for word among other lines, and the exit code. A dash: no word about the slice.
`refresh` is `pulumi refresh`; the others are `tpuflex` commands, and `pulumi` ones say the same of
the slice. What waits says this when its time is over, and fails only then.
"""
_EDGES = """\
## Every edge

Where queued resource and node are, before and after, in Google's words; and the row above that
holds afterwards. Edges marked * are not the embedded cloud's own: it is made to take them.
"""
_FIELDS = """\
## `tpuflex status --json`

The exit code is the row's. Where there is no request of ours (gone, foreign) the document is an
`error` with `kind`, `message`, `hint` and `exit_code`. Otherwise these fields under `slice` are
always there, beside `stack`, `cloud`, `model`, `ready`, `endpoint`, `usd_per_hour`, `usd_so_far`:
"""


def lifecycle_reference() -> str:
    """The document."""
    parts = [_HEAD, _ROWS, *_rows(), "", _beside(), "", _EDGES, _edges(), "", _FIELDS, _fields()]
    return "\n".join(parts).rstrip() + "\n"


def _rows() -> Iterator[str]:
    for condition, row in TABLE.items():
        yield f"### {condition.value}\n\n{row.meaning[:1].upper()}{row.meaning[1:]}.\n"
        lines = [
            (f"`{command}`", str(found.exit_code), found.text or "-")
            for command in COMMANDS
            for found in (getattr(row, command),)
        ]
        yield _table(("command", "exit", "says"), lines) + "\n"


def _beside() -> str:
    lines = [
        ("`status` of an ACTIVE slice whose host boots", BOOTING),
        ("`status` once that has failed", HOST_FAILED),
        ("`up`, when what is in its way does not go", STUCK_UP),
        ("`down`, when something does not go", STUCK_DOWN),
        ("`down` of a protected ACTIVE slice", PROTECTED),
        ("`down` of what Pulumi is told to keep", KEPT),
    ]
    return "### Beside the rows\n\n" + _table(
        ("when", "exit", "says"), [(when, *_cells(outcome)) for when, outcome in lines]
    )


def _cells(outcome: Outcome) -> tuple[str, str]:
    return str(outcome.exit_code), outcome.text


def _edges() -> str:
    return _table(
        ("edge", "before", "after", "row", "source"),
        [
            (
                edge.name if edge.emulated else f"{edge.name} *",
                str(edge.before),
                str(edge.after),
                edge.condition.value,
                edge.source,
            )
            for edge in EDGES
        ],
    )


def _fields() -> str:
    return _table(
        ("field", "meaning"), [(f"`{name}`", text) for name, text in STATUS_FIELDS.items()]
    )


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
