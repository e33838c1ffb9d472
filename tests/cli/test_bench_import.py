"""`tpuflex bench import` shows a published table with its verdicts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.typing import TypeIn
from tests.goldens.golden_texts import assert_golden
from tpuflex.planning.plausibility import VERDICTS

TABLE = """\
model,accelerator,concurrency,context,prompt_tokens_per_second,ttft_s,setup
google/gemma-4-31B-it,v6e-4,256,,"463,345",,peak
google/gemma-4-31B-it,v6e-4,256,16384,,4.8,
google/gemma-4-26B-A4B-it,v6e-4,1024,,467825,,peak
google/gemma-4-26B-A4B-it,v6e-4,4,1024,,0.4,
acme/zephyr-9b,v6e-4,1,,9000,,
"""


@pytest.fixture
def table(project: Path) -> Path:
    """A table of figures, in the project."""
    path = project / "table.csv"
    path.write_text(TABLE)
    return path


def test_a_table_with_verdicts(type_in: TypeIn, table: Path) -> None:
    """Points stand by model and chips, and below each block is why; an impossible one decides the
    exit code."""
    typed = type_in("bench", "import", str(table), COLUMNS="80")

    assert typed.code == 15
    assert_golden("bench/import.txt", typed.out)
    assert max(map(len, typed.out.splitlines())) <= 80
    assert "1 of 5 points are impossible: row 1\n" in typed.err


def test_as_markdown(type_in: TypeIn, table: Path) -> None:
    """The same as one table for a page, in which no cell of the file can act."""
    table.write_text(TABLE.replace("acme/zephyr-9b", '"acme/zephyr-9b"'))
    typed = type_in("bench", "import", str(table), "--markdown")

    assert typed.code == 15
    assert_golden("bench/import.md", typed.out)


def test_for_scripts(type_in: TypeIn, table: Path) -> None:
    """The document has the counts, and each point with its figures, verdict and reasons."""
    document = type_in("--json", "bench", "import", str(table)).document

    assert document["table"] == "table.csv"
    assert document["counts"] == {
        **dict.fromkeys(VERDICTS, 1),
    }
    first = document["points"][0]
    assert (first["row"], first["concurrency"], first["verdict"]) == (1, 256, "impossible")
    assert first["source"] == {"where": "table.csv", "date": "2026-11-21"}


def test_what_comes_with_it(type_in: TypeIn) -> None:
    """The published figures are shown with their verdicts; that some are impossible is no failure
    of the caller's."""
    typed = type_in("bench", "import", "--published", COLUMNS="80")

    assert (typed.code, typed.err) == (0, "")
    assert typed.out.splitlines()[-2].startswith("78 points: 8 impossible")
    assert max(map(len, typed.out.splitlines())) <= 80


def test_a_row_of_the_project_is_judged_by(type_in: TypeIn, project: Path, table: Path) -> None:
    """A price in the project's catalog.yaml is one that a claimed price is held against."""
    table.write_text("model,accelerator,usd_per_million\ngoogle/gemma-4-31B-it,v6e-4,0.01\n")
    assert type_in("bench", "import", str(table)).code == 15

    source = '{where: "our contract", date: "2026-11-02"}'
    (project / "catalog.yaml").write_text(
        "prices:\n  - {generation: v6e, region: us-east5, kind: flex_start,"
        f" usd_per_chip_hour: 0.9, source: {source}}}\n"
    )
    assert type_in("bench", "import", str(table)).code == 0


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ((), 2, "Name a table, or write --published."),
        (("table.csv", "--published"), 2, "Name a table, or write --published."),
        (("--published", "--markdown", "--json"), 2, "both write to standard output"),
        (("elsewhere.csv",), 4, "There is no file elsewhere.csv"),
        (("stacks",), 5, "stacks: cannot be read (not a regular file)"),
        (("Pulumi.yaml",), 5, "is not a column (Pulumi.yaml, line 1)"),
    ],
)
def test_what_is_no_table(
    type_in: TypeIn,
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    code: int,
    said: str,
) -> None:
    """What cannot be judged is refused, by the kind of mistake."""
    monkeypatch.chdir(project)
    typed = type_in("bench", "import", *words)

    assert (typed.code, typed.out) == (code, typed.out if "--json" in words else "")
    assert said in typed.err
