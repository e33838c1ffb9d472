"""Grants on a condition: added to a policy that others write, too, and taken out of it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.operate.marked_things import Api, clients
from tpuflex.errors import AccessError, ApiError, ConflictError, NotFoundError
from tpuflex.gcp.transport import JsonObject
from tpuflex.operate.region_copy.grants import (
    bucket_grant,
    give,
    named_in,
    revoke,
    secret_grant,
    source_grant,
)

EMAIL = "shop-dev-vllm-copy@p.iam.gserviceaccount.com"
GRANT = bucket_grant("b", "models/m/r")
OTHERS: list[JsonObject] = [
    {"role": "roles/storage.objectUser", "members": ["user:a@example.com"]},
    {
        "role": "roles/storage.objectUser",
        "members": ["serviceAccount:host@p.iam.gserviceaccount.com"],
        "condition": {"title": "t", "expression": "resource.name.startsWith('x')"},
    },
]


class Policy(Api):
    """A policy that others may change in between.

    Attributes:
        policy: as it is.
        writes: how often it was written.
        refusals: raised at the next writes, in order.
    """

    def __init__(self, *refusals: Exception) -> None:
        super().__init__()
        self.policy: JsonObject = {"etag": "e", "bindings": [*OTHERS]}
        self.writes = 0
        self.refusals = [*refusals]
        self.asked: list[str] = []

    def call(
        self,
        method: str,
        path: str,
        *,
        query: Any = None,
        body: JsonObject | None = None,
        budget: float = 0.0,
    ) -> JsonObject:
        """As a transport."""
        del budget
        self.asked.append(f"{method} {path} {query or ''}".strip())
        if method == "GET":
            return self.policy
        if self.refusals:
            raise self.refusals.pop(0)
        self.writes += 1
        assert body is not None
        self.policy = body.get("policy", body)  # type: ignore[assignment]
        return self.policy


def bindings(policy: Policy) -> list[Any]:
    """What it grants."""
    found = policy.policy["bindings"]
    assert isinstance(found, list)
    return found


def test_a_grant_leaves_the_others_as_they_are() -> None:
    """It is added once, on its condition, at version 3; and taken away without a trace."""
    policy = Policy()
    apis = clients(storage=policy)
    give((GRANT,), EMAIL, apis, _no_pause)
    give((GRANT,), EMAIL, apis, _no_pause)

    assert policy.writes == 1
    assert policy.policy["version"] == 3
    assert policy.policy["etag"] == "e"
    *before, ours = bindings(policy)
    assert before == OTHERS
    assert ours["members"] == [f"serviceAccount:{EMAIL}"]
    assert ours["condition"]["expression"] == (
        "resource.name.startsWith('projects/_/buckets/b/objects/models/m/r/')"
    )
    assert policy.asked[0].endswith("{'optionsRequestedPolicyVersion': '3'}")

    revoke(GRANT.resource, EMAIL, apis, _no_pause)
    assert bindings(policy) == OTHERS
    revoke(GRANT.resource, EMAIL, apis, _no_pause)
    assert policy.writes == 2


def test_what_outlives_the_stack_is_only_added_to() -> None:
    """Two roles on the same condition, neither of which replaces or deletes; given and taken away
    together, each in one write."""
    policy, grant = Policy(), bucket_grant("b", "models/m/r", create_only=True)
    apis = clients(storage=policy)
    give((grant,), EMAIL, apis, _no_pause)
    give((grant,), EMAIL, apis, _no_pause)

    given = bindings(policy)[len(OTHERS) :]
    assert [each["role"] for each in given] == [
        "roles/storage.objectCreator",
        "roles/storage.objectViewer",
    ]
    assert {each["condition"]["expression"] for each in given} == {GRANT.expression}
    assert policy.writes == 1
    revoke(grant.resource, EMAIL, apis, _no_pause)
    assert bindings(policy) == OTHERS


def test_what_a_deleted_account_has_left_goes_too() -> None:
    """An account that is made anew under its name has nothing of the earlier one's."""
    policy = Policy()
    gone: JsonObject = {
        "role": GRANT.roles[0],
        "members": [f"deleted:serviceAccount:{EMAIL}?uid=1"],
    }
    policy.policy["bindings"] = [*OTHERS, gone]
    give(
        (replace(GRANT, expression="resource.name == 'x'"),),
        EMAIL,
        clients(storage=policy),
        _no_pause,
    )
    assert gone not in bindings(policy)
    assert len(bindings(policy)) == 3


def test_an_organisation_that_lets_no_stranger_in_is_told() -> None:
    """That refusal has the status of a concurrent change, and is none: it is not asked again."""
    said = "One or more users named in the policy do not belong to a permitted customer."
    policy = Policy(ApiError(said, status=412))
    with pytest.raises(AccessError, match="permitted customer") as caught:
        give((GRANT,), EMAIL, clients(storage=policy), _no_pause)
    assert "constraints/iam.allowedPolicyMemberDomains" in caught.value.hint
    assert policy.writes == 0


