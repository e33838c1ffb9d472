"""IAM service accounts, and the policies of every service."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedded_cloud.core.clock import ManualClock
from embedded_cloud.services.iam.policies import merged_bindings
from tests.embedded_cloud.api import PROJECT, Api, error_of

_ACCOUNTS = f"v1/projects/{PROJECT}/serviceAccounts"
_EMAIL = f"host-sa@{PROJECT}.iam.gserviceaccount.com"


def _create(api: Api, account_id: str = "host-sa", **account: Any) -> Any:
    body = {"accountId": account_id, "serviceAccount": account}
    answer = api.call("POST", _ACCOUNTS, body=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_new_account_has_an_address_and_a_number(api: Api) -> None:
    """The address is id@project, and both it and the unique id find the account."""
    made = _create(api, displayName="The host", description="runs vLLM")
    assert made["email"] == _EMAIL
    assert made["name"] == f"projects/{PROJECT}/serviceAccounts/{_EMAIL}"
    assert len(made["uniqueId"]) == 21
    for key in (_EMAIL, made["uniqueId"]):
        assert api.call("GET", f"{_ACCOUNTS}/{key}").json() == made
    assert api.call("GET", f"v1/projects/-/serviceAccounts/{_EMAIL}").json() == made


@pytest.mark.parametrize("account_id", ["short", "x" * 31, "Upper-case", "1-digit-first", "ends-"])
def test_ids_that_google_refuses(api: Api, account_id: str) -> None:
    """6 to 30 characters, RFC 1035."""
    answer = api.call("POST", _ACCOUNTS, body={"accountId": account_id})
    assert error_of(answer)[:2] == (400, "INVALID_ARGUMENT")


def test_names_are_taken_until_they_are_deleted(api: Api, clock: ManualClock) -> None:
    """409 while it exists; when it is made again, it is another account."""
    made = _create(api)
    again = api.call("POST", _ACCOUNTS, body={"accountId": "host-sa"})
    assert error_of(again)[:2] == (409, "ALREADY_EXISTS")
    assert api.call("DELETE", f"{_ACCOUNTS}/{_EMAIL}").status_code == 200
    assert error_of(api.call("GET", f"{_ACCOUNTS}/{_EMAIL}"))[:2] == (404, "NOT_FOUND")
    clock.advance(1)
    assert _create(api)["uniqueId"] != made["uniqueId"]


def test_changes_follow_the_mask(api: Api) -> None:
    """updateMask names what changes; a stale etag is refused."""
    made = _create(api, displayName="old", description="stays")
    body = {"serviceAccount": {"displayName": "new"}, "updateMask": "displayName"}
    changed = api.call("PATCH", f"{_ACCOUNTS}/{_EMAIL}", body=body).json()
    assert (changed["displayName"], changed["description"]) == ("new", "stays")
    stale = {**body, "serviceAccount": {"displayName": "x", "etag": made["etag"]}}
    assert error_of(api.call("PATCH", f"{_ACCOUNTS}/{_EMAIL}", body=stale))[0] == 400
    bare = api.call("PATCH", f"{_ACCOUNTS}/{_EMAIL}", body={"serviceAccount": {}})
    assert error_of(bare)[0] == 400


def test_accounts_are_disabled_and_enabled(api: Api) -> None:
    """disabled is shown only while it holds."""
    _create(api)
    api.call("POST", f"{_ACCOUNTS}/{_EMAIL}:disable", body={})
    assert api.call("GET", f"{_ACCOUNTS}/{_EMAIL}").json()["disabled"] is True
    api.call("POST", f"{_ACCOUNTS}/{_EMAIL}:enable", body={})
    assert "disabled" not in api.call("GET", f"{_ACCOUNTS}/{_EMAIL}").json()


def test_lists_are_by_project(api: Api) -> None:
    """One project's accounts, by name."""
    for account_id in ("sa-bbbb", "sa-aaaa"):
        _create(api, account_id)
    accounts = api.call("GET", _ACCOUNTS).json()["accounts"]
    assert [each["email"][:7] for each in accounts] == ["sa-aaaa", "sa-bbbb"]
    assert api.call("GET", "v1/projects/other-project/serviceAccounts").json() == {}


def test_an_account_has_a_policy_of_its_own(api: Api) -> None:
    """Who may act as it; public members are refused."""
    _create(api)
    path = f"{_ACCOUNTS}/{_EMAIL}"
    assert api.call("POST", f"{path}:getIamPolicy").json()["etag"] == "ACAB"
    binding = {"role": "roles/iam.serviceAccountUser", "members": ["user:a@example.com"]}
    body = {"policy": {"bindings": [binding]}}
    assert api.call("POST", f"{path}:setIamPolicy", body=body).json()["bindings"] == [binding]
    public = {"policy": {"bindings": [{**binding, "members": ["allUsers"]}]}}
    assert error_of(api.call("POST", f"{path}:setIamPolicy", body=public))[0] == 400


_BINDINGS = st.lists(
    st.fixed_dictionaries(
        {
            "role": st.sampled_from(["roles/a", "roles/b"]),
            "members": st.lists(st.sampled_from(["user:a", "user:b", "user:c"]), max_size=3),
        }
    ),
    max_size=5,
)


@given(_BINDINGS)
def test_bindings_are_merged_without_loss(bindings: list[dict[str, Any]]) -> None:
    """One binding per role, every member once; merging again changes nothing."""
    merged: Any = merged_bindings(bindings)
    asked = {(each["role"], member) for each in bindings for member in each["members"]}
    got = [(each["role"], member) for each in merged for member in each["members"]]
    assert sorted(asked) == sorted(got)
    assert merged_bindings(merged) == merged
