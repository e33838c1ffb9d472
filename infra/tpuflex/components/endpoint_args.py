"""Inputs of the endpoint component: the sections of a stack file, checked together."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol, TypeAlias

import pulumi

from tpuflex.catalog.rows import CatalogRows
from tpuflex.components.given import Given
from tpuflex.naming import Names
from tpuflex.planning.checkpoint import Checkpoint
from tpuflex.settings.encryption import EncryptionSettings
from tpuflex.settings.identity import IdentitySettings
from tpuflex.settings.model import (
    ModelSettings,
    StackSettings,
)
from tpuflex.settings.monitoring import MonitoringSettings
from tpuflex.settings.network import NetworkSettings
from tpuflex.settings.secrets import SecretsSettings
from tpuflex.settings.serving import ServingSettings
from tpuflex.settings.slice import SliceSettings

#: Called with the state's id once it is known and before anything that carries it is made; never in
#: a preview before the first update.
StateSeen: TypeAlias = Callable[[str], None]


class Preparation(Protocol):
    """What is done after the bucket exists and before the slice is requested.

    Both give the SHA-256 (hex) of the manifest of the weights that the slice is to serve. Their
    errors fail the operation.
    """

    def planned(self, bucket: str, /) -> Awaitable[str | None]:
        """For a preview, so only looking: the hash as far as it is known now.

        Args:
            bucket: name of the weights bucket, which exists.
        """

    def ready(self, bucket: str, secret_ids: Mapping[str, str], /) -> Awaitable[str]:
        """For an update: the hash, once weights and secrets are there.

        Args:
            bucket: name of the weights bucket, which exists.
            secret_ids: ids of the secrets by role, which exist.
        """


class VllmEndpointArgs:
    """Inputs of :class:`VllmEndpoint`: the sections of a stack file, checked together.

    Each section is either its settings class or a mapping with the keys of the stack file. In a
    mapping, what :data:`~tpuflex.components.known_later.LATER` lists may be known only later: it is
    checked as soon as it is known, and a preview shows it as unknown until then. Everything else
    has to be plain.
    """

    given: Given
    """What to deploy, and what of it is known only later."""

    settings: StackSettings
    """What of it is known; stand-ins take the place of the rest."""

    names: Names | None
    """Physical names; by default from the Pulumi project, the stack and the component's name. Give
    those that it had when one of the three is renamed, and nothing is replaced."""

    prepare: Preparation | None
    """What to do after the bucket exists and before the slice is requested. Without it,
    `manifest_sha256` of the model's weights is required."""

    state_seen: StateSeen | None
    """Told the state's id, by which its leftovers can be proved ours when the state is gone."""

    environ: Mapping[str, str]
    """Environment of the plugins, checked against the cloud; the process's own by default."""

    key_unread: bool
    """Whether a preview does without reading `kms_key`, for somebody who may not read it. An update
    always does."""

    checkpoint: Checkpoint | None
    """What the files of the model say of it, by which its memory is then planned; by default it is
    planned by its name."""

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
        identity: IdentitySettings | Mapping[str, object] | None = None,
        encryption: EncryptionSettings | Mapping[str, object] | None = None,
        monitoring: MonitoringSettings | Mapping[str, object] | None = None,
        labels: pulumi.Input[Mapping[str, pulumi.Input[str]]] | None = None,
        manage_apis: bool = True,
        catalog: CatalogRows | Mapping[str, object] | None = None,
        names: Names | None = None,
        prepare: Preparation | None = None,
        state_seen: StateSeen | None = None,
        environ: Mapping[str, str] | None = None,
        key_unread: bool = False,
        checkpoint: Checkpoint | None = None,
    ) -> None:
        """Check the sections.

        Raises:
            pulumi.RunError: a section is wrong, or is known later where it cannot be; lists every
                finding.
        """
        sections: dict[str, object] = {
            "cloud": cloud,
            "project": project,
            "slice": slice,
            "model": model,
            "serving": serving,
            "manage_apis": manage_apis,
        }
        optional = {
            "network": network,
            "secrets": secrets,
            "identity": identity,
            "encryption": encryption,
            "monitoring": monitoring,
            "labels": labels,
            "catalog": catalog,
        }
        sections |= {name: value for name, value in optional.items() if value is not None}
        self.checkpoint = checkpoint
        self.given = Given(sections, checkpoint)
        self.settings = self.given.settings
        self.names = names
        self.prepare = prepare
        self.state_seen = state_seen
        self.environ = os.environ if environ is None else environ
        self.key_unread = key_unread
