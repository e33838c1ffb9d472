"""Open a stack by the directory of its project and its name, as a command does: by its stack file,
or by its state."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from tpuflex.advice import Advice
from tpuflex.engine.state import Stored
from tpuflex.engine.state_files import file_backend, state_in_file
from tpuflex.errors import (
    EngineError,
    NotFoundError,
    SettingsError,
    TpuflexError,
    UsageError,
)
from tpuflex.google.endpoints import rehearses
from tpuflex.project import Project, open_project, require_stack_name
from tpuflex.settings.opened import OpenedConfig
from tpuflex.settings.stack_yaml import LONGEST
from tpuflex.stack.environment import google_environment
from tpuflex.stack.progress import silent
from tpuflex.stack.recorded import RecordedEndpoint, recorded_endpoints
from tpuflex.stack.rehearsal import Rehearsal
from tpuflex.stack.stack import Stack, read_stack
from tpuflex.weights.known_files import reader_of

#: Where a stack file says its cloud, of a file that may be no YAML.
_CLOUD = re.compile(
    r"""(?:^|[{,])[ \t]*["']?tpuflex:cloud["']?:[ \t]+["']?(embedded|google)\b""", re.M
)


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


def open_deployed(
    directory: Path,
    name: str,
    environ: Mapping[str, str],
    say: Callable[[str], None] = silent,
    *,
    endpoint: str = "",
    of_stack: bool = False,
    wrong_file: bool = True,
) -> Stack:
    """Open what was deployed as ``name``: by its stack file, or by its state, as the last update
    left it, where there is no such file, or it is wrong, or says nothing of tpuflex because the
    program is the user's own.

    Args:
        directory: the project's directory, or one below it.
        name: the stack's name.
        environ: the caller's environment.
        say: takes a line on what is used in place of the stack file, and on what is wrong with that
            and no error here.
        endpoint: the endpoint's name in the user's own program; empty for the only one.
        of_stack: whether it is for the stack as a whole, so that of several endpoints any will do.
        wrong_file: whether a wrong stack file is passed over, too. Of the user's own program it
            always is.

    Raises:
        NotFoundError: there is no project; or neither such a stack file, nor such an endpoint in
            the stack's state.
        AccessError: others could change the project.
        SettingsError: the stack file is wrong, and there is nothing else to go by; lists every
            finding.
        UsageError: no stack can be called so; it has several endpoints, and none is named; or it is
            on both clouds, and no stack file says which is meant.
    """
    project = open_project(directory, environ)
    require_stack_name(name)
    try:
        if not endpoint:
            return open_stack(directory, name, environ, say, deploying=False)
        wrong: TpuflexError = NotFoundError(f"Stack {name} has no endpoint {endpoint}.")
    except (NotFoundError, SettingsError, EngineError) as error:
        wrong = error
    file = project.stacks / f"Pulumi.{name}.yaml"

    def by_state(recorded: RecordedEndpoint) -> Stack:
        return Stack(
            project, name, file, recorded.settings, rehearsing=rehearses(environ), recorded=recorded
        )

    embedded, google = _recorded(project, name, file, environ, say)
    if embedded and google:
        clouds = " and on ".join(by_state(each[0]).cloud_text for each in (embedded, google))
        raise UsageError(f"Stack {name} is on {clouds}: {_choice(project, file)}")
    found = embedded or google
    if not found:
        raise wrong
    recorded = found[0] if of_stack else _chosen(found, name, endpoint)
    if recorded.by_command and isinstance(wrong, SettingsError) and not wrong_file:
        raise wrong
    stack = by_state(recorded)
    if recorded.by_command and not endpoint:
        why = _what_is_wrong(wrong, file)
        say(
            f"{project.shown(file)} {why}: going by the state, as the last `up` left it,"
            f" on {stack.cloud_text}."
        )
    recorded.write_project(stack.engine_project, project, file.name)
    return stack


def _chosen(found: tuple[RecordedEndpoint, ...], stack: str, name: str) -> RecordedEndpoint:
    if not name and len(found) == 1:
        return found[0]
    names = ", ".join(each.name for each in found)
    if not name:
        raise UsageError(f"Stack {stack} has several endpoints ({names}): add --endpoint NAME.")
    for each in found:
        if name in (each.name, each.names.name):  # its host knows only what it was called first
            return each
    raise NotFoundError(f"Stack {stack} has no endpoint {name}.", hint=f"It has: {names}.")


def _what_is_wrong(error: TpuflexError, file: Path) -> str:
    if not file.is_file():
        return "is not there"
    if isinstance(error, SettingsError):
        first, *others = error.findings
        more = f", and {len(others)} more" if others else ""
        key = "" if first.key == error.source else f"{first.key}: "
        line = f" (line {first.position.line})" if first.position else ""
        return f"is wrong ({key}{first.problem}{line}{more})"
    return f"cannot be used ({error.brief.rstrip('.')})"


def _recorded(
    project: Project,
    stack: str,
    file: Path,
    environ: Mapping[str, str],
    say: Callable[[str], None],
) -> tuple[tuple[RecordedEndpoint, ...], tuple[RecordedEndpoint, ...]]:
    """The endpoints in the states of ``stack``: on the embedded cloud, and on Google. Where
    ``file`` says which cloud it is for, only the state there counts."""
    cloud = _cloud_in(file)
    embedded: tuple[RecordedEndpoint, ...] = ()
    if cloud != "google":
        state = state_in_file(project.home / "backend", project.name, stack)
        embedded = _on(recorded_endpoints(state, stack), "embedded")
    if cloud == "embedded":
        return embedded, ()
    if rehearses(environ):
        state = state_in_file(Rehearsal.below(project.home).backend, project.name, stack)
    else:
        try:
            state = _state_on_google(project, stack, environ, say)
        except TpuflexError as error:
            named = project.backend_in(environ)
            if embedded and named:
                raise EngineError(
                    f"Stack {stack} is on the embedded cloud, and whether it is on Google Cloud,"
                    f" too, is not known: {error.brief}",
                    hint=Advice.lines(error.hint, f"Or {_choice(project, file)}"),
                ) from error
            say(f"The state of stack {stack} cannot be read: {error.brief}")
            state = {}
    return embedded, _on(recorded_endpoints(state, stack), "google")


def _cloud_in(file: Path) -> str:
    """The cloud that a stack file plainly names, whatever else is wrong with it; or empty."""
    try:
        with file.open(encoding="utf-8", errors="replace") as text:
            clouds = set(_CLOUD.findall(text.read(LONGEST)))
    except OSError:
        return ""
    return clouds.pop() if len(clouds) == 1 else ""


def _choice(project: Project, file: Path) -> str:
    """How to say which of two clouds is meant."""
    return (
        "write `tpuflex:cloud: embedded` or `tpuflex:cloud: google` below `config:` in"
        f" {project.shown(file)}, to say which is meant."
    )


def _on(found: tuple[RecordedEndpoint, ...], cloud: str) -> tuple[RecordedEndpoint, ...]:
    return tuple(each for each in found if each.settings.cloud == cloud)


def _state_on_google(
    project: Project, stack: str, environ: Mapping[str, str], say: Callable[[str], None]
) -> Stored:
    """The state in the backend of the stacks on Google; empty where that has none.

    Raises:
        TpuflexError: it does not answer.
    """
    from tpuflex.engine.backend import stored_state
    from tpuflex.engine.commands import Target
    from tpuflex.engine.find import ensure

    own = google_environment(environ, project.home, backend=project.backend)
    backend = file_backend(project.backend_in(own))
    if backend is not None:
        return state_in_file(backend, project.name, stack)
    try:
        engine = ensure(project.home, environ, say)
        return stored_state(Target(project.root, stack, engine, own), stack)
    except NotFoundError:
        return {}


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
