"""A model's files at one commit of the Hub, and which of them are fetched. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from pulumi_plugin.printable import printable
from tpuflex.errors import WeightsError
from tpuflex.operate.serving_files import serving_files

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


def choose_files(
    repository: str, commit: str, files: Iterable[HubFile], extra: Iterable[str] = ()
) -> Snapshot:
    """What is fetched of ``files``: data formats and what ``extra`` names; nothing hidden.

    Args:
        repository: OWNER/NAME.
        commit: the commit.
        files: everything that the Hub lists.
        extra: shell patterns of files that the stack file allows.

    Raises:
        WeightsError: a path or sum is none, or nothing in it could be served.
    """
    where = f"hf://{repository}@{commit}"
    # It becomes the name of a directory here.
    if not _SHA1.fullmatch(commit):
        raise WeightsError(f"the Hub names {printable(commit)} as a commit of {repository}")
    by_path = {file.path: file for file in files}
    names, left_out = serving_files(
        where,
        by_path,
        extra,
        hint="Many models are there more than once: look for the repository with safetensors"
        " (not GGUF, not a LoRA adapter alone).",
    )
    chosen = tuple(by_path[name] for name in names)
    for file in chosen:
        _require_sum(file, where)
    return Snapshot(repository, commit, chosen, tuple(left_out))


def _require_sum(file: HubFile, where: str) -> None:
    """Check that ``file`` can be checked once it has come.

    Raises:
        WeightsError: it cannot.
    """
    if not 0 <= file.size <= MOST_BYTES or not (
        _SHA256.fullmatch(file.sha256) or _SHA1.fullmatch(file.git_id)
    ):
        raise WeightsError(f"{where} lists {file.path} without a size or a sum to check it by")
