"""The regions where the library of a stack's project has a bucket, and its stack file has none of
them: what it had there before may still be there."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tpuflex.errors import AlreadyExistsError, NotFoundError
from tpuflex.gcp.library import read_library_bucket

if TYPE_CHECKING:
    from tpuflex.cli.cloud import Cloud


def library_cloud(cloud: Cloud, bucket: str) -> Cloud | None:
    """The stack's ``cloud`` with the weights in ``bucket``, wherever the library has it; None where
    that is none of the library's.

    Raises:
        AccessError, ApiError: it cannot be told.
    """
    try:
        found = read_library_bucket(cloud.apis(), bucket, cloud.stack.settings.project)
    except (NotFoundError, AlreadyExistsError):
        return None
    there = replace(cloud, weights_region=found.location.lower())
    return there if there.bucket == bucket else None
