"""Models for the small Hub, and a stand-in for the Hub's answers."""

from __future__ import annotations

import json
import struct
from pathlib import Path

from tpuflex.google.timing import Timing

MODEL = "acme/tiny"
TOKEN = "hf_" + "t0ken" * 4
#: Three megabytes: more than one block of a download, and quick to sum.
TENSORS = bytes(range(256)) * 12_288


def safetensors(tensor: bytes = TENSORS, name: str = "w") -> bytes:
    """A file with one tensor."""
    entry = {name: {"dtype": "U8", "shape": [len(tensor)], "data_offsets": [0, len(tensor)]}}
    header = json.dumps(entry).encode()
    return struct.pack("<Q", len(header)) + header + tensor


def put_model(state_dir: Path, name: str = MODEL) -> Path:
    """Write a model with two shards, a pickle and Git's own files; gives its directory."""
    directory = state_dir / "hub" / name
    (directory / "original").mkdir(parents=True)
    (directory / "config.json").write_text('{"architectures": ["LlamaForCausalLM"]}')
    (directory / "tokenizer.json").write_text("{}")
    (directory / "model-00001-of-00002.safetensors").write_bytes(safetensors())
    (directory / "model-00002-of-00002.safetensors").write_bytes(safetensors()[:-1] + b"!")
    (directory / "pytorch_model.bin").write_bytes(b"pickle")
    (directory / "original" / "consolidated.pth").write_bytes(b"pickle")
    (directory / ".gitattributes").write_text("*.safetensors filter=lfs\n")
    return directory


def pauses(waited: list[float]) -> Timing:
    """Clocks that stand still; what would be waited is noted in ``waited``."""

    def pause(seconds: float) -> bool:
        waited.append(seconds)
        return False

    return Timing(lambda: 0.0, lambda: 0.0, pause, lambda: 1.0)
