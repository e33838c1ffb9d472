"""What could not be looked at: said once for each reason, and completed by what the state knows."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cli.typing import NOON
from tpuflex.cli.cloud import Cloud
from tpuflex.cli.invocation import Invocation
from tpuflex.cli.stack import OpenStack
from tpuflex.cli.steps.down import show_planned
from tpuflex.cli.steps.ours import Ours
from tpuflex.cli.steps.teardown import Planned
from tpuflex.engine.events import EnginePlan
from tpuflex.gcp.inventory import Inventory, Item
from tpuflex.naming import QUEUED_RESOURCE
from tpuflex.operate.unseen import NOT_READ, reasons, recorded, unseen_remedy

ZONE = "projects/p/locations/us-east5-a"
REFUSED = (
    f"queued resources in us-east5-a: GET https://tpu.googleapis.com/v2alpha1/{ZONE}/x: 403:"
    f" Permission 'tpu.nodes.list' denied on resource '//tpu.googleapis.com/{ZONE}/queuedResources'"
)
STATE: list[dict[str, Any]] = [
    {"type": "gcp:dns/managedZone:ManagedZone", "id": "projects/p/managedZones/zone"},
    {"type": QUEUED_RESOURCE, "id": f"{ZONE}/queuedResources/q"},
    {"type": "gcp:compute/network:Network", "id": "projects/p/global/networks/net"},
    {"type": "pulumi:providers:gcp", "id": "x"},
]
NETWORK = Item("network", "net", "global")
KINDS = frozenset(("queued resource", "node", "DNS zone"))


def test_the_state_tells_what_could_not_be_listed() -> None:
    """An engineer on call: a slice, its node and DNS zones were missing from the list that `down`
    asks consent for, and were destroyed all the same."""
    found = recorded(STATE, Inventory((NETWORK,), (REFUSED,), KINDS))

    assert [(item.kind, item.name, item.location) for item in found] == [
        ("queued resource", "q", "us-east5-a"),
        ("node", "q", "us-east5-a"),
        ("DNS zone", "zone", "global"),
    ]
    assert {item.detail for item in found} == {NOT_READ}


def test_what_was_listed_whole_needs_no_state() -> None:
    """What the state knows, and is in no complete list, is gone."""
    assert recorded(STATE, Inventory((NETWORK,))) == ()


def test_a_reason_is_said_once() -> None:
    """An engineer on call: a wall of the same refusal, one for each kind and zone."""
    elsewhere = REFUSED.replace("us-east5-a", "us-west1-c")

    (line,) = reasons((REFUSED, elsewhere, REFUSED.replace("queued resources in", "nodes in")))

    assert line.startswith(
        "queued resources in us-east5-a and 1 more place, nodes in us-east5-a: 403: Permission"
    )
    assert reasons(("nodes: z is unreachable",)) == ["nodes: z is unreachable"]


@pytest.mark.parametrize(
    ("unseen", "remedy"),
    [
        (REFUSED, "--role=roles/tpu.viewer"),
        ("networks: 403: This API method requires billing to be enabled.", "projects link p "),
    ],
)
def test_the_remedy_mends_the_cause(unseen: str, remedy: str) -> None:
    """An engineer on call: "Run `tpuflex down` again" was all, and ended in the same way."""
    assert remedy in unseen_remedy((unseen,), "p")
    assert unseen_remedy(("nodes: 503",), "p") == ""


def test_before_the_question(stack: OpenStack, capsys: pytest.CaptureFixture[str]) -> None:
    """What could not be looked at is in the list, and said with what that means."""
    inventory = Inventory((NETWORK,), (REFUSED,), KINDS)
    mine = Ours({"resources": STATE}, {}, frozenset())
    planned = Planned(mine, True, EnginePlan(()), inventory, ())

    show_planned(Invocation(environ={}, now=lambda: NOON), Cloud(stack, {}), planned)

    said = capsys.readouterr().out
    assert f"queued resource  us-east5-a  {NOT_READ}  q" in said
    assert said.index("Could not be looked at: queued resources") < said.index("cost so far")
    assert "is destroyed all the same" in said


def test_what_could_not_be_compared_is_said(
    stack: OpenStack, capsys: pytest.CaptureFixture[str]
) -> None:
    """`down` deleted what it had not been allowed to read, and did not say so: nobody had looked
    whether it was still what the stack had made."""
    denied = "GET https://iam/x: 403: Permission 'iam.serviceAccounts.get' denied on resource"
    uncompared = {f"urn:pulumi:dev::p::type::{name}": denied for name in ("vllm-host", "other")}
    mine = Ours({"resources": STATE}, {}, frozenset(), uncompared)
    planned = Planned(mine, True, EnginePlan(()), Inventory((NETWORK,)), ())

    show_planned(Invocation(environ={}, now=lambda: NOON), Cloud(stack, {}), planned)

    said = capsys.readouterr().out
    assert "Could not be compared with the state: vllm-host, other: 403: Permission 'iam." in said
    assert "nobody could look" in said
    assert "--role=roles/iam.serviceAccountViewer" in said
