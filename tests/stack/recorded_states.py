"""States of stacks with endpoints, as the engine writes them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tpuflex.components.inputs import endpoint_inputs
from tpuflex.naming import VLLM_ENDPOINT
from tpuflex.settings.load import parse

SALT = "v1:d4whmWDvQtU=:v1:QSkaC9msNTiWOzQs:D716H//hGnRnLbOqgRINrSbesjn9XA=="
PASSPHRASE = {"type": "passphrase", "state": {"salt": SALT}}


def endpoint(
    name: str, sections: Mapping[str, object], *, project: str = "tpuflex", **more: object
) -> dict[str, Any]:
    """The entry of the endpoint ``name`` with ``sections``, and ``more`` inputs."""
    inputs = endpoint_inputs(parse(sections, "sections"))
    root = f"urn:pulumi:dev::{project}"
    return {
        "urn": f"{root}::{VLLM_ENDPOINT}::{name}",
        "custom": False,
        "type": VLLM_ENDPOINT,
        "inputs": json.loads(json.dumps({**inputs, **more})),
        "parent": f"{root}::pulumi:pulumi:Stack::{project}-dev",
    }


def state(*resources: Mapping[str, Any], project: str = "tpuflex") -> dict[str, Any]:
    """The state of the stack ``dev`` with ``resources``."""
    root = f"urn:pulumi:dev::{project}"
    stack = {
        "urn": f"{root}::pulumi:pulumi:Stack::{project}-dev",
        "custom": False,
        "type": "pulumi:pulumi:Stack",
    }
    provider = {
        "urn": f"{root}::pulumi:providers:gcp::default",
        "custom": True,
        "type": "pulumi:providers:gcp",
    }
    return {"secrets_providers": PASSPHRASE, "resources": [stack, provider, *resources]}


def write_state(
    backend: Path,
    resources: Iterable[Mapping[str, Any]],
    project: str = "tpuflex",
    stack: str = "dev",
) -> None:
    """Put the state of ``stack`` where the file backend in ``backend`` has it."""
    directory = backend / ".pulumi" / "stacks" / project
    directory.mkdir(parents=True, exist_ok=True)
    latest = state(*resources, project=project)
    (directory / f"{stack}.json").write_text(json.dumps({"checkpoint": {"latest": latest}}))
