"""The queued resource's example in the package schema, in the three languages in which most
programs are written.

One set of inputs, spelt three times: what one language shows, the others show, too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import yaml
from pydantic.alias_generators import to_snake

from tpuflex.naming import QUEUED_RESOURCE

#: Inputs on the wire. The account is one that the program's cloud project would have.
INPUTS: Mapping[str, str | Sequence[str]] = {
    "zones": ["us-east5-a", "us-east5-b"],
    "acceleratorType": "v6e-4",
    "runtimeVersion": "v2-alpha-tpuv6e",
    "serviceAccount": "hosts@my-project-id.iam.gserviceaccount.com",
    "maxRunDuration": "14400s",
    "project": "my-project-id",
}
#: The output that the example exports.
OUTPUT = "ipAddresses"


def python_example() -> str:
    """The program in Python."""
    inputs = "".join(f"    {to_snake(key)}={json.dumps(value)},\n" for key, value in INPUTS.items())
    return (
        "import pulumi\nimport tpuflex\n\n"
        f'slice = tpuflex.tpu.QueuedResource(\n    "slice",\n{inputs})\n'
        f'pulumi.export("{OUTPUT}", slice.{to_snake(OUTPUT)})\n'
    )


def typescript_example() -> str:
    """The program in TypeScript, with the SDK that `pulumi package add` makes."""
    inputs = "".join(f"    {key}: {json.dumps(value)},\n" for key, value in INPUTS.items())
    return (
        'import * as tpuflex from "tpuflex";\n\n'
        f'const slice = new tpuflex.tpu.QueuedResource("slice", {{\n{inputs}}});\n'
        f"export const {OUTPUT} = slice.{OUTPUT};\n"
    )


def yaml_example() -> str:
    """The program in YAML, without the name of a Pulumi project."""
    program = {
        "resources": {"slice": {"type": QUEUED_RESOURCE, "properties": {**INPUTS}}},
        "outputs": {OUTPUT: f"${{slice.{OUTPUT}}}"},
    }
    return yaml.safe_dump(program, sort_keys=False)


def example_section(title: str, typescript: str, python: str, yaml_: str) -> str:
    """The section of a description that a registry takes apart by language
    (https://www.pulumi.com/docs/iac/extending-pulumi/schema/#embedding-examples)."""
    blocks = (("typescript", typescript), ("python", python), ("yaml", yaml_))
    shown = "".join(f"```{language}\n{text}```\n" for language, text in blocks)
    return (
        "\n\n{{% examples %}}\n## Example Usage\n{{% example %}}\n"
        f"### {title}\n\n"
        f"{shown}{{{{% /example %}}}}\n{{{{% /examples %}}}}\n"
    )


def queued_resource_example() -> str:
    """The section of the queued resource's description."""
    return example_section(
        "Four chips for four hours, in the first of two zones that has them",
        typescript_example(),
        python_example(),
        yaml_example(),
    )
