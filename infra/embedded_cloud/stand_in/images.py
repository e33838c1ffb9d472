"""Images that an emulated host cannot run, because they are for TPUs, and has a stand-in for."""

from __future__ import annotations

from pathlib import Path

#: The last part of the names of images for TPUs, wherever a mirror keeps them
#: (https://hub.docker.com/r/vllm/vllm-tpu).
_NAME = "vllm-tpu"
#: What has the package `vllm` of the stand-in.
IMAGE_DIRECTORY = Path(__file__).with_name("image")


def has_stand_in(image: str) -> bool:
    """Whether ``image``, pinned by digest, is one that a stand-in serves for."""
    name, _, digest = image.partition("@")
    return name.rpartition("/")[2] == _NAME and digest.startswith("sha256:")
