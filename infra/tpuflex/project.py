"""Where a project keeps its files: its root, its stack files, and its state directory."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tpuflex.catalog import USER_FILE
from tpuflex.errors import Finding, NotFoundError, SettingsError, UsageError
from tpuflex.files.trusted import require_own
from tpuflex.naming import STACK_NAME

PULUMI_FILE = "Pulumi.yaml"
HOME_VARIABLE = "TPUFLEX_HOME"


def project_root(start: Path) -> Path:
    """The nearest directory at or above ``start`` that holds ``Pulumi.yaml``, else ``start``."""
    resolved = start.resolve()
    for directory in (resolved, *resolved.parents):
        if (directory / PULUMI_FILE).is_file():
            return directory
    return resolved


def home(root: Path, environ: Mapping[str, str]) -> Path:
    """The state directory: ``$TPUFLEX_HOME`` if set, else ``.tpuflex`` in the project root."""
    chosen = environ.get(HOME_VARIABLE)
    return Path(chosen).expanduser().resolve() if chosen else root / ".tpuflex"


def own_home(directory: Path, environ: Mapping[str, str]) -> Path:
    """The state directory, of the project that ``directory`` belongs to if there is one.

    Raises:
        AccessError: others could change it, or the project.
    """
    root = project_root(directory)
    require_own_project(root, environ)
    return home(root, environ)


def stack_names_in(directory: Path) -> tuple[str, ...]:
    """The stacks that have a stack file in ``directory``, sorted."""
    return tuple(sorted(filter(STACK_NAME.fullmatch, _names_in(directory))))


def _names_in(directory: Path) -> Iterator[str]:
    files = directory.glob("Pulumi.*.yaml")
    return (path.name[len("Pulumi.") : -len(".yaml")] for path in files)


def require_stack_name(name: str) -> None:
    """Refuse what no stack can be called.

    Raises:
        UsageError: no stack can be called ``name``.
    """
    if not STACK_NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is no stack's name: those have letters, digits, hyphens, underscores and"
            " periods, 100 at most",
            option="--stack",
        )


def stack_directory(root: Path, project_file: Mapping[str, object]) -> Path:
    """Where the stack files of the project in ``root`` are: ``stackConfigDir``, or a text as
    ``config``, which is the older spelling of it (``RewriteConfigPathIntoStackConfigDir`` in
    pulumi's ``sdk/go/common/workspace/project.go``)."""
    older = project_file.get("config")
    folder = project_file.get("stackConfigDir") or (older if isinstance(older, str) else None)
    return root / str(folder) if folder else root


@dataclass(frozen=True, slots=True)
class Project:
    """A Pulumi project on disk.

    Attributes:
        name: Pulumi project name, from ``Pulumi.yaml``.
        root: directory of ``Pulumi.yaml``.
        stacks: directory of the stack files (``stackConfigDir``).
        home: state directory of tpuflex.
        backend: where its states are, as ``Pulumi.yaml`` says (``backend.url``), or empty.
    """

    name: str
    root: Path
    stacks: Path
    home: Path
    backend: str = ""

    def backend_in(self, environ: Mapping[str, str]) -> str:
        """URL of the backend that the engine uses in ``environ``; empty for the one that it is
        logged in to."""
        return environ.get("PULUMI_BACKEND_URL", "") or self.backend

    def stack_file(self, stack: str) -> Path:
        """The stack file of ``stack``.

        Raises:
            UsageError: no stack can be called so.
            NotFoundError: there is no such file; suggests the nearest stack.
        """
        require_stack_name(stack)
        path = self.stacks / f"Pulumi.{stack}.yaml"
        if path.is_file():
            return path
        known = self.stack_names()
        shown = self.shown(path)
        if not known:
            raise NotFoundError(
                f"There is no stack file: {shown} does not exist, and neither does any other.",
                hint=f"Write {shown}, or let `tpuflex init --stack {shlex.quote(stack)}` write it.",
            )
        near = difflib.get_close_matches(stack, known, n=1)
        suggestion = f"Did you mean --stack {near[0]}? " if near else ""
        raise NotFoundError(
            f"There is no stack {stack!r}: {shown} does not exist.",
            hint=f"{suggestion}Stacks of this project: {', '.join(known)}.",
        )

    def stack_names(self) -> tuple[str, ...]:
        """The stacks that have a stack file, sorted."""
        return stack_names_in(self.stacks)

    def misnamed(self) -> tuple[str, ...]:
        """The names of files that would be stack files, if a stack could be called so; sorted."""
        names = (name for name in _names_in(self.stacks) if not STACK_NAME.fullmatch(name))
        return tuple(sorted(f"Pulumi.{name}.yaml" for name in names))

    def shown(self, path: Path) -> str:
        """``path`` for a message: relative to the project, if it is in it."""
        return str(path.relative_to(self.root)) if path.is_relative_to(self.root) else str(path)


def open_project(start: Path, environ: Mapping[str, str]) -> Project:
    """Read the project that ``start`` belongs to.

    Raises:
        NotFoundError: no ``Pulumi.yaml`` at ``start`` or above it.
        AccessError: others could change the project.
        SettingsError: ``Pulumi.yaml`` cannot be read as a project file.
    """
    root = project_root(start)
    file = root / PULUMI_FILE
    if not file.is_file():
        raise NotFoundError(
            f"There is no {PULUMI_FILE} in {root} or in any directory above it.",
            hint="Change to the project's directory, name it (tpuflex -C DIRECTORY …), or make one:"
            " tpuflex init",
        )
    require_own_project(root, environ)  # before its contents say anything
    document = _read_project_file(file)
    project = Project(
        name=str(document["name"]),
        root=root,
        stacks=stack_directory(root, document),
        home=home(root, environ),
        backend=_backend(document),
    )
    stack_files = sorted(project.stacks.glob("Pulumi.*.yaml"))
    require_own((project.stacks, *stack_files, root / USER_FILE), environ)
    return project


def require_own_project(root: Path, environ: Mapping[str, str]) -> None:
    """Refuse a project that others could change. Of its state directory the entries are not looked
    at one by one: commands of this user have made them.

    Args:
        root: its directory; without Pulumi.yaml in it there is only a state directory to look at.
        environ: names the state directory, and perhaps a user to trust.

    Raises:
        AccessError: they could change its directory, its Pulumi.yaml or its state directory.
    """
    file = root / PULUMI_FILE
    require_own((*((root, file) if file.is_file() else ()), home(root, environ)), environ)


def _backend(document: Mapping[str, object]) -> str:
    section = document.get("backend")
    url = section.get("url") if isinstance(section, dict) else None
    return str(url) if url else ""


def _read_project_file(file: Path) -> dict[str, object]:
    from tpuflex.settings.read import read_document  # here: `tpuflex --help` does not need YAML

    document = read_document(file).value
    if not isinstance(document, dict) or not isinstance(document.get("name"), str):
        raise SettingsError(
            str(file), (Finding("name", "the project has no name", "Write `name: tpuflex`."),)
        )
    return {str(key): value for key, value in document.items()}
