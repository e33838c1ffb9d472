"""The steps of `tpuflex weights`: make the bucket, and tell what the weights here and there are."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tpuflex.google.required_apis import LIBRARY_APIS
from tpuflex.weights.checkpoint_directory import LocalModel
from tpuflex.weights.library import has_programs_key, in_library
from tpuflex.weights.model import manifest_of_model
from tpuflex.weights.source import named_model, weights_origin
from tpuflex.weights.stack_weights import StackWeights, is_shared, require_shared

if TYPE_CHECKING:
    from collections.abc import Callable

    from tpuflex.boot.manifest import Manifest
    from tpuflex.cli.invocation import Invocation
    from tpuflex.stack.connection import Connection
    from tpuflex.stack.stack import Stack
    from tpuflex.terminal.output import Output
    from tpuflex.weights.remote_model import RemoteModel


def ensure_bucket(invocation: Invocation, cloud: Connection) -> None:
    """Make sure that the bucket of the stack's weights exists, and is ours.

    One of the user's own is there. A library's is, or is made, after a question: it outlives the
    stack, and no `down` deletes it. The stack's is a Pulumi resource, so Pulumi creates it: an `up`
    of the bucket and what it depends on. Its name, labels, location and access are those of the
    component, and the state has it, so that the first `up` finds nothing to change.

    Raises:
        AlreadyExistsError: somebody else has made it, or holds the stack's names.
        NotFoundError: the stack keeps its weights in a bucket of the user's own that is not there.
        InterruptedByUser: the user does not want a library.
        AccessError: the caller may not push there.
        TpuflexError: the engine failed.
    """
    from tpuflex.deploy.apis import require_apis
    from tpuflex.deploy.library import make_library
    from tpuflex.deploy.ownership import require_free_names, require_own_containers
    from tpuflex.deploy.stack_run import WEIGHTS, StackRun

    if is_shared(cloud.stack):
        require_apis(cloud, invocation.report, invocation.consent, apis=LIBRARY_APIS)
        if in_library(cloud.stack) and not _is_library_whole(cloud):
            make_library(invocation, cloud)
        require_shared(cloud, pushes=True)
        return
    require_apis(cloud, invocation.report, invocation.consent)
    stack_run = StackRun(cloud, invocation.report)
    require_own_containers(cloud, stack_run)
    if not StackWeights(cloud).exists():
        plan = stack_run.preview_without_weights()
        require_free_names(cloud, stack_run, plan, invocation.output.progress)
        invocation.output.progress("Creating the bucket …")
        stack_run.up_part(WEIGHTS)


def _is_library_whole(cloud: Connection) -> bool:
    """Whether the library has all that the stack of ``cloud`` needs of it."""
    return all(map(cloud.is_there, cloud.buckets.values())) and has_programs_key(cloud)


def local_weights(
    stack: Stack, directory: Path | None, output: Output, connect: Callable[[], Connection]
) -> Manifest | None:
    """The manifest that a push of ``directory`` would write, or of the stack's source; None where
    there is neither.

    Args:
        stack: the stack.
        directory: the checkpoint; None for what the stack file names.
        output: shows the progress of what comes from elsewhere.
        connect: gives the stack's cloud, when it is needed.

    Raises:
        WeightsError: it holds no model, one that is incomplete or damaged, or cannot be read.
        TpuflexError: a model elsewhere cannot be fetched.
    """

    model = stack.settings.model
    name, revision = model.name, model.weights.revision
    origin: LocalModel | RemoteModel
    if directory is not None:
        origin = named_model(stack, directory, output.progress)
    elif model.weights.source is not None:
        origin = weights_origin(stack, model.weights.source, output.progress, connect)
    else:
        return None
    known = isinstance(origin, LocalModel) or len(origin.sums()) == len(origin.paths)
    if known:
        return manifest_of_model(origin, name=name, revision=revision)
    with output.transfer("  fetching weights") as show:
        return manifest_of_model(origin, show, name=name, revision=revision)


def show_hash(found: Manifest, output: Output) -> None:
    """Print the hash of ``found``."""
    output.document(
        {
            "manifest_sha256": found.sha256,
            "files": len(found.files),
            "bytes": found.total_bytes,
        }
    )
    output.result(f"manifest_sha256: {found.sha256}")
