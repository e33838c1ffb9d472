"""Whose a bucket is, by the number of the project that it lies in.

Bucket names are one namespace for the whole world and ours can be computed, so that anybody may
have made a bucket of that name first, with our labels on it. The project's number cannot be
forged: nothing is pushed into, adopted, served from or deleted of a bucket whose number is
another one's.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tpuflex.errors import AccessError, AlreadyExistsError, NotFoundError
from tpuflex.gcp.project_number import project_number

if TYPE_CHECKING:
    from tpuflex.gcp.transport import Api

#: Setting that ends the bucket's name in digits of the user's own.
SUFFIX_KEY = "tpuflex:model.weights.bucket_suffix"
_SUFFIX_BYTES = 4


def lies_in(bucket: Mapping[str, Any], number: str) -> bool:
    """Whether ``bucket``, as its API describes it, lies in the project with this number; what is
    not known is another one's."""
    return bool(number) and str(bucket.get("projectNumber") or "") == number


def require_own_bucket(storage: Api, resourcemanager: Api, name: str, project: str) -> bool:
    """Check that the bucket ``name``, if there is one, lies in ``project``; whether there is one.

    Raises:
        AlreadyExistsError: somebody else has it; the hint names the setting for another name.
        AccessError, ApiError: it cannot be told.
    """
    try:
        bucket = storage.call("GET", f"/storage/v1/b/{name}")
    except NotFoundError:
        return False
    except AccessError as error:
        raise taken(name, project, f"and you may not read it: {error.message}") from error
    if not lies_in(bucket, project_number(resourcemanager, project)):
        raise taken(name, project, "in another project")
    return True


def taken(name: str, project: str, how: str) -> AlreadyExistsError:
    """The error for a bucket that is not in ``project``."""
    return AlreadyExistsError(
        f"The bucket gs://{name} exists already, {how}. It does not belong to project {project};"
        " whoever made it may have meant to get your weights. Nothing was sent.",
        status=409,
        hint="Take another name. Write to the stack file, for example:\n"
        f"  {SUFFIX_KEY.partition('.')[0]}:\n    weights:\n"
        f'      bucket_suffix: "{secrets.token_hex(_SUFFIX_BYTES)}"',
    )
