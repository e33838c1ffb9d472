"""`tpuflex:waivers` and `tpuflex:budget` in a stack file."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pytest

from tests.unit.stack_sections import embedded, findings
from tpuflex.settings.load import parse
from tpuflex.settings.policy_section import Budget, Waiver

WAIVER = {"rule": "run-duration", "reason": "a test", "until": "2026-12-31"}
REFUSED = [
    ("waivers", [{**WAIVER, "rule": "run-durations"}], "waivers[0].rule", "mean run-duration?"),
    ("waivers", [{**WAIVER, "rule": "x"}], "waivers[0].rule", "`tpuflex policy` lists"),
    ("waivers", [{**WAIVER, "reason": " "}], "waivers[0].reason", "why the breach is accepted"),
    ("waivers", [{**WAIVER, "reason": "a\nb"}], "waivers[0].reason", "in one line"),
    ("waivers", [{"rule": "run-duration", "until": "2026-12-31"}], "waivers[0].reason", "Write"),
    ("waivers", [{"rule": "run-duration", "reason": "a"}], "waivers[0].until", "Write until"),
    ("waivers", [{**WAIVER, "until": "soon"}], "waivers[0].until", "2026-11-22"),
    ("waivers", [WAIVER, {**WAIVER, "ruel": "a"}], "waivers[1].ruel", "Did you mean rule?"),
    ("waivers", [{**WAIVER, "until": date(2026, 12, 31)}], "waivers[0].until", "in quotes"),
    ("waivers", WAIVER, "waivers", "a list"),
    ("budget", {"per_run": 5}, "budget.per_run", "per_run_usd"),
    ("budget", {"per_run_usd": 0}, "budget.per_run_usd", "more than 0"),
    ("budget", {"per_run_usd": -1}, "budget.per_run_usd", "more than 0"),
    ("budget", {"per_project_usd": "a lot"}, "budget.per_project_usd", "a number"),
    ("budget", {"per_project_usd": 0.001}, "budget.per_project_usd", ""),
    ("budget", 50, "budget", "a section"),
]


@pytest.mark.parametrize(("section", "value", "key", "remedy"), REFUSED)
def test_what_is_wrong_is_refused_by_its_key(
    section: str, value: object, key: str, remedy: str
) -> None:
    """Each wrong waiver and budget is refused under its key, with what to write instead."""
    found = findings(embedded({section: value}))

    assert [finding.key for finding in found] == [f"tpuflex:{key}"]
    assert remedy in found[0].remedy


def test_what_is_right_is_read() -> None:
    """A waiver without a resource is for all; amounts are exact."""
    changes = {"waivers": [WAIVER], "budget": {"per_run_usd": 49.9, "per_project_usd": 500}}

    settings = parse(embedded(changes), "test")

    assert settings.waivers == (
        Waiver(rule="run-duration", reason="a test", until=date(2026, 12, 31)),
    )
    assert settings.budget == Budget(per_run_usd=Decimal("49.9"), per_project_usd=Decimal(500))
    assert parse(embedded(), "test").budget == Budget()
