"""What holds of weights that a stack keeps in the library of its project, which others share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuflex.boot.config import weights_prefix
from tpuflex.errors import ConflictError, NotFoundError, TpuflexError
from tpuflex.gcp.library import read_library_bucket
from tpuflex.planning.storage_cost import month_text, storage_per_month

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tpuflex.boot.manifest import Manifest
    from tpuflex.cli.cloud import Cloud
    from tpuflex.cli.stack import OpenStack
    from tpuflex.gcp.weights_report import FoundManifest

BUCKET_KEY = "tpuflex:model.weights.bucket"


def in_library(stack: OpenStack) -> bool:
    """Whether ``stack`` keeps its weights in the library."""
    return stack.settings.model.weights.bucket == "library"


def require_library(cloud: Cloud) -> None:
    """Check that the library has a bucket in the region of the stack of ``cloud``, if the stack
    keeps its weights there.

    Raises:
        NotFoundError: it has none.
        AlreadyExistsError: somebody else has made it.
        AccessError, ApiError: it cannot be told.
    """
    stack = cloud.stack
    if not in_library(stack):
        return
    settings = stack.settings
    if not cloud.own_bucket():
        raise NotFoundError(
            f"The library of {settings.project} has no bucket in {settings.slice.region}, where"
            f" {BUCKET_KEY} wants the weights: gs://{cloud.bucket}",
            hint=f"Make it: tpuflex library up --stack {stack.name}",
        )
    read_library_bucket(cloud.apis(), cloud.bucket, settings.project)


def require_same(cloud: Cloud, wanted: Manifest, found: FoundManifest | None) -> None:
    """Check that a push replaces no complete set of other weights in a library: other endpoints may
    serve it, and their hosts refuse what is not the set that they were made for.

    Args:
        cloud: the stack's cloud.
        wanted: the manifest that the push would write.
        found: the one that is there.

    Raises:
        ConflictError: it would.
    """
    model = cloud.stack.settings.model
    if not in_library(cloud.stack) or found is None or found.manifest is None:
        return
    if found.manifest.same_as(wanted):
        return
    raise ConflictError(
        f"gs://{cloud.bucket}/{weights_prefix(model)} holds other weights already (manifest"
        f" {found.sha256}; these are {wanted.sha256}), which other stacks may serve. Nothing was"
        " sent.",
        hint="Give these another name in the stack file, for example"
        f' tpuflex:model.weights.revision: "{_next(model.weights.revision)}"',
    )


def kept_weights(cloud: Cloud) -> dict[str, object] | None:
    """What a teardown of the stack of ``cloud`` leaves in the library, for ``--json``; None where
    that is nothing."""
    stack = cloud.stack
    if not in_library(stack):
        return None
    prefix, region = weights_prefix(stack.settings.model), stack.settings.slice.region
    try:
        sizes = {each.prefix: each.total_bytes for each in cloud.weights.list()}
    except NotFoundError:
        return None
    except TpuflexError as error:
        return {"place": f"gs://{cloud.bucket}/{prefix}", "bytes": None, "why": error.message}
    if prefix not in sizes:
        return None
    size = sizes[prefix]
    dollars = storage_per_month(size, region)
    return {
        "place": f"gs://{cloud.bucket}/{prefix}",
        "bytes": size,
        "usd_per_month": None if dollars is None else float(dollars),
    }


def kept_line(cloud: Cloud, kept: Mapping[str, object] | None) -> str:
    """The same, ``kept``, for people; empty where nothing is left."""
    if kept is None:
        return ""
    size = kept["bytes"]
    cost = f"could not be looked at ({kept.get('why')})"
    if isinstance(size, int):
        region = cloud.stack.settings.slice.region
        cost = f"{size / 2**30:.2f} GiB, {month_text(size, region)}"
    return f"Kept in the library: {kept['place']}, {cost}. What it holds: tpuflex library status"


def _next(revision: str) -> str:
    return str(int(revision) + 1) if revision.isdecimal() else f"{revision[:60]}-2"
