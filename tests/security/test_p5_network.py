"""P5: from a host, the network leads to Google's private range and nowhere else."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.components.conftest import EMBEDDED_ENVIRON
from tests.components.pulumi_plan import Plan, run_program
from tests.unit.stack_sections import TPU_IMAGE, embedded, sections
from tpuflex.errors import SettingsError
from tpuflex.program import deploy
from tpuflex.settings.load import parse

HOST = "tpuflex-dev-vllm-host"
PRIVATE_RANGE = ipaddress.ip_network("199.36.153.8/30")
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True)
class Packet:
    """The first packet of a connection that a host opens."""

    to: Address
    protocol: str = "tcp"
    port: int = 443


def planned(mapping: dict[str, Any]) -> Plan:
    """What the stack with these sections registers."""
    settings = parse(mapping, "the test's sections")
    environ = EMBEDDED_ENVIRON if settings.cloud == "embedded" else {}
    return run_program(lambda: deploy(settings, project="tpuflex", stack="dev", environ=environ))


@cache
def rules(egress: str = "google") -> tuple[dict[str, Any], ...]:
    """The firewall rules of a stack."""
    changes = {} if egress == "google" else {"network": {"egress": egress}}
    plan = planned(embedded(changes))
    return tuple(of_type(plan, "gcp:compute/firewall:Firewall"))


def of_type(plan: Plan, type_: str) -> Iterator[dict[str, Any]]:
    return (inputs for address, inputs in plan.inputs.items() if address.startswith(f"{type_} "))


def allows(packet: Packet, firewall: tuple[dict[str, Any], ...], tag: str = HOST) -> bool:
    """Whether a VM with ``tag`` may send ``packet``, as Google evaluates VPC firewall rules: by
    priority, the smallest number first, a denial before an allowance of the same priority, and
    what no rule is about is allowed
    (https://cloud.google.com/firewall/docs/firewalls#priority_order_for_firewall_rules)."""
    about = [rule for rule in firewall if _is_about(rule, packet, tag)]
    if not about:
        return True
    first = min(about, key=lambda rule: (rule.get("priority", 1000), "denies" not in rule))
    return "denies" not in first


def _is_about(rule: dict[str, Any], packet: Packet, tag: str) -> bool:
    targets = rule.get("targetTags")
    return (
        rule.get("direction") == "EGRESS"
        and not rule.get("disabled")
        and (not targets or tag in targets)
        and any(packet.to in ipaddress.ip_network(each) for each in rule["destinationRanges"])
        and any(_covers(each, packet) for each in rule.get("denies") or rule["allows"])
    )


def _covers(entry: dict[str, Any], packet: Packet) -> bool:
    if entry["protocol"] not in ("all", packet.protocol):
        return False
    spans = [port.partition("-") for port in entry.get("ports", [])]
    return not spans or any(int(a) <= packet.port <= int(b or a) for a, _, b in spans)


@pytest.mark.parametrize("address", list(PRIVATE_RANGE), ids=str)
def test_the_hosts_reach_googles_apis(address: ipaddress.IPv4Address) -> None:
    """S13: HTTPS to each address of private.googleapis.com is allowed."""
    assert allows(Packet(address), rules())


@pytest.mark.parametrize(
    "packet",
    [
        Packet(ipaddress.ip_address("1.1.1.1")),
        Packet(ipaddress.ip_address("8.8.8.8"), "udp", 53),
        Packet(ipaddress.ip_address("199.36.153.8"), "tcp", 80),
        Packet(ipaddress.ip_address("199.36.153.8"), "udp", 443),
        Packet(ipaddress.ip_address("199.36.153.7")),
        Packet(ipaddress.ip_address("199.36.153.12")),
        Packet(ipaddress.ip_address("10.128.0.3"), "tcp", 8000),
        Packet(ipaddress.ip_address("10.128.0.3"), "icmp", 0),
        Packet(ipaddress.ip_address("2606:4700:4700::1111")),
        Packet(ipaddress.ip_address("2600:2d00:2:2000::8")),
        Packet(ipaddress.ip_address("::ffff:199.36.153.8")),
    ],
    ids=str,
)
def test_nothing_else_is_reached(packet: Packet) -> None:
    """S13: internet, other ports and protocols, hosts of the same network, and IPv6 are denied."""
    assert not allows(packet, rules())


@given(
    to=st.ip_addresses(),
    protocol=st.sampled_from(["tcp", "udp", "icmp", "esp", "gre", "sctp"]),
    port=st.integers(0, 65535),
)
def test_whatever_is_tried_is_denied(to: Address, protocol: str, port: int) -> None:
    """S13: no address, protocol and port but those of Google's APIs gets out."""
    assume(not (to in PRIVATE_RANGE and protocol == "tcp" and port == 443))

    assert not allows(Packet(to, protocol, port), rules())


def test_a_rule_that_somebody_adds_does_not_open_the_network() -> None:
    """S13: an allowance with the priority that rules have by default does not outdo the denial."""
    added = {
        "direction": "EGRESS",
        "destinationRanges": ["0.0.0.0/0"],
        "allows": [{"protocol": "all"}],
    }

    assert not allows(Packet(ipaddress.ip_address("1.1.1.1")), (*rules(), added))


@pytest.mark.parametrize("mapping", [embedded(), sections()], ids=["embedded", "google"])
def test_there_is_no_way_around_the_rules(mapping: dict[str, Any]) -> None:
    """S13: no NAT, no external address, and every rule is about the tag that the slice carries."""
    plan = planned(mapping)

    assert not list(of_type(plan, "gcp:compute/router:Router"))
    assert not list(of_type(plan, "gcp:compute/routerNat:RouterNat"))
    (slice_,) = of_type(plan, "tpuflex:tpu:QueuedResource")
    assert slice_["tags"] == [HOST]
    assert not slice_.get("externalIps")
    tags = [rule["targetTags"] for rule in of_type(plan, "gcp:compute/firewall:Firewall")]
    assert tags == [[HOST]] * 4


def test_every_name_that_a_host_needs_leads_to_the_private_range() -> None:
    """S13: Google's APIs and registries resolve to addresses that the rules allow."""
    plan = planned(embedded())
    zones = {zone["name"]: zone for zone in of_type(plan, "gcp:dns/managedZone:ManagedZone")}
    records = list(of_type(plan, "gcp:dns/recordSet:RecordSet"))
    network = plan.inputs["gcp:compute/network:Network vllm-network"]["name"]

    assert {zone["dnsName"] for zone in zones.values()} == {
        "googleapis.com.",
        "gcr.io.",
        "pkg.dev.",
    }
    for zone in zones.values():
        (bound,) = zone["privateVisibilityConfig"]["networks"]
        assert zone["visibility"] == "private"
        assert bound["networkUrl"].endswith(f"/networks/{network}")
        mine = {
            (each["name"], each["type"]): each["rrdatas"]
            for each in records
            if each["managedZone"] == zone["name"]
        }
        (name,) = mine[f"*.{zone['dnsName']}", "CNAME"]
        addresses = [ipaddress.ip_address(each) for each in mine[name, "A"]]
        assert addresses == list(PRIVATE_RANGE)


def test_the_internet_is_open_only_if_the_stack_file_says_so() -> None:
    """With `egress: internet` in the stack file no rule denies."""
    assert allows(Packet(ipaddress.ip_address("1.1.1.1")), rules("internet"))


@pytest.mark.parametrize(
    "image",
    ["vllm/vllm-tpu", "docker.io/vllm/vllm-tpu", "ghcr.io/a/b", "evil-docker.pkg.dev.x/p/r/i"],
)
def test_an_image_that_the_hosts_cannot_pull_is_refused(image: str) -> None:
    """S13: nothing is created for an image outside of Google's registries; the refusal has the
    command that makes a mirror, and the key that opens the network."""
    digest = TPU_IMAGE.partition("@")[2]

    with pytest.raises(SettingsError, match="is not in Artifact Registry") as caught:
        parse(sections({"serving.image": f"{image}@{digest}"}), "the test's sections")

    assert "gcloud artifacts repositories create" in str(caught.value)
    assert "egress: internet" in str(caught.value)
    opened = {"serving.image": f"{image}@{digest}", "network": {"egress": "internet"}}
    assert parse(sections(opened), "the test's sections")
