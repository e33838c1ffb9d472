"""The measured figures, for the terminal and as docs/reliability.md."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from reliability.figures.figure import Outcome

Json = dict[str, Any]

#: Figure -> what it measures in the comparison.
_WHO = {
    "1": "tpuflex",
    "10": "naive provider, names with a random end",
    "10g": "naive provider, one given name",
}
#: Our figure that the yardsticks are compared with.
_OURS = "1"
_KINDS = ("orphan", "duplicate", "manual")


def line(outcome: Outcome) -> str:
    """One figure in one line."""
    ran = len(outcome.results)
    kinds = dict.fromkeys(outcome.counted, 0) | dict(sorted(outcome.kinds.items()))
    return (
        f"figure {outcome.key}: {outcome.good}/{ran} good ({_found(kinds)}); "
        f"{ran} of {outcome.possible} cases run, {outcome.struck} faults struck, "
        f"{outcome.seconds:.0f} s"
    )


def markdown(records: Mapping[str, Json], order: Iterable[str]) -> str:
    """The whole document as Markdown.

    Args:
        records: figures as :func:`reliability.records.record` makes them, by key.
        order: the keys of all figures; those never measured are listed as such.
    """
    keys = sorted(order, key=lambda key: (int(re.sub(r"\D", "", key)), key))
    head = [
        "# Reliability, measured",
        "",
        "Written by `make reliability`; do not edit. Everything runs against the embedded cloud,",
        "with faults injected by rule, and is judged by an independent checker",
        "(`benchmarks/reliability/invariants.py`). Nothing here was measured on Google Cloud.",
        "",
        "Each row says when and at which commit it was measured (`+`: with changes on top), and",
        'with which seed: `make reliability ARGS="--figures 1"` replaces row 1 and no other.',
        "",
        "| # | Claim | Good / run | Run / all cases | Faults struck | Found | Measured |",
        "|---|---|---|---|---|---|---|",
        *(_row(key, records[key]) for key in keys if key in records),
        "",
        *_never(key for key in keys if key not in records),
        "A figure whose cases are not all run is a sample, in an order that the seed decides.",
        "A run that injected nothing counts as failed. Real faults take real time: what keeps a",
        "connection silent for 40 s is injected into the provider's own code only (figure 3).",
        "Figure 4 judges I2 and I6 after each faulted step, and all while it settles without",
        "faults, but for I3 right after `recover` (only `refresh` finds what was deleted behind",
        "our back), and I2 while a replaced request stands in the state as to be deleted (the next",
        "`up` deletes it); so does figure 1r right after `recover`.",
        "",
        "`-strict`: the same cases on a cloud as strict as Google (`emulator start --strict`), in",
        "a project made a moment ago: the TPU API answers a minute after it was enabled, requests",
        "may name the new service account a minute after it was made, and before the `up` of",
        "figure 1s no API is enabled. What only hosts, images and gcloud would meet is not seen:",
        "the rigs' hosts run nothing.",
        "",
        "An engine serves on loopback ports that every user of the machine reaches, the one",
        "that tpuflex builds as well as Pulumi's own, and an empty request can end it: for the",
        "stack that is a kill of the engine, as in figure 1. No figure has a second user; what",
        "one can do is in",
        "[security](security.md#what-does-not-hold).",
        "",
    ]
    head += _beside_yardsticks(records)
    for key in keys:
        if key in records:
            head += _section(key, records[key])
    return "\n".join(head).rstrip() + "\n"


def _never(keys: Iterable[str]) -> list[str]:
    found = ", ".join(keys)
    return [f"Not measured yet: {found}.", ""] if found else []


def _row(key: str, one: Json) -> str:
    ran, possible, setting = one["ran"], one["possible"], one["setting"]
    share = f"{ran} of {possible}" + ("" if ran == possible else " (sampled)")
    when = f"{one['measured']}, `{setting['commit'] or 'no commit'}`, seed {setting['seed']}"
    cells = (key, one["title"], f"{one['good']}/{ran}", share, one["struck"], _found(one["found"]))
    return "| " + " | ".join(str(cell) for cell in (*cells, when)) + " |"


def _found(kinds: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in kinds.items())


def _section(key: str, one: Json) -> list[str]:
    """How it was measured, what failed, and the measured values."""
    setting = one["setting"]
    rigs = "1 rig" if setting["workers"] == 1 else f"{setting['workers']} rigs at once"
    versions = ", ".join(f"{name} {version}" for name, version in setting["versions"].items())
    lines = [
        f"- Again: `{setting['command']}`",
        f"- Took {one['seconds']} s with {rigs} on {one['machine']}; "
        f"budget of the run {setting['budget_s'] / 60:g} minutes; {versions}",
    ]
    lines += [
        f"- `{name}` over {found['cases']} cases: least {found['least']:g}, "
        f"median {found['median']:g}, most {found['most']:g}"
        for name, found in one["values"].items()
    ]
    if one["idle"]:
        lines.append("- **Nothing was injected, or no case was run: this figure says nothing.**")
    lines += [f"- `{name}`: {kind}: {_short(text)}" for name, kind, text in one["shown"]]
    if one["failed"] > len(one["shown"]):
        more = one["failed"] - len(one["shown"])
        lines.append(f"- and {more} more; each wrote its own reproduction file")
    return [f"## Figure {key}", "", *lines, ""]


def _short(text: str) -> str:
    words = " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
    return words if len(words) <= 240 else words[:240] + " …"


def _beside_yardsticks(records: Mapping[str, Json]) -> list[str]:
    """The comparison with the yardsticks; empty unless one was measured.

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
        *(_yardstick_row(who, records[key]) for key, who in _WHO.items() if key in records),
        "",
    ]
    if _OURS not in records:
        lines += ["Ours (figure 1) has not been measured.", ""]
    return lines


def _yardstick_row(who: str, one: Json) -> str:
    counts = (one["found"].get(kind, 0) for kind in _KINDS)
    cells = (who, f"{one['good']}/{one['ran']}", one["possible"], *counts)
    return f"| {' | '.join(str(cell) for cell in cells)} |"
