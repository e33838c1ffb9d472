"""Workflows of a user's repository: a few lines each, which call those of tpuflex by a commit."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

#: Where GitHub reads workflows from, below the top of a repository.
FOLDER = ".github/workflows"
_TEMPLATES = ("preview", "deploy", "renew", "sweep")
_SOURCE = re.compile(r"([A-Za-z0-9][A-Za-z0-9-]*/[A-Za-z0-9_.-]+)@([0-9a-f]{40})")
_BRANCH = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./-]*")
_HEADER = "# Written by `tpuflex ci init`, which updates it, too: change nothing here. "
_HEADER_LINE = re.compile(re.escape(_HEADER) + r"([0-9a-f]{16})\n")
#: A commit, and the version in a comment beside it: whoever raises them (Dependabot, a person) has
#: edited nothing.
_PIN = re.compile(r"\b[0-9a-f]{40}\b(?: #.*)?")
_MINUTES = 60


@dataclass(frozen=True, slots=True)
class WorkflowSource:
    """Which tpuflex the workflows run.

    Attributes:
        repository: where it is on GitHub, ``OWNER/NAME``.
        commit: its commit.
        version: its version, or what else tells people which it is.
    """

    repository: str
    commit: str
    version: str

    @classmethod
    def parse(cls, text: str, version: str) -> WorkflowSource:
        """Read ``OWNER/NAME@COMMIT``.

        Raises:
            ValueError: it is not that; only a whole commit names one version for good.
        """
        match = _SOURCE.fullmatch(text)
        if match is None:
            raise ValueError(f"{text!r} is not OWNER/NAME@COMMIT, with all 40 digits of a commit")
        return cls(match[1], match[2], version)


def is_branch(name: str) -> bool:
    """Whether ``name`` is a plain name of a branch, and no pattern."""
    return _BRANCH.fullmatch(name) is not None


def workflow_texts(
    source: WorkflowSource, *, branch: str, directory: str, project: str
) -> Mapping[str, str]:
    """The texts of the workflows by their paths from the top of the repository.

    Args:
        source: which tpuflex they run.
        branch: the branch that is deployed.
        directory: the project's directory, from the top of the repository.
        project: the project's name, from which comes the minute of the schedule.
    """
    minute = int(hashlib.sha256(project.encode()).hexdigest(), 16) % _MINUTES
    values = {
        "REPOSITORY": source.repository,
        "COMMIT": source.commit,
        "VERSION": source.version,
        "BRANCH": json.dumps(branch),
        "DIRECTORY": json.dumps(directory),
        "MINUTE": str(minute),
    }
    return {f"{FOLDER}/tpuflex-{name}.yml": _filled(name, values) for name in _TEMPLATES}


def is_untouched(text: str) -> bool:
    """Whether ``text`` is a workflow as ``tpuflex ci init`` wrote it, whatever its version."""
    header, _, body = text.partition("\n")
    match = _HEADER_LINE.fullmatch(f"{header}\n")
    return match is not None and match[1] == _seal(body)


def _filled(name: str, values: Mapping[str, str]) -> str:
    body = re.sub(r"@([A-Z]+)@", lambda match: values[match[1]], _template(name))
    return f"{_HEADER}{_seal(body)}\n{body}"


def _seal(body: str) -> str:
    return hashlib.sha256(_PIN.sub("COMMIT", body).encode()).hexdigest()[:16]


@cache
def _template(name: str) -> str:
    return files("tpuflex.scaffold").joinpath("ci", f"{name}.yml").read_text(encoding="utf-8")
