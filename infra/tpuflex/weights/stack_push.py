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
from tpuflex.weights.stack_weights import is_shared

if TYPE_CHECKING:
    from tpuflex.errors import TpuflexError
    from tpuflex.stack.progress import Report
    from tpuflex.weights.model import Model
    from tpuflex.weights.stack_weights import StackWeights
    from tpuflex.weights.stored_set import FoundManifest


def push_weights(
    weights: StackWeights,
    model: Model,
    report: Report,
    cancelled: Callable[[], bool],
    *,
    unless_there: TpuflexError | None = None,
    again: bool = False,
) -> PushReport:
    """Push ``model`` to the stack's bucket, and remember what was pushed.

    Args:
        weights: the stack's weights.
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
    settings = weights.stack.settings.model
    prefix = weights_prefix(settings)
    with transfer(report, "  pushing  weights") as show:

        def progress(done: int, total: int) -> None:
            if cancelled():
                raise InterruptedByUser("Stopped while the weights were being pushed.")
            show(done, total)

        _require_listed_near(weights, model)
        sent = weights.store.push(
            Push(
                model=model,
                prefix=prefix,
                name=settings.name,
                revision=settings.weights.revision,
                pinned=settings.weights.manifest_sha256,
                unless_there=unless_there,
                may_replace=partial(require_same_everywhere, weights),
                again=again,
                used=weights.cloud.now().date(),
                progress=progress,
            )
        )
    remember(weights, sent.manifest.sha256)
    if sent.replaced:
        report(
            f"  pushed   in place of the set {sent.replaced}, which gs://{weights.bucket}/{prefix}"
            " had before"
        )
    return sent


def _require_listed_near(weights: StackWeights, model: Model) -> None:
    """Check, as far as the list of a ``model`` elsewhere shows, that no set of other weights is in
    the stack's further regions, before any of it comes.

    Raises:
        ConflictError: as :func:`require_same`.
    """
    others = weights.further() if is_shared(weights.stack) else ()
    if not others or len(model.sums()) == len(model.paths):
        return  # nothing is copied, or the push compares the manifests
    for near in others:
        found = near.found()
        if found is not None and (found.manifest is None or not model.lists(found.manifest)):
            require_same(near, model.source, found)


def require_same(weights: StackWeights, wanted: str, found: FoundManifest | None) -> None:
    """Check that nothing writes over a set of other weights in the bucket of ``weights``: other
    endpoints may serve it, and their hosts refuse what is not the set that they were made for.
    Where the bucket outlives the stack, what cannot be read counts as such a set.

    Args:
        weights: the stack's weights, in one of its regions.
        wanted: SHA-256 of the manifest that would be written; or what else names other weights,
            such as their source.
        found: the manifest that is there.

    Raises:
        ConflictError: something would.
    """
    if found is None or (found.manifest is None and not is_shared(weights.stack)):
        return
    if found.manifest is None:
        place = f"{weights.place}"
        raise ConflictError(
            f"{place} has a manifest that cannot be read, so nobody can tell which weights other"
            " stacks may serve from there. Nothing was sent there.",
            hint=f"An earlier version of the object {place}/{MANIFEST_NAME} may be the right one."
            f" {other_set_advice(weights)}",
        )
    if found.sha256 != wanted:
        raise _other_weights(weights, found.sha256, wanted)


def require_same_everywhere(
    weights: StackWeights, wanted: str, found: FoundManifest | None
) -> None:
    """The same before a push of ``wanted`` to a bucket that outlives the stack, where ``found`` is
    there; and before the copies that follow, in the stack's further regions.

    Raises:
        ConflictError: as :func:`require_same`.
        TpuflexError: it cannot be told of a further region.
    """
    if not is_shared(weights.stack):
        return
    prefix = weights.prefix
    require_same(weights, wanted, found)
    for near in weights.further():
        require_same(near, wanted, near.store.find(prefix))


def require_pinned(weights: StackWeights) -> None:
    """The same of a push of what the stack pins, before its source is read: a push of anything else
    is refused for that.

    Raises:
        ConflictError: it would.
        TpuflexError: it cannot be told.
    """
    model = weights.stack.settings.model
    pinned = model.weights.manifest_sha256
    if pinned is not None and is_shared(weights.stack):
        require_same(weights, pinned, weights.found())


def _other_weights(weights: StackWeights, there: str, wanted: str) -> ConflictError:
    prefix = weights.prefix
    return ConflictError(
        f"gs://{weights.bucket}/{prefix} holds other weights already (manifest {there}; these are"
        f" {wanted}), which other stacks may serve. Nothing was sent there.",
        hint=other_set_advice(weights),
    )


def other_set_advice(weights: StackWeights) -> str:
    """What to do where the bucket of ``weights`` holds another set in the place of the stack's
    weights, which no push replaces."""
    model = weights.stack.settings.model
    return (
        "Give these another name in the stack file, for example"
        f' tpuflex:model.weights.revision: "{_next(model.weights.revision)}". To remove what is'
        " there, unless an endpoint uses it: tpuflex weights rm"
        f" gs://{weights.bucket}/{weights_prefix(model)} --stack {weights.stack.name}"
    )


def _next(revision: str) -> str:
    return str(int(revision) + 1) if revision.isdecimal() else f"{revision[:60]}-2"
