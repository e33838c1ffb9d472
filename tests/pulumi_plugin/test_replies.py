"""Replies in the engine's form: diffs, refused inputs, failures."""

from __future__ import annotations

import grpc
import pytest

from pulumi_plugin.changes import Change, ChangeKind, Diff
from pulumi_plugin.protocol import provider_pb2
from pulumi_plugin.replies import check_failures, diff_response
from tests.provider.direct import CallFailedError, Context, Provider

TOKEN = "ya29.a0Canary_token-123"
Difference = provider_pb2.PropertyDiff


@pytest.mark.parametrize(
    ("kind", "replaces", "shown"),
    [
        (ChangeKind.ADD, False, Difference.ADD),
        (ChangeKind.ADD, True, Difference.ADD_REPLACE),
        (ChangeKind.DELETE, False, Difference.DELETE),
        (ChangeKind.DELETE, True, Difference.DELETE_REPLACE),
        (ChangeKind.UPDATE, False, Difference.UPDATE),
        (ChangeKind.UPDATE, True, Difference.UPDATE_REPLACE),
    ],
)
@pytest.mark.parametrize("is_input", [True, False])
def test_the_kind_of_a_change(kind: ChangeKind, replaces: bool, shown: int, is_input: bool) -> None:
    """Added, deleted or changed; in place or by a replacement; in the inputs or outside."""
    change = Change(kind, replaces, is_input)

    answer = diff_response(Diff({"metadata.a": change}, delete_before_replace=replaces))

    assert answer.changes == provider_pb2.DiffResponse.DIFF_SOME
    assert answer.hasDetailedDiff
    assert answer.deleteBeforeReplace is replaces
    assert answer.detailedDiff["metadata.a"] == Difference(kind=shown, inputDiff=is_input)  # type: ignore[arg-type]
    assert list(answer.replaces) == (["metadata"] if replaces else [])


def test_changes_are_listed_by_their_input() -> None:
    """Nested changes are listed once under their top-level input, in order."""
    update, replace = (
        Change(ChangeKind.UPDATE, replaces=False),
        Change(ChangeKind.UPDATE, replaces=True),
    )

    answer = diff_response(
        Diff(
            {
                'metadata["x.y"]': update,
                "labels.b[0].c": update,
                "labels.a": replace,
                "dataDisks[0].mode.x": replace,
            },
            delete_before_replace=False,
        )
    )

    assert list(answer.diffs) == ["dataDisks", "labels", "metadata"]
    assert list(answer.replaces) == ["dataDisks", "labels"]
    assert len(answer.detailedDiff) == 4


def test_an_empty_diff_is_no_change() -> None:
    """It is not "unknown", after which the engine would compare by itself."""
    answer = diff_response(Diff({}, delete_before_replace=False))

    assert answer.changes == provider_pb2.DiffResponse.DIFF_NONE
    assert answer.hasDetailedDiff


def test_refused_inputs_hold_no_credentials() -> None:
    """A refusal names its property, and its reason is scrubbed."""
    (failure,) = check_failures([("labels", f"no {TOKEN}")])

    assert (failure.property, failure.reason) == ("labels", "no [removed]")


def test_failures_end_the_call_as_unknown() -> None:
    """The engine reads the details of a status with that code."""

    class Codes(Context):
        def abort_with_status(self, status: grpc.Status) -> None:
            assert status.code is grpc.StatusCode.UNKNOWN
            super().abort_with_status(status)

    servicer = Provider().servicer
    with pytest.raises(CallFailedError):
        servicer.Read(provider_pb2.ReadRequest(urn="x"), Codes())  # type: ignore[arg-type]
