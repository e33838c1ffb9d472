"""Which files of a place are the model that a server loads, and what keeps it from loading. Pure.

One rule for all ways in: a directory, the Hub, a bucket, and what a manifest names. The index, or
``model.safetensors``, decides which weights are taken; pickles, code, other copies of the weights
and what lies in folders is left out (vLLM 0.32, ``default_loader._prepare_weights``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from pydantic import JsonValue

from pulumi_plugin.printable import is_printable, printable
from tpuflex.catalog.weight_formats import (
    MANIFEST_NAME,
    REFUSED_FORMATS,
    allowed_patterns,
    fits,
)
from tpuflex.errors import WeightsError
from tpuflex.planning.strict_json import json_object

if TYPE_CHECKING:
    from tpuflex.settings.model import StackSettings

CONFIG = "config.json"
#: Which tensor is in which file; what it does not name, the server does not load
#: (vLLM, model_loader/weight_utils.py, filter_duplicate_safetensors_files).
INDEX = "model.safetensors.index.json"
SAFETENSORS = ".safetensors"
MAX_INDEX_BYTES = 32 * 2**20
#: ``model_type`` of a checkpoint without weights, with which a rehearsal is made.
STAND_IN = "tpuflex_stand_in"
CHAT_TEMPLATE_KEY = "tpuflex:serving.flags.chat_template"

_SINGLE = "model.safetensors"
#: What PEFT writes.
_ADAPTER, _ADAPTER_WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
#: Mistral's own format of the same weights.
_CONSOLIDATED = "consolidated"
_CONSOLIDATED_INDEX = "consolidated.safetensors.index.json"
#: Formats whose files no index names.
_SHARDED = ("sharded_state", "runai_streamer_sharded")
_SHARD = re.compile(r"(?P<stem>.+)-(?P<number>[0-9]{5,6})-of-(?P<total>[0-9]{5,6})\.safetensors")
#: Folders that are part of a model: the modules of sentence-transformers, further chat templates.
_FOLDERS = ("[0-9]_*/*", "[0-9][0-9]_*/*", "additional_chat_templates/*")
#: What transformers, or vLLM itself, makes a tokenizer of: any of these, or both of the others.
_VOCABULARY = (
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer.model.v*",
    "tekken.json",
    "*.tiktoken",
    "vocab.txt",
    "spiece.model",
    "sentencepiece*.model",
)
_SLOW_VOCABULARY = {"vocab.json", "merges.txt"}
_PROCESSORS = {
    "processor_config.json",
    "preprocessor_config.json",
    "video_preprocessor_config.json",
    "tekken.json",
}
_MEDIA_PARTS = ("vision_config", "audio_config")
#: A pointer of Git LFS has 126 bytes and more, always below 200
#: (https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md).
_POINTER_BYTES = range(126, 200)
#: More than any model has: a name that says more is no reason to count.
_MOST_SHARDS = 2000
#: So many problems, and files that are left out, are named.
_NAMED = 10
_LEFT_OUT_NAMED = 5
_LONGEST = 200
#: vLLM loads what both the index names and `*.safetensors` matches
#: (weight_utils.py, filter_duplicate_safetensors_files).
_NOT_LOADED = f"named by the index, and no *{SAFETENSORS} file beside it"


@dataclass(frozen=True, slots=True)
class ServerNeeds:
    """What of a model a stack's server reads.

    Attributes:
        extra_files: shell patterns of files that the stack file allows beside data formats.
        load_format: vLLM's ``--load-format``.
        chat_template: path of the template that a flag names; empty for none.
        own_code: whether code that comes with the model is run, which may bring a tokenizer.
        media: whether images, audio or video are taken.
        stand_in: whether a checkpoint without weights will do: nothing is served from it.
    """

    extra_files: tuple[str, ...] = ()
    load_format: str = "auto"
    chat_template: str = ""
    own_code: bool = False
    media: bool = True
    stand_in: bool = False

    @classmethod
    def of(cls, settings: StackSettings, *, stand_in: bool = False) -> ServerNeeds:
        """What the server of a stack reads."""
        flags = settings.serving.flags
        limits = flags.limit_mm_per_prompt
        return cls(
            extra_files=settings.model.weights.extra_files,
            load_format=flags.load_format or "auto",
            chat_template=flags.chat_template or "",
            own_code=bool(flags.trust_remote_code),
            media=not (
                flags.language_model_only
                or (limits and not any(limits.values()))
                or "architectures" in (flags.hf_overrides or {})
            ),
            stand_in=stand_in,
        )

    def by_transformers(self, weights: Collection[str]) -> bool:
        """Whether the tensors in ``weights`` have the names that transformers has of them."""
        own = (*_SHARDED, "mistral", "dummy")
        return self.load_format not in own and not _is_mistral([*weights], self)


@dataclass(frozen=True, slots=True)
class WeightsProblem:
    """What is wrong with one file of a set of weights.

    Attributes:
        path: file below the prefix, or the name of one that is missing.
        problem: such as ``missing``, ``empty``, ``size`` or ``checksum``.
    """

    path: str
    problem: str

    def __str__(self) -> str:
        return printable(f"{self.path[:_LONGEST]}: {self.problem}")


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """The files of a place, sorted by what becomes of them.

    Attributes:
        taken: what is pushed and served.
        weights: those of it that hold the tensors.
        left_out: what is not taken.
        problems: what keeps a server from loading what is taken.
    """

    taken: tuple[str, ...]
    weights: tuple[str, ...]
    left_out: tuple[str, ...]
    problems: tuple[WeightsProblem, ...]

    def require(self, place: str, hint: str) -> None:
        """Check that a server can load it, as far as that is known.

        Raises:
            WeightsError: it cannot.
        """
        if self.problems:
            raise not_servable(place, self.problems, hint)


def not_servable(place: str, problems: Collection[WeightsProblem], hint: str) -> WeightsError:
    """The error for the model at ``place``, which has ``problems``."""
    named = [f"  {each}" for each in problems][:_NAMED]
    if len(problems) > _NAMED:
        named.append(f"  and {len(problems) - _NAMED} more")
    return WeightsError(f"{place} cannot be served:\n" + "\n".join(named), hint=hint)


def stand_in_files(model: str, needs: ServerNeeds) -> dict[str, bytes]:
    """The files of a checkpoint of ``model`` without its weights, as a server that ``needs`` so
    much would find them complete."""
    tensor = {"dtype": "BF16", "shape": [256], "data_offsets": [0, 512]}
    header = json.dumps({"stand_in": tensor}).encode()
    weights = "consolidated.safetensors" if needs.load_format == "mistral" else _SINGLE
    files = {
        CONFIG: json.dumps({"model_type": STAND_IN, "stands_in_for": model}).encode(),
        "tokenizer.json": b'{"version": "1.0"}',
        weights: len(header).to_bytes(8, "little") + header + bytes(512),
    }
    if needs.chat_template:
        files[needs.chat_template] = b"{# a rehearsal has no template #}"
    return files


def index_of(names: Collection[str], needs: ServerNeeds) -> str:
    """The file among ``names`` that says which files hold the tensors; empty if there is none."""
    if needs.load_format in _SHARDED:
        return ""
    index = _CONSOLIDATED_INDEX if _is_mistral(_top_weights(names), needs) else INDEX
    return index if index in names else ""


def indexed_files(text: bytes, where: str) -> set[str]:
    """The files that the index ``text`` names.

    Raises:
        WeightsError: it is no index.
    """
    weight_map = json_object(text, where).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise WeightsError(f"{where} is damaged: it has no weight_map")
    return {str(name) for name in weight_map.values()}


def model_files(
    sizes: Mapping[str, int],
    needs: ServerNeeds,
    *,
    indexed: Collection[str] | None = None,
    config: Mapping[str, JsonValue] | None = None,
) -> ModelFiles:
    """What of the files of a place is the model, and what is wrong with it.

    Args:
        sizes: bytes of each file, by its path with forward slashes.
        needs: what the server reads.
        indexed: files that the index names; None if there is none, or it was not read.
        config: the content of config.json, if it was read.
    """
    weights = _weights(sizes, needs, indexed)
    loadable = _top_weights(weights)
    adapter = _ADAPTER in sizes and {*weights} <= {_ADAPTER_WEIGHTS}
    shown = sorted(path for path in sizes if not _is_hidden(path))
    taken = {path: sizes[path] for path in shown if _is_taken(path, loadable, needs)}
    left_out = tuple(path for path in shown if path not in taken)
    wanted = {*loadable, *(_numbered(weights) if indexed is None else ())}
    if adapter:
        merge = "an adapter, and no model: merge it into its base model, and take that"
        problems = [WeightsProblem(_ADAPTER, merge)]
    elif CONFIG in taken and (weights or needs.load_format == "dummy"):
        problems = [
            *(WeightsProblem(name, "missing") for name in sorted(wanted - taken.keys())),
            *(WeightsProblem(name, _NOT_LOADED) for name in weights if name not in loadable),
            *_stubs(taken, weights),
            *_lacking(taken, needs, config or {}),
        ]
    else:
        problems = list(_no_model(taken, left_out, weights))
    return ModelFiles(tuple(taken), tuple(weights), left_out, tuple(problems))


def left_out_text(paths: Collection[str]) -> str:
    """Which files of a place are not taken, in words; empty for none."""
    if not paths:
        return ""
    named, others = list(paths)[:_LEFT_OUT_NAMED], len(paths) - _LEFT_OUT_NAMED
    more = f" and {others} more" if others > 0 else ""
    return f"left out, as no part of what is served: {', '.join(map(printable, named))}{more}"


def require_paths(names: Collection[str], where: str) -> None:
    """Check what a server lists before a path on this machine is made of it.

    Raises:
        WeightsError: one is no path.
    """
    for name in names:
        if any(part in ("", ".", "..") for part in name.split("/")) or not is_printable(name):
            raise WeightsError(f"{where} lists {printable(name)}, which is no path in it")


def _top_weights(names: Collection[str]) -> list[str]:
    return sorted(
        name
        for name in names
        if name.endswith(SAFETENSORS) and "/" not in name and not name.startswith(".")
    )


def _is_mistral(weights: list[str], needs: ServerNeeds) -> bool:
    """Whether the server loads Mistral's own format: it is told to, or there is no other."""
    own = [name.startswith(_CONSOLIDATED) for name in weights]
    return needs.load_format == "mistral" or (bool(own) and all(own))


