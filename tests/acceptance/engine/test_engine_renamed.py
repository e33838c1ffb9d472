"""Slices that were renamed, imported or protected: what the next run does with them."""

from __future__ import annotations

import pulumi
import pytest
import requests
from pulumi.automation.errors import CommandError

from tests.provider.deployment import CUT_SHORT, NAME, PROJECT, ZONE, Rig, command, live, until, urn
from tests.provider.fakes import INPUTS
from tpuflex.queued_resource.body import request_body
from tpuflex.queued_resource.check import parse
from tpuflex.tpu import Provider, QueuedResource

pytestmark = CUT_SHORT
#: Of a run of four hours, less than `renew_before` is left.
LATE = 14000.0


def test_a_renamed_protected_slice_is_renewed(rig: Rig) -> None:
    """What takes over has the new name and owner: the old run is deleted for it nevertheless, and
    not billed on because no next generation of its own name serves."""
    rig.args |= {"deletion_protection": True, "renew_before": "600s"}
    with rig.served():
        rig.up()
    command(rig, "state", "rename", urn(rig), "again")
    rig.logical = "again"

    with rig.served(offset=LATE):
        rig.up()

    assert live(rig) == [NAME.replace("shop-dev-slice", "shop-dev-again")]


def test_an_unknown_value_does_not_refuse_the_preview_of_a_protected_slice(rig: Rig) -> None:
    """A value that is known only once something else is made may be what it was: the preview says
    replace, and `up`, which knows it, changes nothing."""
    rig.args["deletion_protection"] = True
    with rig.served():
        rig.up()

    def program() -> None:
        opts = pulumi.ResourceOptions(provider=Provider("cloud", project=PROJECT, embedded=True))
        other = QueuedResource("other", **{**rig.args, "deletion_protection": False}, opts=opts)
        same = other.lifecycle.apply(lambda _: rig.args["runtime_version"])
        QueuedResource("slice", **{**rig.args, "runtime_version": same}, opts=opts)

    rig.stack.workspace.program = program

    with rig.served():
        assert rig.preview() == {"same": 2, "create": 1, "replace": 1}
    with rig.served():
        rig.up()
    assert live(rig) == [NAME.replace("slice", "other"), NAME]
    assert not rig.calls("DELETE")


@pytest.mark.pulumi_feature("import: another's")
def test_what_belongs_to_another_is_not_taken_by_an_import(rig: Rig) -> None:
    """The owner that an import has found is not this program's, unless it says so: `up` leaves the
    slice as it is and names its owner."""
    parent = f"projects/{PROJECT}/locations/{ZONE}"
    answer = requests.post(
        f"{rig.cloud.url}/v2alpha1/{parent}/queuedResources",
        params={"queuedResourceId": "theirs"},
        json=request_body(parse({**INPUTS, "queuedResourceId": "theirs"})),
        headers={"Authorization": f"Bearer {rig.cloud.token}"},
        timeout=60,
    )
    assert answer.status_code == 200, answer.text
    until(lambda: rig.tpu().get("nodes"))
    rig.args |= {"queued_resource_id": "theirs", "metadata": {}, "labels": {}}
    theirs = f"{parent}/queuedResources/theirs"
    owner = r"theirs belongs to .*owner 0123456789abcdef"

    for imported in (theirs, None):
        rig.opts = pulumi.ResourceOptions(import_=imported)
        with rig.served(), pytest.raises(CommandError, match=owner):
            rig.up()
    assert live(rig) == [theirs]
    assert not rig.calls("PATCH", "nodes")
