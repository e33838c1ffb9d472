"""What the backend knows: its address, its stacks, their states and their configuration, with what
environments of Pulumi ESC set. Runs no program."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from typing import Any

from tpuflex import known_messages
from tpuflex.both_ends import both_ends
from tpuflex.engine.commands import Target
from tpuflex.engine.environment import without_scheme
from tpuflex.engine.failure import failure, unreadable
from tpuflex.engine.find import Engine
from tpuflex.engine.state_files import damage_error
from tpuflex.errors import EngineError, Finding, NotFoundError, SettingsError
from tpuflex.settings.opened import ENVIRONMENT, ONLY_CLOUD, OpenedConfig

#: Seconds for a backend to answer who is logged in.
_PATIENCE = 12
#: Runs of a stack that are read of its history.
_MOST_RUNS = 100


def backend_url(target: Target) -> str:
    """URL of the backend that the engine uses, such as ``file:///…`` or ``https://…``.

    Raises:
        EngineError: the engine is not logged in to any.
    """
    given = target.environ.get("PULUMI_BACKEND_URL", "")
    return given or str(json.loads(_run(target, "whoami", "--json")).get("url", ""))


def asked_backend(engine: Engine, environ: Mapping[str, str]) -> str:
    """URL of the backend that ``engine`` is logged in to, once that has answered; soon, or not at
    all.

    Raises:
        EngineError: the engine is not logged in to any, or the backend does not answer.
    """
    command = [str(engine.path), "whoami", "--json", "--non-interactive"]
    try:
        asked = subprocess.run(
            command,
            env=without_scheme(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise EngineError(
            f"the backend of Pulumi's state does not answer within {_PATIENCE} s",
            hint="Try: pulumi whoami -v",
        ) from error
    if asked.returncode:
        said = both_ends(" ".join(asked.stderr.split()), 400)
        raise EngineError(
            f"the backend of Pulumi's state cannot be used: {said}", hint="pulumi login"
        )
    return str(json.loads(asked.stdout).get("url", ""))


def stack_names(target: Target) -> tuple[str, ...]:
    """The stacks of the project that the backend knows.

    Raises:
        EngineError: the backend cannot be read.
    """
    found = json.loads(_run(target, "stack", "ls", "--json"))
    return tuple(str(stack["name"]).rpartition("/")[2] for stack in found)


def stored_state(target: Target, stack: str) -> dict[str, Any]:
    """The state of ``stack`` as the engine stores it, secrets encrypted.

    Raises:
        EngineError: the state cannot be read.
    """
    exported = json.loads(_run(target, "stack", "export", "--stack", stack))
    return dict(exported.get("deployment") or {})


def stack_history(target: Target) -> list[dict[str, Any]]:
    """The runs on the stack of ``target``, the newest first, each as Pulumi prints it.

    Raises:
        EngineError: the backend cannot be read.
    """
    arguments = ("stack", "history", "--json", "--stack", target.stack)
    return list(json.loads(_run(target, *arguments, "--page-size", str(_MOST_RUNS))))


def opened_config(target: Target, file: str) -> OpenedConfig:
    """What the engine knows of the stack of ``target``; no value of what is secret.

    Only the engine opens environments, and only of Pulumi Cloud; so it is asked for stacks that
    name some, and for no others
    (https://www.pulumi.com/docs/esc/integrations/infrastructure/pulumi-iac/).

    Args:
        target: the stack, the engine, and the environment that names the backend.
        file: the stack file's name, for errors.

    Raises:
        SettingsError: the backend opens no environments.
        NotFoundError: it does not know the stack, and opens environments for those that it knows.
        EngineError: the engine failed, such as on an environment that may not be read.
    """
    from pulumi.automation import CommandError

    from tpuflex.engine.process import EngineProcess

    process = EngineProcess(target.engine.path, target.engine.version, target.environ)
    arguments = ["config", "--json", "--open", "--stack", target.stack]
    try:
        printed = process.run(arguments, str(target.root), {}).stdout
    except CommandError as error:
        if known_messages.NO_ENVIRONMENTS.search(process.stderr):
            problem = "names environments of Pulumi ESC, which the backend in use does not open"
            raise SettingsError(file, (Finding(ENVIRONMENT, problem, ONLY_CLOUD),)) from error
        if known_messages.NO_STACK.search(process.stderr):
            raise NotFoundError(
                f"{file} names environments of Pulumi ESC, and Pulumi opens them only for a stack"
                f" that its backend knows: it knows no {target.stack}.",
                hint=f"Make it there: pulumi stack init {target.stack}",
            ) from error
        raise failure("config", (), process.stderr) from error
    return OpenedConfig.of(json.loads(printed))


def _run(target: Target, *arguments: str) -> str:
    from pulumi.automation import CommandError

    from tpuflex.engine.process import EngineProcess

    process = EngineProcess(target.engine.path, target.engine.version, target.environ)
    try:
        return process.run([*arguments], str(target.root), {}).stdout
    except CommandError as error:
        if unreadable(process.stderr) and (broken := damage_error(target.environ)) is not None:
            raise broken from error
        raise failure(" ".join(arguments), (), process.stderr) from error
