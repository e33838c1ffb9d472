"""Every answer in a walk through all services fits Google's documents."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import requests

from embedded_cloud.core.clock import ManualClock, rfc3339
from embedded_cloud.core.contract import documents_directory
from tests.embedded_cloud.api import PROJECT, TOKEN, Api
from tests.embedded_cloud.services.test_alerting import policy as alert_policy

_DOCUMENTS = {
    name: json.loads(
        (documents_directory() / f"{name.partition('.')[0]}.{version}.json").read_bytes()
    )
    for name, version in (
        *(("storage", "v1"), ("secretmanager", "v1"), ("compute", "v1"), ("iam", "v1")),
        ("iamcredentials", "v1"),
        *(("cloudresourcemanager", "v1"), ("serviceusage", "v1"), ("dns", "v1")),
        ("cloudkms", "v1"),
        *(("monitoring", "v3"), ("monitoring.projects.dashboards", "v1")),
        *(("logging", "v2"), ("artifactregistry", "v1"), ("cloudbilling", "v1")),
        *(("orgpolicy", "v2"), ("serviceusage.services.consumerQuotaMetrics", "v1beta1")),
    )
}
_UPLOAD = "upload/storage/v1/b/bk-1/o"


def test_answers_fit_the_documents(api: Api) -> None:
    """No field that the schema of the method's response does not have, and no wrong type."""
    findings: list[str] = []
    seen: set[str] = set()
    for method_id, answer in _walk(api):
        # The longest prefix: Service Usage answers in two versions.
        document = _DOCUMENTS[max(filter(method_id.startswith, _DOCUMENTS), key=len)]
        response = _methods(document)[method_id].get("response", {}).get("$ref")
        seen.add(method_id)
        if response is None:
            assert not answer, f"{method_id} answers something"
            continue
        findings += [
            f"{method_id}: {finding}"
            for finding in _misfits(document["schemas"], {"$ref": response}, answer, response)
        ]
    assert findings == []
    assert len(seen) > 55


def _walk(api: Api) -> Iterator[tuple[str, Any]]:
    """(method id, JSON answer) of calls on every service."""
    for method, path, body, query in [
        *_storage(),
        *_secrets(),
        *_accounts_and_services(),
        *_compute(),
        *_dns(),
        *_pools(),
        *_keys(),
        *_logging(),
        *_monitoring(),
        *_repositories(),
        *_alerting(),
    ]:
        yield _call(api, method, path, body, query)


def _call(api: Api, method: str, path: str, body: Any, query: dict[str, str]) -> tuple[str, Any]:
    if isinstance(body, bytes):
        answer = requests.request(
            method,
            f"{api.url}/{path}",
            params=query,
            data=body,
            headers={"Authorization": f"Bearer {TOKEN}"},
            timeout=30,
        )
    else:
        answer = api.call(method, path, body=body, **query)
    assert answer.ok, f"{method} {path}: {answer.text}"
    calls = api.call("GET", "_emulator/history").json()["calls"]
    return calls[-1]["method_id"], answer.json() if answer.content else None


_CONSTRAINT = "constraints/compute.requireShieldedVm"
_Calls = list[tuple[str, str, Any, dict[str, str]]]


def _storage() -> _Calls:
    bucket = "storage/v1/b/bk-1"
    policy = {"bindings": [{"role": "roles/storage.admin", "members": ["user:a@b.c"]}]}
    return [
        ("POST", "storage/v1/b", {"name": "bk-1", "labels": {"a": "b"}}, {"project": PROJECT}),
        ("GET", "storage/v1/b", None, {"project": PROJECT}),
        ("GET", bucket, None, {}),
        ("PATCH", bucket, {"versioning": {"enabled": True}}, {}),
        ("PUT", bucket, {"versioning": {"enabled": True}}, {}),
        ("GET", f"{bucket}/iam", None, {}),
        ("PUT", f"{bucket}/iam", policy, {}),
        ("GET", f"{bucket}/iam/testPermissions", None, {"permissions": "storage.objects.get"}),
        ("GET", f"{bucket}/storageLayout", None, {}),
        ("GET", f"{bucket}/managedFolders", None, {}),
        ("GET", f"storage/v1/projects/{PROJECT}/serviceAccount", None, {}),
        ("POST", _UPLOAD, b"hello", {"uploadType": "media", "name": "x"}),
        ("POST", _UPLOAD, b"again", {"uploadType": "media", "name": "x"}),
        ("GET", f"{bucket}/o", None, {"versions": "true"}),
        ("GET", f"{bucket}/o/x", None, {}),
        ("PATCH", f"{bucket}/o/x", {"metadata": {"a": "b"}}, {}),
        ("POST", f"{bucket}/o/x/rewriteTo/b/bk-1/o/z", {}, {}),
        ("DELETE", f"{bucket}/o/x", None, {}),
    ]


