"""Whether a stack keeps its weights in the library of its project, and whether that is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuflex.errors import NotFoundError
from tpuflex.gcp.library import read_library_bucket

if TYPE_CHECKING:
    from tpuflex.cli.cloud import Cloud
    from tpuflex.cli.stack import OpenStack

BUCKET_KEY = "tpuflex:model.weights.bucket"


def in_library(stack: OpenStack) -> bool:
    """Whether ``stack`` keeps its weights in the library."""
    return stack.settings.model.weights.bucket == "library"


def require_library(cloud: Cloud) -> None:
    """Check that the library has a bucket in each region of the stack of ``cloud``, if the stack
    keeps its weights there.

    Raises:
        NotFoundError: it has none in one of them.
        AlreadyExistsError: somebody else has made it.
        AccessError, ApiError: it cannot be told.
    """
    stack = cloud.stack
    if not in_library(stack):
        return
    settings = stack.settings
    for region, bucket in cloud.buckets.items():
        if not cloud.is_there(bucket):
            raise NotFoundError(
                f"The library of {settings.project} has no bucket in {region}, where"
                f" {BUCKET_KEY} wants the weights: gs://{bucket}",
                hint=f"Make it: tpuflex weights push --stack {stack.name}, or without weights:"
                f" tpuflex library up --stack {stack.name}",
            )
        read_library_bucket(cloud.apis(), bucket, settings.project)
