"""The rules over what a real vLLM said while it was idle, busy, overloaded, frozen and gone.

tests/acceptance/alerts has promtool judge the same.
"""

from __future__ import annotations

import pytest

from tests.alerts.recording import FIRING, Recording, fires, recorded
from tests.alerts.test_rules import RULES
from tpuflex.alerts.judgement import Judge, Look, State
from tpuflex.alerts.signals import UP
from tpuflex.measure.alerts import server_numbers
from tpuflex.measure.metrics import EngineMetrics


def look_at(recording: Recording, number: int) -> Look:
    """A look as `tpuflex alerts` has it."""
    at, text = recording.at(number), recording.text(number)
    if text is None:
        return Look(at, {UP: 0.0})
    return Look(at, *server_numbers(EngineMetrics.parse(text, at)))


@pytest.mark.parametrize("case", FIRING)
def test_rules_fire_when_they_should(case: str) -> None:
    """Each rule fires at these looks of the recording and at no other: the burst of slow first
    tokens fires its own alert alone, the frozen engine fires though its last words stand still."""
    recording = recorded(case)
    judge = Judge(RULES[name] for name in FIRING[case])
    wrong = [
        f"{verdict.rule.name} at look {number}: {verdict.state}"
        for number in range(recording.looks)
        for verdict in judge.look(look_at(recording, number))
        if (verdict.state is State.FIRING) is not fires(case, verdict.rule.name, number)
    ]

    assert wrong == []
