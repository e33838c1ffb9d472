"""How a component reads what somebody else has made."""

from __future__ import annotations

import pulumi


def only_read(
    component: pulumi.ComponentResource, opts: pulumi.ResourceOptions | None
) -> pulumi.ResourceOptions:
    """Options of what ``component`` only reads.

    The engine reads it in every run, also in one that makes only a part of the endpoint
    (`tpuflex secrets put` before the first `up`), and refuses a child of a component that it does
    not make: so it is a child of the component's parent, with the component's provider.

    Args:
        component: the component.
        opts: the options that it was made with.
    """
    parent = (opts and opts.parent) or component
    provider = component.get_provider("gcp:index:Provider")
    return pulumi.ResourceOptions(parent=parent, provider=provider)
