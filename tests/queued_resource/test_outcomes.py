"""The refresh table: complete, consistent, and with the exit codes of the error tree."""

from __future__ import annotations

import pytest

from tpuflex.errors import BootError, CapacityError, NotFoundError
from tpuflex.queued_resource.outcomes import TABLE, Condition, PreviewAction, condition_of
from tpuflex.queued_resource.states import Lifecycle


def test_every_condition_has_a_row_and_every_row_its_texts() -> None:
    """No condition is forgotten, and each command has something to say about each."""
    assert set(TABLE) == set(Condition)
    for row in TABLE.values():
        for outcome in (row.preview, row.down, row.status):
            assert outcome.text
        # Where nothing is to be said, nothing is to be done either.
        assert row.up.text or row.action is PreviewAction.NOTHING
        assert row.refresh.text or row.action in (PreviewAction.NOTHING, PreviewAction.UPDATE)
        assert row.meaning


@pytest.mark.parametrize(
    ("where", "queued", "node", "ours", "expected"),
    [
        (Lifecycle.WAITING, True, False, True, Condition.WAITING),
        (Lifecycle.PROVISIONING, True, False, True, Condition.PROVISIONING),
        (Lifecycle.ACTIVE, True, True, True, Condition.ACTIVE),
        (Lifecycle.ENDED, True, False, True, Condition.ENDED),
        (Lifecycle.FAILED, True, False, True, Condition.FAILED),
        (Lifecycle.DELETING, True, True, True, Condition.DELETING),
        (Lifecycle.LOST, True, False, True, Condition.NODE_MISSING),
        (Lifecycle.LOST, False, True, True, Condition.ORPHANED),
        (Lifecycle.LOST, False, False, True, Condition.GONE),
        (Lifecycle.LOST, False, False, False, Condition.GONE),
        (Lifecycle.ACTIVE, True, True, False, Condition.FOREIGN),
        (Lifecycle.LOST, False, True, False, Condition.FOREIGN),
    ],
)
def test_what_is_seen_has_one_row(
    where: Lifecycle, queued: bool, node: bool, ours: bool, expected: Condition
) -> None:
    """What a look finds is one row of the table."""
    assert condition_of(where, queued_resource=queued, node=node, ours=ours) is expected


def test_only_what_may_come_by_itself_is_worth_polling() -> None:
    """A script that polls `status` continues while the exit code is 3, and only then."""
    codes = {row: TABLE[row].status.exit_code for row in Condition}

    waits = {Condition.WAITING, Condition.PROVISIONING, Condition.DELETING}
    absent = {Condition.GONE, Condition.FOREIGN}
    assert {row for row, code in codes.items() if code == CapacityError.exit_code} == waits
    assert {row for row, code in codes.items() if code == NotFoundError.exit_code} == absent
    assert {row for row, code in codes.items() if code == 0} == {Condition.ACTIVE}
    assert {row for row, code in codes.items() if code == BootError.exit_code} == {
        Condition.ENDED,
        Condition.FAILED,
        Condition.NODE_MISSING,
        Condition.ORPHANED,
    }


def test_up_fails_exactly_where_it_does_not_lead_to_an_endpoint() -> None:
    """`up` succeeds where it reaches an active slice, and says so with its exit code if not."""
    assert {row for row in Condition if TABLE[row].up.exit_code} == {
        Condition.WAITING,
        Condition.PROVISIONING,
        Condition.ENDED,
        Condition.FOREIGN,
    }


def test_nothing_is_bought_again_unasked() -> None:
    """An ended run is the one loss that a plan does not replace: it is only reported."""
    assert TABLE[Condition.ENDED].action is PreviewAction.UPDATE
    assert "requests nothing" in str(TABLE[Condition.ENDED].preview.text)
    assert "nothing is bought again unasked" in str(TABLE[Condition.ENDED].up.text)


def test_down_always_ends_well() -> None:
    """From every condition, `down` ends with nothing of ours left."""
    assert all(row.down.exit_code == 0 for row in TABLE.values())
