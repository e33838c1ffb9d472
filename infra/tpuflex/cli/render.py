"""`tpuflex render`: what the host boots with."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from tpuflex.cli.invocation import Invocation
from tpuflex.cli.options import as_json, pass_invocation, stack_name

if TYPE_CHECKING:
    from tpuflex.boot.config import BootConfig
    from tpuflex.cli.stack import OpenStack


@click.command()
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
    configuration, which the host reads from the metadata key tpuflex-config.
    """
    from tpuflex.boot.metadata import node_metadata

    metadata = node_metadata(boot_config_of(invocation.open_stack()))
    config = json.dumps(json.loads(metadata["tpuflex-config"]), indent=2)
    output = invocation.output
    output.document(metadata)
    if part == "all":
        output.result(f"# metadata key tpuflex-config\n{config}\n\n# metadata key startup-script")
    elif part == "config":
        output.result(config)
    if part != "config":
        output.result(metadata["startup-script"])


def boot_config_of(stack: OpenStack) -> BootConfig:
    """The boot configuration that the program of ``stack`` makes; computed without a cloud."""
    from tpuflex.boot.config import boot_config
    from tpuflex.catalog.zones import region_of
    from tpuflex.naming import API_KEY, HF_TOKEN

    settings, names = stack.settings, stack.names

    def version(role: str, number: int) -> str:
        return f"projects/{settings.project}/secrets/{names.secret(role)}/versions/{number}"

    token = settings.secrets.hf_token_version
    return boot_config(
        settings,
        names,
        bucket=names.bucket(settings.project, region_of(settings.slice.zones[0])),
        api_key_secret=version(API_KEY, settings.secrets.api_key_version),
        hf_token_secret=None if token is None else version(HF_TOKEN, token),
    )
