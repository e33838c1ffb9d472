"""The steps of `tpuflex ci init`: which tpuflex, which files, and what is left to set up."""

from __future__ import annotations

import json
import re
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tpuflex import __version__
from tpuflex.deploy.base_commit import ask_git
from tpuflex.errors import NotFoundError, TpuflexError
from tpuflex.scaffold.project_files import require_inside
from tpuflex.scaffold.workflows import WorkflowSource, is_branch, is_untouched, workflow_texts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tpuflex.cli.invocation import Invocation

#: Variables of the repository that the workflows read, and what each holds.
VARIABLES: Mapping[str, str] = {
    "TPUFLEX_WORKLOAD_IDENTITY_PROVIDER": "full name of the workload identity provider",
    "TPUFLEX_PREVIEW_SERVICE_ACCOUNT": "e-mail address of the identity that may only read",
    "TPUFLEX_DEPLOY_SERVICE_ACCOUNT": "e-mail address of the identity that deploys",
    "PULUMI_BACKEND_URL": "gs://NAME of the bucket with the states",
}
_GITHUB = re.compile(r"(?:git\+)?(?:https://|ssh://git@)github\.com/([^/]+/[^/]+?)(?:\.git)?/?")


def run_ci_init(invocation: Invocation, source: str, branch: str) -> None:
    """Write or update the repository's workflows.

    Raises:
        NotFoundError: the project is in no Git repository.
        TpuflexError: one of the files was edited, or is somebody else's; then none is written.
    """
    root, environ = invocation.project.root, invocation.environ
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
        project=invocation.project.name,
    )
    outcomes = {path: _outcome(top, path, text) for path, text in texts.items()}
    for path, text in texts.items():
        if outcomes[path] != "unchanged":
            (top / path).parent.mkdir(parents=True, exist_ok=True)
            (top / path).write_text(text, encoding="utf-8")
    _show(invocation, outcomes)


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
        raise click.UsageError(
            "It is not known where on GitHub this tpuflex comes from: add --source"
            " OWNER/NAME@COMMIT."
        )
    try:
        return WorkflowSource.parse(text, f"tpuflex {__version__}")
    except ValueError as error:
        raise click.BadParameter(f"{error}.", param_hint="--source") from error


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
        raise click.BadParameter(f"{branch!r} is no name of a branch.", param_hint="--branch")
    return branch


def _show(invocation: Invocation, outcomes: Mapping[str, str]) -> None:
    output = invocation.output
    output.document({"files": dict(outcomes), "variables": list(VARIABLES)})
    for path, outcome in outcomes.items():
        output.result(f"{outcome:<10} {path}")
    if "written" not in outcomes.values():
        return
    output.result("\nThey read variables of the repository, which hold no secret:")
    for name, text in VARIABLES.items():
        output.result(f"  gh variable set {name} --body …    # {text}")
    output.result(
        "\nThen, on GitHub: protect the branch, and make the environment production, with reviewers"
        "\nand for protected branches only (docs/ci.md)."
    )
