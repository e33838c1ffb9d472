"""`tpuflex bench report`, `compare` and `export` on files of runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.typing import TypeIn
from tests.goldens.golden_texts import assert_golden
from tests.measure.benchmarks import SERVER, load, point, run

LOADS = [load(each, 2048) for each in (1, 8, 128, 256)]


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    """Two runs of the same points, the second of which is twice as fast."""
    for name, speed in (("before", 1.0), ("after", 2.0)):
        server = SERVER.model_copy(update={"vllm": "0.32.0" if speed == 1 else "0.33.0"})
        lines = [run(*LOADS, name=name, server=server), *(point(each, speed) for each in LOADS)]
        text = "".join(f"{line.model_dump_json()}\n" for line in lines)
        (tmp_path / f"{name}.jsonl").write_text(text, "utf-8")
    return str(tmp_path / "before.jsonl"), str(tmp_path / "after.jsonl")


def test_a_comparison_fits_a_terminal(type_in: TypeIn, files: tuple[str, str]) -> None:
    """What differs, the best of each run, and every point; 80 columns are enough."""
    typed = type_in("bench", "compare", *files, COLUMNS="80")

    assert typed.code == 0
    assert_golden("bench/compare.txt", typed.out)
    assert max(map(len, typed.out.splitlines())) <= 80


def test_a_comparison_for_scripts(type_in: TypeIn, files: tuple[str, str], tmp_path: Path) -> None:
    """One document, and with --output the tables in Markdown."""
    page = tmp_path / "comparison.md"
    typed = type_in("bench", "compare", *files, "--of", "ttft", "-o", str(page), "--json")

    assert typed.document["quantity"] == "ttft"
    assert typed.document["different"] == ["server"]
    assert [each["factors"] for each in typed.document["points"]] == [[0.5], [0.5], [None], [None]]
    assert typed.document["points"][2]["runs"][0] == {
        "verdict": "not_feasible",
        "flagged": False,
        "value": None,
    }
    assert "| FACTOR |" in page.read_text()


def test_a_report_is_written(type_in: TypeIn, files: tuple[str, str], tmp_path: Path) -> None:
    """The command says where, and what is in it in short."""
    typed = type_in("bench", "report", *files, "-o", str(tmp_path / "both"))

    assert typed.code == 0
    assert "before: 2 results, 2 not feasible.\n" in typed.out
    assert "both.html (10 plots)" in typed.out
    assert (tmp_path / "both.md").is_file()
    assert (tmp_path / "both.html").is_file()


def test_an_export_says_what_it_has_left_out(
    type_in: TypeIn, files: tuple[str, str], tmp_path: Path
) -> None:
    """A file for each point with figures and none for others; read again, they are not verified."""
    typed = type_in("bench", "export", files[0], "-o", str(tmp_path / "reports"))
    again = type_in("bench", "compare", files[0], str(tmp_path / "reports"))

    assert typed.out == f"Written: 2 reports in {tmp_path / 'reports'}\nLeft out: 2 not feasible\n"
    assert "48.6 ?" in again.out


def test_a_file_that_cannot_be_read_is_an_error(type_in: TypeIn, tmp_path: Path) -> None:
    """With what can be read as the remedy."""
    other = tmp_path / "other.json"
    other.write_text("{}")
    missing = type_in("bench", "report", str(tmp_path / "none.jsonl"))
    typed = type_in("bench", "report", str(other))

    assert missing.code == 4
    assert typed.code == 1
    assert "is not a benchmark that can be read." in typed.err
    assert "vllm bench serve" in typed.err
