"""A bucket of the user's own for weights: whether it can be used, and what the caller may do there.

It may lie in any project, so its number says nothing here: its name is what the user trusts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from tpuflex.errors import AccessError, AlreadyExistsError, NotFoundError, TpuflexError
from tpuflex.gcloud_commands import (
    create_bucket,
    grant_on_bucket,
    make_private,
)
from tpuflex.gcp.kinds import BUCKET
from tpuflex.gcp.paging import entries
from tpuflex.gcp.rpc_errors import requester_pays
from tpuflex.naming import LABEL_OWNER, STATES_LABEL
from tpuflex.settings.bucket import BroughtBucket

if TYPE_CHECKING:
    from tpuflex.gcp.transport import Api, JsonObject

#: What a push does in the bucket: it looks, reads the manifest, sends, and replaces what it sent.
PUSHES = (
    "storage.objects.create",
    "storage.objects.delete",
    "storage.objects.get",
    "storage.objects.list",
)
#: The least predefined role that has all of them.
PUSH_ROLE = "roles/storage.objectUser"
#: What letting somebody else in takes, and the least predefined role that has it
#: (https://cloud.google.com/storage/docs/access-control/iam-roles).
GRANTS = ("storage.buckets.getIamPolicy", "storage.buckets.setIamPolicy")
GRANT_ROLE = "roles/storage.legacyBucketOwner"
#: What the commands ask of a bucket that is there.
IN_A_BUCKET = frozenset(
    {
        *PUSHES,
        *GRANTS,
        "storage.buckets.get",
    }
)


def made_by_tpuflex(bucket: BroughtBucket, labels: Mapping[str, object]) -> str:
    """Why a bucket with these ``labels`` is refused: tpuflex has made it, and deletes it with all
    that is in it. Empty for one that others have made."""
    if LABEL_OWNER not in labels and not STATES_LABEL.items() <= labels.items():
        return ""
    return (
        f"tpuflex:model.weights.bucket: {bucket.url} was made by tpuflex, which deletes it with all"
        " that is in it.\n"
        "Write a bucket that others have made; or library, or own."
    )


def read_brought_bucket(storage: Api, bucket: BroughtBucket, region: str) -> JsonObject:
    """``bucket`` as the cloud has it.

    Args:
        storage: client of Cloud Storage.
        bucket: the bucket.
        region: where one is to be made that is not there.

    Raises:
        NotFoundError: there is no such bucket.
        AlreadyExistsError: tpuflex has made it.
        AccessError, ApiError: it cannot be read, or wants whoever reads it to pay.
    """
    try:
        answer = storage.call("GET", f"{BUCKET.root}{bucket.name}")
    except NotFoundError as error:
        raise NotFoundError(
            f"{bucket.url}, which tpuflex:model.weights.bucket names, does not exist",
            hint=f"Make it: {create_bucket(bucket.url, region)}",
        ) from error
    labels = answer.get("labels")
    if refusal := made_by_tpuflex(bucket, labels if isinstance(labels, dict) else {}):
        text, _, hint = refusal.partition("\n")
        raise AlreadyExistsError(text, status=409, hint=hint)
    require_requester_pays_off(bucket, answer)
    return answer


def require_requester_pays_off(bucket: BroughtBucket, found: JsonObject) -> None:
    """Check that ``bucket``, which the cloud has as ``found``, does not let whoever reads it pay.

    Raises:
        RequesterPaysError: it does.
    """
    billing = found.get("billing")
    if isinstance(billing, dict) and billing.get("requesterPays") is True:
        raise requester_pays(bucket.url)


def held_in(storage: Api, bucket: str, permissions: tuple[str, ...]) -> frozenset[str]:
    """Which of ``permissions`` the caller has on ``bucket``
    (https://cloud.google.com/storage/docs/json_api/v1/buckets/testIamPermissions).

    Raises:
        NotFoundError, AccessError, ApiError: the API refuses, or does not answer.
    """
    query = urlencode([("permissions", name) for name in permissions])
    path = f"{BUCKET.root}{bucket}/iam/testPermissions?{query}"
    return frozenset(map(str, entries(storage.call("GET", path), "permissions")))


def require_pushable(storage: Api, bucket: BroughtBucket) -> None:
    """Check that the caller may push into ``bucket``, as far as that is told.

    Raises:
        AccessError: it may not.
    """
    _require_held(storage, bucket, PUSHES, PUSH_ROLE, "push weights there", "sent")


def require_grantable(storage: Api, bucket: BroughtBucket, found: JsonObject) -> None:
    """Check that an account can be let into a part of ``bucket`` alone, and that the caller may do
    so, as far as that is told.

    Args:
        storage: client of Cloud Storage.
        bucket: the bucket.
        found: it, as the cloud has it.

    Raises:
        AccessError: it cannot be, or the caller may not.
    """
    require_uniform(bucket, found, f"Run: {make_private(bucket.url)}")
    require_grants_held(storage, bucket)


def require_uniform(bucket: BroughtBucket, found: JsonObject, hint: str) -> None:
    """Check that ``bucket``, which the cloud has as ``found``, has uniform bucket-level access:
    without it no role has a condition.

    Raises:
        AccessError: it has not; what to do is ``hint``.
    """
    access = found.get("iamConfiguration")
    uniform = access.get("uniformBucketLevelAccess") if isinstance(access, dict) else None
    if not (isinstance(uniform, dict) and uniform.get("enabled") is True):
        raise AccessError(
            f"{bucket.url} has no uniform bucket-level access, so nobody can be let into a part of"
            " it alone. Nothing was made.",
            hint=hint,
        )


def require_grants_held(storage: Api, bucket: BroughtBucket) -> None:
    """Check that the caller may let somebody else into ``bucket``, as far as that is told.

    Raises:
        AccessError: they may not.
    """
    _require_held(storage, bucket, GRANTS, GRANT_ROLE, "let the machine's account in", "made")


def _require_held(
    storage: Api,
    bucket: BroughtBucket,
    permissions: tuple[str, ...],
    role: str,
    what: str,
    done: str,
) -> None:
    try:
        held = held_in(storage, bucket.name, permissions)
    except TpuflexError:
        return  # the first call that is refused tells
    if lacking := [name for name in permissions if name not in held]:
        raise AccessError(
            f"{bucket.url}: you may not {what}, {', '.join(lacking)} is missing. Nothing was"
            f" {done}.",
            hint=f"Whoever administers it runs: {grant_on_bucket(bucket.url, role, 'user:YOU')}",
        )
