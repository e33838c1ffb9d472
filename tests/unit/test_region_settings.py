"""Zones in several regions: what a stack with these has to say, and what it cannot have."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.stack_sections import findings, sections
from tpuflex.settings.load import parse

ZONES = ["us-east5-a", "europe-west4-a", "us-east5-b"]
LIBRARY = {"bucket": "library"}
EUROPE = {"europe-west4": "10.128.16.0/20"}
_CIDRS = "tpuflex:network.subnetwork_cidrs"
_KEY = "projects/acme-serving/locations/us-east5/keyRings/r/cryptoKeys/k"


def several(**changes: Any) -> dict[str, Any]:
    """Sections of a stack with zones in two regions, changed by dotted keys with `__`."""
    said = {
        "slice.zones": ZONES,
        "model.weights": LIBRARY,
        "network": {"subnetwork_cidrs": EUROPE},
    } | {key.replace("__", "."): value for key, value in changes.items()}
    return sections(said)


@pytest.mark.parametrize(
    ("zones", "cidrs", "home"),
    [
        (ZONES, EUROPE, "us-east5"),
        (["europe-west4-a", "us-east5-a"], EUROPE, "us-east5"),
        (ZONES, {"us-east5": "10.0.0.0/24"}, "europe-west4"),
        (["us-east5-a"], {}, "us-east5"),
    ],
)
def test_the_home_is_the_region_without_a_range_of_its_own(
    zones: list[str], cidrs: dict[str, str], home: str
) -> None:
    """Whatever the order of the zones: who changes that moves no secrets."""
    settings = parse(several(slice__zones=zones, network={"subnetwork_cidrs": cidrs}), "test")

    assert settings.region == home
    assert set(settings.slice.regions) == {home, *cidrs}


REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"model__weights": {}}, "tpuflex:slice.zones", "tpuflex:model.weights.bucket: library"),
    (
        {"model__weights": {"bucket": "gs://mine"}},
        "tpuflex:slice.zones",
        "tpuflex:model.weights.bucket is gs://mine",
    ),
    (
        {"network": {"name": "team", "subnetwork": "serving", "egress": "existing"}},
        "tpuflex:slice.zones",
        "leave out name and subnetwork",
    ),
    (
        {
            "network": {
                "name": "team",
                "subnetwork": "serving",
                "egress": "existing",
                "subnetwork_cidrs": EUROPE,
            }
        },
        _CIDRS,
        "it would have no effect",
    ),
    ({"encryption": {"kms_key": _KEY}}, "tpuflex:slice.zones", "remove the key"),
    ({"network": {}}, _CIDRS, "at home in us-east5: {europe-west4: 10.128.16.0/20}"),
    (
        {"slice__zones": [*ZONES, "asia-northeast1-b"]},
        _CIDRS,
        "{europe-west4: 10.128.16.0/20, asia-northeast1: 10.128.32.0/20}",
    ),
    (
        {
            "slice__zones": [*ZONES, "asia-northeast1-b"],
            "network": {"subnetwork_cidr": "255.255.240.0/20", "subnetwork_cidrs": EUROPE},
        },
        _CIDRS,
        "asia-northeast1: 10.0.0.0/20",
    ),
    (
        {"network": {"subnetwork_cidrs": {**EUROPE, "us-east5": "10.9.0.0/20"}}},
        _CIDRS,
        "but the stack's home has tpuflex:network.subnetwork_cidr",
    ),
    ({"slice__zones": ["us-east5-a"]}, _CIDRS, "no zone of tpuflex:slice.zones is in europe-west4"),
    (
        {"network": {"subnetwork_cidrs": {"europe-west4": "10.128.0.0/24"}}},
        _CIDRS,
        "addresses of 10.128.0.0/20, which us-east5 has",
    ),
    ({"network": {"subnetwork_cidrs": {"europe-west4": "10.0.0.0/30"}}}, _CIDRS, "prefix"),
    ({"network": {"subnetwork_cidrs": {"Europe": "10.0.0.0/20"}}}, _CIDRS, "Europe"),
]


@pytest.mark.parametrize(("changes", "key", "says"), REFUSED)
def test_refused(changes: dict[str, Any], key: str, says: str) -> None:
    """What lies in one region, or is missing in one, is named with what to write."""
    found = [each for each in findings(several(**changes)) if each.key.startswith(key)]

    assert found
    assert any(says in f"{each.problem}. {each.remedy}" for each in found)
    assert all(each.remedy for each in found)
