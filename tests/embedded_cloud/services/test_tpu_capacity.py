"""Capacity: when and where there is some, and rules that are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from embedded_cloud.server import EmbeddedCloud
from tests.embedded_cloud.api import PROJECT, ZONE, Api, error_of, flex_start


def test_capacity_can_come_by_polls_and_differ_by_zone(api: Api, cloud: EmbeddedCloud) -> None:
    """Granted at the third GET here, never in the next zone; operations do not count."""
    api.capacity(grant_after_polls=3, zones={"us-east5-b": {"never": True}})
    other = Api(cloud.url, zone="us-east5-b")
    body = flex_start()
    body["tpu"]["nodeSpec"][0]["parent"] = f"projects/{PROJECT}/locations/us-east5-b"
    api.create()
    other.create(body=body)
    cloud.advance(3600)
    assert [api.state() for _ in range(3)] == [
        "WAITING_FOR_RESOURCES",
        "WAITING_FOR_RESOURCES",
        "PROVISIONING",
    ]
    assert {other.state() for _ in range(5)} == {"WAITING_FOR_RESOURCES"}


def test_new_capacity_reaches_waiting_requests(api: Api, cloud: EmbeddedCloud) -> None:
    """Rules can change while requests wait; the grant comes after the change."""
    api.capacity(never=True)
    api.create()
    cloud.advance(3600)
    api.capacity(grant_after_s=0)
    assert api.state() == "PROVISIONING"
    cloud.advance(1)
    assert api.get("nodes/n1")["createTime"] == "2026-11-21T13:00:00.000000000Z"


@pytest.mark.parametrize("how", ["table", "capacity"])
def test_a_zone_without_flex_start_rejects_through_the_operation(
    api: Api, cloud: EmbeddedCloud, how: str
) -> None:
    """The call is accepted; the operation ends with code 3 and nothing is left."""
    zone = "us-central1-b" if how == "table" else ZONE
    if how == "capacity":
        api.capacity(unsupported_zones=[ZONE])
    there = Api(cloud.url, zone=zone)
    body = flex_start()
    body["tpu"]["nodeSpec"][0]["parent"] = f"projects/{PROJECT}/locations/{zone}"
    operation = there.create(body=body).json()
    assert operation["done"] is False
    assert there.state() == "CREATING"
    cloud.advance(0.3)
    ended = there.get(f"operations/{operation['name'].rpartition('/')[2]}")
    assert ended["error"] == {
        "code": 3,
        "message": "FLEX_START provisioning model is not supported for accelerator type "
        f"v6e-4 in location {zone}",
    }
    assert there.state() == "GONE"
    assert cloud.cloud.inventory() == {}


@pytest.mark.parametrize(
    "rules",
    [
        {"grant_after": 1},
        {"grant_after_s": -1},
        {"grant_after_polls": 0},
        {"never": "yes"},
        {"failure": {"code": "OOPS"}},
        {"zones": []},
        {"zones": {"us-east5-a": 1}},
        {"unsupported_zones": "us-east5-a"},
        {"zones": {"us-east5-a": {"x": 1}}},
    ],
)
def test_capacity_rules_that_are_not_understood_are_refused(api: Api, rules: Any) -> None:
    """400, and the rules in force stay."""
    before = api.call("GET", "/_emulator/capacity").json()
    answer = api.call("POST", "/_emulator/capacity", body=rules)
    assert error_of(answer)[:2] == (400, "INVALID_ARGUMENT")
    assert api.call("GET", "/_emulator/capacity").json() == before


def test_a_zone_inherits_what_it_does_not_set(tmp_path: Path) -> None:
    """A zone's rule starts from the common one; setting a grant overrides ``never``."""
    rules: Any = {
        "never": True,
        "provisioning_s": 7,
        "zones": {"us-east5-b": {"grant_after_s": 1}},
    }
    with EmbeddedCloud(tmp_path / "emulator", capacity=rules) as cloud:
        shown: Any = cloud.cloud.capacity.current().to_json()
    assert shown["never"] is True
    assert shown["zones"]["us-east5-b"]["never"] is False
    assert shown["zones"]["us-east5-b"]["provisioning_s"] == 7
