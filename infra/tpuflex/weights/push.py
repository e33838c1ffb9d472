"""Weights pushed to the bucket of their stack, and what must hold before: that they are the pinned
ones, and that no set of others is replaced."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tpuflex.boot.manifest import MANIFEST_NAME
from tpuflex.boot.places import weights_prefix
from tpuflex.errors import (
    ConflictError,
    InterruptedByUser,
)
from tpuflex.stack.progress import transfer
from tpuflex.weights.checkpoint_directory import LocalModel
from tpuflex.weights.push_record import remember
from tpuflex.weights.stack_bucket import is_shared
from tpuflex.weights.trust import not_the_source

if TYPE_CHECKING:
    from tpuflex.boot.manifest import Manifest
    from tpuflex.stack.connection import Connection
    from tpuflex.stack.progress import Report
    from tpuflex.weights.bucket import Check, Differs
    from tpuflex.weights.remote_model import RemoteModel
    from tpuflex.weights.stored_set import FoundManifest, PushReport

_NO_MANIFEST = "Its files may be there; they have no manifest, so no host reads them."


def push_weights(
    cloud: Connection,
    origin: LocalModel | RemoteModel,
    report: Report,
    cancelled: Callable[[], bool],
    check: Check | None = None,
    *,
    differs: Differs | None = None,
    again: bool = False,
) -> PushReport:
    """Push ``origin`` to the stack's bucket, and remember what was pushed.

    Args:
        cloud: the stack's cloud.
        origin: the model in a directory, or one elsewhere.
        report: takes the progress.
        cancelled: whether the user pressed Ctrl-C.
        check: called before anything is sent, or, of a model elsewhere, before the manifest is
            written; raises what forbids it. By default only the stack file's pin does.
        differs: called as soon as a model elsewhere is seen not to be the set that is there; raises
            what forbids that.
        again: send every file, whatever the bucket holds.

    Raises:
        WeightsError: a file cannot be read, or they are not the pinned weights.
        NotFoundError: there is no bucket yet.
        AlreadyExistsError: the bucket is somebody else's.
        ConflictError: other weights are there already, in a bucket that outlives the stack; or what
            others have put there would be replaced.
        InterruptedByUser: the user pressed Ctrl-C.
        TpuflexError: a model elsewhere cannot be fetched.
    """
    model = cloud.stack.settings.model
    prefix, pinned = weights_prefix(model), model.weights.manifest_sha256
    place, used = f"gs://{cloud.bucket}/{prefix}", cloud.now().date()
    replaced = ""

    def allowed(wanted: Manifest, found: FoundManifest | None) -> None:
        nonlocal replaced
        if pinned not in (None, wanted.sha256):
            # Of a model elsewhere, where no set is, the hash is known once its files are there.
            unsent = isinstance(origin, LocalModel) or found is not None
            outcome = "Nothing was sent." if unsent else _NO_MANIFEST
            raise not_the_source(place, pinned=str(pinned), local=wanted.sha256, outcome=outcome)
        if check is not None:
            check(wanted, found)
        require_same_everywhere(cloud, wanted, found)
        if found is not None and found.manifest is not None and found.sha256 != wanted.sha256:
            replaced = found.sha256

    with transfer(report, "  pushing  weights") as show:

        def progress(done: int, total: int) -> None:
            if cancelled():
                raise InterruptedByUser("Stopped while the weights were being pushed.")
            show(done, total)

        if isinstance(origin, LocalModel):
            sent = cloud.weights.push(
                origin,
                prefix,
                model=model.name,
                revision=model.weights.revision,
                progress=progress,
                check=allowed,
                again=again,
                used=used,
            )
        else:
            remote = origin

            def other(found: FoundManifest) -> None:
                if found.sha256 == pinned:
                    raise not_the_source(place, pinned=found.sha256, local=remote.source)
                if differs is not None:
                    differs(found)
                require_none_other(cloud, found, remote.source)

            for near in cloud.further_regions():
                found = near.weights.find(prefix)
                if found is None:
                    continue
                if found.manifest is None or not remote.lists(found.manifest):
                    require_none_other(near, found, remote.source)
            sent = cloud.weights.push_remote(
                remote,
                prefix,
                model=model.name,
                revision=model.weights.revision,
                progress=progress,
                check=allowed,
                differs=other,
                again=again,
                used=used,
            )
    remember(cloud, sent.manifest.sha256)
    if replaced:
        report(f"  pushed   in place of the set {replaced}, which {place} had before")
    return sent


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


def require_same_everywhere(
    cloud: Connection, wanted: Manifest, found: FoundManifest | None
) -> None:
    """The same before a push of ``wanted`` to a bucket that outlives the stack, where ``found`` is
    there; and before the copies that follow, in the stack's further regions.

    Raises:
        ConflictError: as :func:`require_same`.
        TpuflexError: it cannot be told of a further region.
    """
    if not is_shared(cloud.stack):
        return
    prefix = weights_prefix(cloud.stack.settings.model)
    require_same(cloud, wanted.sha256, found)
    for near in cloud.further_regions():
        require_same(near, wanted.sha256, near.weights.find(prefix))


def require_none_other(cloud: Connection, found: FoundManifest, wanted: str) -> None:
    """The same where ``found`` is seen not to be of the source ``wanted``, of which there is no
    manifest yet.

    Raises:
        ConflictError: as :func:`require_same`, if the bucket outlives the stack.
    """
    if is_shared(cloud.stack):
        require_same(cloud, wanted, found)


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
