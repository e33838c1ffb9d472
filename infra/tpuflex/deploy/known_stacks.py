"""Every stack of a project: those with a stack file, and those with a state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from tpuflex.engine.backend import stack_names
from tpuflex.engine.commands import Target
from tpuflex.engine.find import ensure
from tpuflex.engine.state_files import file_backend, stacks_in_files
from tpuflex.errors import NotFoundError, TpuflexError
from tpuflex.stack.connection import google_cloud
from tpuflex.stack.rehearsal import Rehearsal
from tpuflex.stack.stack import Stack, open_stack

if TYPE_CHECKING:
    from tpuflex.cli.invocation import Invocation
    from tpuflex.stack.connection import Connection

#: Connects to the cloud of a stack.
Connect = Callable[["Invocation", Stack], "Connection"]


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


def known_stacks(invocation: Invocation) -> tuple[tuple[KnownStack, ...], tuple[str, ...]]:
    """The stacks that have a state, and the names of those that have a stack file alone.

    Nothing is started, and no cloud is asked, but Pulumi Cloud for environments that a file names.
    """
    project = invocation.project
    opened = {known.name: known for known in opened_stacks(invocation)}
    embedded = set(stacks_in_files(project.home / "backend", project.name))
    rehearsed = set[str]()
    if invocation.rehearsing:
        rehearsed.update(stacks_in_files(Rehearsal.below(project.home).backend, project.name))
    on_google = [s.stack for s in opened.values() if s.stack is not None and not s.stack.embedded]
    google = set[str]()
    error: TpuflexError | None = None
    if on_google:
        try:
            google.update(_in_backend(invocation, on_google[0]))
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


def opened_stacks(invocation: Invocation) -> tuple[KnownStack, ...]:
    """The stacks that have a stack file."""
    return tuple(_opened(invocation, name) for name in invocation.project.stack_names())


def _opened(invocation: Invocation, name: str) -> KnownStack:
    try:
        stack = open_stack(
            invocation.project,
            name,
            deploying=False,
            rehearsing=invocation.rehearsing,
            opener=partial(invocation.opened_config, name),
        )
        return KnownStack(name, stack)
    except TpuflexError as error:
        return KnownStack(name, None, error)


def _in_backend(invocation: Invocation, stack: Stack) -> tuple[str, ...]:
    """The stacks in the backend of the stacks on Google."""
    project, say = stack.project, invocation.output.progress
    environ = google_cloud(stack, invocation.environ, say).environ
    backend = file_backend(environ.get("PULUMI_BACKEND_URL", ""))
    if backend is not None:
        return stacks_in_files(backend, project.name)
    engine = ensure(project.home, invocation.environ, invocation.output.progress)
    return stack_names(Target(project.root, stack.name, engine, environ))


def _no_file(name: str) -> NotFoundError:
    return NotFoundError(
        f"stack {name} has a state and no stack file",
        hint=f"Write stacks/Pulumi.{name}.yaml again, or: pulumi destroy --stack {name}",
    )
