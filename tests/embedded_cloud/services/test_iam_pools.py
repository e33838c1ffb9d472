"""Workload identity pools and their providers, over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from embedded_cloud.core.projects import project_number
from embedded_cloud.server import EmbeddedCloud
from tests.embedded_cloud.api import PROJECT, Api, error_of

POOLS = f"v1/projects/{PROJECT}/locations/global/workloadIdentityPools"
PROVIDERS = f"{POOLS}/deploys/providers"
NAME = f"projects/{project_number(PROJECT)}/locations/global/workloadIdentityPools/deploys"
GITHUB: dict[str, Any] = {
    "oidc": {"issuerUri": "https://token.actions.githubusercontent.com"},
    "attributeMapping": {"google.subject": "assertion.sub"},
    "attributeCondition": "assertion.repository_owner_id == '1'",
}


@pytest.fixture
def pool(api: Api) -> Api:
    """The API of a project with one pool that has one provider."""
    api.call("POST", POOLS, body={}, workloadIdentityPoolId="deploys").raise_for_status()
    made = api.call("POST", PROVIDERS, body=GITHUB, workloadIdentityPoolProviderId="github")
    made.raise_for_status()
    return api


def test_names_have_the_projects_number(pool: Api) -> None:
    """Whichever the path has: the name goes into principals, which want the number."""
    found = pool.call("GET", f"{POOLS}/deploys").json()

    assert found == {"name": NAME, "state": "ACTIVE"}
    assert pool.call("GET", f"v1/{NAME}/providers/github").json()["name"] == (
        f"{NAME}/providers/github"
    )


def test_the_published_plugin_finds_no_attestation_rules(pool: Api) -> None:
    """It asks for them whenever it reads a pool, and fails where they cannot be listed."""
    answer = pool.call("GET", f"{POOLS}/deploys:listAttestationRules")

    assert (answer.status_code, answer.json()) == (200, {})


def test_what_is_deleted_keeps_its_id_for_thirty_days(pool: Api, cloud: EmbeddedCloud) -> None:
    """It is shown as deleted, cannot be made anew, and can be restored until then; a pool takes its
    providers along, which are restored by themselves."""
    assert pool.call("DELETE", f"{POOLS}/deploys").json()["response"]["state"] == "DELETED"
    taken = pool.call("POST", POOLS, body={}, workloadIdentityPoolId="deploys")
    listed = pool.call("GET", POOLS).json()
    shown = pool.call("GET", POOLS, showDeleted="true").json()["workloadIdentityPools"]
    pool.call("POST", f"{POOLS}/deploys:undelete", body={}).raise_for_status()
    pool.call("POST", f"{PROVIDERS}/github:undelete", body={}).raise_for_status()
    back = pool.call("GET", f"{PROVIDERS}/github").json()

    assert taken.status_code == 409
    assert listed == {}
    assert [each["state"] for each in shown] == ["DELETED"]
    assert back["attributeCondition"] == GITHUB["attributeCondition"]

    pool.call("DELETE", f"{POOLS}/deploys").raise_for_status()
    cloud.advance(30 * 86_400)
    assert pool.call("GET", f"{POOLS}/deploys").status_code == 404
    pool.call("POST", POOLS, body={}, workloadIdentityPoolId="deploys").raise_for_status()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"attributeCondition": ""}, "must reference one of the provider's claims"),
        ({"attributeCondition": "true"}, "must reference one of the provider's claims"),
        ({"attributeMapping": {"attribute.ref": "assertion.ref"}}, "must map google.subject"),
        ({"oidc": {"issuerUri": "http://issuer.example"}}, "must start with https://"),
    ],
)
def test_a_provider_that_lets_anybody_in_is_refused(
    pool: Api, changes: dict[str, Any], message: str
) -> None:
    """GitHub signs tokens for everybody: without a condition any repository would get in."""
    body = {**GITHUB, **changes}
    made = pool.call("POST", PROVIDERS, body=body, workloadIdentityPoolProviderId="other")

    assert made.status_code == 400
    assert message in error_of(made)[2]


@pytest.mark.parametrize("id_", ["abc", "gcp-deploys", "Deploys", "a" * 33])
def test_ids(api: Api, id_: str) -> None:
    """4 to 32 letters of a small set, without Google's own prefix."""
    assert api.call("POST", POOLS, body={}, workloadIdentityPoolId=id_).status_code == 400
