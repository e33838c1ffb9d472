"""A caller without a permission is refused by the methods that need it."""

from __future__ import annotations

import re
from typing import Any

import pytest

from embedded_cloud.server import EmbeddedCloud
from embedded_cloud.strict.permission_table import needs_of
from tests.embedded_cloud.api import PROJECT, ZONE, Api, error_of

_ZONE = f"projects/{PROJECT}/locations/{ZONE}"
_INFO = "type.googleapis.com/google.rpc.ErrorInfo"


def _without(api: Api, *permissions: str) -> None:
    body = {"permissions": {"missing": permissions}}
    answer = api.call("POST", "_emulator/strictness", body=body)
    assert answer.status_code == 200, answer.text


def test_every_method_of_the_routing_table_says_what_it_needs(cloud: EmbeddedCloud) -> None:
    """No method was forgotten, and the names are those of permissions."""
    methods = {route.method_id for service in cloud.cloud.services for route in service.routes()}
    assert {method for method in methods if needs_of(method) is None} == set()
    form = re.compile(r"[a-z]+(\.[a-zA-Z]+){2}")
    permissions = {name for method in methods for name in needs_of(method) or ()}
    assert {name for name in permissions if not form.fullmatch(name)} == set()


_REFUSALS: list[tuple[str, str, str, str]] = [
    (
        *("tpu.nodes.get", "GET", f"v2/{_ZONE}/nodes/n1"),
        f"Permission 'tpu.nodes.get' denied on resource '//tpu.googleapis.com/{_ZONE}/nodes/n1' "
        "(or it may not exist).",
    ),
    (
        *("compute.networks.list", "GET", f"compute/v1/projects/{PROJECT}/global/networks"),
        f"Required 'compute.networks.list' permission for 'projects/{PROJECT}/global/networks'",
    ),
    (
        *("storage.buckets.list", "GET", f"storage/v1/b?project={PROJECT}"),
        "owner@example.com does not have storage.buckets.list access to the Google Cloud Storage "
        "bucket. Permission 'storage.buckets.list' denied on resource (or it may not exist).",
    ),
    (
        *("secretmanager.versions.access", "GET"),
        f"v1/projects/{PROJECT}/secrets/s/versions/1:access",
        "Permission 'secretmanager.versions.access' denied for resource "
        f"'projects/{PROJECT}/secrets/s/versions/1' (or it may not exist).",
    ),
    (
        *("iam.serviceAccounts.list", "GET", f"v1/projects/{PROJECT}/serviceAccounts"),
        "Permission 'iam.serviceAccounts.list' denied on resource (or it may not exist).",
    ),
    (
        *("resourcemanager.projects.get", "GET", f"v1/projects/{PROJECT}"),
        "The caller does not have permission",
    ),
    (
        *("resourcemanager.projects.setIamPolicy", "POST", f"v1/projects/{PROJECT}:setIamPolicy"),
        "Policy update access denied.",
    ),
    (
        *("serviceusage.services.enable", "POST"),
        f"v1/projects/{PROJECT}/services/tpu.googleapis.com:enable",
        "Permission denied to enable service [tpu.googleapis.com]",
    ),
    (
        *("serviceusage.services.list", "GET", f"v1/projects/{PROJECT}/services"),
        f"Permission denied to list services for consumer container [projects/{PROJECT}]",
    ),
]


@pytest.mark.parametrize(
    ("permission", "method", "path", "message"), _REFUSALS, ids=[row[0] for row in _REFUSALS]
)
def test_each_service_refuses_in_its_own_words(
    api: Api, permission: str, method: str, path: str, message: str
) -> None:
    """403 that names the permission where Google names it; before anything else is checked."""
    _without(api, permission)
    body: Any = {} if method == "POST" else None
    refused = api.call(method, path, body=body)
    assert error_of(refused) == (403, "PERMISSION_DENIED", message)
    _without(api)
    assert api.call(method, path, body=body).status_code != 403


def test_the_refusal_carries_error_info(api: Api) -> None:
    """IAM_PERMISSION_DENIED with permission and resource, as clients read it."""
    _without(api, "tpu.nodes.list")
    answer = api.tpu("GET", "queuedResources")
    assert answer.json()["error"]["details"] == [
        {
            "@type": _INFO,
            "reason": "IAM_PERMISSION_DENIED",
            "domain": "tpu.googleapis.com",
            "metadata": {"permission": "tpu.nodes.list", "resource": f"{_ZONE}/queuedResources"},
        }
    ]


def test_compute_names_every_missing_permission(api: Api) -> None:
    """One entry per permission; the message is the first."""
    _without(api, "compute.firewalls.create", "compute.networks.updatePolicy")
    path = f"compute/v1/projects/{PROJECT}/global/firewalls"
    errors = api.call("POST", path, body={}).json()["error"]["errors"]
    where = f"permission for 'projects/{PROJECT}/global/firewalls'"
    assert [each["message"] for each in errors] == [
        f"Required 'compute.firewalls.create' {where}",
        f"Required 'compute.networks.updatePolicy' {where}",
    ]


def test_a_node_needs_the_right_to_act_as_its_service_account(api: Api) -> None:
    """tpu.nodes.create alone is not enough."""
    _without(api, "iam.serviceAccounts.actAs")
    assert "iam.serviceAccounts.actAs" in error_of(api.create())[2]


_TESTS: list[tuple[str, str]] = [
    ("POST", f"v1/projects/{PROJECT}:testIamPermissions"),
    ("POST", f"v1/projects/{PROJECT}/secrets/s:testIamPermissions"),
    ("GET", "storage/v1/b/bk-1/iam/testPermissions"),
]


@pytest.mark.parametrize(("method", "path"), _TESTS)
def test_what_is_missing_is_not_told_to_be_held(api: Api, method: str, path: str) -> None:
    """testIamPermissions answers with what is held, in the order asked; nothing is no field."""
    api.call("POST", "storage/v1/b", body={"name": "bk-1"}, project=PROJECT)
    replication: Any = {"replication": {"automatic": {}}}
    api.call("POST", f"v1/projects/{PROJECT}/secrets", body=replication, secretId="s")
    _without(api, "tpu.nodes.create")

    def held(*asked: str) -> Any:
        if method == "POST":
            return api.call(method, path, body={"permissions": asked}).json().get("permissions")
        query = "&".join(f"permissions={each}" for each in asked)
        return api.call(method, f"{path}?{query}").json()["permissions"] or None

    assert held("tpu.nodes.get", "tpu.nodes.create", "a.b.c") == ["tpu.nodes.get", "a.b.c"]
    assert held("tpu.nodes.create") is None


def test_wildcards_cannot_be_tested(api: Api) -> None:
    """400, as Google refuses them."""
    body = {"permissions": ["storage.*"]}
    refused = api.call("POST", f"v1/projects/{PROJECT}:testIamPermissions", body=body)
    assert error_of(refused)[:2] == (400, "INVALID_ARGUMENT")


@pytest.mark.parametrize("name", ["tpu", "tpu.nodes", "tpu.nodes.*", ""])
def test_only_names_of_permissions_can_be_taken_away(api: Api, name: str) -> None:
    """400 that names the key."""
    body = {"permissions": {"missing": [name]}}
    refused = api.call("POST", "_emulator/strictness", body=body)
    assert error_of(refused)[0] == 400
    assert f"permissions: Value error, missing: {name!r} is no permission" in error_of(refused)[2]
