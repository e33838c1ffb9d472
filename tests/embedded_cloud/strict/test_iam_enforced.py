"""IAM on the embedded cloud, enforced: bindings decide, by their roles and conditions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from embedded_cloud.core.access import Caller, Principal
from embedded_cloud.core.clock import ManualClock
from embedded_cloud.core.json_types import JsonObject
from embedded_cloud.server import EmbeddedCloud
from tests.embedded_cloud.api import PROJECT, TOKEN, ZONE, Api, error_of, flex_start
from tpuflex.roles.roles import roles

ACCOUNT = f"deployer@{PROJECT}.iam.gserviceaccount.com"
MEMBER = f"serviceAccount:{ACCOUNT}"
LIMIT = (
    "api.getAttribute('iam.googleapis.com/modifiedGrantsByRole', [])"
    ".hasOnly(['roles/logging.logWriter'])"
)


@pytest.fixture
def cloud(tmp_path: Path, clock: ManualClock) -> Iterator[EmbeddedCloud]:
    """An embedded cloud that enforces IAM."""
    strict: JsonObject = {"iam": {"enforced": True}}
    state = tmp_path / "emulator"
    with EmbeddedCloud(state, token=TOKEN, clock=clock, strictness=strict) as running:
        yield running


@pytest.fixture
def account(cloud: EmbeddedCloud, api: Api) -> Api:
    """Calls of a service account that nobody has granted anything."""
    made = api.call(
        "POST", f"v1/projects/{PROJECT}/serviceAccounts", body={"accountId": "deployer"}
    )
    assert made.ok, made.text
    return _as(cloud, api, Principal.SERVICE_ACCOUNT, ACCOUNT)


def _as(cloud: EmbeddedCloud, api: Api, kind: Principal, account: str) -> Api:
    return replace(api, token=cloud.cloud.access.session_token(Caller(kind, account), 3600))


def _ok(answer: Any) -> Any:
    assert answer.ok, answer.text
    return answer.json() if answer.content else {}


def grant(api: Api, resource: str, role: str, member: str = MEMBER, **condition: Any) -> Any:
    """Add a binding to the policy at ``resource``, as the cloud's owner."""
    policy = _ok(api.call("POST", f"{resource}:getIamPolicy", body={}))
    binding = {"role": role, "members": [member], **condition}
    bound = {**policy, "version": 3, "bindings": [*policy.get("bindings", []), binding]}
    return api.call("POST", f"{resource}:setIamPolicy", body={"policy": bound})


def grant_on_project(api: Api, role: str, member: str = MEMBER, **condition: Any) -> None:
    _ok(grant(api, f"v1/projects/{PROJECT}", role, member, **condition))


def custom_role(api: Api, *permissions: str, role_id: str = "some") -> str:
    """Make a custom role; its name."""
    body = {"roleId": role_id, "role": {"includedPermissions": permissions}}
    made = _ok(api.call("POST", f"v1/projects/{PROJECT}/roles", body=body))
    return str(made["name"])


def test_the_owner_may_do_everything(api: Api) -> None:
    """Whoever has the token of the embedded cloud needs no binding."""
    assert api.create().ok


def test_the_user_who_has_logged_in_owns_new_projects(cloud: EmbeddedCloud, api: Api) -> None:
    """`emulator start --strict --iam` works for the person at the machine; for no other user."""
    developer = _as(cloud, api, Principal.USER, "developer@example.com")
    other = _as(cloud, api, Principal.USER, "other@example.com")
    assert developer.tpu("GET", "nodes").ok
    assert other.tpu("GET", "nodes").status_code == 403


def test_a_custom_role_grants_what_it_holds(api: Api, account: Api) -> None:
    """A role of the project takes effect by its binding; patched, deleted, undeleted at once."""
    name = custom_role(api, "tpu.nodes.list")
    grant_on_project(api, name)
    assert account.tpu("GET", "nodes").ok
    assert error_of(account.tpu("GET", "nodes/n1"))[0] == 403
    patched = {"includedPermissions": ["tpu.nodes.get"]}
    _ok(api.call("PATCH", f"v1/{name}", body=patched, updateMask="includedPermissions"))
    assert account.tpu("GET", "nodes").status_code == 403
    assert error_of(account.tpu("GET", "nodes/n1"))[0] == 404
    _ok(api.call("DELETE", f"v1/{name}"))
    assert error_of(account.tpu("GET", "nodes/n1"))[0] == 403
    _ok(api.call("POST", f"v1/{name}:undelete", body={}))
    assert error_of(account.tpu("GET", "nodes/n1"))[0] == 404


