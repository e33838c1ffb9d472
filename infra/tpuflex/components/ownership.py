"""The labels and descriptions by which resources are known as those of one state (docs/adr/0015),
and what a component only reads."""

from __future__ import annotations

from collections.abc import Mapping

import pulumi

from tpuflex.naming import LABEL_STATE, Names


def read_only_options(
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


def labels(
    names: Names,
    state_id: pulumi.Input[str],
    users: pulumi.Input[Mapping[str, str]] | None = None,
) -> pulumi.Input[Mapping[str, pulumi.Input[str]]]:
    """The labels of what can carry labels, with those of the ``users``. Of labels that are known,
    only the state id may be unknown: a preview shows the rest."""
    if users is None or isinstance(users, Mapping):
        return {**(users or {}), **names.labels(), LABEL_STATE: state_id}
    return pulumi.Output.all(users, state_id).apply(
        lambda found: {**found[0], **names.labels(), LABEL_STATE: found[1]}
    )


def description(names: Names, state_id: pulumi.Input[str]) -> pulumi.Output[str]:
    """The description of what cannot carry labels."""
    return pulumi.Output.from_input(state_id).apply(names.description)
