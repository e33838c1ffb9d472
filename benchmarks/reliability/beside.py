"""Ours beside the yardsticks, in one table of the report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]

#: Figure -> what it is here.
_WHO = {
    "1": "tpuflex",
    "10": "naive provider, names with a random end",
    "10g": "naive provider, one given name",
}
#: The figure of ours that they stand beside.
_OURS = "1"
_KINDS = ("orphan", "duplicate", "manual")


def section(records: Mapping[str, Json]) -> list[str]:
    """The table; nothing unless a yardstick was measured.

    Args:
        records: figures as :func:`reliability.records.record` makes them, by key.
    """
    if not any(key in records for key in _WHO if key != _OURS):
        return []
    lines = [
        "## Killed, beside a naive provider",
        "",
        "The same roles and stages at every TPU call of each one's own `up` and `down`. After",
        "the kill: `tpuflex recover` and the same command; for the naive provider",
        "(`benchmarks/naive_provider`) `pulumi cancel`, `pulumi refresh --clear-pending-creates`,",
        "the same command, once more ten minutes later if it fails, and `down`. Cases that end",
        "with something in the cloud that nobody knows, with a second one, or in a state that",
        "takes a person; one case may count in several columns.",
        "",
        "| | Good / run | All cases | Orphans | Duplicates | Manual |",
        "|---|---|---|---|---|---|",
        *(_row(who, records[key]) for key, who in _WHO.items() if key in records),
        "",
    ]
    if _OURS not in records:
        lines += ["Ours (figure 1) has not been measured.", ""]
    return lines


def _row(who: str, one: Json) -> str:
    counts = (one["found"].get(kind, 0) for kind in _KINDS)
    cells = (who, f"{one['good']}/{one['ran']}", one["possible"], *counts)
    return f"| {' | '.join(str(cell) for cell in cells)} |"