def test_a_binding_takes_effect_after_a_while(api: Api, account: Api, clock: ManualClock) -> None:
    """The delay counts from when the binding was made, and not anew from each change beside it."""
    change = {"iam": {"takes_effect_after_s": 120}}
    _ok(api.call("POST", "_emulator/strictness", body=change))
    grant_on_project(api, "roles/tpu.viewer")
    assert account.tpu("GET", "nodes").status_code == 403
    clock.advance(100)
    grant_on_project(api, "roles/dns.reader")
    clock.advance(21)
    assert account.tpu("GET", "nodes").ok
    assert account.call("GET", f"dns/v1/projects/{PROJECT}/managedZones").status_code == 403


def test_a_secret_s_own_policy_is_for_that_secret(api: Api, account: Api) -> None:
    """A binding on one secret opens that one; on the project, all."""
    for name in ("s1", "s2"):
        body: Any = {"replication": {"automatic": {}}}
        secrets = f"v1/projects/{PROJECT}/secrets"
        _ok(api.call("POST", secrets, body=body, secretId=name))
        payload = {"payload": {"data": "aGk="}}
        _ok(api.call("POST", f"{secrets}/{name}:addVersion", body=payload))
    secret = f"v1/projects/{PROJECT}/secrets/s1"
    policy = {"bindings": [{"role": "roles/secretmanager.secretAccessor", "members": [MEMBER]}]}
    _ok(api.call("POST", f"{secret}:setIamPolicy", body={"policy": policy}))
    assert account.call("GET", f"{secret}/versions/1:access").ok
    other = account.call("GET", f"v1/projects/{PROJECT}/secrets/s2/versions/1:access")
    assert error_of(other)[2] == (
        "Permission 'secretmanager.versions.access' denied for resource"
        f" 'projects/{PROJECT}/secrets/s2/versions/1' (or it may not exist)."
    )
    grant_on_project(api, "roles/secretmanager.secretAccessor")
    assert account.call("GET", f"v1/projects/{PROJECT}/secrets/s2/versions/1:access").ok


def test_a_bucket_s_own_policy_is_for_that_bucket(api: Api, account: Api) -> None:
    """The error names the account; a bucket that is not there is 404 for everybody."""
    _ok(api.call("POST", "storage/v1/b", body={"name": "bk-1"}, project=PROJECT))
    refused = account.call("GET", "storage/v1/b/bk-1/o")
    assert error_of(refused)[2].startswith(f"{ACCOUNT} does not have storage.objects.list access")
    policy = {"bindings": [{"role": "roles/storage.objectViewer", "members": [MEMBER]}]}
    _ok(api.call("PUT", "storage/v1/b/bk-1/iam", body=policy))
    assert account.call("GET", "storage/v1/b/bk-1/o").ok
    assert account.call("GET", "storage/v1/b/bk-1").status_code == 403
    assert account.call("GET", "storage/v1/b/none-such").status_code == 404


def test_a_bucket_is_open_to_the_viewers_of_its_project(api: Api, account: Api) -> None:
    """projectViewer:P stands for whoever is a viewer of the project."""
    _ok(api.call("POST", "storage/v1/b", body={"name": "bk-1"}, project=PROJECT))
    grant_on_project(api, "roles/viewer")
    assert account.call("GET", "storage/v1/b/bk-1").ok
    assert account.call("GET", "storage/v1/b/bk-1/iam").status_code == 403


def test_acting_as_an_account_can_be_granted_on_that_account(api: Api, account: Api) -> None:
    """A node's service account needs actAs, on the account or the project."""
    grant_on_project(api, "roles/tpu.admin")
    made = {"accountId": "host-1x"}
    _ok(api.call("POST", f"v1/projects/{PROJECT}/serviceAccounts", body=made))
    email = f"host-1x@{PROJECT}.iam.gserviceaccount.com"
    body = flex_start()
    body["tpu"]["nodeSpec"][0]["node"]["serviceAccount"] = {"email": email}
    assert "iam.serviceAccounts.actAs" in error_of(account.create(body=body))[2]
    name = f"v1/projects/{PROJECT}/serviceAccounts/{email}"
    _ok(grant(api, name, "roles/iam.serviceAccountUser"))
    assert account.create(body=body).ok


