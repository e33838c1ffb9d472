"""The steps of `tpuflex weights`: make the bucket, and tell what the weights here and there are."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from tpuflex.boot.config import weights_prefix
from tpuflex.cli.hub_access import HubAccess
from tpuflex.cli.library_weights import in_library
from tpuflex.cli.prepare_weights import files_text, weights_directory
from tpuflex.cli.shared_weights import is_shared, require_shared
from tpuflex.errors import WeightsError
from tpuflex.gcp.required_apis import LIBRARY_APIS
from tpuflex.operate.pushed_weights import PushedWeights
from tpuflex.operate.weights_choice import PIN_KEY

if TYPE_CHECKING:
    from tpuflex.boot.manifest import Manifest
    from tpuflex.cli.cloud import Cloud
    from tpuflex.cli.invocation import Invocation
    from tpuflex.cli.output import Output
    from tpuflex.cli.stack import OpenStack
    from tpuflex.gcp.weights_report import WeightsCheck


def ensure_bucket(invocation: Invocation, cloud: Cloud) -> None:
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
    from tpuflex.cli.stack_run import WEIGHTS, StackRun
    from tpuflex.cli.steps.first_up import require_free_names
    from tpuflex.cli.steps.library import make_library
    from tpuflex.cli.steps.own_containers import require_own_containers
    from tpuflex.cli.steps.preflight import run_preflight

    if is_shared(cloud.stack):
        run_preflight(invocation, cloud, apis=LIBRARY_APIS)
        if in_library(cloud.stack) and not all(map(cloud.is_there, cloud.buckets.values())):
            make_library(invocation, cloud)
        require_shared(cloud, pushes=True)
        return
    run_preflight(invocation, cloud)
    stack_run = StackRun(invocation, cloud)
    require_own_containers(cloud, stack_run)
    if not cloud.own_bucket():
        plan = stack_run.preview_without_weights()
        require_free_names(cloud, stack_run, plan, invocation.output.progress)
        invocation.output.progress("Creating the bucket …")
        stack_run.up_part(WEIGHTS)


def local_weights(
    stack: OpenStack, directory: Path | None, output: Output, hub: HubAccess
) -> Manifest | None:
    """The manifest that a push of ``directory`` would write, or of the stack's source; None where
    there is neither.

    Raises:
        WeightsError: it is no checkpoint, or cannot be read.
    """
    from tpuflex.gcp.weights_files import local_manifest

    model = stack.settings.model
    if directory is None and model.weights.source is not None:
        directory = weights_directory(stack, model.weights.source, output.progress, hub)
    if directory is None:
        return None
    with ThreadPoolExecutor() as pool:
        found = local_manifest(
            directory,
            pool,
            model=model.name,
            revision=model.weights.revision,
            extra_files=model.weights.extra_files,
        )
    return found.known_as((model.weights.manifest_sha256,))


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


def run_verify(cloud: Cloud, directory: Path | None, output: Output) -> None:
    """Compare the weights in the bucket with their manifest, and that with whatever else says
    which weights they should be; print the result.

    Raises:
        WeightsError: they differ.
        NotFoundError: there are none.
    """
    stack = cloud.stack
    model = stack.settings.model
    prefix = weights_prefix(model)
    check = cloud.weights.verify(prefix, model.weights.extra_files)
    local = local_weights(stack, directory, output, HubAccess(lambda: cloud, output))
    if local is not None:
        local = local.known_as((check.sha256,))
    pushed = PushedWeights(stack.own_files).get(cloud.bucket, prefix)
    compared = dict(_comparisons(check, model.weights.manifest_sha256, local, pushed))
    output.document(
        {
            "prefix": prefix,
            "manifest_sha256": check.sha256,
            "problems": [asdict(problem) for problem in check.problems],
            "beside": list(check.beside),
            "equals": compared,
        }
    )
    lines = [f"  {problem.path}: {problem.problem}" for problem in check.problems]
    lines += [f"  the manifest is not {what}" for what, equal in compared.items() if not equal]
    if lines:
        raise WeightsError(
            f"gs://{cloud.bucket}/{prefix} is not as it should be (the manifest there has the"
            f" SHA-256 {check.sha256}):\n" + "\n".join(lines),
            hint="To bring the right weights back, run: tpuflex weights push",
        )
    output.result(f"{prefix} matches its manifest.\nmanifest_sha256: {check.sha256}")
    if check.beside:
        output.result(
            "Beside them there is what the manifest does not name and no host reads"
            f" ({files_text(len(check.beside))}, such as {check.beside[0]}): a push of other"
            " weights has left it, or somebody else has put it there. To remove it:"
            f" tpuflex --stack {stack.name} weights rm {prefix} --unfinished"
        )
    if compared:
        output.result(f"The manifest is {' and '.join(compared)}.")
    else:
        output.result(
            "Whether that is the right one, nothing here says: name the DIRECTORY that it was"
            f" pushed from, or write the hash to {PIN_KEY}."
        )


def _comparisons(
    check: WeightsCheck, pinned: str | None, local: Manifest | None, pushed: str | None
) -> Iterator[tuple[str, bool]]:
    """What says which weights they should be, and whether they are."""
    if pinned is not None:
        yield f"the pinned one ({pinned})", check.sha256 == pinned
    if local is not None:
        yield f"that of the source ({local.sha256})", check.manifest.same_as(local)
    # A pin or a source says more than what was once pushed.
    elif pushed is not None and pinned is None:
        yield f"the one pushed from here ({pushed})", check.sha256 == pushed
