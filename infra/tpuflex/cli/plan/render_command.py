"""`tpuflex render`: what the host boots with."""

from __future__ import annotations

import json

import click

from tpuflex.cli.examples import ExampleCommand
from tpuflex.cli.invocation import Invocation
from tpuflex.cli.options import as_json, pass_invocation, stack_name


@click.command(
    cls=ExampleCommand,
    examples=(
        "tpuflex render --part config",
        "tpuflex render --part script > startup.sh",
    ),
)
@click.option(
    "--part",
    type=click.Choice(["all", "script", "config"]),
    default="all",
    show_default=True,
    help="What to print: the startup script, the configuration document, or both.",
)
@stack_name
@as_json
@pass_invocation
def render(invocation: Invocation, part: str) -> None:
    """Print what the host boots with: startup script and configuration.

    Needs no cloud. The script is the same for every stack; everything that varies is in the
    configuration, which the host reads from the metadata key tpuflex-config. Where the stack file
    pins no weights, `manifest_sha256` is all zeros here: `up` finds it out.
    """
    from tpuflex.boot.config import boot_config
    from tpuflex.boot.document import NO_MANIFEST
    from tpuflex.boot.metadata import node_metadata

    stack = invocation.open_stack()
    weights = stack.settings.model.weights.manifest_sha256 or NO_MANIFEST
    metadata = node_metadata(boot_config(stack.settings, stack.names, weights))
    config = json.dumps(json.loads(metadata["tpuflex-config"]), indent=2)
    output = invocation.output
    output.document(metadata)
    if part == "all":
        output.result(f"# metadata key tpuflex-config\n{config}\n\n# metadata key startup-script")
    elif part == "config":
        output.result(config)
    if part != "config":
        output.result(metadata["startup-script"])