def test_a_limit_on_grants_holds(api: Api, account: Api) -> None:
    """With tpuflexHostGrants and its condition, other roles can be neither granted nor revoked."""
    reader = custom_role(api, "resourcemanager.projects.getIamPolicy", role_id="reader")
    setter = custom_role(api, "resourcemanager.projects.setIamPolicy", role_id="setter")
    grant_on_project(api, reader)
    grant_on_project(api, setter, condition={"title": "t", "expression": LIMIT})
    project = f"v1/projects/{PROJECT}"
    assert grant(account, project, "roles/logging.logWriter").ok
    assert error_of(grant(account, project, "roles/owner")) == (
        *(403, "PERMISSION_DENIED"),
        "Policy update access denied.",
    )
    policy = _ok(account.call("POST", f"{project}:getIamPolicy", body={}))
    del policy["bindings"][0]
    taken = account.call("POST", f"{project}:setIamPolicy", body={"policy": policy})
    assert taken.status_code == 403


def test_the_condition_of_the_roles_file_is_understood(api: Api, account: Api) -> None:
    """What bootstrap binds is what the embedded cloud can judge."""
    role = roles().roles["tpuflexHostGrants"]
    name = custom_role(api, *roles().permissions_of("tpuflexHostGrants"))
    grant_on_project(api, name, condition=role.condition)
    path = f"v1/projects/{PROJECT}:testIamPermissions"
    asked = {"permissions": ["resourcemanager.projects.setIamPolicy"]}
    assert _ok(account.call("POST", path, body=asked)) == asked


@pytest.mark.usefixtures("account")
def test_a_condition_that_is_not_understood_is_refused(api: Api) -> None:
    """501 that shows the form that is understood: it is neither ignored nor guessed."""
    condition = {"title": "t", "expression": "request.time < timestamp('2030-01-01T00:00:00Z')"}
    refused = grant(api, f"v1/projects/{PROJECT}", "roles/viewer", condition=condition)
    assert error_of(refused)[0] == 501
    assert "modifiedGrantsByRole" in error_of(refused)[2]


@pytest.mark.usefixtures("account")
@pytest.mark.parametrize("role", ["roles/no.such", f"projects/{PROJECT}/roles/none"])
def test_a_role_that_is_not_known_is_refused(api: Api, role: str) -> None:
    """400: its bindings would grant nothing."""
    refused = grant(api, f"v1/projects/{PROJECT}", role)
    assert error_of(refused)[:2] == (400, "INVALID_ARGUMENT")


def test_a_quota_project_wants_its_permission(api: Api, account: Api) -> None:
    """USER_PROJECT_DENIED for whoever may not take quota from the project that is named."""
    grant_on_project(api, "roles/tpu.viewer")
    path = f"{account.url}/v2/projects/{PROJECT}/locations/{ZONE}/nodes"

    def status() -> int:
        import requests

        headers = {"Authorization": f"Bearer {account.token}", "X-Goog-User-Project": PROJECT}
        return requests.get(path, headers=headers, timeout=30).status_code

    assert status() == 403
    grant_on_project(api, "roles/serviceusage.serviceUsageConsumer")
    assert status() == 200


def _host(cloud: EmbeddedCloud, api: Api) -> tuple[Api, str]:
    """A host with an account of its own, and how policies name that."""
    made = {"accountId": "host-1x"}
    _ok(api.call("POST", f"v1/projects/{PROJECT}/serviceAccounts", body=made))
    email = f"host-1x@{PROJECT}.iam.gserviceaccount.com"
    body = flex_start()
    body["tpu"]["nodeSpec"][0]["node"]["serviceAccount"] = {"email": email}
    _ok(api.create(body=body))
    cloud.cloud.clock.advance(600)
    (spec,) = cloud.cloud.tpu.desired_hosts()
    host = replace(api, token=cloud.cloud.access.host_token(spec.key))
    return host, f"serviceAccount:{email}"


