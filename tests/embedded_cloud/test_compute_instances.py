"""Compute: virtual machine instances, as far as nothing runs on them."""

from __future__ import annotations

from typing import Any

import pytest

from embedded_cloud.cloud import project_number
from embedded_cloud.hosts.guest_attributes import GuestAttributes
from embedded_cloud.server import EmbeddedCloud
from tests.embedded_cloud.api import PROJECT, Api
from tests.embedded_cloud.compute_api import (
    GLOBAL,
    IMAGE,
    INSTANCES,
    REGION,
    ROOT,
    SUBNETWORK,
    ZONE_PATH,
    insert,
    instance,
    refusal,
)

_PATH = f"projects/{PROJECT}/zones/us-east5-a/instances/vm-1"
_EMAIL = f"copier@{PROJECT}.iam.gserviceaccount.com"
_PLATFORM = "https://www.googleapis.com/auth/cloud-platform"
_EXTERNAL = [
    {"subnetwork": "regions/us-east5/subnetworks/sub-1", "accessConfigs": [{"name": "out"}]}
]
_ACCOUNT = [{"email": _EMAIL, "scopes": [_PLATFORM]}]


@pytest.fixture
def sub(net: Api) -> Api:
    """An API with a network and a subnetwork."""
    insert(net, f"{REGION}/subnetworks", SUBNETWORK)
    return net


def _strict(api: Api, **areas: Any) -> None:
    assert api.call("POST", "_emulator/strictness", body=areas).ok


def _get(api: Api, path: str = f"{INSTANCES}/vm-1") -> Any:
    answer = api.call("GET", path)
    assert answer.ok, answer.text
    return answer.json()


def test_an_instance_as_google_fills_it_in(sub: Api, cloud: EmbeddedCloud) -> None:
    """Links are full; disk, address, service account, metadata and tags have Google's defaults."""
    body = instance(
        labels={"tpuflex-owner": "me"},
        tags={"items": ["copier"]},
        metadata={"items": [{"key": "a", "value": "zones/us-east5-a/x"}]},
        serviceAccounts=[{"email": "default", "scopes": [_PLATFORM]}],
        networkInterfaces=_EXTERNAL,
    )
    operation = insert(sub, INSTANCES, body)
    assert operation["zone"] == f"{cloud.url}/{ZONE_PATH}"
    assert (operation["status"], operation["operationType"]) == ("DONE", "insert")
    found = _get(sub)
    assert operation["targetLink"] == found["selfLink"] == f"{cloud.url}/{INSTANCES}/vm-1"
    assert found["status"] == "RUNNING"
    assert found["machineType"] == f"{cloud.url}/{ZONE_PATH}/machineTypes/e2-small"
    assert found["disks"][0]["source"] == f"{cloud.url}/{ZONE_PATH}/disks/vm-1"
    assert (found["disks"][0]["diskSizeGb"], found["disks"][0]["autoDelete"]) == ("10", True)
    (interface,) = found["networkInterfaces"]
    assert interface["subnetwork"] == f"{cloud.url}/{REGION}/subnetworks/sub-1"
    assert interface["network"] == f"{cloud.url}/{GLOBAL}/networks/net-1"
    assert interface["networkIP"] == "10.0.0.2"
    assert interface["accessConfigs"][0]["natIP"].startswith("203.0.113.")
    number = project_number(PROJECT)
    assert found["serviceAccounts"][0]["email"] == f"{number}-compute@developer.gserviceaccount.com"
    assert found["labels"] == {"tpuflex-owner": "me"}
    assert found["tags"]["items"] == ["copier"]
    assert found["metadata"]["items"] == [{"key": "a", "value": "zones/us-east5-a/x"}]
    assert found["scheduling"]["provisioningModel"] == "STANDARD"


def test_operations_are_those_of_the_zone(sub: Api) -> None:
    """get, wait and list show what insert answered; the same requestId is the same operation."""
    request_id = "6f1f7b2e-0d3c-4a1b-9a55-0f7f4a3a2b11"
    operation = insert(sub, INSTANCES, instance(), requestId=request_id)
    assert insert(sub, INSTANCES, instance(), requestId=request_id) == operation
    path = f"{ZONE_PATH}/operations/{operation['name']}"
    assert sub.call("GET", path).json() == operation
    assert sub.call("POST", f"{path}/wait").json() == operation
    assert sub.call("GET", f"{ZONE_PATH}/operations").json()["items"] == [operation]
    assert sub.call("GET", f"{GLOBAL}/operations/{operation['name']}").status_code == 404
    assert refusal(sub.call("POST", INSTANCES, body=instance())) == (409, "alreadyExists")


