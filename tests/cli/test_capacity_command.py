"""`tpuflex capacity` shows what an archive of metrics says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.typing import TypeIn
from tests.goldens.golden_texts import assert_golden
from tests.measure.snapshots import ORIGIN, Server, unanswered
from tpuflex.measure.archive import writing

pytest.importorskip("pyarrow")


@pytest.fixture
def archive(project: Path) -> Path:
    """Two days of a stack on twice the chips that it needs, with a gap."""
    larger = replace(ORIGIN, accelerator="v6e-8", interval=3600)
    busy = Server(running=9.0, waiting=1.0, kv_use=0.3, origin=larger, every=60)
    with writing(project / "metrics", "prod") as writer:
        for each in busy.minutes(1441):
            writer.add(each)
        writer.add(unanswered(1500, "the endpoint did not answer in time.", larger))
        for each in replace(busy, waiting=0.0, running=0.0).minutes(1441, first=1560):
            writer.add(each)
    return project / "metrics"


@pytest.mark.usefixtures("archive")
def test_as_text(type_in: TypeIn) -> None:
    """The whole output, as people see it on 80 columns."""
    typed = type_in("--stack", "prod", "capacity", COLUMNS="80")

    assert (typed.code, typed.err) == (0, "")
    assert_golden("capacity/prod.txt", typed.out)
    assert max(map(len, typed.out.splitlines())) <= 80


def test_as_json(type_in: TypeIn, archive: Path) -> None:
    """Also what the text leaves out; a figure has its sources."""
    found = type_in("capacity", str(archive), "--json").document

    assert (found["stack"], found["total"]["snapshots"]) == ("prod", 50)
    assert found["usd_per_hour"]["value"] == 10.8
    assert found["sources"][str(found["usd_per_hour"]["sources"][0])]["date"] == "2026-08-07"
    assert [gap["why"] for gap in found["gaps"]] == ["the endpoint did not answer in time."]
    assert {row["accelerator_type"]: row["holds_the_peak"] for row in found["options"]}["v6e-4"]


def test_an_archive_that_is_not_there(type_in: TypeIn) -> None:
    """Says how one is made; a stack that was named is that one or none."""
    typed = type_in("capacity")

    assert typed.code == 4
    assert "metrics record" in typed.err


@pytest.mark.usefixtures("archive")
def test_a_stack_that_there_is_nowhere(type_in: TypeIn) -> None:
    """It cannot be recorded, so that is no remedy: the stacks of the archive are named."""
    typed = type_in("--stack", "nope", "capacity")

    assert typed.code == 4
    said = " ".join(typed.err.split())
    assert "no snapshot of stack nope" in said
    assert "It has some of prod: name one by --stack." in said
    assert "metrics record" not in said


def test_a_plot_beside_it(type_in: TypeIn, archive: Path, tmp_path: Path) -> None:
    """One file, whose name says the form."""
    pytest.importorskip("matplotlib")
    file = tmp_path / "load.svg"
    assert type_in("capacity", str(archive), "--plot", str(file)).code == 0
    assert file.read_bytes().startswith(b"<?xml")
    assert type_in("capacity", str(archive), "--plot", "load.pdf").code == 2
    nowhere = type_in("capacity", str(archive), "--plot", str(tmp_path / "no" / "load.svg"))
    assert nowhere.code == 2
    assert f"there is no directory {tmp_path / 'no'}" in " ".join(nowhere.err.split())


def test_options_before_the_name_of_record_are_refused(type_in: TypeIn) -> None:
    """They are those of `metrics`, and would be ignored."""
    typed = type_in("metrics", "--no-tunnel", "record")

    assert typed.code == 2
    assert "after its name" in typed.err
