"""A checkpoint is read from a directory or its config.json: headers only, and nothing elsewhere."""

from __future__ import annotations

import datetime as dt
import json
import os
from pathlib import Path

import pytest

from tests.checkpoints import PublishedCheckpoint, gemma4_e2b, smollm2, write_safetensors
from tpuflex.errors import NotFoundError, UnknownModelError, WeightsError
from tpuflex.planning.checkpoint import Checkpoint
from tpuflex.weights.source import read_checkpoint

TODAY = dt.date(2026, 11, 22)
INDEX = "model.safetensors.index.json"


def read(source: Path) -> Checkpoint:
    """What is read of ``source``."""
    return read_checkpoint(source, environ={}, today=TODAY)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """SmolLM2 in three files."""
    return smollm2().write(tmp_path / "SmolLM2-135M-Instruct", shards=3)


def test_a_directory_gives_the_row_and_the_exact_bytes(directory: Path) -> None:
    """All shards of the index count, and the row says where and when it was read."""
    found = read(directory)

    assert found.weight_bytes == 269_030_016
    assert found.model.name == "SmolLM2-135M-Instruct"
    assert found.model.source.where == str(directory)
    assert found.model.source.date == TODAY


def test_only_headers_are_read(tmp_path: Path) -> None:
    """Of 10 GB of weights, of which the disk holds the header, the header is enough."""
    directory = gemma4_e2b().write(tmp_path / "e2b")
    assert sum(file.stat().st_size for file in directory.iterdir()) > 9 * 10**9
    assert sum(file.stat().st_blocks for file in directory.iterdir()) * 512 < 10**6

    assert read(directory).model.vision_params == 168_544_256


def test_a_config_alone_gives_the_row_without_bytes(directory: Path) -> None:
    """`--config` names a file, whatever it is called; weights beside it are not looked at."""
    other = directory / "another-name.json"
    (directory / "config.json").rename(other)

    found = read(other)

    assert found.weight_bytes is None
    assert found.model.text_params == 134_515_008
    assert found.dtype == "bfloat16"


def test_progress_counts_the_headers(directory: Path) -> None:
    """Each header that is read is reported."""
    seen: list[tuple[int, int]] = []
    read_checkpoint(
        directory, environ={}, today=TODAY, progress=lambda done, total: seen.append((done, total))
    )
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_files_that_the_index_does_not_name_are_not_loaded(directory: Path) -> None:
    """Some checkpoints lie there twice; the server reads what the index names."""
    write_safetensors(directory / "consolidated.safetensors", smollm2().tensors)
    assert read(directory).weight_bytes == 269_030_016


def test_a_snapshot_of_the_hub_cache_is_read(directory: Path, tmp_path: Path) -> None:
    """Links into the blobs beside the snapshots are the checkpoint's own; its name is the Hub's."""
    model = tmp_path / "models--HuggingFaceTB--SmolLM2-135M-Instruct"
    snapshot = model / "snapshots" / ("a" * 40)
    snapshot.mkdir(parents=True)
    (model / "blobs").mkdir()
    for number, file in enumerate(sorted(directory.iterdir())):
        file.rename(model / "blobs" / str(number))
        (snapshot / file.name).symlink_to(f"../../blobs/{number}")

    found = read(snapshot)

    assert found.model.name == "HuggingFaceTB/SmolLM2-135M-Instruct"
    assert found.weight_bytes == 269_030_016
    assert read(snapshot / "config.json").model.name == found.model.name


@pytest.mark.parametrize("name", ["config.json", INDEX, "model-00002-of-00003.safetensors"])
def test_links_to_elsewhere_are_not_followed(directory: Path, tmp_path: Path, name: str) -> None:
    """A checkpoint whose file is a link out of its directory is refused, whatever lies there."""
    elsewhere = tmp_path / "elsewhere"
    (directory / name).rename(elsewhere)
    (directory / name).symlink_to(elsewhere)

    with pytest.raises(WeightsError, match="is a link to a file elsewhere"):
        read(directory)


