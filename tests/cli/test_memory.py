"""`tpuflex memory`: what it shows, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.typing import TypeIn
from tests.goldens.golden_texts import assert_golden

ROOT = Path(__file__).parents[2]
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


def test_unknown_names(type_in: TypeIn) -> None:
    """Names that nobody knows: what, and the nearest."""
    model = type_in("memory", "--model", "google/gemma-4-31B", "--accelerator", "v6e-4")
    chips = type_in("memory", "--model", "google/gemma-4-31B-it", "--accelerator", "v6-4")

    assert (model.code, chips.code) == (4, 4)
    assert "google/gemma-4-31B-it" in model.err
    assert "v6e-4" in chips.err
