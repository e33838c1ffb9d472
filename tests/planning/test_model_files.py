"""Which files are the model that a server loads, by their names and sizes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from tpuflex.catalog.weight_formats import REFUSED_FORMATS, allowed_patterns, fits
from tpuflex.planning.model_files import ServerNeeds, left_out_text, model_files

BASE = ("config.json", "tokenizer.json")
INDEX = "model.safetensors.index.json"


def shards(*numbers: int, total: int, stem: str = "model") -> list[str]:
    """Names of numbered files."""
    return [f"{stem}-{number:05d}-of-{total:05d}.safetensors" for number in numbers]


def looked_at(names: Iterable[str], indexed: set[str] | None = None, **needs: Any) -> Any:
    """What of ``names``, each of 1000 bytes, is the model."""
    sizes = dict.fromkeys((*BASE, *names), 1000)
    return model_files(sizes, ServerNeeds(**needs), indexed=indexed)


@pytest.mark.parametrize(
    ("names", "indexed", "needs", "weights"),
    [
        (["model.safetensors", "model.fp32.safetensors"], None, {}, ["model.safetensors"]),
        (["a.safetensors", "b.safetensors"], None, {}, ["a.safetensors", "b.safetensors"]),
        (["consolidated.safetensors"], None, {}, ["consolidated.safetensors"]),
        (
            ["consolidated.safetensors", *shards(1, 2, total=2)],
            None,
            {},
            shards(1, 2, total=2),
        ),
        (
            ["consolidated.safetensors", *shards(1, 2, total=2), INDEX],
            None,
            {"load_format": "mistral"},
            ["consolidated.safetensors"],
        ),
        # What the index names decides, as far as it was read.
        (["model.safetensors", *shards(1, 2, total=2), INDEX], None, {}, shards(1, 2, total=2)),
        (["a.safetensors", "b.safetensors", INDEX], {"a.safetensors"}, {}, ["a.safetensors"]),
        (
            ["model-rank-0-part-0.safetensors", "model-rank-1-part-0.safetensors", INDEX],
            {"x.safetensors"},
            {"load_format": "sharded_state"},
            ["model-rank-0-part-0.safetensors", "model-rank-1-part-0.safetensors"],
        ),
    ],
)
def test_the_weights(
    names: list[str], indexed: set[str] | None, needs: dict[str, Any], weights: list[str]
) -> None:
    """The server loads one set of the weights that a place holds more than once."""
    found = looked_at(names, indexed, **needs)
    assert list(found.weights) == weights
    assert {*weights} <= {*found.taken}
    assert not {name for name in found.left_out if name in weights}
    assert found.problems == ()


@pytest.mark.parametrize(
    ("names", "missing"),
    [
        (shards(1, 3, total=4), shards(2, 4, total=4)),
        # Some count from 0, to the total or to one less.
        (shards(0, 1, 2, total=2), []),
        (shards(0, 1, total=2), []),
        (shards(0, 2, total=3), shards(1, total=3)),
        (shards(1, total=99999), []),
    ],
)
def test_numbered_files_tell_what_is_missing(names: list[str], missing: list[str]) -> None:
    """Without a look into the index, as of the manifest of a set, the numbers tell."""
    assert [each.path for each in looked_at(names).problems] == missing


@pytest.mark.parametrize(
    "names",
    [
        ["tokenizer.model"],
        ["tokenizer.model.v3"],
        ["vocab.json", "merges.txt"],
        ["qwen.tiktoken"],
        ["tekken.json"],
        ["sentencepiece.bpe.model"],
    ],
)
def test_every_tokenizer_will_do(names: list[str]) -> None:
    """What transformers or vLLM makes a tokenizer of; half of one is none, unless the model's own
    code reads it."""
    files = dict.fromkeys(("config.json", "model.safetensors", *names), 1000)
    assert model_files(files, ServerNeeds()).problems == ()
    del files[names[0]]
    files["tokenizer_config.json"] = 1000
    (problem,) = model_files(files, ServerNeeds()).problems
    assert problem.path == "tokenizer.json"
    assert model_files(files, ServerNeeds(own_code=True)).problems == ()


@pytest.mark.parametrize("name", ["pytorch_model.bin", "modeling_x.py", "other.pt"])
def test_an_index_makes_no_data_of_a_pickle_or_code(name: str) -> None:
    """What it names beside safetensors files is not taken, and the model is refused for it."""
    found = looked_at(["model.safetensors", name], {"model.safetensors", name})

    assert name in found.left_out
    assert [str(each) for each in found.problems] == [
        f"{name}: named by the index, and no *.safetensors file beside it"
    ]


def test_a_name_begins_no_line_of_its_own() -> None:
    """The name of a file may hold line breaks, and would pass for a command to the CI."""
    found = model_files({"config.json": 0, "a\n::error::x.json": 0}, ServerNeeds())

    assert all("\n" not in str(each) for each in found.problems)


def test_folders_of_a_model() -> None:
    """The modules of sentence-transformers and further templates are parts of a model, and what a
    flag or `extra_files` names; a manifest of the model's own and hidden files are not."""
    parts = ["1_Pooling/config.json", "additional_chat_templates/rag.jinja", "t/tool.jinja"]
    others = ["MANIFEST.json", "original/params.json"]
    found = looked_at(
        ["model.safetensors", "draft/config.json", ".cache/x.json", *parts, *others],
        chat_template="t/tool.jinja",
        extra_files=("draft/*",),
    )
    assert {*found.taken} == {*BASE, "model.safetensors", "draft/config.json", *parts}
    assert [*found.left_out] == others


def test_what_is_left_out_is_named() -> None:
    """The first ones by name, with nothing that acts on a terminal."""
    paths = [f"{letter}.bin" for letter in "abcdef"] + ["\x1b[2J.bin"]
    text = left_out_text(paths)
    assert text.endswith("a.bin, b.bin, c.bin, d.bin, e.bin and 2 more")
    assert "\\x1b" in left_out_text(paths[::-1])


#: Names that tell a document or a tokenizer, with an ending that tells something else.
DISGUISED = (
    *("LICENSE.py", "LICENSE-2.py", "NOTICE.pkl", "USE_POLICY.pt", "LICENCE.so"),
    *("tokenizer.model.bin", "tokenizer.model.v3.pt", "tokenizer.model.v1.py", "README.md.ckpt"),
)


@pytest.mark.parametrize("name", DISGUISED)
def test_a_name_goes_no_further_than_its_ending(name: str) -> None:
    """Code and pickles that are called like data are neither taken nor served."""
    assert not fits(name, allowed_patterns())
    assert name in looked_at(["model.safetensors", name]).left_out


def test_no_data_format_lets_a_refused_one_through() -> None:
    """Whatever stands before the ending of a refused format."""
    endings = [format_.pattern.removeprefix("*") for format_ in REFUSED_FORMATS]
    stems = [pattern.replace("*", "x").replace("[0-9]", "1") for pattern in allowed_patterns()]
    names = [stem + ending for stem in stems for ending in endings]
    assert [name for name in names if fits(name, allowed_patterns())] == []
