"""Generated files are current, and docs/lifecycle.md leaves nothing of the tables out."""

from __future__ import annotations

from tests.cli.typing import Captured
from tools.docs.generate import main
from tools.docs.lifecycle_reference import lifecycle_reference
from tpuflex.operate.slice import STATUS_FIELDS, SliceStatus
from tpuflex.queued_resource.edges import EDGES
from tpuflex.queued_resource.outcomes import TABLE
from tpuflex.queued_resource.states import Lifecycle


def test_they_are_what_the_code_says(capsys: Captured) -> None:
    """A change of the code needs `make docs`; the check names the files."""
    assert main(["--check"]) == 0, capsys.readouterr().err


def test_nothing_of_the_tables_is_left_out() -> None:
    """Every row, every text and every edge is in it."""
    page = lifecycle_reference()

    for condition, row in TABLE.items():
        assert f"### {condition.value}\n" in page
        for outcome in (row.up, row.refresh, row.preview, row.down, row.status):
            assert str(outcome.text) in page
    for edge in EDGES:
        assert f"| {edge.name} " in page


def test_fields_of_the_status_document_are_the_ones_described() -> None:
    """`status --json` has exactly the fields that the page lists, whatever is known."""
    bare = SliceStatus("g1", "us-east5-a", "FAILED", Lifecycle.FAILED, "it failed")

    assert list(bare.to_json("dev")) == list(STATUS_FIELDS)
