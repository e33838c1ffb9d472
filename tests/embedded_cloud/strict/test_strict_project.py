"""What a strict cloud lets a project wait for, and what an organization forbids it."""

from __future__ import annotations

from typing import Any

import pytest

from embedded_cloud.core.projects import project_number
from embedded_cloud.server import EmbeddedCloud
from tests.embedded_cloud.api import PROJECT, ZONE, Api, error_of, flex_start
from tests.embedded_cloud.compute_api import GLOBAL, NETWORK
from tpuflex.errors import AccessError
from tpuflex.google.rpc_errors import as_exception, read_rpc_error

_ACCOUNTS = f"v1/projects/{PROJECT}/serviceAccounts"
_EMAIL = f"host-sa@{PROJECT}.iam.gserviceaccount.com"
_REGION = f"compute/v1/projects/{PROJECT}/regions/us-east5"


def _make_account(api: Api) -> None:
    answer = api.call("POST", _ACCOUNTS, body={"accountId": "host-sa"})
    assert answer.status_code == 200, answer.text


def _grant(api: Api) -> Any:
    binding = {"role": "roles/viewer", "members": [f"serviceAccount:{_EMAIL}"]}
    body = {"policy": {"bindings": [binding]}}
    return api.call("POST", f"v1/projects/{PROJECT}:setIamPolicy", body=body)


def test_a_policy_knows_a_new_service_account_only_later(api: Api, cloud: EmbeddedCloud) -> None:
    """Neither reads nor policies know it for a while."""
    api.strict(service_accounts={"known_after_s": 5})
    _make_account(api)
    assert error_of(api.call("GET", f"{_ACCOUNTS}/{_EMAIL}"))[0] == 404
    refused = (400, "INVALID_ARGUMENT", f"Service account {_EMAIL} does not exist.")
    assert error_of(_grant(api)) == refused
    cloud.advance(5)
    assert api.call("GET", f"{_ACCOUNTS}/{_EMAIL}").status_code == 200
    assert _grant(api).status_code == 200


def _request(api: Api, email: str) -> Any:
    return api.create(body=flex_start(serviceAccount={"email": email}))


def test_a_request_for_nodes_can_outrun_its_service_account(api: Api, cloud: EmbeddedCloud) -> None:
    """Refused by name until Cloud TPU knows the account; on demand, too."""
    api.strict(service_accounts={"nodes_know_after_s": 60})
    _make_account(api)
    cloud.advance(59)
    code, status, message = error_of(_request(api, _EMAIL))
    assert (code, status) == (400, "INVALID_ARGUMENT")
    assert f"Service account {_EMAIL} does not exist" in message
    node = flex_start(serviceAccount={"email": _EMAIL})["tpu"]["nodeSpec"][0]["node"]
    assert error_of(api.tpu("POST", "nodes", body=node, nodeId="n2"))[0] == 400
    cloud.advance(1)
    assert _request(api, _EMAIL).status_code == 200


@pytest.mark.parametrize(
    ("email", "status"),
    [
        (f"no-such@{PROJECT}.iam.gserviceaccount.com", 400),
        (f"{project_number(PROJECT)}-compute@developer.gserviceaccount.com", 200),
        ("", 200),
    ],
)
def test_accounts_that_google_made_are_always_known(api: Api, email: str, status: int) -> None:
    """The default account exists, one that nobody made does not."""
    api.strict(service_accounts={"nodes_know_after_s": 60})
    assert _request(api, email).status_code == status


def test_a_policy_forbids_external_addresses(api: Api) -> None:
    """compute.vmExternalIpAccess refuses a node that asks for one, and no other."""
    api.strict(organization_policies={"constraints": {"compute.vmExternalIpAccess": "deny_all"}})
    external = {"enableExternalIps": True}
    refused = api.create(body=flex_start(networkConfig=external))
    assert error_of(refused) == (
        400,
        "FAILED_PRECONDITION",
        "Constraint constraints/compute.vmExternalIpAccess violated for project "
        f"{project_number(PROJECT)}. Add instance projects/{PROJECT}/locations/{ZONE}/nodes/q1 to "
        "the constraint to use external IP with it.",
    )
    assert api.create().status_code == 200