def _weights(
    names: Collection[str], needs: ServerNeeds, indexed: Collection[str] | None
) -> list[str]:
    """The files that hold the tensors: one that the index names may not be among ``names``."""
    found = _top_weights(names)
    if needs.load_format in _SHARDED:
        return found
    if indexed is not None:
        return sorted(set(indexed))
    mistral = _is_mistral(found, needs)
    family = [name for name in found if name.startswith(_CONSOLIDATED) is mistral]
    numbered = [name for name in family if _SHARD.fullmatch(name)]
    if index_of(names, needs) and numbered:
        return numbered
    return [_SINGLE] if _SINGLE in family else family


def _is_hidden(path: str) -> bool:
    """Whether ``path`` is of a cache or of version control."""
    return any(part.startswith(".") for part in path.split("/"))


def _is_taken(path: str, weights: Collection[str], needs: ServerNeeds) -> bool:
    if path.rpartition("/")[2] == MANIFEST_NAME:  # the model's own is not that of the set
        return False
    if fits(path, needs.extra_files) or path in (*weights, needs.chat_template):
        return True
    in_place = "/" not in path or any(fnmatchcase(path, each) for each in _FOLDERS)
    other_weights = path.endswith(SAFETENSORS) and "/" not in path
    return in_place and not other_weights and fits(path, allowed_patterns())


