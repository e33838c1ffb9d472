"""Read of a checkpoint its config.json and the headers of its safetensors files, nothing else.

The source is a directory, a config.json alone, or ``gs://BUCKET/PREFIX``; of a checkpoint of 60 GB
some hundred kB are read. All of it is foreign: sizes are bounded before anything is read, and a
link out of the directory is not followed.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from tpuflex.catalog.rows import Source
from tpuflex.errors import WeightsError
from tpuflex.planning.checkpoint import Checkpoint, check_model, describe
from tpuflex.planning.hub_config import QUANTIZATION_KEYS
from tpuflex.planning.model_files import (
    CONFIG,
    MAX_INDEX_BYTES,
    SAFETENSORS,
    STAND_IN,
    ModelFiles,
    ServerNeeds,
    index_of,
    indexed_files,
    model_files,
    not_servable,
)
from tpuflex.planning.safetensors_header import (
    LENGTH_BYTES,
    MAX_HEADER_BYTES,
    Tensor,
    header_length,
    read_header,
)
from tpuflex.planning.strict_json import json_object
from tpuflex.weights.model import unwatched

_MODELOPT = "hf_quant_config.json"
#: A config.json has a few kB; those of quantised models list every module.
_MAX_CONFIG_BYTES = 8 * 2**20
#: Of one checkpoint, and of all headers together.
_MAX_FILES = 2000
_MAX_ALL_HEADERS = 2 * MAX_HEADER_BYTES
_PARALLELISM = 8


class CheckpointFiles(Protocol):
    """The files of one checkpoint, wherever they are."""

    def sizes(self) -> Mapping[str, int]:
        """Bytes of each file, by its name."""

    def read(self, name: str, start: int, length: int) -> bytes:
        """``length`` bytes (fewer at the end of the file) from ``start`` of the file ``name``."""


def read_files(
    files: CheckpointFiles,
    place: str,
    *,
    name: str,
    today: dt.date,
    config_name: str = CONFIG,
    progress: Callable[[int, int], None] = unwatched,
) -> Checkpoint:
    """What ``files`` say of their model.

    Args:
        files: those of a checkpoint.
        place: where they are.
        name: what to call the model.
        today: date of the row that is made.
        config_name: the file that is the checkpoint's config.json.
        progress: called with the headers that are read and their number.

    Raises:
        WeightsError: it is damaged, hostile, or no checkpoint.
        TpuflexError: what reading them raises.
    """
    where, sizes = f"{place}/{config_name}", files.sizes()
    if config_name not in sizes:
        raise WeightsError(
            f"{place} is not a checkpoint: it holds no {CONFIG}",
            hint=f"Name the place that holds {CONFIG} and the *{SAFETENSORS} files.",
        )
    config = json_object(_whole(files, config_name, sizes, _MAX_CONFIG_BYTES, where), where)
    if _MODELOPT in sizes and not any(config.get(key) for key in QUANTIZATION_KEYS):
        # So ModelOpt wrote it before 0.31 (vLLM, transformers_utils/config.py, get_config).
        said = f"{place}/{_MODELOPT}"
        config["quantization_config"] = json_object(
            _whole(files, _MODELOPT, sizes, _MAX_CONFIG_BYTES, said), said
        )
    names = _loaded(files, sizes, place)
    tensors = _tensors(files, sizes, names, place, progress) if names else None
    source = Source(where=place[:600], date=today)
    return describe(config, tensors, name=name, source=source, where=where)


def whole_model(
    files: CheckpointFiles,
    place: str,
    needs: ServerNeeds,
    *,
    hint: str,
    check: Callable[[Collection[str]], None],
    headers: bool = True,
) -> ModelFiles:
    """Which of ``files`` are the model, if a server can load it. The same for every place: what is
    there is known by its names and sizes, its index and its config.json.

    Args:
        files: all of a place.
        place: where they are, for errors.
        needs: what the server reads.
        hint: what to do if they cannot be served.
        check: called with those that are taken; raises what the place has against one.
        headers: whether the safetensors headers are read, too.

    Raises:
        WeightsError: it is incomplete, damaged, hostile, or no model.
        TpuflexError: what reading it raises.
    """
    sizes = files.sizes()
    where, config = f"{place}/{CONFIG}", None
    if sizes.get(CONFIG):
        config = json_object(_whole(files, CONFIG, sizes, _MAX_CONFIG_BYTES, where), where)
        if config.get("model_type") == STAND_IN and not needs.stand_in:
            raise WeightsError(
                f"{place} is the stand-in of a rehearsal, and holds no weights. Nothing was sent.",
                hint="Name the directory of the model itself.",
            )
    indexed = _indexed(files, sizes, place, needs)
    found = model_files(sizes, needs, indexed=indexed, config=config)
    check(found.taken)
    found.require(place, hint)
    if headers:
        tensors = _tensors(files, sizes, list(found.weights), place, unwatched)
        if config is not None and needs.by_transformers(found.weights):
            check_model(config, tensors, where)
    return found


def _loaded(files: CheckpointFiles, sizes: Mapping[str, int], place: str) -> list[str]:
    """The files whose tensors are loaded; empty where there are none."""
    needs = ServerNeeds()
    found = model_files(sizes, needs, indexed=_indexed(files, sizes, place, needs))
    wrong = [
        each
        for each in found.problems
        if each.path in found.weights or (each.problem == "missing" and found.weights)
    ]
    if wrong:
        raise not_servable(place, wrong, "Download the checkpoint again.")
    return list(found.weights)


def _indexed(
    files: CheckpointFiles, sizes: Mapping[str, int], place: str, needs: ServerNeeds
) -> set[str] | None:
    """The files that the index names; None if there is none."""
    index = index_of(sizes, needs)
    if not sizes.get(index):
        return None
    where = f"{place}/{index}"
    return indexed_files(_whole(files, index, sizes, MAX_INDEX_BYTES, where), where)


def _tensors(
    files: CheckpointFiles,
    sizes: Mapping[str, int],
    names: list[str],
    place: str,
    progress: Callable[[int, int], None],
) -> tuple[Tensor, ...]:
    """The tensors of all files, each once."""
    if len(names) > _MAX_FILES:
        raise WeightsError(f"{place} holds {len(names)} *{SAFETENSORS} files, more than are read")
    found: dict[str, Tensor] = {}
    with ThreadPoolExecutor(max_workers=_PARALLELISM) as pool:
        starts = pool.map(lambda name: files.read(name, 0, LENGTH_BYTES), names)
        wheres = [f"{place}/{name}" for name in names]
        bounds = [
            header_length(start, sizes[name], where)
            for start, name, where in zip(starts, names, wheres, strict=True)
        ]
        lengths = sum(bounds)
        if lengths > _MAX_ALL_HEADERS:
            raise WeightsError(
                f"{place} was not read: its headers have {lengths} bytes together, and"
                f" {_MAX_ALL_HEADERS} is the most that is read"
            )
        headers = pool.map(
            lambda name, length: files.read(name, LENGTH_BYTES, length), names, bounds
        )
        for done, (header, name, where) in enumerate(zip(headers, names, wheres, strict=True), 1):
            for tensor in read_header(header, sizes[name], where):
                if tensor.name in found:
                    raise WeightsError(
                        f"{where} and another file both hold the tensor {tensor.name[:120]!r}"
                    )
                found[tensor.name] = tensor
            progress(done, len(names))
    return tuple(found.values())


def _whole(
    files: CheckpointFiles, name: str, sizes: Mapping[str, int], limit: int, where: str
) -> bytes:
    if sizes[name] > limit:
        raise WeightsError(
            f"{where} was not read: it has {sizes[name]} bytes, more than the {limit} that are read"
        )
    return files.read(name, 0, limit)
