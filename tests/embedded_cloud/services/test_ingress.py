"""Whether a network's firewall lets IAP in to a host."""

from __future__ import annotations

from typing import Any

import pytest

from embedded_cloud.services.iap.relay import Connection, lets_in

IAP = "35.235.240.0/20"
NETWORK = "projects/p/global/networks/net"
SSH = Connection(IAP, 22, NETWORK, ("host",), "vm@p.iam")


def rule(**changes: Any) -> dict[str, Any]:
    allowed = [{"IPProtocol": "tcp", "ports": ["22"]}]
    return {
        "network": f"https://www.googleapis.com/compute/v1/{NETWORK}",
        "sourceRanges": [IAP],
        "targetTags": ["host"],
        **({} if "denied" in changes else {"allowed": allowed}),
        **changes,
    }


@pytest.mark.parametrize(
    ("rules", "in_"),
    [
        ([], False),
        ([rule()], True),
        ([rule(sourceRanges=["0.0.0.0/0"])], True),
        ([rule(sourceRanges=["10.0.0.0/8", "35.235.240.0/21"])], False),
        ([rule(targetTags=["other"])], False),
        ([rule(targetTags=["other"], targetServiceAccounts=["vm@p.iam"])], True),
        ([rule(targetTags=[])], True),
        ([rule(network="projects/p/global/networks/other")], False),
        ([rule(network="global/networks/net")], True),
        ([rule(disabled=True)], False),
        ([rule(direction="EGRESS")], False),
        ([rule(allowed=[{"IPProtocol": "tcp", "ports": ["8000"]}])], False),
        ([rule(allowed=[{"IPProtocol": "tcp", "ports": ["20-25"]}])], True),
        ([rule(allowed=[{"IPProtocol": "tcp"}])], True),
        ([rule(allowed=[{"IPProtocol": "udp", "ports": ["22"]}])], False),
        ([rule(allowed=[{"IPProtocol": "all"}])], True),
        ([rule(), rule(denied=[{"IPProtocol": "all"}])], False),
        ([rule(priority=900), rule(denied=[{"IPProtocol": "all"}])], True),
        ([rule(), rule(denied=[{"IPProtocol": "all"}], priority=2000)], True),
    ],
)
def test_the_rule_that_decides(rules: list[dict[str, Any]], in_: bool) -> None:
    """As VPC firewalls do, by priority, denial first; nothing matches: denied."""
    assert lets_in(rules, SSH) is in_
