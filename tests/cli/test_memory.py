"""`tpuflex memory` of a stack, of the catalog and of a checkpoint: what it shows, and its bars."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.checkpoints import gemma4_e2b, smollm2
from tests.cli.typing import TypeIn
from tests.goldens.golden_texts import assert_golden
from tpuflex.catalog.catalog import builtin
from tpuflex.cli.plan.memory import Part, cells_of, memory_bars, parts
from tpuflex.planning.flags import request_from_flags
from tpuflex.planning.memory import MemoryPlan, plan_memory
from tpuflex.planning.request import MemoryRequest

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


CHIP = ("--accelerator", "v6e-1", "--max-model-len", "2048", "--json")


@pytest.fixture
def e2b(tmp_path: Path) -> Path:
    """A checkpoint with the shape of Gemma 4 E2B, and no weights."""
    return gemma4_e2b().write(tmp_path / "own-e2b")


def test_in_the_place_of_the_stacks_model(tmp_path: Path, type_in: TypeIn) -> None:
    """Without an accelerator the stack says the rest: here the CPU of the embedded cloud."""
    directory = smollm2().write(tmp_path / "own")

    read = type_in("memory", "--config", str(directory / "config.json"), "--json")

    assert read.document["accelerator_type"] is None
    assert read.document["blocks"] == type_in("memory", "--json").document["blocks"]


def quantized(directory: Path) -> Path:
    """``directory`` with a configuration that says that its weights are quantised."""
    file = directory / "config.json"
    config = json.loads(file.read_text())
    file.write_text(json.dumps({**config, "quantization_config": {"quant_method": "fp8"}}))
    return directory


def test_quantised_weights(tmp_path: Path, type_in: TypeIn) -> None:
    """Their bytes are in the headers; with config.json alone they are not known, and said so."""
    directory = quantized(smollm2().write(tmp_path / "fp8"))

    headers = type_in("memory", "--model-dir", str(directory), *CHIP)
    alone = type_in("memory", "--config", str(directory / "config.json"), *CHIP)

    assert headers.document["weight_bytes"] == 269_030_016
    assert alone.code == 4
    assert "use --model-dir" in alone.document["error"]["message"]


def test_row(e2b: Path, project: Path, type_in: TypeIn) -> None:
    """--row prints what catalog.yaml takes, and with it there the model is known by its name."""
    printed = type_in("memory", "--model-dir", str(e2b), "--row")
    (project / "catalog.yaml").write_text(printed.out)

    known = type_in("memory", "--model", "own-e2b", *CHIP)

    (row,) = yaml.safe_load(printed.out)["models"]
    assert row["source"] == {"where": str(e2b), "date": "2026-11-21"}
    assert known.document["weight_bytes"] > 9 * 10**9


def test_wrong_usage(e2b: Path, tmp_path: Path, type_in: TypeIn) -> None:
    """Two models, a row of nothing, places where there is nothing: what, and what to do."""
    both = type_in("memory", "--model", "x", "--model-dir", str(e2b))
    nothing = type_in("memory", "--row")
    nowhere = type_in("memory", "--model-dir", str(tmp_path / "nowhere"), *CHIP)
    elsewhere = type_in("memory", "--model-dir", "https://huggingface.co/x", *CHIP)

    assert (both.code, nothing.code, nowhere.code, elsewhere.code) == (2, 2, 4, 7)
    assert "one of --model, --model-dir and --config" in both.err
    assert "add --model-dir or --config" in nothing.err
    assert "gs://BUCKET/PREFIX" in elsewhere.document["error"]["hint"]


def plan_of(accelerator: str, **flags: object) -> MemoryPlan:
    """The plan of Gemma 4 E4B on ``accelerator``."""
    model, row = builtin().model("google/gemma-4-E4B-it"), builtin().accelerator(accelerator)
    assert model is not None
    assert row is not None
    request = request_from_flags(model, row, flags)
    assert isinstance(request, MemoryRequest)
    plan = plan_memory(request)
    assert isinstance(plan, MemoryPlan)
    return plan


@given(
    st.lists(st.integers(1, 10**12), min_size=1, max_size=4),
    st.integers(10, 200),
)
def test_cells_fill_the_bar(sizes: list[int], cells: int) -> None:
    """Every part is seen, the bar has its width, and a larger part is never shorter but by one."""
    shares = [Part(str(size), size, "x", "x", "red") for size in sizes]

    counts = cells_of(shares, cells)

    assert sum(counts) == cells
    assert min(counts) >= 1
    by_size = [count for _, count in sorted(zip(sizes, counts, strict=True))]
    assert all(later >= earlier - 1 for earlier, later in pairwise(by_size))


def test_in_ascii() -> None:
    """A terminal that is not UTF-8 gets the same bars in ASCII, in its own width."""
    bars = memory_bars(plan_of("v6e-1"), width=60, plain=True)

    lines = [bar.plain for bar in bars]
    assert all(line.isascii() for line in lines)
    assert lines[0] == "  chip 0  #################===================...  31.24 GiB"
    assert max(map(len, lines[:1])) <= 60


def test_weights_that_are_too_large_are_cut_at_the_end_of_the_chip() -> None:
    """What has no room is a part of its own, and the parts are the weights."""
    plan = plan_of("v6e-1")
    excess = 2**30
    larger = replace(
        plan, weight_bytes=plan.hbm_bytes + excess, kv_bytes=0, workspace_bytes=-excess
    )

    assert [(part.name, part.size) for part in parts(larger)] == [
        ("weights", plan.hbm_bytes),
        ("weights for which there is no room", excess),
    ]