def test_m1_a_policy_may_demand_secure_boot(api: Api) -> None:
    """Compute.requireShieldedVm refuses a node without Secure Boot, in the words that were
    seen, and no other; tpuflex says that a policy is in the way, and which setting does it."""
    api.strict(organization_policies={"constraints": {"compute.requireShieldedVm": True}})

    without, with_ = (
        api.create(body=flex_start(shieldedInstanceConfig={"enableSecureBoot": on}))
        for on in (False, True)
    )

    assert error_of(without) == (
        400,
        "INVALID_ARGUMENT",
        "Cloud TPU received a bad request. Constraint constraints/compute.requireShieldedVm"
        " violated. Please create TPUs with Secure Boot enabled or remove the Organization Policy"
        " Constraint.",
    )
    assert with_.status_code == 200
    refused = read_rpc_error(without.status_code, without.content)
    told = as_exception(refused, method="POST", url="https://tpu.googleapis.com/v2alpha1/x")
    assert isinstance(told, AccessError)
    assert str(told.hint).startswith("An organization policy forbids it:")
    assert "tpuflex:slice.secure_boot" in str(told.hint)


def test_a_policy_forbids_service_accounts(api: Api) -> None:
    """iam.disableServiceAccountCreation, in Google's words."""
    constraints = {"iam.disableServiceAccountCreation": True}
    api.strict(organization_policies={"constraints": constraints})
    refused = api.call("POST", _ACCOUNTS, body={"accountId": "host-sa"})
    message = "Service account creation is not allowed on this project."
    assert error_of(refused) == (400, "FAILED_PRECONDITION", message)
    violation = refused.json()["error"]["details"][0]["violations"][0]
    assert violation["type"] == "constraints/iam.disableServiceAccountCreation"


def test_a_policy_forbids_cloud_nat(api: Api) -> None:
    """compute.restrictCloudNATUsage refuses a NAT; a router without one is made."""
    constraints = {"compute.restrictCloudNATUsage": "deny_all"}
    api.strict(organization_policies={"constraints": constraints})
    api.call("POST", f"{GLOBAL}/networks", body=NETWORK)
    router = {"name": "r", "network": f"projects/{PROJECT}/global/networks/{NETWORK['name']}"}
    nat = {
        "name": "nat",
        "natIpAllocateOption": "AUTO_ONLY",
        "sourceSubnetworkIpRangesToNat": "ALL_SUBNETWORKS_ALL_IP_RANGES",
    }
    refused = api.call("POST", f"{_REGION}/routers", body={**router, "nats": [nat]})
    message = (
        f"Constraint constraints/compute.restrictCloudNATUsage violated for projects/{PROJECT}."
    )
    assert error_of(refused)[0::2] == (412, message)
    assert api.call("POST", f"{_REGION}/routers", body=router).status_code == 200


def test_a_change_of_a_network_takes_time(api: Api, cloud: EmbeddedCloud) -> None:
    """The operation is RUNNING, has no end yet, and is DONE after the set time."""
    api.strict(compute={"operation_s": 4})
    made = api.call("POST", f"{GLOBAL}/networks", body=NETWORK).json()
    operation = f"{GLOBAL}/operations/{made['name']}"
    running = {"status": "RUNNING", "progress": 0}
    for shown in (made, api.call("GET", operation).json()):
        assert running.items() <= shown.items()
        assert "endTime" not in shown
    cloud.advance(4)
    done = api.call("GET", operation).json()
    assert (done["status"], done["progress"]) == ("DONE", 100)
    assert done["endTime"] > done["insertTime"]


def test_without_billing_charged_services_cannot_be_enabled(api: Api) -> None:
    """All or nothing, in Google's words; what costs nothing can be enabled."""
    api.strict(billing={"enabled": False})
    services = f"v1/projects/{PROJECT}/services"
    ids = ["iam.googleapis.com", "tpu.googleapis.com", "compute.googleapis.com"]
    number = project_number(PROJECT)
    refused = api.call("POST", f"{services}:batchEnable", body={"serviceIds": ids})
    assert error_of(refused) == (
        400,
        "FAILED_PRECONDITION",
        f"Billing account for project '{number}' is not found. Billing must be enabled for "
        "activation of service(s) 'tpu.googleapis.com,compute.googleapis.com' to proceed.",
    )
    assert refused.json()["error"]["details"][1]["reason"] == "UREQ_PROJECT_BILLING_NOT_FOUND"
    assert error_of(api.call("POST", f"{services}/tpu.googleapis.com:enable", body={}))[0] == 400
    assert api.call("GET", f"{services}/iam.googleapis.com").json()["state"] == "DISABLED"
    assert api.call("POST", f"{services}/iam.googleapis.com:enable", body={}).status_code == 200


