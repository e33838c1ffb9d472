"""The push of a stack's weights: from their source to its home, and from there to its other
regions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from tpuflex.errors import InterruptedByUser, NotFoundError
from tpuflex.stack.progress import transfer
from tpuflex.weights.copies import fill_regions, filling_texts
from tpuflex.weights.known_files import known_by_source
from tpuflex.weights.push import Push, PushReport, push_report
from tpuflex.weights.push_record import PushedWeights, remember
from tpuflex.weights.source import check_source, named_model, source_model
from tpuflex.weights.stack_weights import (
    StackWeights,
    is_shared,
    require_same,
    require_same_everywhere,
)
from tpuflex.weights.trust import Trust, Weights, choose
from tpuflex.weights.verification import checked, require_source

if TYPE_CHECKING:
    from pathlib import Path

    from tpuflex.errors import TpuflexError
    from tpuflex.stack.connection import Connection
    from tpuflex.stack.progress import Report
    from tpuflex.weights.model import Model


@dataclass(frozen=True, slots=True)
class Pushed:
    """What became of the weights of a stack.

    Attributes:
        home: what was sent to its home.
        copies: what was copied to each further region, by path; empty for a stack in one region.
    """

    home: PushReport
    copies: tuple[tuple[StackWeights, tuple[str, ...]], ...] = ()

    def to_json(self) -> dict[str, object]:
        """The document of ``--json``."""
        document: dict[str, object] = {
            "sent": self.home.sent,
            "kept": self.home.kept,
            "bytes_sent": self.home.bytes_sent,
            "manifest_sha256": self.home.manifest.sha256,
        }
        if self.copies:
            document["copies"] = [
                {"region": near.elsewhere, "bucket": near.bucket, "copied": paths}
                for near, paths in self.copies
            ]
        return document


def push(
    cloud: Connection,
    directory: Path | None,
    report: Report,
    make_bucket: Callable[[Connection], None],
    *,
    again: bool = False,
) -> Pushed:
    """Bring the weights of the stack of ``cloud`` into the bucket in its home, and from there into
    that of each further region of its zones.

    Args:
        cloud: the stack's cloud.
        directory: the checkpoint; None for what the stack file names, or for what the home has
            where it names nothing.
        report: takes the progress.
        make_bucket: called once it is known what is pushed, with the cloud of the stack as it is
            planned by that: makes what buckets there are not yet.
        again: whether every file is sent, whatever the buckets hold.

    Raises:
        NotFoundError: there is neither a directory nor a source, and nothing to fill regions from.
        WeightsError: nothing says that those in the bucket are the right ones; or the directory
            holds none, or other ones than the stack file pins.
        SettingsError: the server could not read them.
        ConflictError: other weights are there already, in a bucket that outlives the stack.
        TpuflexError: the Hub or the cloud refused; or what ``make_bucket`` raises.
    """
    source = cloud.stack.settings.model.weights.source
    model: Model
    if directory is not None:
        model = named_model(cloud.stack, directory, report)
        cloud = known_by_source(cloud, directory)
        make_bucket(cloud)
    elif source is not None:
        check_source(cloud.stack, cloud)
        cloud = known_by_source(cloud)
        make_bucket(cloud)
        model = source_model(cloud.stack, source, report, lambda: cloud)
    else:
        return _fill_alone(StackWeights(cloud), report, make_bucket)
    home = StackWeights(cloud)
    sent = push_weights(home, model, report, lambda: False, again=again)
    return Pushed(sent, _fill_further(home, sent, report, again=again))


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
        AlreadyExistsError: the bucket belongs to another owner.
        ConflictError: other weights are there already, in a bucket that outlives the stack; or what
            others have put there would be replaced.
        InterruptedByUser: the user pressed Ctrl-C.
        TpuflexError: ``unless_there``; or a model elsewhere cannot be fetched.
    """
    settings = weights.stack.settings.model
    with transfer(report, "  pushing  weights") as show:

        def progress(done: int, total: int) -> None:
            if cancelled():
                raise InterruptedByUser("Stopped while the weights were being pushed.")
            show(done, total)

        _require_listed_near(weights, model)
        sent = weights.store.push(
            Push(
                model=model,
                prefix=weights.prefix,
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
        report(f"  pushed   in place of the set {sent.replaced}, which {weights.place} had before")
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


def _fill_further(
    home: StackWeights, sent: PushReport, report: Report, *, again: bool = False
) -> tuple[tuple[StackWeights, tuple[str, ...]], ...]:
    """Copy what was ``sent`` to the stack's home to its further regions, and say first what that
    costs; gives what was copied to each."""
    if not home.further():
        return ()
    sha256 = sent.manifest.sha256
    for line in filling_texts(home, sha256, again=again):
        report(line)
    filled = fill_regions(home, sha256, report, lambda: False, again=again)
    copied = {near.bucket: copy.sent for near, copy in filled}
    return tuple((near, copied.get(near.bucket, ())) for near in home.further())


def _fill_alone(
    home: StackWeights, report: Report, make_bucket: Callable[[Connection], None]
) -> Pushed:
    """Fill the further regions from what the home has, without a directory or a source.

    Raises:
        NotFoundError: it has nothing.
        WeightsError: nothing says that what is there is the right set, or it is damaged.
    """
    found = home.found()
    if found is None or found.manifest is None:
        raise NotFoundError(
            f"There is nothing to push to {home.place}: no DIRECTORY was named, and"
            " the stack file names no source.",
            hint="Name a DIRECTORY, or write tpuflex:model.weights.source.",
        )
    weights = Weights(home.place, home.stack.name, found.sha256, source=False)
    pushed = PushedWeights(home.stack.own_files).get(home.bucket, home.prefix)
    pinned = home.stack.settings.model.weights.manifest_sha256
    choose(weights, Trust(pinned=pinned, pushed=pushed))
    check = checked(home, weights)
    if check.problems:
        require_source(weights, check.problems)
    if home.further():  # which may lack a bucket
        make_bucket(home.cloud)
    sent = push_report(check.manifest, set(), 0.0)
    return Pushed(sent, _fill_further(home, sent, report))
