"""`tpuflex catalog` shows rows with their sources, those of the user among them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.typing import TypeIn
from tests.goldens.golden_texts import assert_golden
from tpuflex.catalog import KINDS
from tpuflex.catalog.catalog import builtin

OWN = """\
prices:
  - generation: v6e
    region: us-east5
    kind: flex_start
    usd_per_chip_hour: 1.10
    source: {where: "our contract \\e[31m", date: "2026-11-02"}
"""


@pytest.mark.parametrize("kind", KINDS)
def test_rows_as_a_table(type_in: TypeIn, kind: str) -> None:
    """The whole table of a kind, with the list of its sources."""
    typed = type_in("catalog", kind)

    assert (typed.code, typed.err) == (0, "")
    assert_golden(f"catalog/{kind}.txt", typed.out)


@pytest.mark.parametrize(
    ("kind", "name", "golden"),
    [
        ("accelerators", "v6e-4", "accelerator"),
        ("zones", "us-east5-a", "zone"),
        ("prices", "us-central1", "price"),
        ("models", "google/gemma-4-26B-A4B-it", "model"),
        ("images", "19a1a0526476", "image"),
    ],
)
def test_one_row_in_full(type_in: TypeIn, kind: str, name: str, golden: str) -> None:
    """Everything that is known of one thing, and where that comes from."""
    typed = type_in("catalog", kind, name)

    assert (typed.code, typed.err) == (0, "")
    assert_golden(f"catalog/one-{golden}.txt", typed.out)


def test_all_rows_for_scripts(type_in: TypeIn) -> None:
    """Without a kind the document has all rows, as a catalog.yaml holds them."""
    document = type_in("--json", "catalog").document
    own = document.pop("own")

    assert own == {kind: [] for kind in KINDS}
    assert {kind: len(rows) for kind, rows in document.items()} == {
        kind: len(getattr(builtin(), kind)) for kind in KINDS
    }
    assert all(row["source"]["date"] for rows in document.values() for row in rows)


def test_counts_for_people(type_in: TypeIn) -> None:
    """Without a kind people see how many rows there are, and how old they are."""
    typed = type_in("catalog")

    assert typed.code == 0
    assert [line.split()[0] for line in typed.out.splitlines()[:6]] == ["KIND", *KINDS]
    assert typed.out.endswith("`tpuflex catalog KIND` lists the rows with their sources.\n")


def test_rows_of_ones_own_are_marked(project: Path, type_in: TypeIn) -> None:
    """A row of catalog.yaml stands in the place of the one it replaces; nothing in it is obeyed."""
    (project / "catalog.yaml").write_text(OWN)

    shown = type_in("catalog", "prices")
    document = type_in("--json", "catalog", "prices").document

    assert "us-east5*           v6e    flex_start  1.1                    [1]\n" in shown.out
    assert "\n* a row of yours\n" in shown.out
    assert "our contract" in shown.out
    assert "\x1b" not in shown.out
    assert document["prices"][0]["usd_per_chip_hour"] == "1.1"
    assert document["own"] == {"prices": document["prices"][:1]}


def test_rows_of_a_stack_are_shown_with_the_stack(project: Path, type_in: TypeIn) -> None:
    """The section of a stack file counts when the stack is named, and only then."""
    stack = project / "stacks" / "Pulumi.dev.yaml"
    rows = "".join(f"    {line}\n" for line in OWN.splitlines())
    stack.write_text(f"{stack.read_text()}  tpuflex:catalog:\n{rows}")

    assert "* a row of yours" in type_in("catalog", "prices", "--stack", "dev").out
    assert "* a row of yours" not in type_in("catalog", "prices").out


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_can_be_copied(project: Path, type_in: TypeIn, kind: str) -> None:
    """What a script gets is right as a catalog.yaml, but for the list of one's own rows."""
    document = type_in("--json", "catalog", kind).document
    del document["own"]
    (project / "catalog.yaml").write_text(json.dumps(document))

    again = type_in("--json", "catalog", kind)

    assert again.code == 0
    assert again.document == {**document, "own": document}


def test_a_bad_row_is_refused(project: Path, type_in: TypeIn) -> None:
    """The file, the row and the key are named, with the exit code of settings."""
    (project / "catalog.yaml").write_text(OWN.replace("1.10", "free"))

    typed = type_in("catalog")

    assert (typed.code, typed.err) == (
        5,
        "Error: catalog.yaml has 1 problem:\n"
        '  catalog.yaml:prices[0].usd_per_chip_hour: "free" is not a number in the row of '
        '"v6e us-east5 flex_start" (line 5). Write a number.\n',
    )


def test_an_unknown_name_has_neighbours(type_in: TypeIn) -> None:
    """What is not there is said, with what may have been meant."""
    typed = type_in("catalog", "models", "gemma-4-31b")

    assert (typed.code, typed.err) == (
        4,
        "Error: The catalog has no 'gemma-4-31b' among its models.\n"
        "Did you mean google/gemma-4-31B-it? `tpuflex catalog models` lists them.\n",
    )


def test_it_needs_no_project(tmp_path: Path, type_in: TypeIn) -> None:
    """What comes with tpuflex can be looked at anywhere."""
    assert type_in("-C", str(tmp_path), "catalog", "zones").code == 0