def _secrets() -> _Calls:
    secrets = f"v1/projects/{PROJECT}/secrets"
    secret, version = f"{secrets}/s", f"{secrets}/s/versions/1"
    data = {"payload": {"data": base64.b64encode(b"x").decode()}}
    policy = {"policy": {"bindings": [{"role": "roles/viewer", "members": ["user:a@b.c"]}]}}
    body = {"replication": {"automatic": {}}, "ttl": "9999s"}
    return [
        ("POST", secrets, body, {"secretId": "s"}),
        ("GET", secrets, None, {}),
        ("GET", secret, None, {}),
        ("PATCH", secret, {"labels": {"a": "b"}}, {"updateMask": "labels"}),
        ("POST", f"{secret}:addVersion", data, {}),
        ("GET", f"{secret}/versions", None, {}),
        ("GET", version, None, {}),
        ("GET", f"{version}:access", None, {}),
        ("POST", f"{version}:disable", {}, {}),
        ("POST", f"{version}:enable", {}, {}),
        ("POST", f"{version}:destroy", {}, {}),
        ("POST", f"{secret}:setIamPolicy", policy, {}),
        ("GET", f"{secret}:getIamPolicy", None, {}),
        ("POST", f"{secret}:testIamPermissions", {"permissions": ["a.b.c"]}, {}),
        ("DELETE", secret, None, {}),
    ]


def _accounts_and_services() -> _Calls:
    project = f"v1/projects/{PROJECT}"
    accounts = f"{project}/serviceAccounts"
    account = f"{accounts}/host-sa@{PROJECT}.iam.gserviceaccount.com"
    policy = {"policy": {"bindings": [{"role": "roles/viewer", "members": ["user:a@b.c"]}]}}
    patch = {"serviceAccount": {"displayName": "x"}, "updateMask": "displayName"}
    services = f"{project}/services"
    tpu = f"{services}/tpu.googleapis.com"
    return [
        ("POST", accounts, {"accountId": "host-sa"}, {}),
        ("GET", accounts, None, {}),
        ("GET", account, None, {}),
        ("PATCH", account, patch, {}),
        ("POST", f"{account}:disable", {}, {}),
        ("POST", f"{account}:enable", {}, {}),
        ("POST", f"{account}:setIamPolicy", policy, {}),
        ("POST", f"{account}:getIamPolicy", None, {}),
        ("POST", f"{account}:testIamPermissions", {"permissions": ["a.b.c"]}, {}),
        (
            "POST",
            f"{account.replace(PROJECT, '-', 1)}:generateAccessToken",
            {"scope": ["https://www.googleapis.com/auth/cloud-platform"]},
            {},
        ),
        ("DELETE", account, None, {}),
        ("GET", project, None, {}),
        ("POST", f"{project}:getIamPolicy", {}, {}),
        ("POST", f"{project}:setIamPolicy", policy, {}),
        ("POST", f"{project}:testIamPermissions", {"permissions": ["a.b.c"]}, {}),
        ("POST", f"{project}:getEffectiveOrgPolicy", {"constraint": _CONSTRAINT}, {}),
        ("GET", services, None, {}),
        ("GET", tpu, None, {}),
        ("GET", f"{services}:batchGet", None, {"names": tpu.removeprefix("v1/")}),
        ("POST", f"{tpu}:enable", {}, {}),
        ("POST", f"{tpu}:disable", {}, {}),
        ("POST", f"{services}:batchEnable", {"serviceIds": ["tpu.googleapis.com"]}, {}),
    ]


def _compute() -> _Calls:
    root = f"compute/v1/projects/{PROJECT}"
    region = f"{root}/regions/us-east5"
    network = "global/networks/n"
    nat = {
        "name": "nat",
        "natIpAllocateOption": "AUTO_ONLY",
        "sourceSubnetworkIpRangesToNat": "ALL_SUBNETWORKS_ALL_IP_RANGES",
    }
    rule = {"name": "f", "network": network, "denied": [{"IPProtocol": "all"}]}
    subnetwork = {"name": "s", "network": network, "ipCidrRange": "10.0.0.0/24"}
    made: dict[str, dict[str, Any]] = {
        f"{root}/global/networks": {"name": "n", "autoCreateSubnetworks": False},
        f"{region}/subnetworks": subnetwork,
        f"{region}/routers": {"name": "r", "network": network, "nats": [nat]},
        f"{root}/global/firewalls": rule,
        f"{region}/addresses": {"name": "a"},
    }
    calls: _Calls = [("POST", collection, body, {}) for collection, body in made.items()]
    for collection, body in made.items():
        calls += [
            ("GET", collection, None, {}),
            ("GET", f"{collection}/{body['name']}", None, {}),
        ]
    calls += [
        ("GET", f"{root}/aggregated/{kind}", None, {})
        for kind in ("subnetworks", "routers", "addresses")
    ]
    calls += [
        ("PATCH", f"{root}/global/firewalls/f", {"priority": 5}, {}),
        ("PUT", f"{root}/global/firewalls/f", rule, {}),
        ("PATCH", f"{region}/routers/r", {"description": "x"}, {}),
        ("GET", root, None, {}),
    ]
    for collection, body in reversed(made.items()):
        calls.append(("DELETE", f"{collection}/{body['name']}", None, {}))
    return calls


