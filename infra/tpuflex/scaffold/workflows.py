"""Workflows of a user's repository: a few lines each, which call those of tpuflex by a commit."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from importlib.resources import files
from pathlib import Path

from tpuflex import __version__
from tpuflex.errors import NotFoundError, TpuflexError, UsageError
from tpuflex.files.git import ask_git
from tpuflex.project import Project
from tpuflex.scaffold.project_files import require_inside

#: Where GitHub reads workflows from, below the top of a repository.
FOLDER = ".github/workflows"
_TEMPLATES = ("preview", "deploy", "renew", "drift", "sweep")
_SOURCE = re.compile(r"([A-Za-z0-9][A-Za-z0-9-]*/[A-Za-z0-9_.-]+)@([0-9a-f]{40})")
_BRANCH = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./-]*")
_HEADER = "# Written by `tpuflex ci init`, which updates it, too: change nothing here. "
_HEADER_LINE = re.compile(re.escape(_HEADER) + r"([0-9a-f]{16})\n")
#: A commit, and the version in a comment beside it: anyone who raises them (Dependabot, a person)
#: has edited nothing.
_PIN = re.compile(r"\b[0-9a-f]{40}\b(?: #.*)?")
_MINUTES = 60
#: Variables of the repository that the workflows read, and what each holds.
VARIABLES: Mapping[str, str] = {
    "TPUFLEX_WORKLOAD_IDENTITY_PROVIDER": "full name of the workload identity provider",
    "TPUFLEX_PREVIEW_SERVICE_ACCOUNT": "e-mail address of the identity that may only read",
    "TPUFLEX_DEPLOY_SERVICE_ACCOUNT": "e-mail address of the identity that deploys",
    "PULUMI_BACKEND_URL": "gs://NAME of the bucket with the states",
}
_GITHUB = re.compile(r"(?:git\+)?(?:https://|ssh://git@)github\.com/([^/]+/[^/]+?)(?:\.git)?/?")


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


@dataclass(frozen=True, slots=True)
class WrittenWorkflows:
    """The repository's workflows, as they are now.

    Attributes:
        files: what happened to each, by its path: ``written``, ``updated`` or ``unchanged``.
    """

    files: Mapping[str, str]

    def to_json(self) -> dict[str, object]:
        """The document of ``tpuflex ci init --json``."""
        return {"files": dict(self.files), "variables": list(VARIABLES)}


def write_workflows(
    project: Project, environ: Mapping[str, str], *, source: str = "", branch: str = ""
) -> WrittenWorkflows:
    """Write or update the workflows of the project's repository.

    Args:
        project: the project.
        environ: the environment for Git.
        source: ``OWNER/NAME@COMMIT`` of tpuflex on GitHub; by default what is installed, if it was
            installed from there.
        branch: the protected branch that is deployed; by default origin's, or main.

    Raises:
        NotFoundError: the project is in no Git repository.
        UsageError: the source or the branch is wrong, or the source is not known.
        TpuflexError: one of the files was edited, or is not tpuflex's; then none is written.
    """
    root = project.root
    shown = ask_git(root, environ, "rev-parse", "--show-toplevel")
    if shown is None:
        raise NotFoundError(
            f"{root} is in no Git repository.", hint="Run: git init, or change to the repository."
        )
    top = Path(shown.rstrip("\n"))
    directory = root.relative_to(top).as_posix()
    if "${{" in directory:
        raise TpuflexError(
            f"The project's directory {directory} has ${{{{ in its name, which GitHub would"
            " evaluate in the workflows; nothing was written.",
            hint="Give the directory another name.",
        )
    texts = workflow_texts(
        _source(source),
        branch=_branch(branch, root, environ),
        directory=directory,
        project=project.name,
    )
    outcomes = {path: _outcome(top, path, text) for path, text in texts.items()}
    for path, text in texts.items():
        if outcomes[path] != "unchanged":
            (top / path).parent.mkdir(parents=True, exist_ok=True)
            (top / path).write_text(text, encoding="utf-8")
    return WrittenWorkflows(outcomes)


def _outcome(top: Path, path: str, text: str) -> str:
    """What happens to the file at ``path``.

    Raises:
        TpuflexError: it was edited, or is no file of ours.
    """
    file = top / path
    require_inside(file, top)
    if not file.exists():
        return "written"
    try:
        known = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise TpuflexError(f"{path} cannot be read ({type(error).__name__}).") from error
    if known == text:
        return "unchanged"
    if not is_untouched(known):
        raise TpuflexError(
            f"{path} was edited since `tpuflex ci init` wrote it, or it never did;"
            " nothing was written.",
            hint=f"Keep what you changed under another name, delete {path}, and run"
            " `tpuflex ci init` again.",
        )
    return "updated"


def _source(text: str) -> WorkflowSource:
    if not text and (installed := _installed_from()) is not None:
        return installed
    if not text:
        raise UsageError(
            "It is not known where on GitHub this tpuflex comes from: add --source"
            " OWNER/NAME@COMMIT."
        )
    try:
        return WorkflowSource.parse(text, f"tpuflex {__version__}")
    except ValueError as error:
        raise UsageError(f"{error}.", option="--source") from error


def _installed_from() -> WorkflowSource | None:
    """Where on GitHub pip got this tpuflex from
    (https://packaging.python.org/specifications/direct-url/); None if it did not."""
    try:
        record = json.loads(distribution("tpuflex").read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        return None
    match = _GITHUB.fullmatch(str(record.get("url")))
    commit = (record.get("vcs_info") or {}).get("commit_id")
    if match is None or not commit:
        return None
    return WorkflowSource.parse(f"{match[1]}@{commit}", f"tpuflex {__version__}")


def _branch(asked: str, root: Path, environ: Mapping[str, str]) -> str:
    head = ask_git(root, environ, "symbolic-ref", "--short", "refs/remotes/origin/HEAD")
    branch = asked or (head or "origin/main").strip().removeprefix("origin/")
    if not is_branch(branch):
        raise UsageError(f"{branch!r} is no name of a branch.", option="--branch")
    return branch


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
