"""Every stack of a project: those with a stack file, and those with a state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pulumi_plugin.printable import printable
from tpuflex.engine.backend import stack_names
from tpuflex.engine.commands import Target
from tpuflex.engine.find import ensure
from tpuflex.engine.state_files import file_backend, stacks_in_files
from tpuflex.errors import NotFoundError, TpuflexError, UsageError
from tpuflex.stack.environment import google_environment
from tpuflex.stack.rehearsal import Rehearsal
from tpuflex.stack.stack import Stack

if TYPE_CHECKING:
    from tpuflex.project import Project
    from tpuflex.stack.progress import Report

#: Opens the stack of a name, by its file or by its state, whether it can be deployed or not.
Open = Callable[[str], Stack]


@dataclass(frozen=True, slots=True)
class KnownStack:
    """A stack that has a stack file or a state.

    Attributes:
        name: its name.
        stack: the stack; None if it can be opened neither by its file nor by its state.
        error: why it cannot, or why the backend cannot be asked.
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
) -> tuple[tuple[KnownStack, ...], tuple[KnownStack, ...]]:
    """The stacks that have a state, or whose backend cannot be asked; and those that have a stack
    file alone.

    Nothing is started, and no cloud is asked, but Pulumi Cloud for environments that a file names.

    Args:
        project: the project.
        open_named: opens a stack of it.
        environ: the caller's environment.
        report: is told of what is used in place of the default.
        rehearsing: whether the command runs in a rehearsal.

    Raises:
        TpuflexError: the backend of the stacks on Google cannot be asked, and no stack is known.
    """
    for file in project.misnamed():
        report(f"Not looked at: {printable(file)}: no stack can be called so")
    opened = {known.name: known for known in opened_stacks(project, open_named)}
    embedded = set(stacks_in_files(project.home / "backend", project.name))
    rehearsed = set[str]()
    if rehearsing:
        rehearsed.update(stacks_in_files(Rehearsal.below(project.home).backend, project.name))
    google = set[str]()
    error: TpuflexError | None = None
    own = google_environment(environ, project.home, backend=project.backend)
    backend = project.backend_in(own)
    # Stack files of the embedded cloud alone do not say that no stack is on Google where a backend
    # is named, nor does a wrong one, or none.
    unknown = bool(backend) or not opened or any(each.stack is None for each in opened.values())
    unknown = unknown and not rehearsing
    if unknown or any(each.stack and not each.stack.embedded for each in opened.values()):
        try:
            google.update(_in_backend(project, backend, own, report))
        except TpuflexError as refused:
            error = refused
    found: list[KnownStack] = []
    for name in sorted({*embedded, *rehearsed, *google, *opened}):
        known = opened.get(name) or _by_state(name, open_named)
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
    if error is not None and all(each.error is not error for each in found):
        if not found:
            raise error
        report(f"Not looked at: stacks on Google Cloud: {error.brief}")
    listed = {each.name for each in found}
    return tuple(found), tuple(each for each in opened.values() if each.name not in listed)


def opened_stacks(project: Project, open_named: Open) -> tuple[KnownStack, ...]:
    """The stacks that have a stack file."""
    return tuple(_opened(name, open_named) for name in project.stack_names())


def _opened(name: str, open_named: Open) -> KnownStack:
    try:
        return KnownStack(name, open_named(name))
    except TpuflexError as error:
        return KnownStack(name, None, error)
    except UsageError as error:  # it is on two clouds
        return KnownStack(name, None, TpuflexError(str(error)))


def _by_state(name: str, open_named: Open) -> KnownStack:
    """The stack ``name``, which has no stack file."""
    known = _opened(name, open_named)
    if not isinstance(known.error, NotFoundError):
        return known
    error = NotFoundError(
        f"stack {name} has no stack file, and no endpoint in its state",
        hint=f"To destroy what its state has: pulumi destroy --stack {name}",
    )
    return KnownStack(name, None, error)


def _in_backend(
    project: Project, backend: str, environ: Mapping[str, str], report: Report
) -> tuple[str, ...]:
    """The stacks in the backend of the stacks on Google: ``backend``, or the one of the login."""
    directory = file_backend(backend)
    if directory is not None:
        return stacks_in_files(directory, project.name)
    engine = ensure(project.home, environ, report)
    return stack_names(Target(project.root, "", engine, environ))