@pytest.mark.parametrize("enforced", [True, False])
def test_a_host_writes_only_below_the_prefix_it_was_granted(
    cloud: EmbeddedCloud, api: Api, enforced: bool
) -> None:
    """The role on condition of the object's name lets the host add programs, and neither touch
    the weights nor delete; also where bindings do not decide about the rest."""
    host, member = _host(cloud, api)
    _ok(api.call("POST", "storage/v1/b", body={"name": "bk-1"}, project=PROJECT))
    cloud.cloud.strictness.change({"iam": {"enforced": enforced}})
    start = "projects/_/buckets/bk-1/objects/compile-cache/"
    condition = {"title": "t", "expression": f"resource.name.startsWith('{start}')"}
    grants = [{"role": "roles/storage.objectCreator", "members": [member], "condition": condition}]

    def put(name: str) -> int:
        path = "upload/storage/v1/b/bk-1/o"
        return host.call("POST", path, body={}, uploadType="media", name=name).status_code

    assert put("compile-cache/k/a.tar") == 403
    _ok(api.call("PUT", "storage/v1/b/bk-1/iam", body={"version": 3, "bindings": grants}))
    assert put("compile-cache/k/a.tar") == 200
    assert put("compile-cache/k/a.tar") == 403  # which would delete what is there
    for other in ("models/m/1/MANIFEST.json", "compile-cache", "x/compile-cache/a"):
        assert put(other) == 403
    assert host.call("DELETE", "storage/v1/b/bk-1/o/compile-cache%2Fk%2Fa.tar").status_code == 403


def test_a_host_reads_only_what_it_was_granted(cloud: EmbeddedCloud, api: Api) -> None:
    """The host's token stands for the service account of its node."""
    host, member = _host(cloud, api)
    for name in ("bk-1", "bk-2"):
        _ok(api.call("POST", "storage/v1/b", body={"name": name}, project=PROJECT))
    policy = {"bindings": [{"role": "roles/storage.objectViewer", "members": [member]}]}
    _ok(api.call("PUT", "storage/v1/b/bk-1/iam", body=policy))
    entry = {"logName": f"projects/{PROJECT}/logs/x", "resource": {"type": "global"}}
    log = {"entries": [{**entry, "textPayload": "t"}]}
    assert host.call("GET", "storage/v1/b/bk-1/o").ok
    assert host.call("GET", "storage/v1/b/bk-2/o").status_code == 403
    writes: tuple[tuple[str, Any, str], ...] = (
        ("v2/entries:write", log, "roles/logging.logWriter"),
        (f"v3/projects/{PROJECT}/timeSeries", {}, "roles/monitoring.metricWriter"),
    )
    for path, body, role in writes:
        assert host.call("POST", path, body=body).status_code == 403
        grant_on_project(api, role, member)
        assert host.call("POST", path, body=body).status_code != 403


def test_a_change_of_records_needs_what_it_does(api: Api, account: Api) -> None:
    """Cloud DNS asks for the right to create or delete records beside the right to change."""
    grant_on_project(api, custom_role(api, "dns.changes.create", "dns.resourceRecordSets.create"))
    path = f"dns/v1/projects/{PROJECT}/managedZones/z/changes"
    record = {"name": "a.", "type": "A", "ttl": 300, "rrdatas": ["10.0.0.1"]}
    assert account.call("POST", path, body={"additions": [record]}).status_code == 404
    refused = error_of(account.call("POST", path, body={"deletions": [record]}))
    assert "dns.resourceRecordSets.delete" in refused[2]


@pytest.mark.parametrize(
    "expression",
    [
        "resource.name.startsWith('projects/_/buckets/weights/objects/models/')",
        "resource.type == 'storage.googleapis.com/Object' &&"
        ' resource.name.startsWith("projects/_/buckets/weights/objects/models/")',
    ],
)
def test_a_condition_on_objects_does_not_admit_their_list(
    api: Api, account: Api, expression: str
) -> None:
    """Objects below the prefix are written, read and deleted, no others; a list is about the
    bucket (https://cloud.google.com/storage/docs/access-control/iam#conditions)."""
    assert api.call("POST", "storage/v1/b", body={"name": "weights"}, project=PROJECT).ok
    condition = {"title": "models", "expression": expression}
    binding = {"role": "roles/storage.objectUser", "members": [MEMBER], "condition": condition}
    policy = {"version": 3, "bindings": [binding]}
    assert api.call("PUT", "storage/v1/b/weights/iam", body=policy).ok
    objects, upload = "storage/v1/b/weights/o", "upload/storage/v1/b/weights/o"
    told = {
        name: account.call("POST", upload, body={}, uploadType="media", name=name).status_code
        for name in ("models/x", "other/x")
    }
    assert told == {"models/x": 200, "other/x": 403}
    assert account.call("GET", f"{objects}/models%2Fx").ok
    assert account.call("GET", f"{objects}/other%2Fx").status_code == 403
    assert account.call("GET", objects, prefix="models/").status_code == 403
    assert account.call("DELETE", f"{objects}/models%2Fx").ok
    assert api.call("DELETE", "storage/v1/b/weights").ok
    assert account.call("GET", f"{objects}/models%2Fx").status_code == 404
