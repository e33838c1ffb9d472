"""P1: an endpoint under another name keeps all of it, or is refused before any is replaced."""

from __future__ import annotations

import pulumi
import pytest

from tpuflex import Names
from tpuflex.components.endpoint import require_kept_names

MADE = Names("shop", "dev", "chat", "b")
URN = "urn:pulumi:{}::tpuflex:index:VllmEndpoint::{}"


@pytest.mark.parametrize(
    ("alias", "expected"),
    [
        (pulumi.Alias(name="old"), 'tpuflex.Names("shop", "dev", "old", "b")'),
        (pulumi.Alias(stack="prod"), 'tpuflex.Names("shop", "prod", "chat", "b")'),
        (pulumi.Alias(project="site"), 'tpuflex.Names("site", "dev", "chat", "b")'),
        (URN.format("dev::shop", "old"), 'tpuflex.Names("shop", "dev", "old", "b")'),
        (URN.format("prod::shop", "chat"), 'tpuflex.Names("shop", "prod", "chat", "b")'),
    ],
    ids=["name", "stack", "project", "urn", "urn of a stack"],
)
def test_another_name_needs_the_old_names(alias: pulumi.Alias | str, expected: str) -> None:
    """The sentence says what would be replaced, and the line that keeps it."""
    with pytest.raises(pulumi.RunError, match="the slice, the network, the bucket") as refused:
        require_kept_names(None, MADE, [pulumi.Alias(parent=None), alias])
    assert expected in str(refused.value)

    require_kept_names(Names("shop", "dev", "old"), MADE, [alias])


@pytest.mark.parametrize(
    "alias",
    [
        pulumi.Alias(name="chat"),
        pulumi.Alias(type_="shop:index:Endpoint"),
        pulumi.Alias(parent=None),
        URN.format("dev::shop", "chat"),
        "urn:pulumi:",
        pulumi.Output.from_input(URN.format("dev::shop", "old")),
    ],
    ids=["name", "type", "parent", "urn", "no urn", "unknown"],
)
def test_what_leaves_the_names_as_they_are_is_fine(
    alias: pulumi.Input[pulumi.Alias | str],
) -> None:
    """Another parent or type is no other name; of what is not known yet nothing is said."""
    require_kept_names(None, MADE, [alias])
