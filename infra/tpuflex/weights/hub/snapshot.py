"""A model's files at one commit of the Hub, and which of them are fetched."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from pulumi_plugin.printable import printable
from tpuflex.errors import WeightsError
from tpuflex.planning.model_files import ServerNeeds, require_paths
from tpuflex.weights.checkpoint import whole_model

#: Of one file: no object is larger (https://cloud.google.com/storage/quotas#objects).
MOST_BYTES = 5 * 2**40

_SHA1 = re.compile(r"[0-9a-f]{40}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


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
        left_out: paths that are not.
    """

    repository: str
    commit: str
    files: tuple[HubFile, ...]
    left_out: tuple[str, ...]

    @property
    def source(self) -> str:
        """The source that names exactly this."""
        return f"hf://{self.repository}@{self.commit}"


class ListedFiles:
    """What the Hub lists of a repository, as the files of a checkpoint.

    Args:
        files: everything that it lists.
        read: reads a part of one.
    """

    def __init__(self, files: Iterable[HubFile], read: Callable[[str, int, int], bytes]) -> None:
        self._files = {file.path: file for file in files}
        self.read = read

    def __getitem__(self, path: str) -> HubFile:
        return self._files[path]

    def sizes(self) -> Mapping[str, int]:
        """Bytes of each file, by its path."""
        return {path: file.size for path, file in self._files.items()}


def choose_files(repository: str, commit: str, files: ListedFiles, needs: ServerNeeds) -> Snapshot:
    """What is fetched of ``files``, if a server can load it: known before a tensor is fetched.

    Args:
        repository: OWNER/NAME.
        commit: the commit.
        files: everything that the Hub lists; of them config.json and the index are read.
        needs: what the server reads.

    Raises:
        WeightsError: a path or sum is none, or it could not be served.
    """
    where = f"hf://{repository}@{commit}"
    # It becomes the name of a directory here.
    if not _SHA1.fullmatch(commit):
        raise WeightsError(f"the Hub names {printable(commit)} as a commit of {repository}")
    require_paths(files.sizes(), where)

    def check(names: Iterable[str]) -> None:
        for name in names:
            _require_sum(files[name], where)

    found = whole_model(
        files,
        where,
        needs,
        hint="Choose another commit, or look for the repository with all of it as safetensors: many"
        " models are there more than once (not GGUF, not a LoRA adapter alone).",
        check=check,
        headers=False,
    )
    return Snapshot(repository, commit, tuple(files[name] for name in found.taken), found.left_out)


def _require_sum(file: HubFile, where: str) -> None:
    """Check that ``file`` can be checked once it has come.

    Raises:
        WeightsError: it cannot.
    """
    if not 0 <= file.size <= MOST_BYTES or not (
        _SHA256.fullmatch(file.sha256) or _SHA1.fullmatch(file.git_id)
    ):
        raise WeightsError(f"{where} lists {file.path} without a size or a sum to check it by")
