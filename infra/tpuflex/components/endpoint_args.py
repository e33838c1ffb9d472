"""Inputs of the endpoint component: the sections of a stack file, checked together."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

import pulumi

from tpuflex.errors import SettingsError
from tpuflex.naming import Names
from tpuflex.settings.load import parse
from tpuflex.settings.model import (
    ModelSettings,
    NetworkSettings,
    SecretsSettings,
    SliceSettings,
    StackSettings,
)
from tpuflex.settings.serving import ServingSettings

#: Called with the bucket's name and the secrets' ids by role, when both exist and before chips
#: are requested; never in a preview. Its errors fail the update.
Prepare: TypeAlias = Callable[[str, Mapping[str, str]], Awaitable[None]]


class VllmEndpointArgs:
    """Inputs of :class:`VllmEndpoint`: the sections of a stack file, checked together.

    Each section is either its settings class or a mapping with the keys of the stack file.
    """

    settings: StackSettings
    """What to deploy."""

    names: Names | None
    """Physical names; by default from the Pulumi project, the stack and the component's name."""

    prepare: Prepare | None
    """What to do after the bucket exists and before the slice is requested."""

    environ: Mapping[str, str]
    """Environment of the plugins, checked against the cloud; the process's own by default."""

    def __init__(
        self,
        *,
        cloud: str = "google",
        project: str,
        slice: SliceSettings | Mapping[str, object],
        model: ModelSettings | Mapping[str, object],
        serving: ServingSettings | Mapping[str, object],
        network: NetworkSettings | Mapping[str, object] | None = None,
        secrets: SecretsSettings | Mapping[str, object] | None = None,
        names: Names | None = None,
        prepare: Prepare | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """Check the sections.

        Raises:
            pulumi.RunError: a section is wrong; lists every finding.
        """
        sections: dict[str, object] = {
            "cloud": cloud,
            "project": project,
            "slice": slice,
            "model": model,
            "serving": serving,
        }
        optional = {"network": network, "secrets": secrets}
        sections |= {name: value for name, value in optional.items() if value is not None}
        try:
            self.settings = parse(sections, "VllmEndpointArgs")
        except SettingsError as error:
            raise pulumi.RunError(str(error)) from error
        self.names = names
        self.prepare = prepare
        self.environ = os.environ if environ is None else environ