def _no_model(
    taken: Collection[str], left_out: Collection[str], weights: Collection[str]
) -> Iterator[WeightsProblem]:
    """What a place lacks that holds no model, and where else one may be."""
    if CONFIG not in taken:
        yield WeightsProblem(CONFIG, "missing")
    if not weights:
        yield WeightsProblem(f"*{SAFETENSORS}", "missing, and vLLM on TPU loads no other weights")
    for path in left_out:
        refused = next((each for each in REFUSED_FORMATS if fits(path, (each.pattern,))), None)
        if path.endswith(f"/{CONFIG}") and CONFIG not in taken:
            yield WeightsProblem(path, f"in a folder, where a server does not look for {CONFIG}")
        elif refused is not None and not weights:
            yield WeightsProblem(path, refused.holds)


def _stubs(taken: Mapping[str, int], weights: Collection[str]) -> Iterator[WeightsProblem]:
    """Files that are there by name only."""
    for name, size in taken.items():
        matters = name in weights or _is_vocabulary(name)
        if size == 0 and (matters or name.endswith(".json")):
            yield WeightsProblem(name, "empty")
        elif size in _POINTER_BYTES and matters:
            yield WeightsProblem(name, f"a Git LFS pointer of {size} bytes, not the file")


def _lacking(
    taken: Collection[str], needs: ServerNeeds, config: Mapping[str, JsonValue]
) -> Iterator[WeightsProblem]:
    """What a server needs beside configuration and weights."""
    present = [any(fnmatchcase(name, each) for name in taken) for each in _VOCABULARY]
    if not needs.own_code and not any(present) and not {*taken} >= _SLOW_VOCABULARY:
        yield WeightsProblem("tokenizer.json", "missing, and so is every other tokenizer")
    if needs.chat_template and needs.chat_template not in taken:
        yield WeightsProblem(needs.chat_template, f"missing, and {CHAT_TEMPLATE_KEY} names it")
    parts = [part for part in _MEDIA_PARTS if isinstance(config.get(part), dict)]
    if parts and needs.media and not needs.own_code and not _PROCESSORS & {*taken}:
        problem = f"missing, and so is preprocessor_config.json; {CONFIG} has a {parts[0]}"
        yield WeightsProblem("processor_config.json", problem)


def _numbered(weights: Collection[str]) -> Iterator[str]:
    """The files that belong to the numbered ones among ``weights``, as far as their number can be
    that of a model's files."""
    found = [shard for name in weights if (shard := _SHARD.fullmatch(name))]
    for stem, total in sorted({(shard["stem"], shard["total"]) for shard in found}):
        numbers = {shard["number"] for shard in found if shard["stem"] == stem}
        # Some count from 0, with one file more or less.
        first = 0 if any(int(number) == 0 for number in numbers) else 1
        if int(total) <= _MOST_SHARDS:
            for number in range(first, int(total) + (first or 0)):
                yield f"{stem}-{number:0{len(total)}d}-of-{total}{SAFETENSORS}"


def _is_vocabulary(name: str) -> bool:
    return name in _SLOW_VOCABULARY or any(fnmatchcase(name, each) for each in _VOCABULARY)
