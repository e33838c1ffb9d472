"""A project as it was before a change: read from Git, without checking anything out."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tpuflex.catalog import USER_FILE
from tpuflex.errors import NotFoundError, SettingsError
from tpuflex.files.git import ask_git
from tpuflex.project import PULUMI_FILE, Project
from tpuflex.settings.load import load_stack_file
from tpuflex.settings.model import NAMESPACE
from tpuflex.settings.read import project_directory, read_document, read_project_config
from tpuflex.settings.stack_document import config_of

if TYPE_CHECKING:
    from tpuflex.settings.model import StackSettings
    from tpuflex.stack.stack import Stack

#: Environment variables of the server.
_ENVIRONMENT = f"{NAMESPACE}serving.env."
#: In place of what Pulumi encrypted.
_ENCRYPTED = "(encrypted)"
_DIFF = ("diff", "--no-ext-diff", "--no-textconv", "--relative", "-z")


#: What happened to the stack file.
FileChange = Literal["added", "changed", "renamed", "deleted", "same"]


@dataclass(frozen=True, slots=True)
class KeyChange:
    """A key of the stack file that the change touches.

    Attributes:
        key: its full name, such as ``tpuflex:slice.accelerator_type``.
        before: its value as text; empty where it was not there.
        after: its value as text; empty where it is not there any more.
    """

    key: str
    before: str
    after: str

    def to_json(self) -> dict[str, str]:
        """The key in the document of ``tpuflex preview --json``."""
        return {"key": self.key, "before": self.before, "after": self.after}


@dataclass(frozen=True, slots=True)
class Base:
    """The stack before the change.

    Attributes:
        ref: the Git reference that it was read from, as it was typed.
        change: what the change does to the stack file.
        settings: the settings before; None where there were none, or none that are valid.
        other_name: the stack's name before or after it was renamed.
        keys: the keys that the change touches.
    """

    ref: str
    change: FileChange
    settings: StackSettings | None = None
    other_name: str = ""
    keys: Sequence[KeyChange] = ()


@dataclass(frozen=True, slots=True)
class StackChange:
    """What a change does to one stack.

    Attributes:
        stack: its name.
        change: what happens to its file; ``same`` where only what all stacks share is changed.
        other_name: its name before or after it was renamed, or empty.
    """

    stack: str
    change: FileChange
    other_name: str = ""

    @property
    def name_before(self) -> str:
        """The stack's name before the change."""
        return self.other_name if self.change == "renamed" else self.stack

    def to_json(self) -> dict[str, str]:
        """The stack in the document of ``tpuflex ci stacks --base REF --json``."""
        return {"stack": self.stack, "change": self.change, "other_name": self.other_name}


class BaseCommit:
    """The commit that a change starts from.

    Args:
        project: the project, as the change leaves it.
        ref: a Git reference or commit; the change starts where the present branch left it.
        environ: the environment for Git.

    Raises:
        NotFoundError: the project is in no Git repository, or there is no such commit.
    """

    def __init__(self, project: Project, ref: str, environ: Mapping[str, str]) -> None:
        self.ref = ref
        self._project = project
        self._environ = environ
        found = self._git(
            "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}"
        )
        if found is None:
            raise NotFoundError(
                f"{ref!r} is no commit of the Git repository of {project.root}.",
                hint="Fetch it: git fetch origin; in CI, check out with the whole history "
                "(actions/checkout: fetch-depth: 0).",
            )
        merge_base = self._git("merge-base", found.strip(), "HEAD")
        # Without a common history the reference itself is what is compared with.
        self._commit = (merge_base or found).strip()

    def changes(self) -> tuple[StackChange, ...]:
        """Every stack that the change touches, by name; all of them, if it touches what they share.

        What is not committed counts, too.
        """
        files = {change.stack: change for change in self._file_changes()}
        if self._shared_changed():
            for stack in self._project.stack_names():
                files.setdefault(stack, StackChange(stack, "same"))
        return tuple(files[name] for name in sorted(files))

    def change_of(self, stack: str) -> StackChange:
        """What the change does to ``stack``."""
        found = (change for change in self._file_changes() if change.stack == stack)
        return next(found, StackChange(stack, "same"))

    def export(self, directory: Path, stack: str) -> Path | None:
        """Write the stack file of ``stack`` as it was, with what its reading needs, to an empty
        ``directory``; its path there, or None if there was none."""
        folder = self._stacks_folder()
        names = (PULUMI_FILE, USER_FILE, f"{folder}Pulumi.{stack}.yaml")
        for name in names:
            text = self._git("show", f"{self._commit}:./{name}")
            if text is not None:
                path = directory / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
        path = directory / names[-1]
        return path if path.is_file() else None

    def _file_changes(self) -> Iterator[StackChange]:
        folder = self._stacks_folder()
        where = f"./{folder}" if folder else "."
        fields = self._fields(*_DIFF, "--name-status", "-M", self._commit, "--", where)
        untracked = self._fields("ls-files", "--others", "--exclude-standard", "-z", "--", where)
        for status, *paths in _entries(fields):
            names = [_stack_name(path, folder) for path in paths]
            if status == "R" and all(names):
                yield StackChange(names[0], "deleted", names[1])
                yield StackChange(names[1], "renamed", names[0])
            elif status == "R":
                yield from _one(names[0], "deleted")
                yield from _one(names[1], "added")
            else:
                yield from _one(names[-1], _BY_STATUS.get(status, "changed"))
        for path in untracked:
            yield from _one(_stack_name(path, folder), "added")

    def _shared_changed(self) -> bool:
        shared = [f"./{PULUMI_FILE}", f"./{USER_FILE}"]
        return bool(self._fields(*_DIFF, "--name-only", self._commit, "--", *shared))

    def _stacks_folder(self) -> str:
        """The directory of the stack files below the project's, with a slash, or empty."""
        project = self._project
        if project.stacks == project.root or not project.stacks.is_relative_to(project.root):
            return ""
        return f"{project.stacks.relative_to(project.root).as_posix()}/"

    def _fields(self, *arguments: str) -> list[str]:
        return (self._git(*arguments) or "").split("\0")[:-1]

    def _git(self, *arguments: str) -> str | None:
        return ask_git(self._project.root, self._environ, *arguments)


