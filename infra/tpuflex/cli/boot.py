"""The boot configuration of a stack, as its program makes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuflex.boot.config import BootConfig, boot_config
from tpuflex.catalog.zones import region_of
from tpuflex.naming import API_KEY, HF_TOKEN

if TYPE_CHECKING:
    from tpuflex.cli.stack import OpenStack


def boot_config_of(stack: OpenStack) -> BootConfig:
    """What the host of ``stack`` is told; computed from names, with no cloud."""
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
