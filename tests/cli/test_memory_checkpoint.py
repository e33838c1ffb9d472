"""`tpuflex memory` of a model that is in no catalog: from its config.json and its headers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.checkpoints import gemma4_e2b, smollm2
from tests.cli.typing import TypeIn

CHIP = ("--accelerator", "v6e-1", "--max-model-len", "2048", "--json")


@pytest.fixture
def e2b(tmp_path: Path) -> Path:
    """A checkpoint with the shape of Gemma 4 E2B, and no weights."""
    return gemma4_e2b().write(tmp_path / "own-e2b")


def test_plans_as_the_catalog_does(e2b: Path, type_in: TypeIn) -> None:
    """The headers of a known model give the plan of its row, byte by byte."""
    read = type_in("memory", "--model-dir", str(e2b), *CHIP)
    listed = type_in("memory", "--model", "google/gemma-4-E2B-it", *CHIP)

    assert (read.code, listed.code) == (0, 0)
    figures = ("weight_bytes", "kv_bytes", "blocks", "cached_tokens", "programs")
    assert [read.document[name] for name in figures] == [listed.document[name] for name in figures]
    assert read.document["model"] == "own-e2b"


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
