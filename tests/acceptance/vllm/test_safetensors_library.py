"""What the safetensors library refuses is refused here, before the host meets it."""

from __future__ import annotations

import json
import random
import struct
import subprocess

import pytest

from tests.checkpoints import header_of
from tests.security.vllm_host import image_is_installed, vllm_python
from tpuflex.errors import WeightsError
from tpuflex.planning.safetensors_header import LENGTH_BYTES, header_length, read_header

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.skipif(
        not image_is_installed(), reason="vLLM for CPU is not installed: `tpuflex emulator image`"
    ),
]

#: Says of each file, given in hex on a line, whether the library reads it.
_LIBRARY = """
import sys, safetensors
for line in sys.stdin:
    try:
        safetensors.deserialize(bytes.fromhex(line))
    except safetensors.SafetensorError:
        print("refused")
    else:
        print("read")
"""


def test_the_library_reads_all_that_is_read_here() -> None:
    """Of 2,000 files, most of them damaged, none that is read here is refused by the library."""
    files = [damaged(random.Random(seed)) for seed in range(2000)]  # noqa: S311 - not a secret

    theirs = judged_by_the_library(files)
    ours = [is_read(file) for file in files]

    assert sum(ours) > 50
    assert sum(theirs) < 1900
    assert [file for file, our, their in zip(files, ours, theirs, strict=True) if our > their] == []


def damaged(chance: random.Random) -> bytes:
    """A small file, with some of its header changed."""
    entries, size = header_of({"a": ("BF16", (2, 3)), "b": ("F32", ()), "c": ("F8_E4M3", (0, 4))})
    for _ in range(chance.choice((0, 1, 1, 1, 2))):
        entry = entries[chance.choice("abc")]
        key = chance.choice(("dtype", "shape", "data_offsets"))
        entry[key] = chance.choice(
            (
                *("BF16", "F32", "U8", "F4", "F6_E2M3", "C64", "F128", None, [], [6], [3, 2], [0]),
                *([0, 12], [12, 16], [16, 16], [0, 0], [4, 16], [16, 12], [2.0], [-1], [2**63]),
            )
        )
    entries["__metadata__"] = chance.choice(({"format": "pt"}, {}, None, {"a": 1}, []))
    text = json.dumps(entries)
    for _ in range(chance.choice((0, 0, 0, 1))):
        place = chance.randrange(len(text))
        text = text[:place] + chance.choice((" ", "{", '"', "9", "", ",", "\\u0000")) + text[place:]
    header = text.encode()
    length = len(header) + chance.choice((0, 0, 0, 0, -1, 1))
    return struct.pack("<Q", length) + header + bytes(size + chance.choice((0, 0, 0, 0, -1, 1)))


def judged_by_the_library(files: list[bytes]) -> list[bool]:
    """Whether the library of the image reads each file."""
    done = subprocess.run(
        [str(vllm_python()), "-c", _LIBRARY],
        input="".join(f"{file.hex()}\n" for file in files),
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return [line == "read" for line in done.stdout.splitlines()]


def is_read(file: bytes) -> bool:
    """Whether ``file`` is read here."""
    try:
        length = header_length(file[:LENGTH_BYTES], len(file), "file")
        read_header(file[LENGTH_BYTES : LENGTH_BYTES + length], len(file), "file")
    except WeightsError:
        return False
    return True
