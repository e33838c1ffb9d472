"""What the published pulumi-gcp plugin asks of the embedded cloud, and Google's answers to it.

The numbers (D1, …) are those of the findings of a run of that plugin against the embedded cloud.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from embedded_cloud.core.contract import Contract, documents_directory
from embedded_cloud.core.contract_schema import BodyChecker
from tests.embedded_cloud.api import PROJECT, Api, error_of
from tests.embedded_cloud.compute_api import GLOBAL, NETWORK, REGION, ROOT, insert, refusal

#: Every request of `up`, a second `up`, `refresh` and `destroy` of the dev stack by
#: pulumi-gcp 10.2.0 (terraform-provider-google-beta 7.45.0), recorded 2026-11-21.
RECORDING = Path(__file__).parents[1] / "data" / "pulumi_gcp_dev.jsonl"
_APIS = (
    ("compute", "v1"),
    ("storage", "v1"),
    ("secretmanager", "v1"),
    ("iam", "v1"),
    ("cloudresourcemanager", "v1"),
    ("serviceusage", "v1"),
)
NAT = {
    "name": "nat-1",
    "natIpAllocateOption": "AUTO_ONLY",
    "sourceSubnetworkIpRangesToNat": "ALL_SUBNETWORKS_ALL_IP_RANGES",
}
ACCOUNTS = f"v1/projects/{PROJECT}/serviceAccounts"
EMAIL = f"host-sa@{PROJECT}.iam.gserviceaccount.com"


class Answers:
    """The schemas of answers in Google's discovery documents."""

    def __init__(self) -> None:
        self._apis = [
            (Contract.load(*api), _document(*api), dict(_responses(_document(*api))))
            for api in _APIS
        ]

    def check(self, method: str, path: str, answer: Any) -> None:
        """Fail unless ``answer`` is what the document of the method's API says."""
        for contract, document, responses in self._apis:
            method_id = contract.match(method, path)
            if method_id is not None:
                checker = BodyChecker(document["schemas"], method_id="", require=False)
                checker.check(responses[method_id], answer)
                assert contract.visible(responses[method_id], answer) == answer
                return
        raise AssertionError(f"no API has {method} {path}")


def _document(api: str, version: str) -> Any:
    return json.loads((documents_directory() / f"{api}.{version}.json").read_bytes())