def test_without_billing_charged_services_refuse(api: Api) -> None:
    """BILLING_DISABLED; Cloud Storage in words of its own; accounts and projects answer."""
    api.strict(billing={"enabled": False})
    refused = api.tpu("GET", "nodes")
    assert error_of(refused)[2].startswith(
        "This API method requires billing to be enabled. Please enable billing on project "
        f"#{project_number(PROJECT)} by visiting https://console.developers.google.com/billing/"
    )
    assert refused.json()["error"]["details"][0]["reason"] == "BILLING_DISABLED"
    bucket = api.call("POST", "storage/v1/b", body={"name": "bk-1"}, project=PROJECT)
    message = "The billing account for the owning project is disabled in state absent"
    assert error_of(bucket) == (403, "PERMISSION_DENIED", message)
    assert api.call("GET", _ACCOUNTS).status_code == 200


def test_a_policy_can_be_lifted_for_the_project(api: Api) -> None:
    """As `gcloud resource-manager org-policies disable-enforce` does it, and taken back: then what
    the organization says is in force again."""
    name = "constraints/iam.disableServiceAccountCreation"
    project = f"v1/projects/{PROJECT}"
    api.strict(organization_policies={"constraints": {"iam.disableServiceAccountCreation": True}})
    policy = {"constraint": name, "booleanPolicy": {}}

    def enforced() -> Any:
        body = {"constraint": name}
        return api.call("POST", f"{project}:getEffectiveOrgPolicy", body=body).json()

    assert enforced()["booleanPolicy"] == {"enforced": True}
    answer = api.call("POST", f"{project}:setOrgPolicy", body={"policy": policy})
    assert answer.json() == policy
    assert enforced()["booleanPolicy"] == {}
    assert api.call("POST", f"{project}:getOrgPolicy", body={"constraint": name}).json() == policy
    _make_account(api)
    cleared = api.call("POST", f"{project}:clearOrgPolicy", body={"constraint": name})
    assert cleared.json() == {}
    assert enforced()["booleanPolicy"] == {"enforced": True}
    own = api.call("POST", f"{project}:getOrgPolicy", body={"constraint": name}).json()
    assert own == {"constraint": name}


@pytest.mark.parametrize(
    ("constraint", "policy", "effective"),
    [
        ("gcp.resourceLocations", {"restoreDefault": {}}, {"allValues": "ALLOW"}),
        ("gcp.resourceLocations", {"listPolicy": {"allValues": "DENY"}}, {"allValues": "DENY"}),
        (
            "gcp.resourceLocations",
            {"listPolicy": {"allowedValues": ["in:us-locations"]}},
            {"allowedValues": ["in:us-locations"]},
        ),
        ("gcp.resourceLocations", {"listPolicy": {"deniedValues": ["x"]}}, None),
        ("gcp.resourceLocations", {"booleanPolicy": {"enforced": True}}, None),
        ("compute.requireShieldedVm", {"listPolicy": {"allValues": "DENY"}}, None),
        ("compute.nothing", {"booleanPolicy": {}}, None),
    ],
)
def test_a_list_policy_is_set(api: Api, constraint: str, policy: Any, effective: Any) -> None:
    """What is set is in force; what does not fit the constraint is 400."""
    asked = {"policy": {"constraint": f"constraints/{constraint}", **policy}}
    answer = api.call("POST", f"v1/projects/{PROJECT}:setOrgPolicy", body=asked)
    if effective is None:
        assert answer.status_code == 400
        return
    assert answer.status_code == 200, answer.text
    body = {"constraint": f"constraints/{constraint}"}
    found = api.call("POST", f"v1/projects/{PROJECT}:getEffectiveOrgPolicy", body=body).json()
    assert found["listPolicy"] == effective


def test_a_project_is_linked_to_a_billing_account(api: Api) -> None:
    """As `gcloud billing projects link` does it; what is no account is 400."""
    api.strict(billing={"enabled": False})
    path = f"v1/projects/{PROJECT}/billingInfo"
    wrong = api.call("PUT", path, body={"billingAccountName": "billingAccounts/x"})
    assert wrong.status_code == 400
    assert api.call("GET", path).json()["billingEnabled"] is False
    account = {"billingAccountName": "billingAccounts/012345-567890-ABCDEF"}
    assert api.call("PUT", path, body=account).json()["billingEnabled"] is True
    assert api.call("GET", path).json()["billingEnabled"] is True
    assert api.call("PUT", path, body={"billingAccountName": ""}).json()["billingEnabled"] is False
