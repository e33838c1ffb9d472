"""Refactorings under the real engine: what runs keeps running, and nobody gets another's slice."""

from __future__ import annotations

from typing import Any

import pulumi
import pytest
import requests
from pulumi.automation.errors import CommandError

from tests.provider.deployment import CUT_SHORT, NAME, Rig, command, outputs, until, urn
from tests.provider.fakes import INPUTS
from tpuflex.queued_resource.body import request_body
from tpuflex.queued_resource.check import parse

pytestmark = [*CUT_SHORT, pytest.mark.usefixtures("served")]
NEXT = NAME.removesuffix("-g1") + "-g2"


def names(rig: Rig) -> list[str]:
    """Full names of the queued resources that the cloud has."""
    return sorted(item["name"] for item in rig.tpu().get("queuedResources", []))


def made_by_hand(rig: Rig) -> str:
    """A request that nobody marked, as gcloud makes it; its full name."""
    body: Any = request_body(parse({**INPUTS, "queuedResourceId": "by-hand"}))
    del body["tpu"]["nodeSpec"][0]["node"]["labels"]
    parent = "projects/cloud-project/locations/us-east5-a"
    answer = requests.post(
        f"{rig.cloud.url}/v2alpha1/{parent}/queuedResources",
        params={"queuedResourceId": "by-hand"},
        json=body,
        headers={"Authorization": f"Bearer {rig.cloud.token}"},
        timeout=60,
    )
    assert answer.status_code == 200, answer.text
    until(lambda: rig.tpu().get("nodes"))
    return f"{parent}/queuedResources/by-hand"


@pytest.mark.pulumi_feature("alias by name", "state rename")
def test_p1_a_slice_keeps_its_name_through_renames(rig: Rig) -> None:
    """P1: an alias, a move into a component, a renamed stack and a renamed resource of the state
    change nothing; what replaces it later has a name of its own."""
    rig.up()
    rig.logical, rig.opts = "renamed", pulumi.ResourceOptions(aliases=[pulumi.Alias(name="slice")])

    assert rig.preview() == {"same": 3}
    rig.up()
    assert names(rig) == [NAME]
    rig.opts = pulumi.ResourceOptions()
    command(rig, "state", "rename", urn(rig), "again")
    rig.logical = "again"
    assert rig.preview() == {"same": 3}

    rig.args["accelerator_type"] = "v6e-8"
    assert rig.preview() == {"same": 2, "replace": 1}
    rig.up()
    assert names(rig) == [NAME.replace("shop-dev-slice", "shop-dev-again")]
    assert rig.preview() == {"same": 3}
    rig.destroy()
    assert rig.tpu() == {}


def test_p2_parts_of_two_components_have_names_of_their_own(rig: Rig) -> None:
    """P2: what moves to a component of another type, without an alias, is another slice: it is made
    before the old one goes, and never shares its request."""
    rig.inside = "shop:index:A"
    rig.up()
    (first,) = names(rig)
    assert first != NAME
    rig.inside = "shop:index:B"

    rig.up()

    (second,) = names(rig)
    assert second not in (first, NAME)
    assert outputs(rig)["name"] == second


def test_p3_a_program_may_take_the_first_address_of_what_waits(rig: Rig) -> None:
    """P3: while the request waits, the state has no address, and a preview says that it is not
    known: an index into the empty list would end every preview until somebody removes it."""
    rig.capacity(never=True)
    rig.opts = pulumi.ResourceOptions(custom_timeouts=pulumi.CustomTimeouts(create="1s"))
    with pytest.raises(CommandError, match="is not active after 1s"):
        rig.up()
    rig.first_address = True

    assert rig.preview() == {"same": 2, "update": 1}
    rig.capacity()
    rig.opts = pulumi.ResourceOptions()
    rig.up()
    assert rig.stack.outputs()["first"].value


