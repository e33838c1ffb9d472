"""Sections of a stack file that is right, for tests to change one thing in."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import yaml

from tpuflex.errors import Finding, SettingsError
from tpuflex.settings.load import parse

#: Digests of images that the catalog knows.
CPU_DIGEST = "sha256:82fe761a6afadfcfa20344c2fcd3f20004a0eb1ab2e51f6a009dfac30e07231f"
TPU_DIGEST = "sha256:19a1a0526476f902eb83e1057f3d8938f35b457dd7716a30e9ab4f7bee90d507"
CPU_IMAGE = f"tpuflex/vllm-cpu@{CPU_DIGEST}"
TPU_IMAGE = f"us-east5-docker.pkg.dev/acme-serving/dockerhub/vllm/vllm-tpu@{TPU_DIGEST}"

#: The weights that a test's endpoint may serve.
PIN = "5a" * 32

_SECTIONS: dict[str, Any] = {
    "cloud": "google",
    "project": "acme-serving",
    "slice": {
        "zones": ["us-east5-a"],
        "accelerator_type": "v6e-4",
        "max_run_duration": "4h",
    },
    "model": {"name": "google/gemma-4-E4B-it", "weights": {"manifest_sha256": PIN}},
    "serving": {"image": TPU_IMAGE},
}


def pinned(stack_file: str) -> str:
    """The text of a stack file with its weights pinned, as a program that nobody prepares needs."""
    document = yaml.safe_load(stack_file)
    document["config"]["tpuflex:model"].setdefault("weights", {})["manifest_sha256"] = PIN
    return yaml.safe_dump(document)


def sections(changes: Mapping[str, object] | None = None) -> dict[str, Any]:
    """The sections, with ``changes`` by dotted key; a value of None removes the key."""
    result = copy.deepcopy(_SECTIONS)
    for path, value in (changes or {}).items():
        *parents, last = path.split(".")
        place = result
        for parent in parents:
            place = place.setdefault(parent, {})
        if value is None:
            place.pop(last, None)
        else:
            place[last] = value
    return result


def embedded(changes: Mapping[str, object] | None = None) -> dict[str, Any]:
    """The sections of a stack on the embedded cloud."""
    basis: dict[str, object] = {
        "cloud": "embedded",
        "slice.accelerator_type": "v6e-1",
        "serving.image": CPU_IMAGE,
    }
    return sections({**basis, **(changes or {})})


def findings(mapping: dict[str, object]) -> tuple[Finding, ...]:
    """The findings about ``mapping``; none when it is valid."""
    try:
        parse(mapping, "test")
    except SettingsError as error:
        return error.findings
    return ()
