"""The regions where the library of a stack's project has a bucket, and its stack file has none of
them: what the stack had there before may still be there."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tpuflex.cli.library_weights import in_library
from tpuflex.errors import AlreadyExistsError, NotFoundError
from tpuflex.gcp.library import list_library, read_library_bucket

if TYPE_CHECKING:
    from tpuflex.cli.cloud import Cloud


def region_of_bucket(cloud: Cloud, bucket: str) -> Cloud | None:
    """The stack's ``cloud`` with the weights in ``bucket``, wherever the library has it; None where
    that is none of the library's, or the stack is not in it.

    Raises:
        AccessError, ApiError: it cannot be told.
    """
    if not in_library(cloud.stack):
        return None
    try:
        found = read_library_bucket(cloud.apis(), bucket, cloud.stack.settings.project)
    except (NotFoundError, AlreadyExistsError):
        return None
    there = replace(cloud, weights_region=found.location)
    return there if there.bucket == bucket else None


def other_regions(cloud: Cloud) -> tuple[tuple[Cloud, ...], tuple[str, ...]]:
    """It in each region that only the library has a bucket in, and why that could not be told."""
    if not in_library(cloud.stack):
        return (), ()
    listing = list_library(cloud.apis(), cloud.stack.settings.project)
    own = set(cloud.buckets.values())
    found = (
        replace(cloud, weights_region=each.location)
        for each in sorted(listing.resources, key=lambda one: one.location)
        if each.name not in own
    )
    named = {each.name for each in listing.resources}
    return tuple(each for each in found if each.bucket in named), listing.unseen
