"""Resource Manager: projects and their policies."""

from __future__ import annotations

import pytest

from embedded_cloud.core.projects import project_number
from tests.embedded_cloud.api import PROJECT, Api, error_of

_PROJECT = f"v1/projects/{PROJECT}"


def test_every_well_formed_project_exists(api: Api) -> None:
    """Its number is a function of its id."""
    project = api.call("GET", _PROJECT).json()
    assert project["projectId"] == PROJECT
    assert project["projectNumber"] == project_number(PROJECT)
    assert project["lifecycleState"] == "ACTIVE"


@pytest.mark.parametrize("project", ["abc", "Upper-case", "1-first", "ends-with-"])
def test_a_malformed_project_is_denied(api: Api, project: str) -> None:
    """403, as Google answers for a project that the caller may not see."""
    answer = api.call("GET", f"v1/projects/{project}")
    assert error_of(answer)[:2] == (403, "PERMISSION_DENIED")


def test_two_writers_cannot_overwrite_each_other(api: Api) -> None:
    """The second write with the same etag is 409 ABORTED; after a new read it succeeds."""
    policy = api.call("POST", f"{_PROJECT}:getIamPolicy", body={}).json()
    mine = {"role": "roles/viewer", "members": ["user:me@example.com"]}
    other = {"role": "roles/viewer", "members": ["user:other@example.com"]}
    first = {**policy, "bindings": [*policy["bindings"], other]}
    assert api.call("POST", f"{_PROJECT}:setIamPolicy", body={"policy": first}).status_code == 200
    second = {**policy, "bindings": [*policy["bindings"], mine]}
    stale = api.call("POST", f"{_PROJECT}:setIamPolicy", body={"policy": second})
    assert error_of(stale)[:2] == (409, "ABORTED")
    fresh = api.call("POST", f"{_PROJECT}:getIamPolicy", body={}).json()
    fresh["bindings"].append(mine)
    changed = api.call("POST", f"{_PROJECT}:setIamPolicy", body={"policy": fresh}).json()
    members = {tuple(each["members"]) for each in changed["bindings"]}
    assert ("user:me@example.com", "user:other@example.com") in members


def test_members_must_exist(api: Api) -> None:
    """A service account of a project must have been made; Google's own agents exist."""
    account = f"host-sa@{PROJECT}.iam.gserviceaccount.com"
    binding = {"role": "roles/logging.logWriter", "members": [f"serviceAccount:{account}"]}
    body = {"policy": {"bindings": [binding]}}
    refused = api.call("POST", f"{_PROJECT}:setIamPolicy", body=body)
    assert error_of(refused) == (
        400,
        "INVALID_ARGUMENT",
        f"Service account {account} does not exist.",
    )
    made = api.call("POST", f"{_PROJECT}/serviceAccounts", body={"accountId": "host-sa"})
    assert made.status_code == 200
    assert api.call("POST", f"{_PROJECT}:setIamPolicy", body=body).status_code == 200
    number = project_number(PROJECT)
    agents = [
        f"serviceAccount:service-{number}@gcp-sa-tpu.iam.gserviceaccount.com",
        f"serviceAccount:{number}-compute@developer.gserviceaccount.com",
    ]
    binding["members"] = agents
    assert api.call("POST", f"{_PROJECT}:setIamPolicy", body=body).status_code == 200


@pytest.mark.parametrize(
    "binding",
    [
        {"role": "roles/viewer", "members": ["nobody@example.com"]},
        {"role": "roles/viewer", "members": ["allUsers"]},
        {"role": "viewer", "members": ["user:a@example.com"]},
        {
            "role": "roles/viewer",
            "members": ["user:a@example.com"],
            "condition": {"title": "t", "expression": "true"},
        },
    ],
)
def test_bindings_that_google_refuses(api: Api, binding: dict[str, object]) -> None:
    """Untyped or public members, malformed roles, conditions in a version 1 policy."""
    body = {"policy": {"bindings": [binding]}}
    answer = api.call("POST", f"{_PROJECT}:setIamPolicy", body=body)
    assert error_of(answer)[:2] == (400, "INVALID_ARGUMENT")


@pytest.mark.parametrize(
    ("constraint", "value", "policy"),
    [
        ("compute.requireShieldedVm", None, {"booleanPolicy": {}}),
        ("compute.requireShieldedVm", False, {"booleanPolicy": {}}),
        ("compute.requireShieldedVm", True, {"booleanPolicy": {"enforced": True}}),
        ("gcp.resourceLocations", None, {"listPolicy": {"allValues": "ALLOW"}}),
        ("gcp.resourceLocations", "deny_all", {"listPolicy": {"allValues": "DENY"}}),
        (
            "gcp.resourceLocations",
            ["in:us-locations"],
            {"listPolicy": {"allowedValues": ["in:us-locations"]}},
        ),
    ],
)
def test_the_policy_of_an_organization(
    api: Api, constraint: str, value: object, policy: dict[str, object]
) -> None:
    """What the strictness sets is in force on every project, in the words of v1."""
    if value is not None:
        constraints = {"organization_policies": {"constraints": {constraint: value}}}
        assert api.call("POST", "_emulator/strictness", body=constraints).ok
    body = {"constraint": f"constraints/{constraint}"}
    answer = api.call("POST", f"{_PROJECT}:getEffectiveOrgPolicy", body=body).json()
    assert answer == {**body, **policy}


@pytest.mark.parametrize("constraint", ["compute.requireShieldedVm", "constraints/no.such", ""])
def test_an_unknown_constraint_is_refused(api: Api, constraint: str) -> None:
    """A constraint is named in full, and exists."""
    body = {"constraint": constraint}
    answer = api.call("POST", f"{_PROJECT}:getEffectiveOrgPolicy", body=body)
    assert error_of(answer)[:2] == (400, "INVALID_ARGUMENT")
