"""The gcp provider that an endpoint makes when the program passes none."""

from __future__ import annotations

import pulumi
import pulumi_gcp as gcp
from pulumi.runtime.config import CONFIG, get_config_env

from tpuflex.catalog.zones import region_of
from tpuflex.settings.gcp_keys import COVERED, NAMESPACE
from tpuflex.settings.model import StackSettings


def own_gcp_provider(name: str, settings: StackSettings, parent: pulumi.Resource) -> gcp.Provider:
    """A provider for the project and the place of ``settings``.

    An explicit provider takes nothing from the `gcp:` configuration of the surrounding program,
    whose project and place may be another one's. What else is written there (labels, credentials)
    would be ignored.

    Raises:
        RunError: there is such configuration.
    """
    keys = {*get_config_env(), *CONFIG.get()}
    ignored = sorted(
        key
        for key in keys
        if key.startswith(NAMESPACE) and key.removeprefix(NAMESPACE) not in COVERED
    )
    if ignored:
        raise pulumi.RunError(
            f"{', '.join(ignored)} would have no effect on what {name} makes: its gcp provider is"
            " one of its own.\nPass one that has these settings: "
            "opts=pulumi.ResourceOptions(providers=[gcp.Provider(…)])."
        )
    return gcp.Provider(
        f"{name}-gcp",
        project=settings.project,
        region=settings.region,
        zone=next(each for each in settings.slice.zones if region_of(each) == settings.region),
        opts=pulumi.ResourceOptions(parent=parent),
    )
