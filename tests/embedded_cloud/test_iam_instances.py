"""Instances where IAM is enforced: who may make one, and what its service account may do."""

from __future__ import annotations

from typing import Any

import pytest

from embedded_cloud.access import Principal
from embedded_cloud.server import EmbeddedCloud
from tests.embedded_cloud import test_iam_enforced as enforced
from tests.embedded_cloud.api import PROJECT, Api
from tests.embedded_cloud.compute_api import (
    INSTANCES,
    REGION,
    SUBNETWORK,
    ZONE_PATH,
    insert,
    instance,
)

cloud, account = enforced.cloud, enforced.account

_COPIER = f"copier@{PROJECT}.iam.gserviceaccount.com"
_ROLE = "roles/compute.instanceAdmin.v1"
_BODY = instance(
    networkInterfaces=[{"subnetwork": "regions/us-east5/subnetworks/sub-1", "accessConfigs": [{}]}],
    serviceAccounts=[
        {"email": _COPIER, "scopes": ["https://www.googleapis.com/auth/cloud-platform"]}
    ],
    metadata={"items": [{"key": "a", "value": "b"}]},
    labels={"a": "b"},
    tags={"items": ["t"]},
    deletionProtection=True,
)
_ASKED = (
    *("compute.instances.create", "compute.disks.create", "compute.subnetworks.use"),
    *("compute.subnetworks.useExternalIp", "compute.instances.setMetadata"),
    *("compute.instances.setTags", "compute.instances.setLabels"),
    *("compute.instances.setServiceAccount", "compute.instances.setDeletionProtection"),
    "iam.serviceAccounts.actAs",
)


@pytest.fixture
def sub(net: Api) -> Api:
    """Calls of the cloud's owner, with a subnetwork and the copier's account."""
    insert(net, f"{REGION}/subnetworks", SUBNETWORK)
    accounts = f"v1/projects/{PROJECT}/serviceAccounts"
    assert net.call("POST", accounts, body={"accountId": "copier"}).ok
    return net


def _missing(answer: Any) -> list[str]:
    assert answer.status_code == 403, answer.text
    return [each["message"].split("'")[1] for each in answer.json()["error"]["errors"]]


def test_a_new_instance_asks_for_everything_that_it_has(sub: Api, account: Api) -> None:
    """Each part has a permission of its own; a bare one needs less."""
    assert _missing(account.call("POST", INSTANCES, body=_BODY)) == [*_ASKED]
    assert _missing(account.call("POST", INSTANCES, body=instance())) == [*_ASKED[:3]]
    enforced.grant_on_project(sub, _ROLE)
    assert _missing(account.call("POST", INSTANCES, body=_BODY)) == [_ASKED[-1]]
    resource = f"v1/projects/{PROJECT}/serviceAccounts/{_COPIER}"
    assert enforced.grant(sub, resource, "roles/iam.serviceAccountUser").ok
    operation = account.call("POST", INSTANCES, body=_BODY)
    assert operation.ok, operation.text
    assert account.call("GET", f"{ZONE_PATH}/operations/{operation.json()['name']}").ok


def test_who_looks_may_not_delete(sub: Api, account: Api) -> None:
    """A viewer reads instances, operations and guest attributes, and changes nothing."""
    insert(sub, INSTANCES, instance())
    assert _missing(account.call("GET", INSTANCES)) == ["compute.instances.list"]
    enforced.grant_on_project(sub, "roles/compute.viewer")
    assert account.call("GET", INSTANCES).ok
    assert account.call("GET", f"{ZONE_PATH}/operations").ok
    path = f"{INSTANCES}/vm-1"
    assert account.call("GET", f"{path}/getGuestAttributes").status_code == 404
    assert _missing(account.call("DELETE", path)) == ["compute.instances.delete"]
    assert _missing(account.call("POST", f"{path}/setDeletionProtection")) == [
        "compute.instances.setDeletionProtection"
    ]


def test_a_condition_limits_an_account_to_its_own_instance(sub: Api, account: Api) -> None:
    """By the name of the instance, or by its type."""
    for name in ("vm-1", "vm-2"):
        insert(sub, INSTANCES, instance(name))
    own = (
        "resource.type == 'compute.googleapis.com/Instance'"
        f" && resource.name == 'projects/{PROJECT}/zones/us-east5-a/instances/vm-1'"
    )
    condition = {"title": "own", "expression": own}
    enforced.grant_on_project(sub, _ROLE, condition=condition)
    assert account.call("DELETE", f"{INSTANCES}/vm-2").status_code == 403
    assert account.call("GET", INSTANCES).status_code == 403
    assert account.call("DELETE", f"{INSTANCES}/vm-1").ok


@pytest.mark.parametrize(
    "expression",
    [
        "resource.name.startsWith('projects/_/buckets/weights/objects/models/')",
        "resource.type == 'storage.googleapis.com/Object' &&"
        ' resource.name.startsWith("projects/_/buckets/weights/objects/models/")',
    ],
)
def test_a_condition_on_objects_does_not_admit_their_list(
    cloud: EmbeddedCloud, sub: Api, expression: str
) -> None:
    """Objects below the prefix are written, read and deleted, no others; a list is about the
    bucket (https://cloud.google.com/storage/docs/access-control/iam#conditions)."""
    assert sub.call("POST", "storage/v1/b", body={"name": "weights"}, project=PROJECT).ok
    member = f"serviceAccount:{_COPIER}"
    condition = {"title": "models", "expression": expression}
    binding = {"role": "roles/storage.objectUser", "members": [member], "condition": condition}
    policy = {"version": 3, "bindings": [binding]}
    assert sub.call("PUT", "storage/v1/b/weights/iam", body=policy).ok
    copier = enforced._as(cloud, sub, Principal.SERVICE_ACCOUNT, _COPIER)
    objects, upload = "storage/v1/b/weights/o", "upload/storage/v1/b/weights/o"
    told = {
        name: copier.call("POST", upload, body={}, uploadType="media", name=name).status_code
        for name in ("models/x", "other/x")
    }
    assert told == {"models/x": 200, "other/x": 403}
    assert copier.call("GET", f"{objects}/models%2Fx").ok
    assert copier.call("GET", f"{objects}/other%2Fx").status_code == 403
    assert copier.call("GET", objects, prefix="models/").status_code == 403
    assert copier.call("DELETE", f"{objects}/models%2Fx").ok
    assert sub.call("DELETE", "storage/v1/b/weights").ok
    assert copier.call("GET", f"{objects}/models%2Fx").status_code == 404
