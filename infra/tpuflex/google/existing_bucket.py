"""A bucket of the user's own for weights: whether it can be used, and what the caller may do there.

It may lie in any project, so its number says nothing here: its name is what the user trusts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from tpuflex.errors import AccessError, AlreadyExistsError, NotFoundError, TpuflexError
from tpuflex.gcloud_commands import create_bucket, grant_on_bucket
from tpuflex.google.paging import entries
from tpuflex.google.rpc_errors import requester_pays
from tpuflex.naming import LABEL_OWNER, STATES_LABEL
from tpuflex.settings.bucket import ExistingBucket

if TYPE_CHECKING:
    from tpuflex.google.transport import Api, JsonObject

#: Path of the buckets in the JSON API of Cloud Storage.
_BUCKETS = "/storage/v1/b/"
#: What a push does in the bucket: it looks, reads the manifest, sends, and replaces what it sent.
PUSHES = (
    "storage.objects.create",
    "storage.objects.delete",
    "storage.objects.get",
    "storage.objects.list",
)
#: The least predefined role that has all of them.
PUSH_ROLE = "roles/storage.objectUser"
#: What granting access takes.
GRANTS = ("storage.buckets.getIamPolicy", "storage.buckets.setIamPolicy")
#: What the commands ask of a bucket that is there.
IN_A_BUCKET = frozenset(
    {
        *PUSHES,
        *GRANTS,
        "storage.buckets.get",
    }
)


def made_by_tpuflex(bucket: ExistingBucket, labels: Mapping[str, object]) -> str:
    """Why a bucket with these ``labels`` is refused: tpuflex has made it, and deletes it with all
    that is in it. Empty for one that others have made."""
    if LABEL_OWNER not in labels and not STATES_LABEL.items() <= labels.items():
        return ""
    return (
        f"tpuflex:model.weights.bucket: {bucket.url} was made by tpuflex, which deletes it with all"
        " that is in it.\n"
        "Write a bucket that others have made; or library, or own."
    )


def read_existing_bucket(storage: Api, bucket: ExistingBucket, region: str) -> JsonObject:
    """``bucket`` as the cloud has it.

    Args:
        storage: client of Cloud Storage.
        bucket: the bucket.
        region: where to make one that is not there.

    Raises:
        NotFoundError: there is no such bucket.
        AlreadyExistsError: tpuflex has made it.
        AccessError, ApiError: it cannot be read, or lets its readers pay.
    """
    try:
        answer = storage.call("GET", f"{_BUCKETS}{bucket.name}")
    except NotFoundError as error:
        raise NotFoundError(
            f"{bucket.url}, which tpuflex:model.weights.bucket names, does not exist",
            hint=f"Make it: {create_bucket(bucket.url, region)}",
        ) from error
    labels = answer.get("labels")
    if refusal := made_by_tpuflex(bucket, labels if isinstance(labels, dict) else {}):
        text, _, hint = refusal.partition("\n")
        raise AlreadyExistsError(text, status=409, hint=hint)
    billing = answer.get("billing")
    if isinstance(billing, dict) and billing.get("requesterPays") is True:
        raise requester_pays(bucket.url)
    return answer


def held_in(storage: Api, bucket: str, permissions: tuple[str, ...]) -> frozenset[str]:
    """Which of ``permissions`` the caller has on ``bucket``
    (https://cloud.google.com/storage/docs/json_api/v1/buckets/testIamPermissions).

    Raises:
        NotFoundError, AccessError, ApiError: the API refuses, or does not answer.
    """
    query = urlencode([("permissions", name) for name in permissions])
    path = f"{_BUCKETS}{bucket}/iam/testPermissions?{query}"
    return frozenset(map(str, entries(storage.call("GET", path), "permissions")))


def require_pushable(storage: Api, bucket: ExistingBucket) -> None:
    """Check that the caller may push into ``bucket``, as far as that is told.

    Raises:
        AccessError: it may not.
    """
    try:
        held = held_in(storage, bucket.name, PUSHES)
    except TpuflexError:
        return  # the first call that is refused tells
    if lacking := [name for name in PUSHES if name not in held]:
        raise AccessError(
            f"{bucket.url}: you may not push weights there, {', '.join(lacking)} is missing."
            " Nothing was sent.",
            hint="Whoever administers it runs:"
            f" {grant_on_bucket(bucket.url, PUSH_ROLE, 'user:YOU')}",
        )
