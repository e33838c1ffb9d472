"""Open a stack by the directory of its project and its name, as a command does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from tpuflex.google.endpoints import rehearses
from tpuflex.project import Project, open_project
from tpuflex.settings.opened import OpenedConfig
from tpuflex.stack.environment import google_environment
from tpuflex.stack.progress import silent
from tpuflex.stack.stack import Stack, read_stack
from tpuflex.weights.known_files import reader_of


def open_stack(
    directory: Path,
    name: str,
    environ: Mapping[str, str],
    say: Callable[[str], None] = silent,
    *,
    deploying: bool = True,
    files_later: bool = True,
    by_catalog: bool = False,
) -> Stack:
    """Read the stack file of ``name``; one that cannot be deployed, too, unless it is for that.

    Args:
        directory: the project's directory, or one below it.
        name: the stack's name.
        environ: the caller's environment.
        say: takes a line on what is wrong with the file and no error here.
        deploying: as for :func:`tpuflex.settings.load.load_stack_file`.
        files_later: whether it is opened to be given to what reads files of the model that are
            elsewhere, such as :func:`tpuflex.deploy.up`.
        by_catalog: whether the answer comes from the catalog, so that a wrong row is an error all
            the same.

    Raises:
        NotFoundError: there is no project, or no such stack.
        AccessError: others could change the project.
        SettingsError: the stack file is wrong; lists every finding.
    """
    project = open_project(directory, environ)
    planned = deploying or by_catalog
    stack = read_stack(
        project,
        name,
        deploying=deploying,
        rehearsing=rehearses(environ),
        opener=partial(opened_config, project, name, environ, say),
        files=reader_of(project.root, later=deploying and files_later) if planned else None,
    )
    if by_catalog:
        stack.check_catalog()
    for finding in stack.set_aside:
        say(f"Warning: {finding}")
    if stack.stand_in is not None:
        say(f"The weights are a stand-in for {stack.stand_in}, which a rehearsal does not fetch.")
    return stack


def opened_config(
    project: Project, stack: str, environ: Mapping[str, str], say: Callable[[str], None] = silent
) -> OpenedConfig:
    """What the engine knows of ``stack``, environments of Pulumi ESC included.

    Raises:
        TpuflexError: it cannot open them.
    """
    from tpuflex.engine import backend
    from tpuflex.engine.commands import Target
    from tpuflex.engine.find import ensure

    engine = ensure(project.home, environ, say)
    own = google_environment(environ, project.home, backend=project.backend)
    target = Target(root=project.root, stack=stack, engine=engine, environ=own)
    return backend.opened_config(target, project.stack_file(stack).name)