def test_instances_are_listed_by_zone_and_everywhere(sub: Api) -> None:
    """Filtered, in pages, and aggregated by zone."""
    other = f"{ROOT}/zones/us-east5-b"
    for name in ("vm-1", "vm-2"):
        insert(sub, INSTANCES, instance(name, labels={"n": name}))
    there = instance("vm-3", machineType="zones/us-east5-b/machineTypes/e2-micro")
    insert(sub, f"{other}/instances", there)
    found = sub.call("GET", INSTANCES, filter="labels.n=vm-2").json()["items"]
    assert [each["name"] for each in found] == ["vm-2"]
    page = sub.call("GET", INSTANCES, maxResults="1").json()
    rest = sub.call("GET", INSTANCES, maxResults="1", pageToken=page["nextPageToken"]).json()
    assert [each["name"] for each in page["items"] + rest["items"]] == ["vm-1", "vm-2"]
    everywhere = sub.call("GET", f"{ROOT}/aggregated/instances").json()["items"]
    assert {
        zone: [each["name"] for each in held["instances"]] for zone, held in everywhere.items()
    } == {"zones/us-east5-a": ["vm-1", "vm-2"], "zones/us-east5-b": ["vm-3"]}
    addresses = {each["networkInterfaces"][0]["networkIP"] for each in page["items"] + found}
    assert len(addresses) == 2


def test_an_instance_takes_time_to_come_and_to_go(sub: Api, cloud: EmbeddedCloud) -> None:
    """Strictly it is PROVISIONING, STAGING, RUNNING, then STOPPING until it is gone."""
    _strict(sub, compute={"operation_s": 4})
    operation = insert(sub, INSTANCES, instance())
    assert (operation["status"], _get(sub)["status"]) == ("RUNNING", "PROVISIONING")
    cloud.advance(3)
    assert _get(sub)["status"] == "STAGING"
    cloud.advance(1)
    assert _get(sub)["status"] == "RUNNING"
    assert sub.call("DELETE", f"{INSTANCES}/vm-1").json()["status"] == "RUNNING"
    assert _get(sub)["status"] == "STOPPING"
    assert sub.call("DELETE", f"{INSTANCES}/vm-1").ok
    cloud.advance(4)
    assert refusal(sub.call("GET", f"{INSTANCES}/vm-1")) == (404, "notFound")
    assert sub.call("GET", f"{ROOT}/aggregated/instances").json()["items"] == {}
    assert refusal(sub.call("DELETE", f"{INSTANCES}/vm-1")) == (404, "notFound")


@pytest.mark.parametrize(("action", "left"), [("DELETE", 404), ("STOP", 200)])
def test_the_run_of_an_instance_ends(
    sub: Api, cloud: EmbeddedCloud, action: str, left: int
) -> None:
    """After maxRunDuration it is deleted, or stopped; it says when that will be."""
    limit = {"maxRunDuration": {"seconds": "3600"}, "instanceTerminationAction": action}
    insert(sub, INSTANCES, instance(scheduling=limit))
    assert _get(sub)["resourceStatus"]["scheduling"]["terminationTimestamp"]
    cloud.advance(3599)
    assert _get(sub)["status"] == "RUNNING"
    cloud.advance(1)
    after = sub.call("GET", f"{INSTANCES}/vm-1")
    assert after.status_code == left
    if left == 200:
        assert after.json()["status"] == "TERMINATED"
        assert sub.call("DELETE", f"{INSTANCES}/vm-1").ok


