"""The network of an endpoint: its own, or one that is there already."""

from __future__ import annotations

import pytest

from tests.unit.stack_sections import sections
from tpuflex.errors import SettingsError
from tpuflex.settings.load import parse
from tpuflex.settings.rules import warnings

MINE = {"name": "team", "subnetwork": "serving", "egress": "existing"}
HOST = "projects/acme-network"
SHARED = {
    "name": f"{HOST}/global/networks/team",
    "subnetwork": f"{HOST}/regions/us-east5/subnetworks/serving",
    "egress": "existing",
    "manage_firewall": False,
}


def refused(network: dict[str, object]) -> dict[str, str]:
    """What is wrong with the section, by key."""
    with pytest.raises(SettingsError) as caught:
        parse(sections({"network": network}), "test")
    return {
        each.key.removeprefix("tpuflex:network."): f"{each.problem}. {each.remedy}"
        for each in caught.value.findings
        if each.key.startswith("tpuflex:network.")
    }


@pytest.mark.parametrize(
    ("network", "project", "subnetwork"),
    [
        (MINE, "acme-serving", "projects/acme-serving/regions/us-east5/subnetworks/serving"),
        (SHARED, "acme-network", f"{HOST}/regions/us-east5/subnetworks/serving"),
        (
            {**SHARED, "subnetwork": "serving"},
            "acme-network",
            f"{HOST}/regions/us-east5/subnetworks/serving",
        ),
    ],
)
def test_a_network_of_yours(network: dict[str, object], project: str, subnetwork: str) -> None:
    """It is named by its name in the stack's project, or by its path in any."""
    existing = parse(sections({"network": network}), "test").existing_network

    assert existing is not None
    assert existing.project == project
    assert existing.network == f"projects/{project}/global/networks/team"
    assert existing.subnetwork == subnetwork


def test_without_one_the_endpoint_has_its_own() -> None:
    """Nothing has to be said for that."""
    assert parse(sections(), "test").existing_network is None


@pytest.mark.parametrize(
    ("network", "key", "says"),
    [
        ({"name": "team"}, "subnetwork", "is missing, and name is there"),
        ({"subnetwork": "serving"}, "name", "is missing, and subnetwork is there"),
        ({**MINE, "name": "https://x/y"}, "name", "projects/HOST/global/networks/NAME"),
        ({**MINE, "subnetwork": "A b"}, "subnetwork", "projects/HOST/regions/REGION"),
        ({**MINE, "egress": "google"}, "egress", "private DNS zones"),
        ({**MINE, "subnetwork_cidr": "10.9.0.0/24"}, "subnetwork_cidr", "would have no effect"),
        (
            {**MINE, "manage_firewall": False, "allowed_cidrs": ["10.0.0.0/8"]},
            "allowed_cidrs",
            "would have no effect",
        ),
        ({**SHARED, "manage_firewall": True}, "manage_firewall", "belong into that project"),
        ({**SHARED, "egress": "internet"}, "egress", "belongs into that project"),
        (
            {**SHARED, "subnetwork": f"{HOST}/regions/us-east1/subnetworks/serving"},
            "subnetwork",
            "is not in us-east5",
        ),
        (
            {**SHARED, "subnetwork": "projects/acme-other/regions/us-east5/subnetworks/serving"},
            "subnetwork",
            "in another project",
        ),
        ({"egress": "existing"}, "egress", "leads nowhere"),
        ({"manage_firewall": False}, "manage_firewall", "is for a network of yours"),
        ({"tags": ["Capital"]}, "tags[0]", "lower-case letters"),
    ],
)
def test_what_cannot_be_honoured_is_refused(
    network: dict[str, object], key: str, says: str
) -> None:
    """Nothing is ignored, and each refusal says what to write instead."""
    assert says in refused(network)[key]


@pytest.mark.parametrize(
    ("network", "key"),
    [({"ssh": False}, "ssh"), (SHARED, "manage_firewall"), (MINE, ""), ({}, "")],
)
def test_without_a_rule_for_ssh_you_are_told_what_needs_it(
    network: dict[str, object], key: str
) -> None:
    """The tunnel of `ask` comes through IAP."""
    found = warnings(parse(sections({"network": network}), "test"))
    about = [each.key for each in found if each.key.startswith("tpuflex:network")]

    assert about == ([f"tpuflex:network.{key}"] if key else [])


@pytest.mark.parametrize(
    ("network", "warned"), [(MINE, True), ({**MINE, "egress": "internet"}, False)]
)
def test_an_image_from_elsewhere_is_left_to_a_network_of_yours(
    network: dict[str, object], warned: bool
) -> None:
    """What that network lets the hosts reach, its owner knows, and is told what it has to."""
    image = f"docker.io/others/vllm@sha256:{'ab' * 32}"
    settings = parse(sections({"network": network, "serving.image": image}), "test")
    found = [each.problem for each in warnings(settings) if each.key == "tpuflex:serving.image"]

    assert any("depends on your network" in text for text in found) is warned


def test_an_image_in_a_registry_of_google_needs_no_way_out() -> None:
    """Private Google Access, which the subnetwork has to have, leads to it."""
    found = warnings(parse(sections({"network": MINE}), "test"))

    assert not any("depends on your network" in each.problem for each in found)
