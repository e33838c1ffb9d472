"""What a host says of itself from READY on."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuflex.host.report import host_report
from tpuflex.host.serving import UNREADABLE, Serving, ServingPhase, serving_report

SAID = {
    "phase": "draining",
    "since": 1_790_000_000.5,
    "at": 1_790_000_005,
    "running": 3,
    "waiting": 1,
    "drained": False,
    "cut_off": 2,
    "reason": "asked for",
    "drains_at": 1_790_003_600,
    "ends_at": 1_790_003_900,
    "restarts": 1,
}


def test_every_field_is_read() -> None:
    """What the host wrote is read as it is, times as times."""
    assert serving_report(json.dumps(SAID)) == Serving(
        ServingPhase.DRAINING,
        since=1_790_000_000.5,
        at=1_790_000_005.0,
        running=3,
        waiting=1,
        cut_off=2,
        reason="asked for",
        drains_at=datetime.fromtimestamp(1_790_003_600, UTC),
        ends_at=datetime.fromtimestamp(1_790_003_900, UTC),
        restarts=1,
    )


@pytest.mark.parametrize(
    "text", ["[]", "null", "{}", '{"phase": "asleep"}', '{"phase": ["serving"]}', "9" * 5000]
)
def test_what_cannot_be_read_does_not_serve(text: str) -> None:
    """Whoever is root on the host writes it: what is no report of a known phase is no reason to
    take over from another host, or to say that it is well."""
    found = serving_report(text)
    assert found is not None
    assert (found.phase, found.reason) == (ServingPhase.DEGRADED, UNREADABLE)


@given(
    st.dictionaries(
        st.sampled_from(sorted(set(SAID) - {"phase"})),
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats()
        | st.text()
        | st.lists(st.integers(), max_size=2),
    )
)
def test_no_value_of_another_kind_breaks_it(fields: dict[str, object]) -> None:
    """Whatever stands in its fields, the phase is read, and every count is one."""
    found = serving_report(json.dumps({"phase": "serving", **fields}))

    assert found is not None
    assert found.phase is ServingPhase.SERVING
    assert min(found.running, found.waiting, found.restarts) >= 0
    json.dumps(found.to_json())


def test_a_reason_is_printable() -> None:
    """Escape codes in a reason reach no terminal, and none of its lines begins one of ours."""
    found = serving_report(json.dumps({"phase": "failed", "reason": "died\x1b[2J\nthere"}))

    assert found is not None
    assert "\x1b" not in found.reason
    assert found.reason.splitlines()[1:] == ["  | there"]


@pytest.mark.parametrize(
    ("phase", "serving", "serves"),
    [
        ("READY", "", True),
        ("READY", '{"phase": "serving"}', True),
        ("READY", '{"phase": "draining"}', False),
        ("READY", '{"phase": "degraded"}', False),
        ("READY", '{"phase": "failed"}', False),
        ("warmup", '{"phase": "serving"}', False),
    ],
)
def test_who_serves(phase: str, serving: str, serves: bool) -> None:
    """A host serves that is READY and says nothing else since; what it said before a new boot does
    not count."""
    said = {"report": json.dumps({"phase": phase}), "serving": serving}

    found = host_report({key: text for key, text in said.items() if text})

    assert found is not None
    assert found.serves is serves