def _disk(**fields: Any) -> list[dict[str, Any]]:
    made = {"sourceImage": IMAGE, **fields.pop("new", {})}
    return [{"boot": True, "autoDelete": True, "initializeParams": made, **fields}]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"machineType": "zones/us-east5-a/machineTypes/huge"}, (400, "invalid")),
        ({"machineType": "zones/us-east5-b/machineTypes/e2-small"}, (400, "invalid")),
        ({"machineType": None}, (400, "required")),
        ({"disks": None}, (400, "required")),
        ({"disks": _disk(boot=False)}, (400, "invalid")),
        ({"disks": _disk(new={"sourceImage": None})}, (400, "required")),
        ({"disks": _disk(new={"diskSizeGb": "9"})}, (400, "invalid")),
        ({"disks": _disk(new={"diskType": "zones/us-east5-a/diskTypes/no"})}, (400, "invalid")),
        ({"networkInterfaces": None}, (400, "invalid")),
        ({"networkInterfaces": [{"network": "global/networks/net-1"}]}, (400, "invalid")),
        ({"networkInterfaces": [{}]}, (404, "notFound")),
        (
            {"networkInterfaces": [{"subnetwork": "regions/us-east5/subnetworks/no"}]},
            (404, "notFound"),
        ),
        (
            {"networkInterfaces": [{"subnetwork": "regions/us-west1/subnetworks/far"}]},
            (400, "invalid"),
        ),
        ({"serviceAccounts": [*_ACCOUNT, *_ACCOUNT]}, (400, "invalid")),
        ({"serviceAccounts": [{"email": _EMAIL}]}, (400, "required")),
        ({"labels": {"Upper": "x"}}, (400, "invalid")),
        ({"tags": {"items": ["under_score"]}}, (400, "invalid")),
        ({"metadata": {"items": [{"key": "a", "value": "x" * 262_145}]}}, (400, "invalid")),
        (
            {"metadata": {"items": [{"key": k, "value": "x" * 262_000} for k in "abc"]}},
            (400, "invalid"),
        ),
        (
            {"metadata": {"items": [{"key": "a", "value": "1"}, {"key": "a", "value": "2"}]}},
            (400, "invalid"),
        ),
        ({"scheduling": {"maxRunDuration": {"seconds": "600"}}}, (400, "required")),
        (
            {
                "scheduling": {
                    "maxRunDuration": {"seconds": "29"},
                    "instanceTerminationAction": "DELETE",
                }
            },
            (400, "invalid"),
        ),
        ({"scheduling": {"instanceTerminationAction": "DELETE"}}, (400, "invalid")),
    ],
)
def test_instances_that_google_refuses(
    sub: Api, change: dict[str, Any], expected: tuple[int, str]
) -> None:
    """Nothing is made."""
    far = {**SUBNETWORK, "name": "far", "ipCidrRange": "10.9.0.0/24"}
    insert(sub, f"{ROOT}/regions/us-west1/subnetworks", far)
    assert refusal(sub.call("POST", INSTANCES, body=instance(**change))) == expected
    assert sub.call("GET", INSTANCES).json().get("items", []) == []


@pytest.mark.parametrize(
    "change",
    [
        {"disks": _disk(autoDelete=False)},
        {"disks": _disk() * 2},
        {"disks": _disk(new={"sourceImage": "projects/p/global/images/mine"})},
        {"disks": _disk(source="zones/us-east5-a/disks/d")},
        {"guestAccelerators": [{"acceleratorCount": 1}]},
        {"networkInterfaces": [{}, {}]},
        {"scheduling": {"provisioningModel": "FLEX_START"}},
        {"metadata": {"items": [{"key": "startup-script-url", "value": "gs://b/o"}]}},
    ],
)
def test_what_is_not_emulated_is_refused(sub: Api, change: dict[str, Any]) -> None:
    """501, not an instance that lacks what was asked for."""
    assert sub.call("POST", INSTANCES, body=instance(**change)).status_code == 501


def test_a_network_with_an_instance_cannot_be_deleted(sub: Api) -> None:
    """The instance is named as the user of subnetwork and reserved address."""
    insert(sub, f"{REGION}/addresses", {"name": "out"})
    reserved = sub.call("GET", f"{REGION}/addresses/out").json()["address"]
    interface = {
        "subnetwork": "regions/us-east5/subnetworks/sub-1",
        "accessConfigs": [{"type": "ONE_TO_ONE_NAT", "natIP": reserved}],
    }
    insert(sub, INSTANCES, instance(networkInterfaces=[interface]))
    taken = instance("vm-2", networkInterfaces=[interface])
    assert refusal(sub.call("POST", INSTANCES, body=taken)) == (400, "invalid")
    for path in (f"{REGION}/subnetworks/sub-1", f"{REGION}/addresses/out"):
        refused = sub.call("DELETE", path)
        assert refusal(refused) == (400, "resourceInUseByAnotherResource")
        assert _PATH in refused.json()["error"]["message"]
    assert sub.call("DELETE", f"{INSTANCES}/vm-1").ok
    assert sub.call("DELETE", f"{REGION}/addresses/out").ok
    assert sub.call("DELETE", f"{REGION}/subnetworks/sub-1").ok


def test_a_protected_instance_cannot_be_deleted(sub: Api) -> None:
    """400 until the protection is taken away."""
    insert(sub, INSTANCES, instance(deletionProtection=True))
    path = f"{INSTANCES}/vm-1"
    assert refusal(sub.call("DELETE", path)) == (400, "invalidResourceUsage")
    assert sub.call("POST", f"{path}/setDeletionProtection", deletionProtection="false").ok
    assert sub.call("DELETE", path).ok


