"""The bucket of a stack's weights, made before there is anything else of the stack."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuflex.deploy.apis import require_apis
from tpuflex.deploy.library import make_library
from tpuflex.deploy.ownership import require_containers_owned, require_free_names
from tpuflex.deploy.stack_run import WEIGHTS, StackRun
from tpuflex.google.required_apis import LIBRARY_APIS
from tpuflex.stack.progress import silent
from tpuflex.weights.library import has_programs_key, in_library
from tpuflex.weights.stack_weights import StackWeights, is_shared, require_shared

if TYPE_CHECKING:
    from tpuflex.deploy.library import LibraryReport
    from tpuflex.stack.connection import Connection
    from tpuflex.stack.progress import Consent


def ensure_weights_bucket(
    cloud: Connection, report: LibraryReport = silent, *, consent: Consent
) -> None:
    """Make sure that the bucket of the stack's weights exists, and is ours.

    One of the user's own is there. A library's is, or is made, after a question: it outlives the
    stack, and no `down` deletes it. The stack's is a Pulumi resource, so Pulumi creates it: an `up`
    of the bucket and what it depends on. Its name, labels, location and access are those of the
    component, and the state has it, so that the first `up` finds nothing to change.

    Args:
        cloud: the stack's cloud.
        report: is told how far it is, and before that what a library is made of.
        consent: asked before APIs are enabled, and before a library is made.

    Raises:
        AlreadyExistsError: it, or the stack's names, belong to another owner.
        NotFoundError: the stack keeps its weights in a bucket of the user's own that is not there.
        InterruptedByUser: the user does not want a library.
        AccessError: the caller may not push there.
        TpuflexError: the engine failed.
    """
    if is_shared(cloud.stack):
        require_apis(cloud, report, consent, apis=LIBRARY_APIS)
        if in_library(cloud.stack) and not _is_library_whole(cloud):
            make_library(cloud, (), report, consent=consent)
        require_shared(cloud, pushes=True)
        return
    require_apis(cloud, report, consent)
    stack_run = StackRun(cloud, report)
    require_containers_owned(cloud, stack_run)
    if not StackWeights(cloud).exists():
        plan = stack_run.preview_without_weights()
        require_free_names(cloud, stack_run, plan, report)
        report("Creating the bucket …")
        stack_run.up_part(WEIGHTS)


def _is_library_whole(cloud: Connection) -> bool:
    """Whether the library has all that the stack of ``cloud`` needs of it."""
    return all(map(cloud.is_there, cloud.buckets.values())) and has_programs_key(cloud)
