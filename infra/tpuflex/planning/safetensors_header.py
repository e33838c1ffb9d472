"""The header of a safetensors file: which tensors it holds, of which type and shape. Pure.

A file is eight bytes with the length of its header, the header as JSON, then the tensors' bytes
(https://huggingface.co/docs/safetensors/index#format). The header says everything that a memory
plan needs, so the tensors themselves are never read. What the safetensors library refuses is
refused here, too; it would stop the server on the host, when chips are paid for.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from tpuflex.errors import WeightsError
from tpuflex.planning.strict_json import json_object

#: Bytes before the header, which hold its length as a little-endian integer.
LENGTH_BYTES = 8
#: Longest header that is read. The library takes 100 MB, which as Python objects would be several
#: GB; a tensor takes about 120 bytes, so this is room for a quarter of a million.
MAX_HEADER_BYTES = 32 * 2**20
#: Most tensors of one file. Mixtures of experts with 400 billion parameters and more have fewer in
#: all their files, and as Python objects these take some 100 MB.
MOST_TENSORS = 100_000
#: Bits of one element, by the format's name of the type (safetensors 0.8).
DTYPE_BITS: Mapping[str, int] = {
    **{"F4": 4, "F6_E2M3": 6, "F6_E3M2": 6},
    **dict.fromkeys(("BOOL", "U8", "I8"), 8),
    **dict.fromkeys(("F8_E4M3", "F8_E4M3FNUZ", "F8_E5M2", "F8_E5M2FNUZ", "F8_E8M0"), 8),
    **dict.fromkeys(("I16", "U16", "F16", "BF16"), 16),
    **dict.fromkeys(("I32", "U32", "F32"), 32),
    **dict.fromkeys(("I64", "U64", "F64", "C64"), 64),
}
_METADATA = "__metadata__"
_MOST_DIMENSIONS = 16
#: Of one dimension and of an offset: 256 TiB, more than a file can have.
_LARGEST = 2**48


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor of a checkpoint.

    Attributes:
        name: its name, such as ``model.layers.0.mlp.up_proj.weight``.
        dtype: element type as the format spells it, such as ``BF16``.
        shape: its dimensions; empty for a scalar.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def elements(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """Bytes that it takes in the file, and in memory as it is stored."""
        return self.elements * DTYPE_BITS[self.dtype] // 8


def header_length(start: bytes, file_bytes: int, where: str) -> int:
    """Bytes of the header of a file that begins with ``start``.

    Args:
        start: the first eight bytes, or fewer if the file is shorter.
        file_bytes: size of the file.
        where: names the file in errors.

    Raises:
        WeightsError: the file cannot hold such a header, or the header is absurdly long.
    """
    if len(start) < LENGTH_BYTES:
        raise WeightsError(f"{where} is no safetensors file: it has {len(start)} bytes")
    length = int.from_bytes(start[:LENGTH_BYTES], "little")
    if length > file_bytes - LENGTH_BYTES:
        raise WeightsError(
            f"{where} is damaged, or no safetensors file: its header would have {length} bytes, the"
            f" file has {file_bytes}",
            hint="Download it again.",
        )
    if length > MAX_HEADER_BYTES:
        raise WeightsError(
            f"{where} was not read: its header has {length} bytes, and {MAX_HEADER_BYTES} is the"
            " most that is read"
        )
    return length


def read_header(header: bytes, file_bytes: int, where: str) -> tuple[Tensor, ...]:
    """The tensors that a file's header lists, in order of their bytes in the file.

    Args:
        header: the header, without the eight bytes before it.
        file_bytes: size of the file; the tensors must fill what the header leaves.
        where: names the file in errors.

    Raises:
        WeightsError: the header is not what the format prescribes, or contradicts itself or the
            file's size.
    """
    if not header.startswith(b"{"):
        raise WeightsError(f"{where} is no safetensors file: its header is not a JSON object")
    entries = json_object(header, where)
    _check_metadata(entries.pop(_METADATA, None), where)
    if len(entries) > MOST_TENSORS:
        raise WeightsError(
            f"{where} was not read: it has {len(entries)} tensors, and {MOST_TENSORS} is the most"
            " that is read"
        )
    placed = [_placed(name, entry, where) for name, entry in entries.items()]
    placed.sort(key=lambda place: place[:2])
    end = 0
    for start, stop, tensor in placed:
        if start != end:
            what = "overlaps the tensor before it" if start < end else "leaves a gap before it"
            raise _damaged(where, tensor.name, f"begins at byte {start} and {what}")
        end = stop
    if LENGTH_BYTES + len(header) + end != file_bytes:
        raise WeightsError(
            f"{where} is damaged: its tensors end at byte {LENGTH_BYTES + len(header) + end}, the"
            f" file at {file_bytes}",
            hint="Download it again.",
        )
    return tuple(tensor for _, _, tensor in placed)


def total_bytes(tensors: Iterable[Tensor]) -> int:
    """Bytes of all ``tensors`` together."""
    return sum(tensor.bytes for tensor in tensors)


def _check_metadata(metadata: JsonValue, where: str) -> None:
    texts = metadata.values() if isinstance(metadata, dict) else ()
    if not isinstance(metadata, dict | None) or not all(isinstance(text, str) for text in texts):
        raise WeightsError(f"{where} is damaged: its {_METADATA} does not hold texts only")


def _placed(name: str, entry: JsonValue, where: str) -> tuple[int, int, Tensor]:
    """The tensor that one entry of a header describes, and where its bytes begin and end."""
    if not isinstance(entry, dict):
        raise _damaged(where, name, "is not described by an object")
    dtype, shape = entry.get("dtype"), entry.get("shape")
    if not isinstance(dtype, str) or dtype not in DTYPE_BITS:
        raise _damaged(where, name, f"has the element type {dtype!r:.60}, which the format has not")
    sizes = _numbers(shape)
    if sizes is None or len(sizes) > _MOST_DIMENSIONS:
        raise _damaged(where, name, f"has the shape {shape!r:.60}, which is none")
    offsets = _numbers(entry.get("data_offsets"))
    if offsets is None or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise _damaged(
            where, name, f"has the place {entry.get('data_offsets')!r:.60}, which is none"
        )
    tensor = Tensor(name, dtype, sizes)
    start, stop = offsets
    if (stop - start) * 8 != tensor.elements * DTYPE_BITS[dtype]:
        raise _damaged(
            where, name, f"takes {stop - start} bytes, which does not fit {dtype} {list(sizes)}"
        )
    return start, stop, tensor


def _numbers(value: JsonValue) -> tuple[int, ...] | None:
    """``value`` if it is a list of sizes; None if it is not. True and False are no sizes."""
    if not isinstance(value, list):
        return None
    numbers = tuple(each for each in value if type(each) is int and 0 <= each <= _LARGEST)
    return numbers if len(numbers) == len(value) else None


def _damaged(where: str, tensor: str, problem: str) -> WeightsError:
    return WeightsError(
        f"{where} is damaged: the tensor {tensor[:120]!r} {problem}", hint="Download it again."
    )