def test_guest_attributes_are_found_by_path(sub: Api, cloud: EmbeddedCloud) -> None:
    """A namespace with its slash, a key, or a variable; nothing is 404; gone with the instance."""
    insert(sub, INSTANCES, instance())
    path = f"{INSTANCES}/vm-1/getGuestAttributes"
    assert refusal(sub.call("GET", path, queryPath="tpuflex/")) == (404, "notFound")
    guest = GuestAttributes(cloud.store)
    guest.put(_PATH, 0, "tpuflex", "report", "{}")
    guest.put(_PATH, 0, "other", "report", "x")
    answer = sub.call("GET", path, queryPath="tpuflex/").json()
    assert answer["queryPath"] == "tpuflex/"
    item = {"namespace": "tpuflex", "key": "report", "value": "{}"}
    assert answer["queryValue"]["items"] == [item]
    assert sub.call("GET", path, queryPath="tpuflex/report").json()["queryValue"]["items"] == [item]
    assert sub.call("GET", path, variableKey="other/report").json()["variableValue"] == "x"
    assert refusal(sub.call("GET", path, queryPath="tpuflex/no")) == (404, "notFound")
    assert sub.call("DELETE", f"{INSTANCES}/vm-1").ok
    insert(sub, INSTANCES, instance())
    assert sub.call("GET", path, queryPath="tpuflex/").status_code == 404


def test_an_unknown_service_account_fails_the_operation(sub: Api, cloud: EmbeddedCloud) -> None:
    """RESOURCE_NOT_FOUND, also for one that was made a moment ago; then there is no instance."""
    failed = insert(sub, INSTANCES, instance(serviceAccounts=_ACCOUNT))
    assert failed["error"]["errors"] == [
        {
            "code": "RESOURCE_NOT_FOUND",
            "message": f"The resource '{_EMAIL}' of type 'serviceAccount' was not found.",
        }
    ]
    assert sub.call("GET", f"{INSTANCES}/vm-1").status_code == 404
    _strict(sub, service_accounts={"known_after_s": 5}, compute={"operation_s": 2})
    accounts = f"v1/projects/{PROJECT}/serviceAccounts"
    assert sub.call("POST", accounts, body={"accountId": "copier"}).ok
    begun = insert(sub, INSTANCES, instance(serviceAccounts=_ACCOUNT))
    assert (begun["status"], begun.get("error")) == ("RUNNING", None)
    cloud.advance(5)
    ended = sub.call("GET", f"{ZONE_PATH}/operations/{begun['name']}").json()
    assert (ended["status"], ended["httpErrorStatusCode"]) == ("DONE", 404)
    assert "error" not in insert(sub, INSTANCES, instance(serviceAccounts=_ACCOUNT))


def test_a_zone_without_capacity_fails_the_operation(sub: Api) -> None:
    """By a fault rule: Compute's own code, and nothing is made."""
    effect = {
        "kind": "operation-error",
        "code": 14,
        "message": "The zone does not have enough resources available to fulfill the request.",
        "reason": "ZONE_RESOURCE_POOL_EXHAUSTED",
    }
    rule = {"where": {"method_id": "compute.instances.insert"}, "effect": effect}
    assert sub.call("POST", "_emulator/faults", body={"rules": [rule]}).ok
    operation = insert(sub, INSTANCES, instance())
    assert operation["status"] == "DONE"
    assert operation["error"]["errors"][0]["code"] == "ZONE_RESOURCE_POOL_EXHAUSTED"
    assert operation["httpErrorStatusCode"] == 503
    assert sub.call("GET", f"{INSTANCES}/vm-1").status_code == 404


def test_an_organization_may_forbid_external_addresses(sub: Api) -> None:
    """412 with the constraint, unless the instance is listed; without an address it is made."""
    name = "compute.vmExternalIpAccess"
    _strict(sub, organization_policies={"constraints": {name: "deny_all"}})
    outside = instance(networkInterfaces=_EXTERNAL)
    refused = sub.call("POST", INSTANCES, body=outside)
    assert refusal(refused) == (412, "conditionNotMet")
    assert refused.json()["error"]["message"] == (
        f"Constraint constraints/{name} violated for project {project_number(PROJECT)}."
        f" Add instance {_PATH} to the constraint to use external IP with it."
    )
    insert(sub, INSTANCES, instance("vm-2"))
    _strict(sub, organization_policies={"constraints": {name: [_PATH]}})
    insert(sub, INSTANCES, outside)
    shielded = {"constraints": {"compute.requireShieldedVm": True, name: None}}
    _strict(sub, organization_policies=shielded)
    assert refusal(sub.call("POST", INSTANCES, body=instance("vm-3"))) == (412, "conditionNotMet")
    insert(sub, INSTANCES, instance("vm-3", shieldedInstanceConfig={"enableSecureBoot": True}))


def test_an_unknown_zone_is_refused(api: Api) -> None:
    """Zones are Google's."""
    path = f"{ROOT}/zones/moon-east1-a/instances"
    assert refusal(api.call("GET", path)) == (400, "invalid")