def _responses(node: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Method id -> schema of its answer."""
    for method in node.get("methods", {}).values():
        if "response" in method:
            yield method["id"], method["response"]["$ref"]
    for resource in node.get("resources", {}).values():
        yield from _responses(resource)


def _with_etag(body: Any, etag: str) -> Any:
    """``body`` with the etag that was read now in the place of the recorded one."""
    if not isinstance(body, dict):
        return body
    return {key: etag if key == "etag" else _with_etag(value, etag) for key, value in body.items()}


def test_the_recorded_requests_of_the_published_plugin_are_answered(api: Api) -> None:
    """Each is answered with the recorded status and what Google's document says, and the
    destroy leaves nothing."""
    answers, etag = Answers(), ""
    for line in RECORDING.read_text().splitlines():
        call = json.loads(line)
        parts = urlsplit(call["path"])
        body = _with_etag(call["request"], etag)

        answer = api.call(call["method"], parts.path, body=body, **dict(parse_qsl(parts.query)))

        said = f"{call['step']}: {call['method']} {call['path']}: {answer.text}"
        assert answer.status_code == call["status"], said
        if answer.status_code == 200:
            answers.check(call["method"], parts.path, answer.json())
            etag = answer.json().get("etag", etag)
    assert api.call("GET", "_emulator/inventory").json() == {}


@pytest.mark.parametrize("value", [True, None])
def test_two_undocumented_fields_of_the_provider_are_dropped(api: Api, value: Any) -> None:
    """Google accepts them although no discovery document has them; any other is refused."""
    network = {**NETWORK, "routingConfig": {"deleteBgpAlwaysCompareMed": value}}
    insert(api, f"{GLOBAL}/networks", network)
    router = {"name": "r-1", "network": "global/networks/net-1"}
    insert(api, f"{REGION}/routers", {**router, "nats": [{**NAT, "initialNatIps": value}]})

    shown = api.call("GET", f"{GLOBAL}/networks/net-1").json()
    assert "deleteBgpAlwaysCompareMed" not in shown["routingConfig"]
    (nat,) = api.call("GET", f"{REGION}/routers/r-1").json()["nats"]
    assert "initialNatIps" not in nat
    other = {**router, "name": "r-2", "nats": [{**NAT, "initialNatIp": value}]}
    refused = api.call("POST", f"{REGION}/routers", body=other)
    assert "Unknown name \"initialNatIp\" at 'router.nats[0]'" in error_of(refused)[2]


def test_a_deleted_account_stays_in_policies_under_another_name(api: Api) -> None:
    """As ``deleted:serviceAccount:EMAIL?uid=…``, so the policy can still be written."""
    unique = api.call("POST", ACCOUNTS, body={"accountId": "host-sa"}).json()["uniqueId"]
    project = f"v1/projects/{PROJECT}"
    policy = api.call("POST", f"{project}:getIamPolicy", body={}).json()
    grant = {"role": "roles/logging.logWriter", "members": [f"serviceAccount:{EMAIL}"]}
    before = api.call(
        "POST",
        f"{project}:setIamPolicy",
        body={"policy": {**policy, "bindings": [*policy["bindings"], grant]}},
    ).json()

    assert api.call("DELETE", f"{ACCOUNTS}/{EMAIL}").status_code == 200

    after = api.call("POST", f"{project}:getIamPolicy", body={}).json()
    members = {each["role"]: each["members"] for each in after["bindings"]}
    assert members["roles/logging.logWriter"] == [f"deleted:serviceAccount:{EMAIL}?uid={unique}"]
    assert after["etag"] != before["etag"]
    viewer = {"role": "roles/viewer", "members": ["user:me@example.com"]}
    after["bindings"].append(viewer)
    written = api.call("POST", f"{project}:setIamPolicy", body={"policy": after})
    assert written.status_code == 200, written.text
    after["etag"] = ""
    after["bindings"].append(grant)
    assert error_of(api.call("POST", f"{project}:setIamPolicy", body={"policy": after}))[0] == 400


def test_a_nat_without_log_config_is_shown_without_one(net: Api) -> None:
    """Compute adds none; one that is there is completed."""
    router = {"name": "r-1", "network": "global/networks/net-1"}
    nats = [{**NAT, "rules": None}, {**NAT, "name": "nat-2", "logConfig": {"enable": True}}]
    insert(net, f"{REGION}/routers", {**router, "nats": nats})

    bare, logging = net.call("GET", f"{REGION}/routers/r-1").json()["nats"]

    assert not {"logConfig", "rules"} & bare.keys()
    assert logging["logConfig"] == {"enable": True, "filter": "ALL"}


def test_an_addresses_labels_are_set_with_their_fingerprint(api: Api) -> None:
    """All labels are replaced, and a stale fingerprint is refused."""
    insert(api, f"{REGION}/addresses", {"name": "a-1"})
    path = f"{REGION}/addresses/a-1"
    before = api.call("GET", path).json()
    labels = {"goog-pulumi-provisioned": "true"}
    body = {"labels": labels, "labelFingerprint": before["labelFingerprint"]}

    operation = insert(api, f"{path}/setLabels", body)

    after = api.call("GET", path).json()
    assert operation["operationType"] == "setLabels"
    assert after["labels"] == labels
    assert {**before, "labels": labels} | {"labelFingerprint": after["labelFingerprint"]} == after
    assert refusal(api.call("POST", f"{path}/setLabels", body=body)) == (412, "conditionNotMet")


def test_a_project_is_found_by_its_number(api: Api) -> None:
    """The provider reads a bucket's project by the number that the bucket has."""
    bucket = {"name": "numbered-bucket-1", "location": "us-east5"}
    made = api.call("POST", "storage/v1/b", body=bucket, project=PROJECT).json()

    shown = api.call("GET", f"compute/v1/projects/{made['projectNumber']}").json()

    assert shown == api.call("GET", ROOT).json()
    unknown = api.call("GET", "compute/v1/projects/999999999999")
    assert error_of(unknown)[:2] == (403, "PERMISSION_DENIED")
