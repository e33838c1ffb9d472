"""The component's example in the package schema; see :mod:`tpuflex.provider.examples`."""

from __future__ import annotations

import json
from collections.abc import Mapping

import yaml

from tpuflex.naming import VLLM_ENDPOINT
from tpuflex.provider.examples import example_section
from tpuflex.settings.plain import JsonValue

#: Inputs as a stack file has them. The image is the mirror's that the README makes.
INPUTS: Mapping[str, JsonValue] = {
    "project": "my-project-id",
    "slice": {
        "zones": ["us-east5-a", "us-east5-b"],
        "accelerator_type": "v6e-1",
        "max_run_duration": "4h",
    },
    "model": {
        "name": "google/gemma-4-E4B-it",
        "weights": {
            "manifest_sha256": "85beaec7b7518277b93958ab8a2a157de58e498920f9781538d8191904c7ecc6"
        },
    },
    "serving": {
        "image": "us-east5-docker.pkg.dev/my-project-id/dockerhub/vllm/vllm-tpu@sha256:"
        "19a1a0526476f902eb83e1057f3d8938f35b457dd7716a30e9ab4f7bee90d507",
        "flags": {"dtype": "bfloat16", "max_model_len": 16384, "gpu_memory_utilization": 0.9},
    },
    "network": {"allowed_cidrs": ["10.0.0.0/8"]},
}
#: The output that the example exports.
OUTPUT = "url"


def python_example() -> str:
    """The program in Python."""
    inputs = "".join(f"    {key}={_python(value)},\n" for key, value in INPUTS.items())
    return (
        "import pulumi\nimport tpuflex\n\n"
        'chat = tpuflex.VllmEndpoint("chat", tpuflex.VllmEndpointArgs(\n'
        f'{inputs}))\npulumi.export("{OUTPUT}", chat.{OUTPUT})\n'
    )


def typescript_example() -> str:
    """The program in TypeScript, with the SDK that `pulumi package add` makes."""
    return (
        'import * as tpuflex from "tpuflex";\n\n'
        f'const chat = new tpuflex.VllmEndpoint("chat", {_typescript(dict(INPUTS))});\n'
        f"export const {OUTPUT} = chat.{OUTPUT};\n"
    )


def yaml_example() -> str:
    """The program in YAML, without the name of a Pulumi project."""
    program = {
        "resources": {"chat": {"type": VLLM_ENDPOINT, "properties": dict(INPUTS)}},
        "outputs": {OUTPUT: f"${{chat.{OUTPUT}}}"},
    }
    return yaml.safe_dump(program, sort_keys=False, width=120)


def endpoint_example() -> str:
    """The section of the component's description."""
    return example_section(
        "One chip for four hours, for clients in a private network",
        typescript_example(),
        python_example(),
        yaml_example(),
    )


def _python(value: JsonValue) -> str:
    return repr(value).replace("'", '"')


def _typescript(value: JsonValue, depth: int = 0) -> str:
    """``value`` as a literal; its names need no quotes."""
    if not isinstance(value, dict):
        return json.dumps(value)
    inside = "    " * (depth + 1)
    lines = [f"{inside}{key}: {_typescript(item, depth + 1)},\n" for key, item in value.items()]
    return "{\n" + "".join(lines) + "    " * depth + "}"
