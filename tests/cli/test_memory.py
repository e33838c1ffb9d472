"""`tpuflex memory`: what it shows, what it writes, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.cli.typing import TypeIn
from tests.goldens.golden_texts import assert_golden

ROOT = Path(__file__).parents[2]
SVG = "{http://www.w3.org/2000/svg}"
#: The flags of the boot logs in the facts table, and a model that cannot fit.
SHOWN = {
    "e4b-v6e-1": "--model google/gemma-4-E4B-it --accelerator v6e-1 --max-model-len 2048 "
    "--max-num-seqs 16",
    "26b-v6e-4": "--model google/gemma-4-26B-A4B-it --accelerator v6e-4 --max-model-len 2048 "
    "--max-num-seqs 16",
    "31b-v6e-4": "--model google/gemma-4-31B-it --accelerator v6e-4 --max-model-len 32768",
    "31b-v6e-1": "--model google/gemma-4-31B-it --accelerator v6e-1 --max-model-len 16384",
    "e4b-v6e-4-of-which-one-is-used": "--model google/gemma-4-E4B-it --accelerator v6e-4 --tp 1 "
    "--max-model-len 16384",
}


@pytest.fixture(autouse=True)
def _width(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bars are as wide as the terminal, which a test has to choose."""
    monkeypatch.setenv("COLUMNS", "80")


@pytest.mark.parametrize("case", SHOWN)
def test_shows(case: str, type_in: TypeIn) -> None:
    """Bars, figures with their meaning, and the verdict with the nearest that fits: all of it."""
    typed = type_in("memory", *SHOWN[case].split())

    assert typed.err == ""
    assert_golden(f"memory/{case}.txt", f"{typed.out}exit code {typed.code}\n")


def test_of_the_stack(type_in: TypeIn) -> None:
    """Without options it is the stack's own plan."""
    typed = type_in("memory")

    assert_golden("memory/dev.txt", f"{typed.out}exit code {typed.code}\n")


def google_stack(project: Path, name: str) -> None:
    """Put the project's stack file ``name`` into ``project``, with a project id filled in."""
    text = (ROOT / "stacks" / f"Pulumi.{name}.yaml").read_text()
    target = project / "stacks" / f"Pulumi.{name}.yaml"
    target.write_text(text.replace("my-project-id", "acme-serving"))


def test_what_if(project: Path, type_in: TypeIn) -> None:
    """Options take the place of what the stack file says, and the rest of it stays."""
    google_stack(project, "gemma-4-e4b-v6e-1")
    words = ("memory", "--stack", "gemma-4-e4b-v6e-1", "--json")

    as_written = type_in(*words).document
    larger = type_in(*words, "--accelerator", "v6e-4", "--max-num-seqs", "7").document

    assert as_written["accelerator_type"] == "v6e-1"
    assert larger["accelerator_type"] == "v6e-4"
    assert larger["tensor_parallel_size"] == 4
    assert larger["max_num_seqs"] == 7
    assert larger["max_model_len"] == as_written["max_model_len"]
    assert larger["weight_bytes"] < as_written["weight_bytes"] / 3


def test_further_flags_of_the_stack_are_planned(project: Path, type_in: TypeIn) -> None:
    """What `extra_args` do to memory is in the plan, with an option beside them, too."""
    google_stack(project, "gemma-4-e4b-v6e-1")
    file = project / "stacks" / "Pulumi.gemma-4-e4b-v6e-1.yaml"
    text = file.read_text()
    file.write_text(
        text.replace("    flags:", "    extra_args: [--num-gpu-blocks-override, '100']\n    flags:")
    )

    typed = type_in("memory", "-s", "gemma-4-e4b-v6e-1", "--json", "--max-model-len", "64")

    assert typed.document["blocks"] == 100


def test_for_scripts(type_in: TypeIn) -> None:
    """One document, with bytes per chip that add up, and the exit code of the verdict."""
    typed = type_in("memory", "--json", *SHOWN["31b-v6e-1"].split())

    document = typed.document
    parts = document["weight_bytes"] + document["kv_bytes"] + document["workspace_bytes"]
    assert parts == document["hbm_bytes"]
    assert document["fits"] is False
    assert document["problems"][0]["nearest"]
    assert typed.code == 5
    assert_golden("memory/31b-v6e-1.json", json.dumps(document, indent=2, sort_keys=True) + "\n")


class TestPicture:
    @pytest.mark.parametrize("case", SHOWN)
    def test_is_plain_svg(self, case: str, tmp_path: Path, type_in: TypeIn) -> None:
        """Well-formed, with nothing that runs or is fetched, and all of it within its frame."""
        file = tmp_path / "memory.svg"
        type_in("memory", *SHOWN[case].split(), "--svg", str(file))

        root = ElementTree.fromstring(file.read_text())  # noqa: S314 - it is our own
        assert {element.tag.removeprefix(SVG) for element in root.iter()} == {
            "svg",
            "title",
            "desc",
            "style",
            "rect",
            "text",
        }
        width, height = int(root.attrib["width"]), int(root.attrib["height"])
        for rect in root.iter(f"{SVG}rect"):
            x, y, w, h = (float(rect.attrib.get(name, 0)) for name in ("x", "y", "width", "height"))
            assert 0 <= x <= x + w <= width + 0.2
            assert 0 <= y <= y + h <= height
        assert all(float(text.attrib["y"]) < height for text in root.iter(f"{SVG}text"))

    def test_replaces_a_link(self, tmp_path: Path, type_in: TypeIn) -> None:
        """What a link of that name leads to stays as it is."""
        (tmp_path / "other").write_text("mine")
        file = tmp_path / "memory.svg"
        file.symlink_to(tmp_path / "other")
        type_in("memory", *SHOWN["26b-v6e-4"].split(), "--svg", str(file))

        assert (tmp_path / "other").read_text() == "mine"
        assert not file.is_symlink()

    def test_whole(self, tmp_path: Path, type_in: TypeIn) -> None:
        """The whole picture of one plan, looked at in light and dark."""
        file = tmp_path / "memory.svg"
        type_in("memory", *SHOWN["26b-v6e-4"].split(), "--svg", str(file))

        assert_golden("memory/26b-v6e-4.svg", file.read_text())


def test_unknown_names(type_in: TypeIn) -> None:
    """Names that nobody knows: what, and the nearest."""
    model = type_in("memory", "--model", "google/gemma-4-31B", "--accelerator", "v6e-4")
    chips = type_in("memory", "--model", "google/gemma-4-31B-it", "--accelerator", "v6-4")

    assert (model.code, chips.code) == (4, 4)
    assert "google/gemma-4-31B-it" in model.err
    assert "v6e-4" in chips.err
