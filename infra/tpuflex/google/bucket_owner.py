"""Whether the bucket with our name is ours, by the number of the project that it lies in.

Why the number: :mod:`tpuflex.google.project`. Nothing is pushed into, and no node is made
that reads from, a bucket of another project.

Cloud Storage refuses to describe another project's bucket in the words with which it refuses
a caller without read access to a bucket of the own project, "(or it may not exist)" included. So a
refusal says whose it is only to a caller that may read those of the own project.
https://cloud.google.com/storage/docs/json_api/v1/status-codes#403-forbidden
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING

from tpuflex.errors import (
    AccessError,
    AlreadyExistsError,
    NotFoundError,
    ServiceDisabledError,
    TpuflexError,
)
from tpuflex.google.held_permissions import held_permissions

if TYPE_CHECKING:
    from tpuflex.google.transport import Api

_READ = "storage.buckets.get"
#: Bytes of a suggested ``bucket_suffix``.
_SUFFIX_BYTES = 4


def may_read_buckets(resourcemanager: Api, project: str) -> bool:
    """Whether the caller may read every bucket of ``project``; no, where that cannot be determined.

    Args:
        resourcemanager: client of Resource Manager.
        project: project id.
    """
    try:
        return (
            _READ
            in held_permissions(resourcemanager, f"/v1/projects/{project}", (_READ,)).permissions
        )
    except TpuflexError:
        return False


def require_own_bucket(
    storage: Api,
    name: str,
    project: str,
    number: Callable[[], str],
    readable: Callable[[], bool],
    *,
    shared: bool = False,
) -> bool:
    """Check that the bucket ``name``, if there is one, lies in ``project``; whether there is one.

    Args:
        storage: client of Cloud Storage.
        name: bucket name.
        project: project id, for the error.
        number: asks for the project's number.
        readable: whether the caller may read the project's buckets (:func:`may_read_buckets`).
        shared: whether it is a library's, whose name no stack file chooses.

    Raises:
        AlreadyExistsError: it belongs to another owner; the hint names the setting for another
            name.
        AccessError, ApiError: it cannot be determined.
    """
    try:
        bucket = storage.call("GET", f"/storage/v1/b/{name}")
    except NotFoundError:
        return False
    except ServiceDisabledError:
        raise  # of the bucket nothing is known
    except AccessError as error:
        if not readable():
            raise  # it may be ours
        how = f"and you may not read it ({error.message})"
        raise _elsewhere(name, project, how, shared=shared) from error
    if str(bucket.get("projectNumber") or "") != number():
        raise _elsewhere(name, project, "in another project", shared=shared)
    return True


def _elsewhere(name: str, project: str, how: str, *, shared: bool) -> AlreadyExistsError:
    """The error for a bucket that is not in ``project``."""
    return AlreadyExistsError(
        f"The bucket gs://{name} exists already, {how}: it is not project {project}'s. Nothing was"
        " sent.",
        status=409,
        hint=OWN_BUCKET if shared else another_name(),
    )


#: What to do without a library.
OWN_BUCKET = (
    "Keep the weights in the stack's own bucket instead: leave tpuflex:model.weights.bucket out."
)


def another_name() -> str:
    """How to give the bucket another name, with a fresh example."""
    return (
        "Bucket names are shared by the whole world. Give yours an ending of your own in the stack"
        " file, for example\n"
        f'tpuflex:model.weights.bucket_suffix: "{secrets.token_hex(_SUFFIX_BYTES)}"'
    )
