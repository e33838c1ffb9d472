"""Buckets over the JSON API, as any HTTP client sees them."""

from __future__ import annotations

from typing import Any

import pytest
import requests

from embedded_cloud.core.clock import ManualClock
from embedded_cloud.server import EmbeddedCloud
from tests.embedded_cloud.api import PROJECT, Api

_ROOT = "storage/v1/b"


def _create(api: Api, name: str = "weights-1", project: str = PROJECT, **body: Any) -> Any:
    body = {"name": name, "location": "us-east5", **body}
    answer = api.call("POST", _ROOT, body=body, project=project)
    assert answer.status_code == 200, answer.text
    return answer.json()


def _refusal(answer: requests.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["errors"][0]["reason"]


def test_a_new_bucket_has_googles_defaults(api: Api, cloud: EmbeddedCloud) -> None:
    """Region in capitals, soft delete for seven days, not public, first metageneration."""
    bucket = _create(api)
    assert bucket["location"] == "US-EAST5"
    assert bucket["locationType"] == "region"
    assert bucket["storageClass"] == "STANDARD"
    assert bucket["softDeletePolicy"]["retentionDurationSeconds"] == "604800"
    assert bucket["iamConfiguration"]["publicAccessPrevention"] == "inherited"
    assert bucket["metageneration"] == "1"
    assert bucket["selfLink"] == f"{cloud.url}/storage/v1/b/weights-1"
    assert api.call("GET", f"{_ROOT}/weights-1").json() == bucket


def test_one_namespace_for_all_projects(api: Api) -> None:
    """A taken name is 409, with another message if it is the caller's own."""
    _create(api)
    mine = api.call("POST", _ROOT, body={"name": "weights-1"}, project=PROJECT)
    other = api.call("POST", _ROOT, body={"name": "weights-1"}, project="other-project")
    assert _refusal(mine) == _refusal(other) == (409, "conflict")
    assert "you already own it" in mine.json()["error"]["message"]
    assert "not available" in other.json()["error"]["message"]


@pytest.mark.parametrize("name", ["ab", "Upper", "-x-", "goog-x", "my-google-x", "1.2.3.4", "a..b"])
def test_names_that_google_refuses(api: Api, name: str) -> None:
    """Bucket names follow Google's rules."""
    answer = api.call("POST", _ROOT, body={"name": name}, project=PROJECT)
    assert _refusal(answer) == (400, "invalid")


def test_a_location_must_exist_and_stays(api: Api) -> None:
    """Unknown locations are refused, and a location cannot be patched."""
    answer = api.call("POST", _ROOT, body={"name": "b-1", "location": "moon1"}, project=PROJECT)
    assert _refusal(answer) == (400, "invalid")
    _create(api)
    answer = api.call("PATCH", f"{_ROOT}/weights-1", body={"location": "US"})
    assert _refusal(answer) == (400, "invalid")


def test_the_project_must_be_named(api: Api) -> None:
    """Insert and list need ?project=."""
    assert _refusal(api.call("POST", _ROOT, body={"name": "b-1"})) == (400, "required")
    assert _refusal(api.call("GET", _ROOT)) == (400, "required")


def test_patch_merges_and_counts(api: Api, clock: ManualClock) -> None:
    """Labels merge, null removes, the metageneration increases."""
    _create(api, labels={"a": "1", "b": "2"}, versioning={"enabled": True})
    clock.advance(10)
    body = {
        "labels": {"a": None, "c": "3"},
        "softDeletePolicy": {"retentionDurationSeconds": "0"},
        "lifecycle": {"rule": [{"action": {"type": "Delete"}, "condition": {"age": 3}}]},
    }
    bucket = api.call("PATCH", f"{_ROOT}/weights-1", body=body).json()
    assert bucket["labels"] == {"b": "2", "c": "3"}
    assert bucket["versioning"] == {"enabled": True}
    assert bucket["softDeletePolicy"]["retentionDurationSeconds"] == "0"
    assert bucket["lifecycle"]["rule"][0]["condition"] == {"age": 3}
    assert bucket["metageneration"] == "2"
    assert bucket["updated"] > bucket["timeCreated"]
    replaced = api.call("PUT", f"{_ROOT}/weights-1", body={"labels": {"d": "4"}}).json()
    assert replaced["labels"] == {"d": "4"}
    assert "versioning" not in replaced


def test_a_patch_may_demand_a_metageneration(api: Api) -> None:
    """ifMetagenerationMatch protects a read-modify-write of a bucket; a read answers 304."""
    _create(api)
    answer = api.call("PATCH", f"{_ROOT}/weights-1", body={}, ifMetagenerationMatch="7")
    assert _refusal(answer) == (412, "conditionNotMet")
    assert api.call("GET", f"{_ROOT}/weights-1", ifMetagenerationNotMatch="1").status_code == 304


def test_soft_delete_has_bounds(api: Api) -> None:
    """Zero, or seven to ninety days."""
    body = {"name": "b-1", "softDeletePolicy": {"retentionDurationSeconds": "60"}}
    assert _refusal(api.call("POST", _ROOT, body=body, project=PROJECT)) == (400, "invalid")


@pytest.mark.parametrize(
    ("body", "query"),
    [
        ({"acl": [{"entity": "allUsers", "role": "READER"}]}, {}),
        ({"hierarchicalNamespace": {"enabled": True}}, {}),
        ({}, {"predefinedAcl": "publicRead"}),
    ],
)
def test_what_cannot_be_honoured_is_refused(
    api: Api, body: dict[str, Any], query: dict[str, str]
) -> None:
    """A setting that the emulator would have to ignore is 501, by name."""
    answer = api.call("POST", _ROOT, body={"name": "b-1", **body}, project=PROJECT, **query)
    assert answer.status_code == 501
    assert any(name in answer.json()["error"]["message"] for name in (*body, *query))


def test_policies_are_changed_by_read_modify_write(api: Api) -> None:
    """A stale etag is 412; members must exist; the answer is what a get shows."""
    _create(api)
    policy = api.call("GET", f"{_ROOT}/weights-1/iam").json()
    assert policy["bindings"][0]["role"] == "roles/storage.legacyBucketOwner"
    binding = {"role": "roles/storage.objectViewer", "members": ["user:a@example.com"]}
    policy["bindings"].append(binding)
    changed = api.call("PUT", f"{_ROOT}/weights-1/iam", body=policy)
    assert binding in changed.json()["bindings"]
    assert changed.json() == api.call("GET", f"{_ROOT}/weights-1/iam").json()
    stale = api.call("PUT", f"{_ROOT}/weights-1/iam", body=policy)
    assert _refusal(stale) == (412, "conditionNotMet")
    member = f"serviceAccount:nobody-here@{PROJECT}.iam.gserviceaccount.com"
    unknown = {"bindings": [{"role": "roles/storage.objectViewer", "members": [member]}]}
    answer = api.call("PUT", f"{_ROOT}/weights-1/iam", body=unknown)
    assert answer.status_code == 400
    assert "does not exist" in answer.json()["error"]["message"]


def test_public_members_are_refused_where_public_access_is_prevented(api: Api) -> None:
    """publicAccessPrevention=enforced overrides a policy."""
    _create(api, iamConfiguration={"publicAccessPrevention": "enforced"})
    public = {"bindings": [{"role": "roles/storage.objectViewer", "members": ["allUsers"]}]}
    answer = api.call("PUT", f"{_ROOT}/weights-1/iam", body=public)
    assert _refusal(answer) == (412, "conditionNotMet")


def test_a_policy_is_deleted_with_its_bucket(api: Api) -> None:
    """A bucket made again under an old name starts with its own policy."""
    _create(api)
    policy = {"bindings": [{"role": "roles/storage.admin", "members": ["user:a@example.com"]}]}
    api.call("PUT", f"{_ROOT}/weights-1/iam", body=policy)
    assert api.call("DELETE", f"{_ROOT}/weights-1").status_code == 204
    assert api.call("GET", f"{_ROOT}/weights-1").status_code == 404
    _create(api)
    assert "roles/storage.admin" not in api.call("GET", f"{_ROOT}/weights-1/iam").text


def test_a_method_that_is_not_emulated_names_itself(api: Api) -> None:
    """Methods of the API that are not emulated answer 501 with their own name."""
    _create(api)
    answer = api.call("GET", f"{_ROOT}/weights-1/notificationConfigs")
    assert answer.status_code == 501
    assert "storage.notifications.list" in answer.json()["error"]["message"]
    assert api.call("GET", f"{_ROOT}/weights-1", softDeleted="true").status_code == 501
