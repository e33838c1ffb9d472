"""The network of an endpoint that brings one: what is made in it, and what it has to have."""

from __future__ import annotations

from collections.abc import Callable

import pulumi
import pytest

from tests.components.pulumi_plan import Plan
from tests.unit.stack_sections import sections

Deploy = Callable[..., Plan]

SLICE = "tpuflex:tpu:QueuedResource vllm"
NETWORK = "projects/acme-serving/global/networks/team"
SUBNETWORK = "projects/acme-serving/regions/us-east5/subnetworks/serving"
MINE = {"name": "team", "subnetwork": "serving", "egress": "existing"}
LINK = f"https://www.googleapis.com/compute/v1/{NETWORK}"
SEEN = {"network": LINK, "privateIpGoogleAccess": True}


def made(plan: Plan) -> dict[str, int]:
    """How many resources of Compute Engine and DNS there are, by type."""
    counts = plan.counts().items()
    return {
        type_.rpartition(":")[2]: n for type_, n in counts if type_[:7] in ("gcp:com", "gcp:dns")
    }


@pytest.mark.parametrize("preview", [False, True])
def test_nothing_is_made_but_rules_for_the_hosts(deployed: Deploy, preview: bool) -> None:
    """The slice is in the network of yours, and every rule in that is for its own tag."""
    network = {**MINE, "allowed_cidrs": ["10.0.0.0/8"], "tags": ["inference"]}
    plan = deployed(sections({"network": network}), preview=preview, read=SEEN)

    assert made(plan) == {"Firewall": 2}
    slice_ = plan.inputs[SLICE]
    assert (slice_["network"], slice_["subnetwork"]) == (NETWORK, SUBNETWORK)
    assert slice_["tags"] == ["tpuflex-dev-vllm-host", "inference"]
    for role in ("ssh", "serving"):
        rule = plan.inputs[f"gcp:compute/firewall:Firewall vllm-network-brought-{role}"]
        assert rule["network"] == NETWORK
        assert rule["targetTags"] == ["tpuflex-dev-vllm-host"]
    assert plan.inputs["tpuflex:index:Network vllm-network"]["existing"] == {
        "project": "acme-serving",
        "network": NETWORK,
        "subnetwork": SUBNETWORK,
    }


def test_no_rule_where_rules_are_yours(deployed: Deploy) -> None:
    """With manage_firewall: false nothing at all is made for the network."""
    network = {**MINE, "manage_firewall": False}

    assert made(deployed(sections({"network": network}), read=SEEN)) == {}


def test_nat_for_the_one_subnetwork(deployed: Deploy) -> None:
    """Nobody else in the network of yours gets another way out by it."""
    plan = deployed(sections({"network": {**MINE, "egress": "internet"}}), read=SEEN)

    assert made(plan) == {"Firewall": 1, "Router": 1, "RouterNat": 1}
    router = plan.inputs["gcp:compute/router:Router vllm-network-brought-router"]
    assert (router["name"], router["network"]) == ("tpuflex-dev-vllm-brought-router", NETWORK)
    nat = plan.inputs["gcp:compute/routerNat:RouterNat vllm-network-brought-nat"]
    assert nat["sourceSubnetworkIpRangesToNat"] == "LIST_OF_SUBNETWORKS"
    assert nat["subnetworks"] == [{"name": SUBNETWORK, "sourceIpRangesToNats": ["ALL_IP_RANGES"]}]


@pytest.mark.parametrize(
    ("network", "key"),
    [
        ({"name": "tpuflex-dev-vllm-net"}, "name"),
        ({"subnetwork": "tpuflex-dev-vllm-subnet"}, "subnetwork"),
    ],
)
def test_a_name_of_the_endpoints_own_is_refused(
    deployed: Deploy, network: dict[str, object], key: str
) -> None:
    """A teardown finds what is the endpoint's by such a name, and would not leave it."""
    with pytest.raises(pulumi.RunError, match=rf"tpuflex:network\.{key}: .*`sweep` delete"):
        deployed(sections({"network": {**MINE, **network}}), read=SEEN)


def test_no_ssh_in_a_network_of_its_own(deployed: Deploy) -> None:
    """The rule for IAP is left out where nobody is to come in by it."""
    plan = deployed(sections({"network": {"ssh": False}}))

    assert "gcp:compute/firewall:Firewall vllm-network-ssh" not in plan.inputs


@pytest.mark.parametrize("preview", [False, True])
@pytest.mark.parametrize(
    ("seen", "says"),
    [
        ({"privateIpGoogleAccess": False}, "--enable-private-ip-google-access"),
        ({"network": LINK.replace("team", "other")}, "is not a subnetwork of"),
        ({"network": LINK.replace("acme-serving", "x")}, "is not a subnetwork of"),
    ],
)
def test_a_network_that_hosts_cannot_use_is_refused_at_the_plan(
    deployed: Deploy, preview: bool, seen: dict[str, object], says: str
) -> None:
    """Before chips are asked for, the refusal names the key and what to do."""
    with pytest.raises(pulumi.RunError, match=r"tpuflex:network\.subnetwork") as caught:
        deployed(sections({"network": MINE}), preview=preview, read={**SEEN, **seen})

    assert says in str(caught.value)
