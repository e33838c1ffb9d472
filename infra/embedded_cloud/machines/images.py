"""Which serving images this machine has, and what a container of one runs.

An image is kept in ``<home>/vllm/<first 12 digits of its digest>/``. The file ``complete`` is
written last (:mod:`embedded_cloud.machines.image_installation`), so that an interrupted
installation is never taken for an image.

Every docker command of an emulated host reads this, so that it imports little.

The lock is a requirements file for pip with two kinds of extra lines, which are comments to
pip: ``#: link PATH TARGET`` and ``#: pth NAME LINE``, both relative to the image's
site-packages. The top of the lock itself says why they exist.
"""

from __future__ import annotations

import hashlib
import sys
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from tpuflex.errors import EmulatorError

#: The last part of the names of images for TPUs, wherever a mirror keeps them
#: (https://hub.docker.com/r/vllm/vllm-tpu).
_NAME = "vllm-tpu"
#: What has the package `vllm` of the stand-in.
IMAGE_DIRECTORY = Path(__file__).parent / "stand_in/image"


def has_stand_in(image: str) -> bool:
    """Whether ``image``, pinned by digest, is one that a stand-in serves for."""
    name, _, digest = image.partition("@")
    return name.rpartition("/")[2] == _NAME and digest.startswith("sha256:")


LOCK_FILE = Path(__file__).with_name("vllm_cpu.lock")
REPOSITORY = "tpuflex/vllm-cpu"


@dataclass(frozen=True, slots=True)
class ImageLock:
    """What an image is made of.

    Attributes:
        digest: SHA-256 of the lock file in hex; the image's digest.
        requirements: how many distributions pip installs.
        links: (path, target) of symbolic links, relative to site-packages.
        path_files: (name, line) of ``.pth`` files in site-packages.
    """

    digest: str
    requirements: int
    links: tuple[tuple[PurePosixPath, PurePosixPath], ...]
    path_files: tuple[tuple[str, str], ...]

    @property
    def reference(self) -> str:
        """The image as a stack file and ``docker run`` name it, pinned by digest."""
        return f"{REPOSITORY}@sha256:{self.digest}"

    def require(self, image: str) -> None:
        """Refuse every image but this one, whichever registry mirrors it.

        Raises:
            EmulatorError: ``image`` is another image, or another version of this one.
        """
        name, _, digest = image.partition("@")
        if f"/{name}".endswith(f"/{REPOSITORY}") and digest == f"sha256:{self.digest}":
            return
        if f"/{name}".endswith(f"/{REPOSITORY}"):
            raise EmulatorError(
                f"the image {image} is not the version that this tpuflex carries",
                hint=f"Write in the stack file: image: {self.reference}",
            )
        raise EmulatorError(
            f"the embedded cloud cannot run the image {image}: it has no container engine,"
            f" only {REPOSITORY}, which it installs itself",
            hint=f"Write in the stack file: image: {self.reference}",
        )


def read_lock(path: Path = LOCK_FILE) -> ImageLock:
    """The lock at ``path``; without an argument, the one that this package carries."""
    content = path.read_bytes()
    requirements = 0
    links = []
    path_files = []
    for line in content.decode().splitlines():
        if "==" in line and not line.startswith("#"):
            requirements += 1
        elif line.startswith("#: link "):
            place, target = line.removeprefix("#: link ").split()
            links.append((PurePosixPath(place), PurePosixPath(target)))
        elif line.startswith("#: pth "):
            name, _, text = line.removeprefix("#: pth ").partition(" ")
            path_files.append((name, text))
    return ImageLock(
        digest=hashlib.sha256(content).hexdigest(),
        requirements=requirements,
        links=tuple(links),
        path_files=tuple(path_files),
    )


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
