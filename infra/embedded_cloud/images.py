"""Which serving images this machine has, and what a container of one runs.

An image is kept in ``<home>/vllm/<first 12 digits of its digest>/``. The file ``complete`` is
written last (:mod:`embedded_cloud.image_installation`), so that an interrupted installation is
never taken for an image.

Every docker command of an emulated host reads this, so that it imports little.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from embedded_cloud.image_lock import ImageLock, read_lock
from embedded_cloud.stand_in.images import IMAGE_DIRECTORY, has_stand_in

#: The image's own environment; what ``docker run -e`` gives comes on top.
IMAGE_ENVIRONMENT = {
    "VLLM_TARGET_DEVICE": "cpu",
    "CUDA_VISIBLE_DEVICES": "",
    "VLLM_HOST_IP": "127.0.0.1",
    # Without it vLLM takes a share of the machine's memory for the KV cache.
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "1",
}


@dataclass(frozen=True, slots=True)
class InstalledImage:
    """An image that containers can be started from.

    Attributes:
        reference: the image's name with its digest.
        directory: where it is kept.
        python: its Python interpreter.
        environment: variables that every container of it has.
    """

    reference: str
    directory: Path
    python: Path
    environment: dict[str, str]

    @property
    def home(self) -> Path:
        """What every container of it has in its home when it is made; may be missing."""
        return self.directory / "home"


def embedded_image() -> str:
    """Reference of the image that the embedded cloud serves with."""
    return read_lock().reference


def image_directory(lock: ImageLock, home: Path) -> Path:
    """Where the image of ``lock`` is kept under the state directory ``home``."""
    return home / "vllm" / lock.digest[:12]


def installed_image(image_ref: str, home: Path) -> InstalledImage | None:
    """The image if it is installed, else None. The stand-in for images for TPUs always is.

    Raises:
        EmulatorError: ``image_ref`` is not the image that this tpuflex carries.
    """
    if has_stand_in(image_ref):
        return _stand_in(image_ref)
    lock = read_lock()
    lock.require(image_ref)
    directory = image_directory(lock, home)
    if not (directory / "complete").is_file():
        return None
    return InstalledImage(
        reference=lock.reference,
        directory=directory,
        python=directory / "venv" / "bin" / "python3",
        environment={"PATH": f"{directory / 'venv' / 'bin'}:/usr/bin:/bin", **IMAGE_ENVIRONMENT},
    )


def _stand_in(image_ref: str) -> InstalledImage:
    python = Path(sys.executable)
    environment = {"PATH": f"{python.parent}:/usr/bin:/bin", "PYTHONPATH": str(IMAGE_DIRECTORY)}
    return InstalledImage(image_ref, IMAGE_DIRECTORY, python, environment)
