"""Whose a bucket is that may not be read: another project's only for who may read the own ones."""

from __future__ import annotations

from typing import Any

import pytest

from tests.operate.marked_things import NAMES, STATE, Api, clients
from tpuflex.errors import (
    AccessError,
    AlreadyExistsError,
    ApiError,
    ServiceDisabledError,
    TpuflexError,
)
from tpuflex.google.apis import Apis
from tpuflex.google.bucket_owner import may_read_buckets, require_own_bucket
from tpuflex.google.project import project_number
from tpuflex.google.transport import JsonObject
from tpuflex.recovery.look import CloudLook, Presence

BUCKET = "gcp:storage/bucket:Bucket"
DENIED = AccessError("403: no storage.buckets.get (or it may not exist)")
TEST = "POST /v1/projects/p:testIamPermissions"
READS: JsonObject = {"permissions": ["storage.buckets.get"]}


def refusing(held: JsonObject | TpuflexError, refusal: TpuflexError = DENIED) -> Apis:
    """Cloud Storage refuses to describe the bucket; Resource Manager says what the caller has."""
    storage = Api({"GET /storage/v1/b/b": refusal})
    return clients(storage=storage, resourcemanager=Api({TEST: held}))


@pytest.mark.parametrize(
    ("held", "refusal", "presence"),
    [
        (READS, DENIED, Presence.FOREIGN),
        ({}, DENIED, Presence.UNKNOWN),
        (DENIED, DENIED, Presence.UNKNOWN),
        (READS, ServiceDisabledError("off"), Presence.UNKNOWN),
        (READS, ApiError("no answer"), Presence.UNKNOWN),
    ],
)
def test_what_a_recovery_takes_it_for(
    held: JsonObject | TpuflexError, refusal: TpuflexError, presence: Presence
) -> None:
    """`recover` called a bucket somebody else's that it was not allowed to read, and the state
    complete."""
    inputs = {"project": "p", "name": "b", "labels": NAMES.labels(STATE)}

    found = CloudLook(refusing(held, refusal))(BUCKET, inputs)

    assert (found.presence, found.error) == (presence, refusal)


@pytest.mark.parametrize(("held", "error"), [(READS, AlreadyExistsError), ({}, AccessError)])
def test_what_a_push_takes_it_for(held: JsonObject, error: type[TpuflexError]) -> None:
    """Who may not read the own project's buckets lacks a permission, not another name."""
    apis = refusing(held)

    with pytest.raises(error, match=r"storage\.buckets\.get"):
        require_own_bucket(
            apis.storage,
            "b",
            "p",
            lambda: "1",
            lambda: may_read_buckets(apis.resourcemanager, "p"),
        )


@pytest.mark.parametrize(("shared", "said"), [(False, "bucket_suffix"), (True, "own bucket")])
def test_the_way_out_is_one_that_there_is(shared: bool, said: str) -> None:
    """A stack's bucket can be given another name; a library's cannot, and the stack's own is the
    way out."""
    apis = refusing(READS)

    with pytest.raises(AlreadyExistsError) as error:
        require_own_bucket(apis.storage, "b", "p", lambda: "1", lambda: True, shared=shared)
    assert said in str(error.value.hint)


def test_number() -> None:
    """The API spells the number as text (google.protobuf's form of int64)."""
    api = Api({"GET /v1/projects/p": {"projectId": "p", "projectNumber": "123456789012"}})

    assert project_number(api, "p") == "123456789012"


@pytest.mark.parametrize("answer", [{}, {"projectNumber": ""}, {"projectNumber": "p"}])
def test_an_answer_without_a_number(answer: dict[str, Any]) -> None:
    """What is no number is refused: it must not count as equal to a bucket that names none."""
    with pytest.raises(ApiError, match="no number"):
        project_number(Api({"GET /v1/projects/p": answer}), "p")
