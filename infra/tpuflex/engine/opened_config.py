"""A stack's configuration as the engine reads it: with what environments of Pulumi ESC set.

Only the engine opens those, and only of Pulumi Cloud; so it is asked for stacks that name some,
and for no others (https://www.pulumi.com/docs/esc/integrations/infrastructure/pulumi-iac/).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tpuflex import sentences
from tpuflex.engine.failure import failure
from tpuflex.errors import Finding, NotFoundError, SettingsError
from tpuflex.settings.opened import ENVIRONMENT, ONLY_CLOUD, OpenedConfig

if TYPE_CHECKING:
    from tpuflex.engine.commands import Target


def opened_config(target: Target, file: str) -> OpenedConfig:
    """What the engine knows of the stack of ``target``; no value of what is secret.

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
        if sentences.NO_ENVIRONMENTS.search(process.stderr):
            problem = "names environments of Pulumi ESC, which the backend in use does not open"
            raise SettingsError(file, (Finding(ENVIRONMENT, problem, ONLY_CLOUD),)) from error
        if sentences.NO_STACK.search(process.stderr):
            raise NotFoundError(
                f"{file} names environments of Pulumi ESC, and Pulumi opens them only for a stack"
                f" that its backend knows: it knows no {target.stack}.",
                hint=f"Make it there: pulumi stack init {target.stack}",
            ) from error
        raise failure("config", (), process.stderr) from error
    return OpenedConfig.of(json.loads(printed))
