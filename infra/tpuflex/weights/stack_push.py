"""Weights pushed to the bucket of their stack, and what must hold before: that they are the pinned
ones, and that no set of others is replaced."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from tpuflex.boot.manifest import MANIFEST_NAME
from tpuflex.boot.places import weights_prefix
from tpuflex.errors import (
    ConflictError,
    InterruptedByUser,
)
from tpuflex.stack.progress import transfer
from tpuflex.weights.push import Push, PushReport
from tpuflex.weights.push_record import remember
from tpuflex.weights.stack_bucket import is_shared

if TYPE_CHECKING:
    from tpuflex.errors import TpuflexError
    from tpuflex.stack.connection import Connection
    from tpuflex.stack.progress import Report
    from tpuflex.weights.model import Model
    from tpuflex.weights.stored_set import FoundManifest


def push_weights(
    cloud: Connection,
    model: Model,
    report: Report,
    cancelled: Callable[[], bool],
    *,
    unless_there: TpuflexError | None = None,
    again: bool = False,
) -> PushReport:
    """Push ``model`` to the stack's bucket, and remember what was pushed.

    Args:
        cloud: the stack's cloud.
        model: the model in a directory, or one elsewhere.
        report: takes the progress.
        cancelled: whether the user pressed Ctrl-C.
        unless_there: raised if the bucket does not hold this very set already; None if it need not.
        again: send every file, whatever the bucket holds.

    Raises:
        WeightsError: a file cannot be read, or they are not the pinned weights.
        NotFoundError: there is no bucket yet.
        AlreadyExistsError: the bucket is somebody else's.
        ConflictError: other weights are there already, in a bucket that outlives the stack; or what
            others have put there would be replaced.
        InterruptedByUser: the user pressed Ctrl-C.
        TpuflexError: ``unless_there``; or a model elsewhere cannot be fetched.
    """
    settings = cloud.stack.settings.model
    prefix = weights_prefix(settings)
    with transfer(report, "  pushing  weights") as show:

        def progress(done: int, total: int) -> None:
            if cancelled():
                raise InterruptedByUser("Stopped while the weights were being pushed.")
            show(done, total)

        _require_listed_near(cloud, model)
        sent = cloud.weights.push(
            Push(
                model=model,
                prefix=prefix,
                name=settings.name,
                revision=settings.weights.revision,
                pinned=settings.weights.manifest_sha256,
                unless_there=unless_there,
                may_replace=partial(require_same_everywhere, cloud),
                again=again,
                used=cloud.now().date(),
                progress=progress,
            )
        )
    remember(cloud, sent.manifest.sha256)
    if sent.replaced:
        report(
            f"  pushed   in place of the set {sent.replaced}, which gs://{cloud.bucket}/{prefix}"
            " had before"
        )
    return sent


def _require_listed_near(cloud: Connection, model: Model) -> None:
    """Check, as far as the list of a ``model`` elsewhere shows, that no set of other weights is in
    the stack's further regions, before any of it comes.

    Raises:
        ConflictError: as :func:`require_same`.
    """
    others = cloud.further_regions() if is_shared(cloud.stack) else ()
    if not others or len(model.sums()) == len(model.paths):
        return  # nothing is copied, or the push compares the manifests
    for near in others:
        found = near.weights.find(weights_prefix(cloud.stack.settings.model))
        if found is not None and (found.manifest is None or not model.lists(found.manifest)):
            require_same(near, model.source, found)


def require_same(cloud: Connection, wanted: str, found: FoundManifest | None) -> None:
    """Check that nothing writes over a set of other weights in the bucket of ``cloud``: other
    endpoints may serve it, and their hosts refuse what is not the set that they were made for.
    Where the bucket outlives the stack, what cannot be read counts as such a set.

    Args:
        cloud: the stack's cloud, in one of its regions.
        wanted: SHA-256 of the manifest that would be written; or what else names other weights,
            such as their source.
        found: the manifest that is there.

    Raises:
        ConflictError: something would.
    """
    if found is None or (found.manifest is None and not is_shared(cloud.stack)):
        return
    if found.manifest is None:
        place = f"gs://{cloud.bucket}/{weights_prefix(cloud.stack.settings.model)}"
        raise ConflictError(
            f"{place} has a manifest that cannot be read, so nobody can tell which weights other"
            " stacks may serve from there. Nothing was sent there.",
            hint=f"An earlier version of the object {place}/{MANIFEST_NAME} may be the right one."
            f" {other_set_advice(cloud)}",
        )
    if found.sha256 != wanted:
        raise _other_weights(cloud, found.sha256, wanted)


def require_same_everywhere(cloud: Connection, wanted: str, found: FoundManifest | None) -> None:
    """The same before a push of ``wanted`` to a bucket that outlives the stack, where ``found`` is
    there; and before the copies that follow, in the stack's further regions.

    Raises:
        ConflictError: as :func:`require_same`.
        TpuflexError: it cannot be told of a further region.
    """
    if not is_shared(cloud.stack):
        return
    prefix = weights_prefix(cloud.stack.settings.model)
    require_same(cloud, wanted, found)
    for near in cloud.further_regions():
        require_same(near, wanted, near.weights.find(prefix))


def require_pinned(cloud: Connection) -> None:
    """The same of a push of what the stack of ``cloud`` pins, before its source is read: a push of
    anything else is refused for that.

    Raises:
        ConflictError: it would.
        TpuflexError: it cannot be told.
    """
    model = cloud.stack.settings.model
    pinned = model.weights.manifest_sha256
    if pinned is not None and is_shared(cloud.stack):
        require_same(cloud, pinned, cloud.weights.find(weights_prefix(model)))


def _other_weights(cloud: Connection, there: str, wanted: str) -> ConflictError:
    prefix = weights_prefix(cloud.stack.settings.model)
    return ConflictError(
        f"gs://{cloud.bucket}/{prefix} holds other weights already (manifest {there}; these are"
        f" {wanted}), which other stacks may serve. Nothing was sent there.",
        hint=other_set_advice(cloud),
    )


def other_set_advice(cloud: Connection) -> str:
    """What to do where the bucket of ``cloud`` holds another set in the place of the stack's
    weights, which no push replaces."""
    model = cloud.stack.settings.model
    return (
        "Give these another name in the stack file, for example"
        f' tpuflex:model.weights.revision: "{_next(model.weights.revision)}". To remove what is'
        " there, unless an endpoint uses it: tpuflex weights rm"
        f" gs://{cloud.bucket}/{weights_prefix(model)} --stack {cloud.stack.name}"
    )


def _next(revision: str) -> str:
    return str(int(revision) + 1) if revision.isdecimal() else f"{revision[:60]}-2"