def _dns() -> _Calls:
    zones = f"dns/v1/projects/{PROJECT}/managedZones"
    zone = f"{zones}/z"
    asked = {"name": "z", "dnsName": "example.com.", "labels": {"a": "b"}}
    address = {"name": "a.example.com.", "type": "A", "ttl": 5, "rrdatas": ["10.0.0.1"]}
    return [
        ("POST", zones, asked, {}),
        ("GET", zones, None, {}),
        ("GET", zone, None, {}),
        ("PATCH", zone, {"description": "x"}, {}),
        ("PUT", zone, asked, {}),
        ("POST", f"{zone}/changes", {"additions": [address]}, {}),
        ("GET", f"{zone}/changes", None, {}),
        ("GET", f"{zone}/changes/1", None, {}),
        ("POST", f"{zone}/rrsets", address | {"name": "b.example.com."}, {}),
        ("GET", f"{zone}/rrsets", None, {}),
        ("GET", f"{zone}/rrsets/a.example.com./A", None, {}),
        ("PATCH", f"{zone}/rrsets/a.example.com./A", {"ttl": 6}, {}),
        ("DELETE", f"{zone}/rrsets/a.example.com./A", None, {}),
        ("DELETE", f"{zone}/rrsets/b.example.com./A", None, {}),
        ("DELETE", zone, None, {}),
    ]


def _alerting() -> _Calls:
    root = f"v3/projects/{PROJECT}"
    # The numbers of what is made first and second in this project.
    channel = f"{root}/notificationChannels/9552154055486788603"
    policy = f"{root}/alertPolicies/2874470590206325985"
    boards = f"v1/projects/{PROJECT}/dashboards"
    board = {
        "name": f"projects/{PROJECT}/dashboards/b",
        "displayName": "d",
        "gridLayout": {"widgets": [{"text": {"content": "x"}}]},
    }
    return [
        ("POST", f"{root}/notificationChannels", {"type": "email"}, {}),
        ("GET", channel, None, {}),
        ("POST", f"{root}/alertPolicies", alert_policy(), {}),
        ("GET", f"{root}/alertPolicies", None, {}),
        ("GET", policy, None, {}),
        ("PATCH", policy, {"enabled": False}, {"updateMask": "enabled"}),
        ("DELETE", policy, None, {}),
        ("POST", boards, board, {}),
        ("GET", boards, None, {}),
        ("GET", f"{boards}/b", None, {}),
        ("PATCH", f"{boards}/b", board, {}),
        ("DELETE", f"{boards}/b", None, {}),
    ]


def _pools() -> _Calls:
    pools = f"v1/projects/{PROJECT}/locations/global/workloadIdentityPools"
    providers = f"{pools}/deploys/providers"
    provider = {
        "oidc": {"issuerUri": "https://token.actions.githubusercontent.com"},
        "attributeMapping": {"google.subject": "assertion.sub"},
        "attributeCondition": "assertion.repository_owner_id == '1'",
    }
    return [
        ("POST", pools, {"displayName": "d"}, {"workloadIdentityPoolId": "deploys"}),
        ("GET", pools, None, {}),
        ("GET", f"{pools}/deploys", None, {}),
        ("PATCH", f"{pools}/deploys", {"description": "x"}, {"updateMask": "description"}),
        ("POST", providers, provider, {"workloadIdentityPoolProviderId": "github"}),
        ("GET", providers, None, {}),
        ("GET", f"{providers}/github", None, {}),
        ("PATCH", f"{providers}/github", {"disabled": True}, {"updateMask": "disabled"}),
        ("DELETE", f"{providers}/github", None, {}),
        ("GET", providers, None, {"showDeleted": "true"}),
        ("POST", f"{providers}/github:undelete", {}, {}),
        ("DELETE", f"{pools}/deploys", None, {}),
        ("POST", f"{pools}/deploys:undelete", {}, {}),
    ]


