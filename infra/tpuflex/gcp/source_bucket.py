"""The bucket of a model that a machine is let read: whether it can be, and by the caller."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tpuflex.errors import AccessError, NotFoundError, RequesterPaysError
from tpuflex.gcp.brought_bucket import (
    require_grants_held,
    require_requester_pays_off,
    require_uniform,
)
from tpuflex.gcp.kinds import BUCKET
from tpuflex.gcp.library import bucket_readers
from tpuflex.settings.bucket import BroughtBucket

if TYPE_CHECKING:
    from tpuflex.gcp.listing import Apis
    from tpuflex.gcp.transport import Api, JsonObject

_INSTEAD = "Push from here, where your own right to read is enough: tpuflex weights push"


def read_source_bucket(storage: Api, name: str) -> JsonObject:
    """The bucket ``name`` as the cloud has it.

    Raises:
        NotFoundError: there is no such bucket.
        AccessError, ApiError: it cannot be read.
    """
    try:
        return storage.call("GET", f"{BUCKET.root}{name}")
    except NotFoundError as error:
        raise NotFoundError(
            f"gs://{name} does not exist", hint="Name a bucket that exists: gs://BUCKET/PREFIX."
        ) from error


def require_source_grantable(apis: Apis, name: str) -> None:
    """Check that an account can be let into a part of the bucket ``name`` alone, by the caller.

    Raises:
        NotFoundError: there is no such bucket.
        AccessError: it cannot be, the caller may not, or whoever reads the bucket pays.
        ApiError: it cannot be told.
    """
    bucket = BroughtBucket(name)
    with _or_from_here():
        found = read_source_bucket(apis.storage, name)
    require_requester_pays_off(bucket, found)
    with _or_from_here():
        # No command to change that: who else reads there by access lists is not known.
        require_uniform(bucket, found, "")
        require_grants_held(apis.storage, bucket)
        bucket_readers(apis, name)  # whether its policy can be read


@contextmanager
def _or_from_here() -> Iterator[None]:
    """Say of a refusal what works all the same."""
    try:
        yield
    except RequesterPaysError:
        raise  # who reads it from here pays, too
    except AccessError as error:
        hint = f"{error.hint}\n{_INSTEAD}" if error.hint else _INSTEAD
        raise AccessError(error.message, code=error.code, hint=hint) from error
