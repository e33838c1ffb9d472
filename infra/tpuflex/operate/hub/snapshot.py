"""A model's files at one commit of the Hub, and which of them are fetched. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from pulumi_plugin.printable import is_printable, printable
from tpuflex.boot.manifest_document import MANIFEST_NAME
from tpuflex.catalog.weight_formats import allowed_patterns, fits
from tpuflex.errors import Finding, SettingsError, WeightsError
from tpuflex.naming import digest, slug
from tpuflex.settings.base import HUB_SOURCE

SOURCE_KEY = "tpuflex:model.weights.source"
SAFETENSORS = ".safetensors"
#: Of one file: no object is larger (https://cloud.google.com/storage/quotas#objects).
MOST_BYTES = 5 * 2**40

_SHA1 = re.compile(r"[0-9a-f]{40}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class HubSource:
    """``hf://OWNER/NAME@REVISION`` of a stack file.

    Attributes:
        repository: OWNER/NAME.
        revision: a commit, branch or tag; empty for the default branch.
    """

    repository: str
    revision: str

    @classmethod
    def parse(cls, text: str) -> HubSource | None:
        """The source that ``text`` names; None if it is not one of the Hub.

        Raises:
            SettingsError: it begins as one, and is none.
        """
        if not text.startswith("hf://"):
            return None
        match = HUB_SOURCE.fullmatch(text)
        if match is None:
            finding = Finding(
                SOURCE_KEY,
                f"{text!r} names no model of the Hub",
                "Write hf://OWNER/NAME@COMMIT.",
            )
            raise SettingsError("the stack file", (finding,))
        return cls(match["repository"], match["revision"] or "")

    @property
    def pinned(self) -> bool:
        """Whether the revision is a commit, which always means the same files."""
        return _SHA1.fullmatch(self.revision) is not None


@dataclass(frozen=True, slots=True)
class HubFile:
    """One file of a repository.

    Attributes:
        path: path in the repository, with forward slashes.
        size: in bytes.
        sha256: SHA-256 of a file in LFS, in hex; empty for one in Git itself.
        git_id: Git's object id (SHA-1) of a file in Git itself.
    """

    path: str
    size: int
    sha256: str
    git_id: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What is fetched of a repository at one commit.

    Attributes:
        repository: OWNER/NAME.
        commit: the commit, 40 hex digits.
        files: what is fetched, by path.
        left_out: paths that are not, because they are no data formats.
    """

    repository: str
    commit: str
    files: tuple[HubFile, ...]
    left_out: tuple[str, ...]

    @property
    def source(self) -> str:
        """The source that names exactly this."""
        return f"hf://{self.repository}@{self.commit}"

    @property
    def total_bytes(self) -> int:
        """Sum of all sizes."""
        return sum(file.size for file in self.files)


def directory_name(repository: str, commit: str, extra: Iterable[str] = ()) -> str:
    """Name of the directory that holds this model at this commit, with the files that the patterns
    ``extra`` add."""
    more = f"-{digest(*extra, length=8)}" if (extra := tuple(extra)) else ""
    return f"hub-{slug(repository.replace('/', '-'))}-{commit}{more}"


def choose_files(
    repository: str, commit: str, files: Iterable[HubFile], extra: Iterable[str] = ()
) -> Snapshot:
    """What is fetched of ``files``: data formats and what ``extra`` names; nothing hidden.

    A directory that holds anything else is refused; of a repository it is left out, because
    many hold the same weights once more as pickles.

    Args:
        repository: OWNER/NAME.
        commit: the commit.
        files: everything that the Hub lists.
        extra: shell patterns of files that the stack file allows.

    Raises:
        WeightsError: a path or sum is none, or nothing in it could be served.
    """
    patterns = allowed_patterns(extra)
    chosen: list[HubFile] = []
    left_out: list[str] = []
    where = f"hf://{repository}@{commit}"
    # It becomes the name of a directory here.
    if not _SHA1.fullmatch(commit):
        raise WeightsError(f"the Hub names {printable(commit)} as a commit of {repository}")
    for file in sorted(files, key=lambda one: one.path):
        _require_path(file.path, where)
        parts = file.path.split("/")
        # A manifest of the model's own is not that of the set, and a push takes none.
        hidden = parts[-1] == MANIFEST_NAME or any(part.startswith(".") for part in parts)
        if hidden or not fits(file.path, patterns):
            left_out.append(file.path)
            continue
        _require_sum(file, where)
        chosen.append(file)
    names = {file.path for file in chosen}
    if "config.json" not in names or not any(name.endswith(SAFETENSORS) for name in names):
        missing = "config.json" if "config.json" not in names else f"*{SAFETENSORS}"
        raise WeightsError(
            f"{where} holds no {missing}, which vLLM on TPU loads",
            hint="Many models are there more than once: look for the repository with safetensors"
            " (not GGUF, not a LoRA adapter alone).",
        )
    return Snapshot(repository, commit, tuple(chosen), tuple(left_out))


def _require_path(path: str, where: str) -> None:
    """Check what a server says before a path on this machine is made of it.

    Raises:
        WeightsError: it is no path in a repository.
    """
    if any(part in ("", ".", "..") for part in path.split("/")) or not is_printable(path):
        raise WeightsError(f"{where} lists {printable(path)}, which is no path in it")


def _require_sum(file: HubFile, where: str) -> None:
    """Check that ``file`` can be checked once it has come.

    Raises:
        WeightsError: it cannot.
    """
    if not 0 <= file.size <= MOST_BYTES or not (
        _SHA256.fullmatch(file.sha256) or _SHA1.fullmatch(file.git_id)
    ):
        raise WeightsError(f"{where} lists {file.path} without a size or a sum to check it by")