def _keys() -> _Calls:
    rings = f"v1/projects/{PROJECT}/locations/us-east5/keyRings"
    keys = f"{rings}/states/cryptoKeys"
    asked = {"purpose": "ENCRYPT_DECRYPT", "labels": {"a": "b"}}
    policy: dict[str, Any] = {"policy": {"bindings": []}}
    return [
        ("POST", rings, {}, {"keyRingId": "states"}),
        ("GET", rings, None, {}),
        ("GET", f"{rings}/states", None, {}),
        ("GET", f"{rings}/states:getIamPolicy", None, {}),
        ("POST", f"{rings}/states:setIamPolicy", policy, {}),
        ("POST", keys, asked, {"cryptoKeyId": "k"}),
        ("GET", keys, None, {}),
        ("GET", f"{keys}/k", None, {}),
        ("PATCH", f"{keys}/k", {"labels": {}}, {"updateMask": "labels"}),
        ("GET", f"{keys}/k:getIamPolicy", None, {}),
        ("POST", f"{keys}/k:setIamPolicy", policy, {}),
        ("GET", f"{keys}/k/cryptoKeyVersions", None, {}),
        ("GET", f"{keys}/k/cryptoKeyVersions/1", None, {}),
        ("POST", f"{keys}/k/cryptoKeyVersions/1:destroy", {}, {}),
    ]


def _logging() -> _Calls:
    resource = {"type": "generic_node", "labels": {"node_id": "n1"}}
    entry = {"textPayload": "READY", "severity": "INFO"}
    log = f"projects/{PROJECT}/logs/tpuflex-boot"
    written = {"logName": log, "resource": resource, "entries": [entry]}
    return [
        ("POST", "v2/entries:write", written, {}),
        ("POST", "v2/entries:list", {"resourceNames": [f"projects/{PROJECT}"]}, {}),
    ]


def _monitoring() -> _Calls:
    series = f"v3/projects/{PROJECT}/timeSeries"
    type_ = "workload.googleapis.com/vllm/up"
    point = {"interval": {"endTime": rfc3339(ManualClock().now())}, "value": {"int64Value": "1"}}
    body = {
        "metric": {"type": type_, "labels": {"a": "b"}},
        "resource": {"type": "global"},
        "points": [point],
    }
    wanted = {"filter": f'metric.type="{type_}"', "interval.endTime": rfc3339(ManualClock().now())}
    return [
        ("POST", series, {"timeSeries": [body]}, {}),
        ("GET", series, None, wanted),
    ]


def _repositories() -> _Calls:
    repositories = f"v1/projects/{PROJECT}/locations/us-east5/repositories"
    remote = {"dockerRepository": {"publicRepository": "DOCKER_HUB"}}
    asked = {"format": "DOCKER", "mode": "REMOTE_REPOSITORY", "remoteRepositoryConfig": remote}
    return [
        ("POST", repositories, asked, {"repositoryId": "dockerhub"}),
        ("GET", repositories, None, {}),
        ("GET", f"{repositories}/dockerhub", None, {}),
        ("DELETE", f"{repositories}/dockerhub", None, {}),
    ]


def _methods(node: dict[str, Any]) -> dict[str, Any]:
    found = {method["id"]: method for method in node.get("methods", {}).values()}
    for resource in node.get("resources", {}).values():
        found |= _methods(resource)
    return found


def _misfits(schemas: dict[str, Any], schema: dict[str, Any], value: Any, path: str) -> list[str]:
    """What in ``value`` does not fit its schema."""
    if "$ref" in schema:
        schema = schemas[schema["$ref"]]
    kind = schema.get("type")
    if kind == "any":
        return []
    types: dict[str, type] = {
        "object": dict,
        "array": list,
        "string": str,
        "boolean": bool,
        "integer": int,
    }
    # Seen as Any again below: what a JSON value is depends on its schema.
    entries: Any = value
    if not isinstance(value, types.get(str(kind), float)):
        return [f"{path} is {value!r}, not {kind}"]
    if kind == "array":
        return [
            finding
            for index, entry in enumerate(entries)
            for finding in _misfits(schemas, schema["items"], entry, f"{path}[{index}]")
        ]
    if "enum" in schema and value not in schema["enum"]:
        return [f"{path} is {value!r}, which is not in its enum"]
    if kind != "object":
        return []
    rest = schema.get("additionalProperties")
    findings: list[str] = []
    for key, entry in entries.items():
        declared = schema.get("properties", {}).get(key, rest)
        if declared is None:
            findings.append(f"{path}.{key} is unknown")
        else:
            findings += _misfits(schemas, declared, entry, f"{path}.{key}")
    return findings