def test_a_policy_that_others_change_is_read_again() -> None:
    """A few times, with pauses; and a refusal is one."""
    waited: list[float] = []
    policy = Policy(ConflictError("changed", status=412), ConflictError("changed", status=409))
    give((GRANT,), EMAIL, clients(storage=policy), waited.append)
    assert (policy.writes, waited) == (1, [1.0, 2.0])

    refusal = AccessError("storage.buckets.setIamPolicy is missing")
    with pytest.raises(AccessError):
        give((GRANT,), EMAIL, clients(storage=Policy(refusal)), _no_pause)


def test_an_account_that_is_not_known_yet_is_waited_for() -> None:
    """For a minute, as Google says that may take; another refusal of that kind is one."""
    waited: list[float] = []
    unknown = [ApiError(f"Service account {EMAIL} does not exist.", status=400) for _ in range(6)]
    policy = Policy(*unknown)
    give((GRANT,), EMAIL, clients(storage=policy), waited.append)
    assert (policy.writes, sum(waited)) == (1, 63.0)

    wrong = Policy(ApiError("Invalid condition", status=400))
    with pytest.raises(ApiError, match="Invalid condition"):
        give((GRANT,), EMAIL, clients(storage=wrong), waited.append)
    assert sum(waited) == 63.0


def test_one_version_of_one_secret() -> None:
    """The condition names the project by its number, as conditions do."""
    policy = Policy()
    grant = secret_grant("projects/p/secrets/hub", 1, "123")
    give((grant,), EMAIL, clients(secretmanager=policy), _no_pause)
    assert policy.asked[-1] == "POST /v1/projects/p/secrets/hub:setIamPolicy"
    assert bindings(policy)[-1]["condition"]["expression"] == (
        "resource.name == 'projects/123/secrets/hub/versions/1'"
    )


@pytest.mark.parametrize(
    ("job", "named"),
    [
        ({"bucket": "b-1", "token_version": ""}, ["the bucket b-1"]),
        (
            {"bucket": "b-1", "token_version": "projects/acme-vault/secrets/hub/versions/2"},
            ["the bucket b-1", "the secret projects/acme-vault/secrets/hub"],
        ),
        ({"bucket": ["x"], "token_version": 7}, []),
        ({"bucket": "b-1/o/x?alt=media", "token_version": "projects/p/secrets/s/versions/1"}, []),
        ({"bucket": "b-1", "token_version": "versions/latest"}, ["the bucket b-1"]),
        ({"bucket": {}, "token_version": "projects/acme-vault/secrets/../versions/2"}, []),
        (
            {"bucket": "b-1", "origin": {"kind": "bucket", "bucket": "acme-models", "prefix": "x"}},
            ["the bucket b-1", "the bucket acme-models"],
        ),
        (
            {
                "bucket": "b-1",
                "origin": {"token_version": "projects/acme-vault/secrets/hub/versions/2"},
            },
            ["the bucket b-1", "the secret projects/acme-vault/secrets/hub"],
        ),
        ({"bucket": "b-1", "origin": ["bucket"]}, ["the bucket b-1"]),
        ({"origin": {"bucket": "../b", "origin": {"bucket": "b-2"}}}, []),
        (["bucket"], []),
        ("[" * 100_000, []),
        ("", []),
    ],
)
def test_of_a_forged_job_only_names_are_taken(job: object, named: list[str]) -> None:
    """Whoever may write a machine's metadata can put anything there, and each part of it stands for
    itself."""
    text = job if isinstance(job, str) else json.dumps(job)
    assert [str(each) for each in named_in(text)] == named


def test_a_bucket_that_is_read_and_written_has_both_grants() -> None:
    """Two places of one bucket are granted in one write, each on its own condition: the second does
    not take the first for an earlier copy's."""
    policy = Policy()
    grants = (GRANT, source_grant("b", "team/tiny"))
    give(grants, EMAIL, clients(storage=policy), _no_pause)
    give(grants, EMAIL, clients(storage=policy), _no_pause)

    given = bindings(policy)[len(OTHERS) :]
    below = "resource.name.startsWith('projects/_/buckets/b/objects/"
    assert [(each["role"], each["condition"]["expression"]) for each in given] == [
        ("roles/storage.objectUser", f"{below}models/m/r/')"),
        ("roles/storage.objectViewer", f"{below}team/tiny/')"),
    ]
    assert policy.writes == 1
    assert source_grant("b", "").expression == f"{below}')"


def test_a_bucket_that_is_gone_grants_nothing() -> None:
    """There is nothing to take away."""

    path = "GET /storage/v1/b/b/iam"
    revoke(GRANT.resource, EMAIL, clients(storage=Api({path: NotFoundError("gone")})), _no_pause)


def _no_pause(_seconds: float) -> None:
    return None
