"""Whatever is computed from a row that a user added says so; what is not does not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.typing import TypeIn
from tpuflex.catalog.catalog import builtin
from tpuflex.cli.stack_plan import memory_line
from tpuflex.planning.cost import run_cost
from tpuflex.planning.stack import plan_stack
from tpuflex.settings.load import load_stack_file
from tpuflex.terminal.money import price_text

ROOT = Path(__file__).parents[2]
STACK = "first-proof"
MODEL = "google/gemma-4-E4B-it"
MARK = "a row of yours"


@pytest.fixture(autouse=True)
def stack(project: Path) -> Path:
    """This checkout's stack of the E4B model."""
    file = project / "stacks" / f"Pulumi.{STACK}.yaml"
    file.write_bytes((ROOT / "stacks" / file.name).read_bytes())
    return file


def own_rows(project: Path, kind: str, name: str) -> None:
    """Make the row ``name`` of tpuflex a row of the project's, unchanged."""
    rows: Any = getattr(builtin(), kind).values()
    row = next(
        row for row in rows if name in (getattr(row, "name", ""), getattr(row, "region", ""))
    )
    document = {kind: [row.model_dump(mode="json", exclude_none=True)]}
    (project / "catalog.yaml").write_text(json.dumps(document))  # JSON is YAML


COMMANDS = pytest.mark.parametrize(
    ("words", "kinds"),
    [
        (("memory", "--model", MODEL, "--accelerator", "v6e-1"), {"models", "accelerators"}),
        (("memory", "--stack", STACK), {"models", "accelerators"}),
        (("cost", "--stack", STACK), {"models", "accelerators", "prices"}),
        (
            ("recommend", "--model", MODEL, "--context", "2048", "--concurrency", "4"),
            {"models", "accelerators", "prices"},
        ),
    ],
    ids=["memory", "memory of a stack", "cost", "recommend"],
)


@COMMANDS
@pytest.mark.parametrize(
    ("kind", "name"), [("models", MODEL), ("accelerators", "v6e-1"), ("prices", "us-east5")]
)
def test_a_figure_by_a_row_of_ones_own_is_marked(
    project: Path, type_in: TypeIn, words: tuple[str, ...], kinds: set[str], kind: str, name: str
) -> None:
    """People read whose row it is, and scripts find it under ``own``; where no figure rests on
    the row, nothing is said."""
    own_rows(project, kind, name)

    shown, document = type_in(*words).out, type_in("--json", *words).out

    assert (MARK in shown) == (kind in kinds)
    assert ('"own": true' in document) == (kind in kinds)


@COMMANDS
def test_without_rows_of_ones_own_nothing_is_marked(
    type_in: TypeIn, words: tuple[str, ...], kinds: set[str]
) -> None:
    """What comes with tpuflex is nobody's own."""
    assert kinds
    assert MARK not in type_in(*words).out
    assert '"own": true' not in type_in("--json", *words).out


def test_the_plan_says_whose_price_and_whose_shapes_it_rests_on(project: Path, stack: Path) -> None:
    """`preview` and `up` show a price and a memory plan; both say if a row of one's own decides."""

    def lines() -> tuple[str, str]:
        settings = load_stack_file(stack, deploying=False).settings
        return price_text(run_cost(settings)), memory_line(plan_stack(settings))

    assert not any("yours" in line for line in lines())
    own_rows(project, "prices", "us-east5")
    assert f"by {MARK}" in lines()[0]
    own_rows(project, "models", MODEL)
    assert "by rows of yours" in lines()[1]
