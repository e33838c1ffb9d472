"""Headers of safetensors files: read as the format says, refused where they contradict it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.checkpoints import header_of
from tpuflex.errors import WeightsError
from tpuflex.planning.safetensors_header import (
    DTYPE_BITS,
    LENGTH_BYTES,
    MAX_HEADER_BYTES,
    MOST_TENSORS,
    Tensor,
    header_length,
    read_header,
    total_bytes,
)

WHERE = "model.safetensors"


def read(header: object, size: int) -> tuple[Tensor, ...]:
    """The tensors of a file with ``header`` and ``size`` bytes of tensors."""
    document = header if isinstance(header, bytes) else json.dumps(header).encode()
    return read_header(document, LENGTH_BYTES + len(document) + size, WHERE)


def entry(dtype: object = "BF16", shape: object = (2, 3), offsets: object = (0, 12)) -> Any:
    """The header of one tensor called w."""
    return {"w": {"dtype": dtype, "shape": shape, "data_offsets": offsets}}


@given(
    st.dictionaries(
        st.text(min_size=1).filter(lambda name: name != "__metadata__"),
        st.tuples(
            st.sampled_from(["BF16", "F32", "F8_E4M3", "I32"]),
            st.lists(st.integers(0, 2**9), max_size=4).map(tuple),
        ),
        max_size=8,
    )
)
def test_what_a_header_describes_is_read(tensors: dict[str, tuple[str, tuple[int, ...]]]) -> None:
    """Every tensor comes back with its type and shape, in order, and their bytes fill the file."""
    header, size = header_of(tensors)

    found = read(header, size)

    assert {each.name: (each.dtype, each.shape) for each in found} == tensors
    assert total_bytes(found) == size


@pytest.mark.parametrize("dtype", sorted(DTYPE_BITS))
def test_every_type_has_its_size(dtype: str) -> None:
    """Eight elements of each type take as many bytes as the type has bits."""
    (tensor,) = read(entry(dtype, [8], [0, DTYPE_BITS[dtype]]), DTYPE_BITS[dtype])
    assert tensor.bytes == DTYPE_BITS[dtype]


def test_padding_and_metadata_are_no_tensors() -> None:
    """Writers pad headers with spaces and describe the file; neither is a tensor."""
    header = json.dumps({"__metadata__": {"format": "pt"}, **entry()}).encode() + b"   "
    assert [tensor.name for tensor in read(header, 12)] == ["w"]


@pytest.mark.parametrize(
    ("start", "file_bytes", "problem"),
    [
        (b"", 0, "it has 0 bytes"),
        (b"\x00" * 7, 7, "it has 7 bytes"),
        ((200).to_bytes(8, "little"), 100, "would have 200 bytes, the file has 100"),
        (b"\xff" * 8, 10**12, "would have 18446744073709551615 bytes"),
        ((10**8).to_bytes(8, "little"), 10**12, "has 100000000 bytes, and 33554432 is the most"),
    ],
)
def test_absurd_lengths_are_refused(start: bytes, file_bytes: int, problem: str) -> None:
    """No header is read that the file cannot hold, or that would exhaust this process."""
    with pytest.raises(WeightsError, match=problem) as refused:
        header_length(start, file_bytes, WHERE)
    assert refused.value.message.startswith(WHERE)


def test_the_longest_header_is_read() -> None:
    """The bound itself is within."""
    start = MAX_HEADER_BYTES.to_bytes(8, "little")
    assert header_length(start, MAX_HEADER_BYTES + 8, WHERE) == MAX_HEADER_BYTES


@pytest.mark.parametrize(
    ("header", "size", "problem"),
    [
        (b"[]", 0, "its header is not a JSON object"),
        (b"\xff\xfe", 0, "its header is not a JSON object"),
        (b'{"a\xff": 1}', 0, "is not UTF-8 text (byte 3)"),
        (b'{"w": {}, "w": {}}', 0, "the key 'w' is given twice"),
        (b'{"w": NaN}', 0, "NaN is not a number"),
        (b'{"w": -Infinity}', 0, "-Infinity is not a number"),
        (b'{"w": 1e999}', 0, "1e999 is too large a number"),
        (b'{"w": ' + b"9" * 5000 + b"}", 0, "is too large a number"),
        (b'{"w": ' + b"[" * 200_000 + b"]" * 200_000 + b"}", 0, "is nested too deeply to be read"),
        (b'{"w": {"dtype": "BF16"', 0, "is not JSON that can be read"),
        ({"w": []}, 0, "'w' is not described by an object"),
        ({"__metadata__": {"a": 1}}, 0, "its __metadata__ does not hold texts only"),
        ({"__metadata__": []}, 0, "its __metadata__ does not hold texts only"),
        (entry(dtype="F128"), 12, "the element type 'F128', which the format has not"),
        (entry(dtype=None), 12, "the element type None"),
        (entry(shape=[2, -3]), 12, "the shape [2, -3], which is none"),
        (entry(shape=[True, 6]), 12, "the shape [True, 6], which is none"),
        (entry(shape=[1.5]), 12, "the shape [1.5], which is none"),
        (entry(shape=[2**62]), 12, "which is none"),
        (entry(shape=[1] * 17, offsets=[0, 2]), 2, "which is none"),
        (entry(shape="23"), 12, "the shape '23', which is none"),
        (entry(offsets=[12, 0]), 12, "the place [12, 0], which is none"),
        (entry(offsets=[0]), 12, "the place [0], which is none"),
        (entry(offsets=[0, 13]), 13, "takes 13 bytes, which does not fit BF16 [2, 3]"),
        (entry(), 11, "its tensors end at byte"),
        (entry(), 13, "its tensors end at byte"),
        (
            entry() | {"v": {"dtype": "U8", "shape": [12], "data_offsets": [6, 18]}},
            18,
            "'v' begins at byte 6 and overlaps the tensor before it",
        ),
        (
            entry() | {"v": {"dtype": "U8", "shape": [2], "data_offsets": [14, 16]}},
            16,
            "'v' begins at byte 14 and leaves a gap before it",
        ),
    ],
)
def test_hostile_headers_are_refused(header: object, size: int, problem: str) -> None:
    """What the format forbids, or two readers could take for two things, is refused by name."""
    with pytest.raises(WeightsError) as refused:
        read(header, size)
    assert problem in refused.value.message
    assert refused.value.message.startswith(WHERE)


@given(st.binary(max_size=200), st.integers(0, 400))
def test_no_bytes_raise_anything_else(document: bytes, size: int) -> None:
    """Whatever the bytes are, they are tensors or a refusal."""
    try:
        tensors = read_header(document, size, WHERE)
    except WeightsError:
        return
    assert LENGTH_BYTES + len(document) + total_bytes(tensors) == size


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["dtype", "shape", "data_offsets", "x"]), _JSON))
def test_no_entry_raises_anything_else(values: dict[str, Any]) -> None:
    """Whatever an entry holds, it is a tensor or a refusal."""
    refusal = ""
    try:
        read({"w": {**entry()["w"], **values}}, 12)
    except WeightsError as error:
        refusal = error.message
    assert refusal == "" or refusal.startswith(WHERE)


def test_sizes_that_no_file_has_are_refused() -> None:
    """The bound on sizes lies above the largest object of Cloud Storage, 5 TiB."""
    five_tib = 5 * 2**40
    (tensor,) = read(entry("U8", [five_tib], [0, five_tib]), five_tib)
    assert tensor.bytes == five_tib
    with pytest.raises(WeightsError, match="which is none"):
        read(entry("U8", [2**48 + 1], [0, 2**48 + 1]), 2**48 + 1)


def test_more_tensors_than_a_model_has_are_refused() -> None:
    """A header of a few megabytes cannot fill the memory with tensors of no bytes."""
    entry = {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]}
    header = json.dumps({f"t{n}": entry for n in range(MOST_TENSORS + 1)}).encode()

    with pytest.raises(WeightsError, match="100001 tensors"):
        read_header(header, LENGTH_BYTES + len(header), "a file")
