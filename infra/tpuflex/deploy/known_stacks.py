"""Every stack of a project: those with a stack file, and those with a state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tpuflex.engine.backend import stack_names
from tpuflex.engine.commands import Target
from tpuflex.engine.find import ensure
from tpuflex.engine.state_files import file_backend, stacks_in_files
from tpuflex.errors import NotFoundError, TpuflexError
from tpuflex.stack.connection import google_cloud
from tpuflex.stack.rehearsal import Rehearsal
from tpuflex.stack.stack import Stack

if TYPE_CHECKING:
    from tpuflex.project import Project
    from tpuflex.stack.progress import Report

#: Opens the stack of a name, whether it can be deployed or not.
Open = Callable[[str], Stack]


@dataclass(frozen=True, slots=True)
class KnownStack:
    """A stack that has a state, or whose backend cannot be asked.

    Attributes:
        name: its name.
        stack: its stack file; None if that is not there, or wrong.
        error: why it is not, or why the backend cannot be asked.
    """

    name: str
    stack: Stack | None
    error: TpuflexError | None = None


def known_stacks(
    project: Project,
    open_named: Open,
    environ: Mapping[str, str],
    report: Report,
    *,
    rehearsing: bool = False,
) -> tuple[tuple[KnownStack, ...], tuple[str, ...]]:
    """The stacks that have a state, and the names of those that have a stack file alone.

    Nothing is started, and no cloud is asked, but Pulumi Cloud for environments that a file names.

    Args:
        project: the project.
        open_named: opens a stack of it.
        environ: the caller's environment.
        report: is told of what is used in place of the default.
        rehearsing: whether the command runs in a rehearsal.
    """
    opened = {known.name: known for known in opened_stacks(project, open_named)}
    embedded = set(stacks_in_files(project.home / "backend", project.name))
    rehearsed = set[str]()
    if rehearsing:
        rehearsed.update(stacks_in_files(Rehearsal.below(project.home).backend, project.name))
    on_google = [s.stack for s in opened.values() if s.stack is not None and not s.stack.embedded]
    google = set[str]()
    error: TpuflexError | None = None
    if on_google:
        try:
            google.update(_in_backend(on_google[0], environ, report))
        except TpuflexError as refused:
            error = refused
    found: list[KnownStack] = []
    for name in sorted({*embedded, *rehearsed, *google, *opened}):
        known = opened.get(name) or KnownStack(name, None, _no_file(name))
        stack = known.stack
        if stack is None:  # it is not known where it runs
            states = embedded | rehearsed | google
        elif stack.rehearsed:
            states = rehearsed
        else:
            states = embedded if stack.embedded else google
        if name in states:
            found.append(known)
        elif error is not None and stack is not None and not stack.embedded:
            found.append(KnownStack(name, None, error))
    listed = {each.name for each in found}
    return tuple(found), tuple(name for name in opened if name not in listed)


def opened_stacks(project: Project, open_named: Open) -> tuple[KnownStack, ...]:
    """The stacks that have a stack file."""
    return tuple(_opened(name, open_named) for name in project.stack_names())


def _opened(name: str, open_named: Open) -> KnownStack:
    try:
        return KnownStack(name, open_named(name))
    except TpuflexError as error:
        return KnownStack(name, None, error)


def _in_backend(stack: Stack, environ: Mapping[str, str], report: Report) -> tuple[str, ...]:
    """The stacks in the backend of the stacks on Google."""
    project, own = stack.project, google_cloud(stack, environ, report).environ
    backend = file_backend(own.get("PULUMI_BACKEND_URL", ""))
    if backend is not None:
        return stacks_in_files(backend, project.name)
    engine = ensure(project.home, environ, report)
    return stack_names(Target(project.root, stack.name, engine, own))


def _no_file(name: str) -> NotFoundError:
    return NotFoundError(
        f"stack {name} has a state and no stack file",
        hint=f"Write stacks/Pulumi.{name}.yaml again, or: pulumi destroy --stack {name}",
    )
