"""Endpoints as the state of a stack has them: the entry of a `VllmEndpoint` shows the sections that
the last update gave it, which read back to the settings of a stack file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tpuflex.boot.document import NO_MANIFEST
from tpuflex.engine.state import PROVIDER_TYPE, Stored, resources, state_ids
from tpuflex.errors import EngineError
from tpuflex.files.trusted import own_directory, write_private
from tpuflex.naming import ENDPOINT_NAME, VLLM_ENDPOINT, Names
from tpuflex.project import PULUMI_FILE, Project
from tpuflex.settings.load import parse
from tpuflex.settings.model import StackSettings

_STACK = "pulumi:pulumi:Stack"
#: The input of an endpoint that keeps the names of an earlier project, stack or endpoint.
_NAMES = "names"


@dataclass(frozen=True, slots=True)
class RecordedEndpoint:
    """An endpoint in the state of a stack.

    Attributes:
        name: its name in the program.
        settings: what the last update gave it.
        names: the names of its resources.
        alone: whether the state has nothing beside it.
        by_command: whether it is what the `tpuflex` command deploys, and not a program of the
            user's own.
        secrets: what the stack file says of the state's encryption.
        state_ids: the ids of the state, which mark what it has made.
    """

    name: str
    settings: StackSettings
    names: Names
    alone: bool
    by_command: bool
    secrets: Mapping[str, str]
    state_ids: frozenset[str]

    def write_project(self, directory: Path, project: Project, file: str) -> None:
        """Write what the engine needs beside the state: a Pulumi.yaml, and the stack file ``file``
        with the state's encryption and nothing else.

        The engine would read the project's own stack file, which may be wrong, and write one where
        there is none.
        """
        own_directory(directory)
        manifest: dict[str, object] = {"name": project.name, "runtime": "python"}
        if project.backend:
            manifest["backend"] = {"url": project.backend}
        write_private(directory / PULUMI_FILE, yaml.safe_dump(manifest))
        write_private(directory / file, yaml.safe_dump({**self.secrets, "config": {}}))


def recorded_endpoints(deployment: Stored, stack: str) -> tuple[RecordedEndpoint, ...]:
    """The endpoints in ``deployment``, the state of ``stack``, in its order.

    Raises:
        SettingsError: this version of tpuflex cannot read what one was given.
        EngineError: the state is damaged.
    """
    try:
        found = [each for each in resources(deployment) if each.get("type") == VLLM_ENDPOINT]
        return tuple(_recorded(each, deployment, stack) for each in found)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise EngineError(
            f"The state of stack {stack} is damaged, or of another version of tpuflex: what it has"
            " of the endpoint cannot be read.",
            hint=f"Write stacks/Pulumi.{stack}.yaml again: with it, that is not needed.",
        ) from error


def _recorded(component: Stored, deployment: Stored, stack: str) -> RecordedEndpoint:
    inputs = component.get("inputs") or {}
    settings = parse(_sections(inputs), f"the state of stack {stack}", deploying=False)
    suffix = settings.model.weights.bucket_suffix or ""
    _, project, _, name = str(component["urn"]).split("::", 3)
    usual = Names(project, stack, name, suffix)
    names = Names(**inputs[_NAMES]) if _NAMES in inputs else usual
    alone = not any(_beside(deployment, component))
    return RecordedEndpoint(
        name=name,
        settings=settings,
        names=names,
        alone=alone,
        by_command=alone and names == Names(project, stack, ENDPOINT_NAME, suffix),
        secrets=_secrets(deployment),
        state_ids=state_ids(deployment),
    )


def _sections(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The sections of a stack file in the ``inputs`` of an endpoint. A part of a stack that was
    made before its weights were known pins none."""
    sections = {name: inputs[name] for name in StackSettings.model_fields if name in inputs}
    weights = (sections.get("model") or {}).get("weights") or {}
    if weights.get("manifest_sha256") == NO_MANIFEST:
        unpinned = {key: value for key, value in weights.items() if key != "manifest_sha256"}
        sections["model"] = {**sections["model"], "weights": unpinned}
    return sections


def _beside(deployment: Stored, component: Stored) -> Iterator[Stored]:
    """What ``deployment`` has that is no part of ``component``; default providers aside."""
    parts = {component["urn"]}
    for each in resources(deployment):  # a parent comes before its parts
        if each["urn"] in parts or each.get("parent") in parts:
            parts.add(each["urn"])
        elif not str(each.get("type")).startswith((_STACK, PROVIDER_TYPE)):
            yield each


def _secrets(deployment: Stored) -> dict[str, str]:
    """How the state is encrypted, with the keys of a stack file. Pulumi Cloud's own encryption
    needs none."""
    provider = deployment.get("secrets_providers") or {}
    state = provider.get("state") or {}
    keys = {
        "passphrase": {"encryptionsalt": "salt"},
        "cloud": {"secretsprovider": "url", "encryptedkey": "encryptedkey"},
    }.get(str(provider.get("type")), {})
    return {key: str(state[name]) for key, name in keys.items() if state.get(name)}
