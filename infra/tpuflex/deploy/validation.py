"""Check stack files where they stand: no engine, no cloud, no network, no secret."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tpuflex.catalog import USER_FILE
from tpuflex.deploy.base_commit import BaseCommit
from tpuflex.errors import Finding, NotFoundError, SettingsError, UsageError
from tpuflex.project import PULUMI_FILE, Project, open_project
from tpuflex.settings.load import is_stack_file, load_stack_file
from tpuflex.settings.opened import names_environments
from tpuflex.settings.read import project_directory, read_document, with_position
from tpuflex.settings.rules import warnings
from tpuflex.settings.stack_document import sections_of
from tpuflex.settings.weights_source import LocalDirectory
from tpuflex.stack.stack import require_local_state
from tpuflex.weights.known_files import reader_of

if TYPE_CHECKING:
    from tpuflex.planning.checkpoint import Checkpoint
    from tpuflex.settings.model import ModelSettings


@dataclass(frozen=True, slots=True)
class FileFinding:
    """One problem of a file.

    Attributes:
        file: the file.
        finding: what is wrong there.
    """

    file: Path
    finding: Finding

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: {self.finding.without_position}"

    @property
    def line(self) -> int:
        """The line; the first one for what no line has."""
        return self.finding.position.line if self.finding.position else 1

    @property
    def column(self) -> int:
        """The column."""
        return self.finding.position.column if self.finding.position else 1

    def to_json(self) -> dict[str, object]:
        """The problem in the document of ``tpuflex validate --json``."""
        place = {"file": str(self.file), "line": self.line, "column": self.column}
        return {**self.finding.to_json(), **place}


@dataclass(frozen=True, slots=True)
class Validation:
    """What was found in stack files.

    Attributes:
        files: the stack files that were checked.
        findings: what is wrong with them, and with what they share.
        warnings: what may be wrong with them, as `up` says with its plan.
        not_looked_at: what decides about a file and is not on this machine, with the file.
    """

    files: tuple[Path, ...]
    findings: tuple[FileFinding, ...]
    warnings: tuple[FileFinding, ...]
    not_looked_at: tuple[tuple[Path, str], ...]

    def to_json(self) -> dict[str, object]:
        """The document of ``tpuflex validate --json``."""
        return {
            "files": [str(file) for file in self.files],
            "findings": [each.to_json() for each in self.findings],
            "warnings": [each.to_json() for each in self.warnings],
            "not_looked_at": [
                {"file": str(file), "what": what} for file, what in self.not_looked_at
            ],
        }


def project_stack_files(project: Project) -> tuple[Path, ...]:
    """The stack files of ``project``."""
    return tuple(map(project.stack_file, project.stack_names()))


def changed_stack_files(project: Project, ref: str, environ: Mapping[str, str]) -> tuple[Path, ...]:
    """The stack files of ``project`` that a change since the Git reference ``ref`` touches, by
    themselves or by what they share.

    Raises:
        NotFoundError: there is no such commit.
    """
    changes = BaseCommit(project, ref, environ).changes()
    files = (project.stacks / f"Pulumi.{change.stack}.yaml" for change in changes)
    return tuple(file for file in files if file.is_file())


def validate(files: Sequence[Path], environ: Mapping[str, str]) -> Validation:
    """Check stack files as `up` checks them before it asks anybody.

    Args:
        files: the stack files; a Pulumi.yaml or catalog.yaml stands for those of its project.
        environ: the caller's environment.

    Raises:
        UsageError: one is none of these.
        NotFoundError: there is no such file.
    """
    alone = [file for file in files if _is_alone(file)]
    named: list[Path] = []
    found: dict[FileFinding, None] = {}
    warned: list[FileFinding] = []
    for file in files:
        if file in alone:
            continue
        try:
            named += _stack_files(file, environ)
        except SettingsError as error:  # the others are checked all the same
            manifest = _shown(file.absolute().with_name(PULUMI_FILE))
            found |= dict.fromkeys(FileFinding(manifest, each) for each in error.findings)
    chosen = tuple(dict.fromkeys(named))
    not_looked_at = [(_shown(file.absolute()), f"no {PULUMI_FILE} is beside it") for file in alone]
    for file in chosen:
        one = _StackFile(file)
        found |= dict.fromkeys(one.findings())
        warned += one.warnings
        not_looked_at += ((one.shown, what) for what in one.not_looked_at)
    return Validation(tuple(map(_shown, chosen)), tuple(found), tuple(warned), tuple(not_looked_at))


def _is_alone(file: Path) -> bool:
    """Whether ``file`` is the catalog.yaml of something else than a project."""
    return file.name == USER_FILE and file.is_file() and not file.with_name(PULUMI_FILE).is_file()


def _stack_files(file: Path, environ: Mapping[str, str]) -> Iterator[Path]:
    if not file.is_file():
        raise NotFoundError(f"There is no file {file}.")
    if file.name in (PULUMI_FILE, USER_FILE):
        yield from project_stack_files(open_project(file.parent, environ))
    elif is_stack_file(file):
        yield file.absolute()
    else:
        raise UsageError(f"{file} is no stack file: those are called Pulumi.STACK.yaml.")


class _StackFile:
    """A stack file that is checked."""

    def __init__(self, file: Path) -> None:
        self.shown = _shown(file)
        self.not_looked_at: list[str] = []
        self.warnings: list[FileFinding] = []
        self._file = file
        self._root = project_directory(file)

    def findings(self) -> list[FileFinding]:
        """What is wrong with it, and with what it shares with others."""
        try:
            document = read_document(self._file)
            if names_environments(document.value):
                # They are merged into the sections, of which the file alone says too little.
                self.not_looked_at.append("its settings: environments of Pulumi ESC belong to them")
                found = (*document.repeated, *sections_of(document.value)[1])
                return [self._placed(with_position(each, document.positions)) for each in found]
            loaded = load_stack_file(self._file, files=self._read)
            require_local_state(loaded)
            self.warnings = [
                self._placed(with_position(each, document.positions))
                for each in warnings(loaded.settings)
            ]
        except NotFoundError:
            self.not_looked_at.append(
                "not a stack file of tpuflex: it has no section of an endpoint"
            )
        except SettingsError as error:
            return [self._placed(each) for each in error.findings]
        return []

    def _read(self, model: ModelSettings) -> Checkpoint | Literal["later"] | None:
        """What the files of ``model`` say of it, if they are here."""
        root = self._root or self._file.parent
        found = reader_of(root, later=True)(model)
        source = model.weights.source
        if found == "later":
            self.not_looked_at.append(f"whether {source} fits: its files are elsewhere")
        elif found is None and isinstance(source, LocalDirectory):
            self.not_looked_at.append(f"the files of the model: {source} is not on this machine")
        return found

    def _placed(self, finding: Finding) -> FileFinding:
        """``finding`` with the file that it is about."""
        name = finding.position.file if finding.position else finding.key.partition(":")[0]
        if self._root is not None and name in (PULUMI_FILE, USER_FILE):
            return FileFinding(_shown(self._root / name), finding)
        return FileFinding(self.shown, finding)


def _shown(file: Path) -> Path:
    """``file`` as it is named from the current directory."""
    here = Path.cwd()
    return file.relative_to(here) if file.is_relative_to(here) else file