def base_of(ref: str, change: StackChange, before: Path | None, after: Stack) -> Base:
    """The stack before ``change``.

    Args:
        ref: the Git reference, as it was typed.
        change: what the change does to the stack.
        before: the stack file as it was; None if there was none.
        after: the stack now.

    Raises:
        SettingsError: a file is no YAML.
    """
    settings = None
    if before is not None:
        try:
            settings = load_stack_file(before, deploying=False).settings
        except SettingsError:
            settings = None  # what was wrong before is no business of this change
    keys = key_changes(before, after.file, root=after.project.root)
    return Base(ref, change.change, settings, change.other_name, keys)


def key_changes(
    before: Path | None, after: Path, *, root: Path | None = None
) -> tuple[KeyChange, ...]:
    """The keys whose values differ between two stack files, with what their Pulumi.yaml says for
    every stack, sorted; none if there was no file before.

    Args:
        before: the file before, below its Pulumi.yaml.
        after: the file now.
        root: directory of the Pulumi.yaml now; the nearest above the file by default.

    Raises:
        SettingsError: a file is no YAML.
    """
    if before is None:
        return ()
    old = _flat(before, project_directory(before))
    new = _flat(after, root or project_directory(after))
    return tuple(
        KeyChange(key, _shown(key, old.get(key, "")), _shown(key, new.get(key, "")))
        for key in sorted({*old, *new})
        if old.get(key) != new.get(key)
    )


def _shown(key: str, value: str) -> str:
    """``value``, unless its place is one where people put secrets: a comment keeps what it said
    even if the commit goes away."""
    own = key.startswith(NAMESPACE) and not key.startswith(_ENVIRONMENT)
    return value if own or value in ("", _ENCRYPTED) else "(not shown)"


def _flat(path: Path, root: Path | None) -> dict[str, str]:
    own = config_of(read_document(path).value)
    shared = read_project_config(root).without(own).values
    return dict(_leaves("", {**shared, **own}))


def _leaves(key: str, value: object) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping) and set(value) == {"secure"}:
        yield key, _ENCRYPTED
    elif isinstance(value, Mapping) and value:
        for name, inner in value.items():
            yield from _leaves(f"{key}.{name}" if key else str(name), inner)
    else:
        yield key, value if isinstance(value, str) else json.dumps(value, default=str)


_BY_STATUS: Mapping[str, FileChange] = {"A": "added", "D": "deleted", "C": "added"}


def _entries(fields: list[str]) -> Iterator[tuple[str, ...]]:
    """Each entry of ``git diff --name-status -z``: the letter of its status, and its paths."""
    left = iter(fields)
    for status in left:
        letter = status[:1]
        paths = [next(left)] if letter not in "RC" else [next(left), next(left)]
        yield (letter, *paths)


def _stack_name(path: str, folder: str) -> str:
    """The stack whose file ``path`` is; empty if it is none's."""
    name = path.removeprefix(folder)
    if not path.startswith(folder) or "/" in name:
        return ""
    if not (name.startswith("Pulumi.") and name.endswith(".yaml")):
        return ""
    return name[len("Pulumi.") : -len(".yaml")]


def _one(stack: str, change: FileChange) -> Iterator[StackChange]:
    if stack:
        yield StackChange(stack, change)