def test_a_config_that_is_a_link_to_elsewhere_is_not_followed(tmp_path: Path) -> None:
    """So is a config.json that is named by itself."""
    (tmp_path / "model").mkdir()
    (tmp_path / "config.json").write_text(json.dumps(smollm2().config))
    (tmp_path / "model" / "config.json").symlink_to(tmp_path / "config.json")

    with pytest.raises(WeightsError, match="is a link to a file elsewhere"):
        read(tmp_path / "model" / "config.json")


def test_a_pipe_is_not_waited_for(directory: Path) -> None:
    """What is no regular file is refused at once."""
    (directory / "model-00001-of-00003.safetensors").unlink()
    os.mkfifo(directory / "model-00001-of-00003.safetensors")

    with pytest.raises(WeightsError, match="is not a regular file"):
        read(directory)


def test_no_link_out_by_the_index(directory: Path) -> None:
    """An index cannot name a file outside of the directory."""
    write_safetensors(directory.parent / "secret.safetensors", smollm2().tensors)
    document = {"weight_map": {"model.norm.weight": "../secret.safetensors"}}
    (directory / INDEX).write_text(json.dumps(document))

    with pytest.raises(WeightsError, match=r"\.\./secret\.safetensors: named by the index"):
        read(directory)


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("config.json", "{", "config.json is not JSON that can be read"),
        ("config.json", "[]", "config.json holds no JSON object"),
        ("config.json", '{"a": ' * 100_000, "config.json is nested too deeply"),
        ("config.json", '{"a": 1e400}', "config.json is not JSON that can be read"),
        ("config.json", " " * (8 * 2**20 + 1), "was not read: it has 8388609 bytes"),
        (INDEX, "{}", f"{INDEX} is damaged: it has no weight_map"),
        ("model-00001-of-00003.safetensors", "", "model-00001-of-00003.safetensors: empty"),
        ("model-00001-of-00003.safetensors", "x" * 100, "its header would have"),
    ],
)
def test_damaged_files_are_refused(directory: Path, name: str, content: str, problem: str) -> None:
    """A file that is not what it should be is named, with what is wrong."""
    (directory / name).write_text(content)

    with pytest.raises(WeightsError) as refused:
        read(directory)
    assert problem in refused.value.message
    assert name in refused.value.message


def test_a_shard_that_was_cut_off_is_refused(directory: Path) -> None:
    """A download that stopped is found out without reading the weights."""
    shard = directory / "model-00003-of-00003.safetensors"
    os.truncate(shard, shard.stat().st_size - 1)

    with pytest.raises(WeightsError, match=r"model-00003-of-00003\.safetensors is damaged"):
        read(directory)


def test_a_tensor_in_two_files_is_refused(tmp_path: Path) -> None:
    """Which of the two a server would load cannot be told."""
    directory = smollm2().write(tmp_path / "model")
    write_safetensors(directory / "more.safetensors", {"model.norm.weight": ("BF16", (576,))})

    with pytest.raises(WeightsError, match=r"both hold the tensor 'model\.norm\.weight'"):
        read(directory)


def test_all_headers_together_have_a_bound(tmp_path: Path) -> None:
    """Many files with long headers are refused before any header is read."""
    directory = PublishedCheckpoint("x", smollm2().config, {}).write(tmp_path / "model")
    for number in range(3):
        with (directory / f"{number}.safetensors").open("wb") as file:
            file.write((30 * 2**20).to_bytes(8, "little"))
            file.truncate(31 * 2**20)

    with pytest.raises(WeightsError, match=r"its headers have .* bytes together"):
        read(directory)


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    """A path that leads nowhere, and a directory without a config.json, are told apart."""
    with pytest.raises(NotFoundError, match="is neither a directory nor a file"):
        read(tmp_path / "nowhere")
    with pytest.raises(WeightsError, match=r"is not a checkpoint: it holds no config\.json"):
        read(tmp_path)


def test_an_unknown_architecture_names_the_known(tmp_path: Path) -> None:
    """The refusal says which file, which architecture, and which are known."""
    (tmp_path / "config.json").write_text('{"architectures": ["T5ForConditionalGeneration"]}')

    with pytest.raises(UnknownModelError) as unknown:
        _ = read(tmp_path).model
    assert unknown.value.message == (
        f"{tmp_path}/config.json: how much memory T5ForConditionalGeneration takes on a TPU is not"
        " known"
    )
    assert "LlamaForCausalLM" in str(unknown.value.hint)