@pytest.mark.pulumi_feature("another provider configuration")
def test_p4_a_changed_provider_is_told_of_its_change(rig: Rig) -> None:
    """P4: a provider that may talk to Google only is refused on the embedded cloud, not only in a
    new stack, and before the state has it: the commands after it work."""
    rig.up()
    before = rig.embedded
    rig.embedded, rig.args["description"] = False, "other"

    with pytest.raises(CommandError, match="this stack runs on Google Cloud"):
        rig.up()
    assert names(rig) == [NAME]
    assert not rig.calls("PATCH", "nodes")
    rig.embedded = before
    rig.refresh()
    rig.up()
    assert len(rig.calls("PATCH", "nodes")) == 1


@pytest.mark.pulumi_feature("import: made by hand")
def test_p6_what_was_made_by_hand_is_managed_after_import(rig: Rig) -> None:
    """P6: after the import, what the state records by its time of creation is ours: `up` marks its
    node, a change is patched, and destroy deletes it."""
    made = made_by_hand(rig)
    rig.args = {**rig.args, "queued_resource_id": "by-hand", "metadata": {}, "labels": {}}
    rig.opts = pulumi.ResourceOptions(import_=made, ignore_changes=["labels"])
    rig.up()
    rig.opts = pulumi.ResourceOptions()
    rig.args["labels"] = {"team": "search"}

    rig.up()

    assert names(rig) == [made]
    node = rig.tpu()["nodes"][0]
    assert node["labels"]["team"] == "search"
    assert "tpuflex-owner" in node["labels"]
    rig.refresh()
    assert rig.preview() == {"same": 3}
    rig.destroy()
    assert rig.tpu() == {}


@pytest.mark.pulumi_feature("replace", "replace_on_changes")
@pytest.mark.parametrize("how", ["on demand", "replace_on_changes"])
def test_p7_what_is_protected_is_not_replaced_on_demand(rig: Rig, how: str) -> None:
    """P7: neither `up --replace` nor `replace_on_changes` passes deletion_protection, which the
    preview says already; without it both replace."""
    rig.args["deletion_protection"] = True
    rig.up()
    replace = [urn(rig)] if how == "on demand" else None
    if not replace:
        rig.opts = pulumi.ResourceOptions(replace_on_changes=["description"])
        rig.args["description"] = "other"

    for command_ in (rig.stack.preview, rig.stack.up):
        with pytest.raises(CommandError, match="it is not replaced on demand"):
            command_(replace=replace)
    assert names(rig) == [NAME]
    assert len(rig.calls("POST")) == 1

    rig.args["deletion_protection"] = False
    rig.args.pop("description", None)
    rig.up()
    rig.args["description"] = "other"
    rig.stack.up(replace=replace)
    assert names(rig) == [NEXT]


@pytest.mark.pulumi_feature("retain_on_delete")
def test_p8_a_retained_slice_is_left_alone(rig: Rig) -> None:
    """P8: what `retain_on_delete` let go of runs on; what comes after it takes the next generation
    that is free, which the preview shows already, and neither adopts nor deletes the old run."""
    rig.opts = pulumi.ResourceOptions(retain_on_delete=True)
    rig.up()
    rig.args["accelerator_type"] = "v6e-8"
    rig.up()
    assert names(rig) == [NAME, NEXT]
    command(rig, "state", "delete", urn(rig))  # g2 runs on, and no state knows of it
    requests.delete(
        f"{rig.cloud.url}/v2alpha1/{NAME}",
        params={"force": "true"},
        headers={"Authorization": f"Bearer {rig.cloud.token}"},
        timeout=60,
    )
    rig.opts = pulumi.ResourceOptions()
    until(lambda: NAME not in names(rig))
    rig.up()
    assert names(rig) == [NAME, NEXT]
    rig.args["accelerator_type"] = "v6e-1"

    third = NAME.removesuffix("-g1") + "-g3"
    assert third.rpartition("/")[2] in rig.stack.preview(diff=True).stdout
    rig.up()
    assert names(rig) == [NEXT, third]
    assert rig.preview() == {"same": 3}
    rig.args["queued_resource_id"] = NEXT.rpartition("/")[2]
    with pytest.raises(CommandError, match="is older than what it would replace"):
        rig.up()
    del rig.args["queued_resource_id"]
    rig.destroy()
    assert names(rig) == [NEXT]
