"""Chips are counted against the quota, and requests above it are refused."""

from __future__ import annotations

from typing import Any

import pytest

from embedded_cloud.server import EmbeddedCloud
from tests.embedded_cloud.api import RUN_S, ZONE, Api, error_of, flex_start
from tpuflex.queued_resource.causes import Cause, classify

_FLEX = "TPUV6EPreemptiblePerProjectPerZoneForTPUAPI"


def _body(node_id: str, accelerator: str = "v6e-8", **request: Any) -> dict[str, Any]:
    body = flex_start(acceleratorType=accelerator) | request
    body["tpu"]["nodeSpec"][0]["nodeId"] = node_id
    return body


def _limit(api: Api, **quota: int) -> None:
    rules = {"quota": {zone.replace("_", "-"): chips for zone, chips in quota.items()}}
    assert api.call("POST", "_emulator/capacity", body=rules).status_code == 200


def test_sixty_four_chips_per_project_and_zone(api: Api, cloud: EmbeddedCloud) -> None:
    """The ninth v6e-8 is refused in Google's words; other zones and projects have their own."""
    for index in range(8):
        assert api.create(f"q{index}", body=_body(f"n{index}")).status_code == 200
    refused = api.create("q8", body=_body("n8"))
    message = f"Quota '{_FLEX}' exhausted. Limit 64 in zone {ZONE}"
    assert error_of(refused) == (429, "RESOURCE_EXHAUSTED", message)
    assert classify(8, message) is Cause.QUOTA
    assert api.state("q8") == "GONE"
    for other in (Api(cloud.url, zone="us-east5-b"), Api(cloud.url, project="other")):
        body = _body("n8")
        parent = f"projects/{other.project}/locations/{other.zone}"
        body["tpu"]["nodeSpec"][0]["parent"] = parent
        assert other.create("q8", body=body).status_code == 200


def test_what_has_ended_counts_until_it_is_deleted(api: Api, cloud: EmbeddedCloud) -> None:
    """An ended request uses quota until it is deleted."""
    _limit(api, us_east5_a=8)
    api.create("q1", body=_body("n1"))
    cloud.advance(10 + RUN_S)
    cloud.advance(10)
    assert api.state("q1") == "SUSPENDED"
    assert error_of(api.create("q2", body=_body("n2")))[0] == 429
    api.tpu("DELETE", "queuedResources/q1")
    cloud.advance(10)
    assert api.create("q2", body=_body("n2")).status_code == 200


def test_no_quota_at_all(api: Api) -> None:
    """``Limit 0``: the zone refuses every request, however small."""
    _limit(api, us_east5_a=0)
    refused = api.create(body=_body("n1", "v6e-1"))
    assert error_of(refused)[2] == f"Quota '{_FLEX}' exhausted. Limit 0 in zone {ZONE}"


def test_every_zone_that_is_not_named(api: Api, cloud: EmbeddedCloud) -> None:
    """``*`` is the limit of the others, and the rules show what is in force."""
    rules = {"quota": {"*": 4, "us-east5-a": 8}}
    shown = api.call("POST", "_emulator/capacity", body=rules).json()
    assert shown["quota"] == {"*": 4, "us-east5-a": 8}
    assert api.create(body=_body("n1")).status_code == 200
    there = Api(cloud.url, zone="us-east5-b")
    body = _body("n1")
    body["tpu"]["nodeSpec"][0]["parent"] = f"projects/{there.project}/locations/us-east5-b"
    assert error_of(there.create(body=body))[2].endswith("Limit 4 in zone us-east5-b")


@pytest.mark.parametrize(
    "quota",
    [
        *({"us-east5-a": -1}, {"us-east5-a": True}, 5, {"*": "many"}),
        *({"*": {"spot": 1}}, {"*": {"preemptible": -1}}, {"*": {"on_demand": "1"}}),
    ],
)
def test_a_limit_is_a_number_of_chips(api: Api, quota: Any) -> None:
    """Anything else is refused, and the rules stay."""
    refused = api.call("POST", "_emulator/capacity", body={"quota": quota})
    assert error_of(refused)[0] == 400
    assert api.call("GET", "_emulator/capacity").json()["quota"] == {"*": 64}


def test_on_demand_and_reserved_do_not_touch_the_preemptible_quota(api: Api) -> None:
    """Each tier and family has a quota of its own; a reservation needs none."""
    _limit(api, us_east5_a=8)
    plain: dict[str, Any] = {"runDuration": None, "provisioningModel": None}
    assert api.create("q1", body=_body("n1")).status_code == 200
    assert api.create("q2", body=_body("n2", **plain)).status_code == 200
    reserved = plain | {"guaranteed": {"reserved": True}}
    assert api.create("q3", body=_body("n3", **reserved)).status_code == 200
    refused = api.create("q4", body=_body("n4", **plain))
    assert "'TPUV6EPerProjectPerZoneForTPUAPI'" in error_of(refused)[2]
    spot = _body("n5", "v6e-1", **plain, spot={})
    assert f"'{_FLEX}'" in error_of(api.create("q5", body=spot))[2]


def test_nodes_without_the_queue_count_too(api: Api) -> None:
    """``nodes.create`` is metered by the same quota, v5p by cores."""
    _limit(api, us_east5_a=8)
    v6e = {"acceleratorType": "v6e-8", "runtimeVersion": "v2-alpha-tpuv6e"}
    spot = v6e | {"schedulingConfig": {"spot": True}}
    assert api.tpu("POST", "nodes", body=spot, nodeId="n1").status_code == 200
    assert error_of(api.create(body=_body("n2")))[0] == 429
    assert api.tpu("POST", "nodes", body=v6e, nodeId="n3").status_code == 200
    assert error_of(api.tpu("POST", "nodes", body=v6e, nodeId="n4"))[0] == 429
    v5p = {"acceleratorType": "v5p-8", "runtimeVersion": "v2-alpha-tpuv5"}
    assert api.tpu("POST", "nodes", body=v5p, nodeId="n5").status_code == 200
    refused = error_of(api.tpu("POST", "nodes", body=v5p, nodeId="n6"))
    assert "'TPUV5PPerProjectPerZoneForTPUAPI'" in refused[2]
