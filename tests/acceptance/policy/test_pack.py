"""The CrossGuard pack and `tpuflex preview` say the same of every case.

pulumi-policy has an environment of its own.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from datetime import timedelta

import pytest

from tests.acceptance.environments import ROOT, environment
from tests.policy.cases import BREAKS, KEEPS, NOW, Case
from tests.unit.stack_sections import embedded
from tpuflex.policy.evaluate import evaluate
from tpuflex.policy.violations import Violation
from tpuflex.policy_pack.judge import Judge, plain
from tpuflex.settings.load import parse
from tpuflex.settings.policy_section import Waiver

Answers = Mapping[str, list[str]]


@pytest.fixture(scope="module")
def answers() -> Answers:
    """What the pack says of every case, by case and whether it is waived."""
    python = environment("policy-pack") / "python"
    done = subprocess.run(
        [python, "-m", "tests.acceptance.policy.pack_answers"],
        cwd=ROOT,
        env={"PYTHONPATH": f"{ROOT}:{ROOT / 'infra'}", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said: Answers = json.loads(done.stdout)
    return said


def spoken(finding: Violation) -> str:
    """How the pack words what `preview` finds."""
    other = "" if finding.severity == finding.rule.severity else f"-{finding.severity}"
    return f"{finding.severity} {finding.rule.id}{other}: {finding.text}. {finding.remedy}"


@pytest.mark.parametrize("waived", [False, True], ids=["broken", "waived"])
@pytest.mark.parametrize("case", [*BREAKS, *KEEPS], ids=str)
def test_the_pack_agrees(answers: Answers, case: Case, waived: bool) -> None:
    """Of each spelling, broken, kept or waived, the pack says what `preview` says."""
    until = NOW.date() + timedelta(days=1)
    waivers = [Waiver(rule=case.rule.id, reason="a", until=until)] if waived else []
    findings = evaluate(case.resources, case.facts, waivers, NOW).findings

    expected = sorted(spoken(finding) for finding in findings if not finding.waived)
    assert answers[f"{case} {waived}"] == expected


def test_unknown_values_are_not_taken_for_absent() -> None:
    """What raises on the way to it is unknown, whatever holds it; the rest is as it was."""

    class UnknownError(Exception):
        pass

    class Raising(dict[str, object]):
        def __getitem__(self, key: str) -> object:
            if key == "hidden":
                raise UnknownError
            return super().__getitem__(key)

    given = Raising(shown=["a", {"b": True}], hidden=1)

    assert plain(given, UnknownError) == {
        "shown": ["a", {"b": True}],
        "hidden": "04da6b54-80e4-46f7-96ec-b56ff0331ba9",
    }


def test_an_expired_waiver_waives_nothing_in_the_pack() -> None:
    """The pack refuses an expired waiver by its key, and does not apply it."""
    waivers = [{"rule": "run-duration", "reason": "a", "until": "2020-01-31"}]
    judge = Judge.of(parse(embedded({"waivers": waivers}), "test"), NOW)

    assert [problem.key for problem in judge.problems] == ["tpuflex:waivers[0].until"]
    assert judge.waivers == []
