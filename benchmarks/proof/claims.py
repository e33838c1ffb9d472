"""Which claims of docs/proved.md, which only Google can show, a run has shown."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from proof.options import ROOT

PAGE = ROOT / "docs" / "proved.md"


def judged(raw: Path) -> set[str]:
    """Names of the claims that a run has shown.

    Args:
        raw: its evidence, a JSON document for each step.
    """
    steps = {
        file.stem.partition("-")[2]: json.loads(file.read_text("utf-8"))
        for file in sorted(raw.glob("[0-9][0-9]-*.json"))
    }
    return {name for name, shows in JUDGEMENTS.items() if shows(steps)}


Steps = Mapping[str, Mapping[str, Any]]


def _passed(*names: str) -> Callable[[Steps], bool]:
    """Whether the steps were taken, and did what they have to."""
    return lambda steps: all(steps.get(name, {}).get("exit_code") == 0 for name in names)


def _status(steps: Steps) -> Mapping[str, Any]:
    out = steps.get("status", {}).get("out")
    return out if isinstance(out, Mapping) else {}


def _host(steps: Steps) -> Mapping[str, Any]:
    return (_status(steps).get("slice") or {}).get("host") or {}


def _planned_is_reported(steps: Steps) -> bool:
    planned, reported = _status(steps).get("memory"), _host(steps).get("kv_cache")
    if not planned or not reported:
        return False
    return bool(planned["cached_tokens"] == reported["tokens"])


def _egress(steps: Steps) -> bool:
    """storage.googleapis.com answers from Google's private range, example.com not at all."""
    facts = str(steps.get("host", {}).get("out", ""))
    return "199.36.153." in facts and "https://example.com: 000" in facts


#: By the name of a claim: whether a run has shown what it says. The others a person has to look at.
JUDGEMENTS: Mapping[str, Callable[[Steps], bool]] = {
    "first-run": lambda steps: (
        _passed("up", "status")(steps) and _host(steps).get("phase") == "READY"
    ),
    "answers": _passed("ask", *(f"request-{number:02}" for number in range(1, 11))),
    "way-in": _passed("host"),
    "reboot": _passed("status-after-reboot", "ask-after-reboot"),
    "nothing-left": _passed("down", "sweep"),
    "planned-cache": _planned_is_reported,
    "egress-rules": _egress,
    "server-version": lambda steps: bool(_host(steps).get("vllm_version")),
    "isolated-server": lambda steps: str(_host(steps).get("isolation", "")).startswith("isolated"),
    "free-calls": _passed("free-tier"),
}


def record(shown: Collection[str], *, evidence: str) -> None:
    """Write down in the page that a run on Google has shown claims."""
    if not shown:
        return
    commit = subprocess.run(
        ["git", "rev-parse", "--short=10", "HEAD"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    ).stdout.strip()  # fmt: skip
    standing = f"PROVED {datetime.now(UTC).date().isoformat()}, `{commit}`, {evidence}"
    lines = PAGE.read_text("utf-8").splitlines()
    PAGE.write_text("".join(f"{_marked(line, shown, standing)}\n" for line in lines), "utf-8")


def _marked(line: str, shown: Collection[str], standing: str) -> str:
    """A line of the page, with ``standing`` if it is the row of a claim that was ``shown``."""
    _, bar, rest = line.partition(" | ")
    name = rest.partition(" | ")[0]
    return f"| {standing}{bar}{rest}" if line.startswith("| ") and name in shown else line
