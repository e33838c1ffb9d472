"""The bucket of a model that a machine is to read: what keeps it out is told before anything is
made, with what works instead."""

from __future__ import annotations

from typing import Any

import pytest

from tests.operate.marked_things import Api, clients
from tpuflex.errors import AccessError, NotFoundError
from tpuflex.gcp.brought_bucket import GRANTS
from tpuflex.gcp.rpc_errors import requester_pays
from tpuflex.gcp.source_bucket import require_source_grantable

PATH = "GET /storage/v1/b/acme-models"
TESTED = f"{PATH}/iam/testPermissions?" + "&".join(f"permissions={name}" for name in GRANTS)
UNIFORM = {"iamConfiguration": {"uniformBucketLevelAccess": {"enabled": True}}}
RIGHT: dict[str, Any] = {PATH: UNIFORM, TESTED: {"permissions": [*GRANTS]}, f"{PATH}/iam": {}}
FROM_HERE = "Push from here, where your own right to read is enough: tpuflex weights push"


def test_a_bucket_that_can_be_shared_is_taken() -> None:
    """Also one that tpuflex has made, as a library: only what is deleted with a stack matters, and
    reading deletes nothing."""
    labelled = {**UNIFORM, "labels": {"tpuflex-owner": "x"}}
    require_source_grantable(clients(storage=Api({**RIGHT, PATH: labelled})), "acme-models")


@pytest.mark.parametrize(
    ("changed", "said", "hint"),
    [
        ({PATH: AccessError("storage.buckets.get denied")}, "storage.buckets.get", FROM_HERE),
        ({PATH: {}}, "has no uniform bucket-level access", FROM_HERE),
        (
            {TESTED: {"permissions": ["storage.buckets.getIamPolicy"]}},
            r"may not let the machine's account in, storage\.buckets\.setIamPolicy is missing",
            FROM_HERE,
        ),
        ({f"{PATH}/iam": AccessError("getIamPolicy denied")}, "getIamPolicy denied", FROM_HERE),
        ({PATH: {**UNIFORM, "billing": {"requesterPays": True}}}, "lets whoever reads it pay", ""),
        ({PATH: requester_pays("gs://acme-models")}, "lets whoever reads it pay", ""),
    ],
)
def test_what_keeps_a_machine_out_is_told(changed: dict[str, Any], said: str, hint: str) -> None:
    """With the remedy, which is a push from here; where whoever reads pays, that could not read
    either."""
    with pytest.raises(AccessError, match=said) as caught:
        require_source_grantable(clients(storage=Api({**RIGHT, **changed})), "acme-models")
    assert caught.value.hint.endswith(hint)
    assert (FROM_HERE in caught.value.hint) is bool(hint)


def test_a_bucket_that_is_not_there() -> None:
    """Is told as such."""
    gone = Api({PATH: NotFoundError("gone")})
    with pytest.raises(NotFoundError, match=r"gs://acme-models does not exist"):
        require_source_grantable(clients(storage=gone), "acme-models")
