"""Every claim that only Google can show, and which of them somebody has seen there.

``docs/claims.yaml`` has the claims, ``docs/proved.json`` what has been shown, and by which run;
`docs/proved.md` is written from both.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from proof.options import ROOT

CLAIMS = ROOT / "docs" / "claims.yaml"
PROVED = ROOT / "docs" / "proved.json"
PAGE = ROOT / "docs" / "proved.md"
_HEAD = Path(__file__).with_name("proved_head.md")


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Something that is said of Google, and that only Google can show.

    Attributes:
        id: its short name, which does not change.
        claim: what is said.
        why_not_here: why the embedded cloud cannot show it.
        how: what shows it.
        shown_by: name of the judgement of a run; empty where a person has to look.
    """

    id: str
    claim: str
    why_not_here: str
    how: str
    shown_by: str = ""


def table() -> tuple[Claim, ...]:
    """All claims, in the order of the file."""
    return tuple(Claim(**row) for row in yaml.safe_load(CLAIMS.read_text("utf-8")))


def judged(raw: Path) -> set[str]:
    """Ids of the claims that a run has shown.

    Args:
        raw: its evidence, a JSON document for each step.
    """
    steps = {
        file.stem.partition("-")[2]: json.loads(file.read_text("utf-8"))
        for file in sorted(raw.glob("[0-9][0-9]-*.json"))
    }
    return {claim.id for claim in table() if claim.shown_by and JUDGEMENTS[claim.shown_by](steps)}


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


#: Judgements by name: whether a run has shown what a claim says.
JUDGEMENTS: Mapping[str, Callable[[Steps], bool]] = {
    "ready": lambda steps: _passed("up", "status")(steps) and _host(steps).get("phase") == "READY",
    "answers": _passed("ask", *(f"request-{number:02}" for number in range(1, 11))),
    "ssh": _passed("host"),
    "reboot": _passed("status-after-reboot", "ask-after-reboot"),
    "nothing left": _passed("down", "sweep"),
    "planned cache": _planned_is_reported,
    "egress": _egress,
    "version": lambda steps: bool(_host(steps).get("vllm_version")),
    "isolated": lambda steps: str(_host(steps).get("isolation", "")).startswith("isolated"),
    "free tier": _passed("free-tier"),
}


def record(shown: Iterable[str], *, evidence: str) -> None:
    """Write down that a run on Google has shown claims, and render the page."""
    shown = set(shown)
    if not shown:
        return
    proved = _proved()
    commit = subprocess.run(
        ["git", "rev-parse", "--short=10", "HEAD"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    ).stdout.strip()  # fmt: skip
    date = datetime.now(UTC).date().isoformat()
    proved |= {name: {"date": date, "commit": commit, "evidence": evidence} for name in shown}
    PROVED.write_text(json.dumps(proved, indent=1, sort_keys=True) + "\n")
    PAGE.write_text(page())


def page() -> str:
    """The text of docs/proved.md."""
    proved = _proved()
    lines = [
        f"| {_standing(proved.get(row.id))} | {row.claim} | {row.why_not_here} | {row.how} |"
        for row in table()
    ]
    count = sum(claim.id in proved for claim in table())
    return _HEAD.read_text("utf-8").format(count=count, all=len(lines)) + "\n".join(lines) + "\n"


def _standing(proof: Mapping[str, str] | None) -> str:
    if proof is None:
        return "NOT"
    return f"PROVED {proof['date']}, `{proof['commit']}`, {proof['evidence']}"


def _proved() -> dict[str, dict[str, str]]:
    if not PROVED.exists():
        return {}
    loaded: dict[str, dict[str, str]] = json.loads(PROVED.read_text("utf-8"))
    return loaded


if __name__ == "__main__":
    PAGE.write_text(page())
