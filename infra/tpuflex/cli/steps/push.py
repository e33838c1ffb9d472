"""The steps of `tpuflex weights push`: from this machine, or from another bucket of the project."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tpuflex.boot.places import weights_prefix
from tpuflex.cli.prepare_weights import (
    Say,
    check_source,
    files_text,
    push_weights,
    weights_directory,
)
from tpuflex.cli.region_weights import (
    RegionSet,
    fill_regions,
    filling_texts,
    require_none_other,
    weights_set,
)
from tpuflex.cli.source_access import SourceAccess
from tpuflex.cli.steps.weights import ensure_bucket
from tpuflex.cli.weights_elsewhere import Filling, elsewhere
from tpuflex.cli.weights_mending import checked, whole_copy
from tpuflex.errors import NotFoundError
from tpuflex.gcp.weights_report import PushReport
from tpuflex.operate.pushed_weights import PushedWeights
from tpuflex.operate.weights_choice import Trust, Weights, choose, to_copy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tpuflex.cli.cloud import Cloud
    from tpuflex.cli.invocation import Invocation
    from tpuflex.cli.output import Output
    from tpuflex.operate.weights_choice import Elsewhere


def run_push(invocation: Invocation, cloud: Cloud, directory: Path | None, *, again: bool) -> None:
    """Bring the weights of the stack of ``cloud`` into its bucket, and from there into that of each
    further region of its zones, and print what was sent.

    Args:
        invocation: the command.
        cloud: the stack's cloud.
        directory: the checkpoint; None for what the stack file names.
        again: whether every file is sent, whatever the buckets hold.

    Raises:
        NotFoundError: there is neither a directory nor a source, and no other bucket has them.
        WeightsError: nothing says that those in another bucket are the right ones; or the directory
            holds none, or other ones than the stack file pins.
        ConflictError: other weights are there already, in a bucket that outlives the stack.
        InterruptedByUser: the user did not agree.
        TpuflexError: the Hub, the engine or the cloud refused.
    """
    output, source = invocation.output, cloud.stack.settings.model.weights.source
    filling = Filling(cloud, output, lambda: False)
    if directory is None and source is None:
        _push_nothing(invocation, cloud, filling)
        return
    if directory is None:
        check_source(cloud.stack, cloud)
    ensure_bucket(invocation, cloud)
    if directory is None and not again:
        weights, trust = _question(cloud, output.progress)
        origin = to_copy(weights, trust) if trust.pinned is not None else None
        if origin is not None:  # the source, which may have to be fetched, is not needed
            _finish(invocation, cloud, _copied(cloud, filling, origin), filling)
            return
    access = SourceAccess(lambda: cloud, output)
    place = directory or weights_directory(cloud.stack, str(source), output.progress, access)
    report = push_weights(cloud, place, output, lambda: False, fill=filling, again=again)
    _finish(invocation, cloud, report, filling, again=again)


def fill_further(
    cloud: Cloud, wanted: RegionSet, output: Output, *, again: bool
) -> dict[str, object]:
    """Have the further regions of the stack of ``cloud`` have what its home has, and say first what
    that costs; for ``--json`` what was copied. Empty for a stack in one region. Raises as
    :func:`~tpuflex.cli.region_weights.fill_regions`.
    """
    if len(cloud.buckets) == 1:
        return {}
    for line in filling_texts(cloud, wanted, again=again):
        output.progress(line)
    filled = fill_regions(cloud, wanted, output, lambda: False, again=again)
    copies = {near.bucket: report for near, report in filled}
    return {
        "copies": [
            {
                "region": near.weights_region,
                "bucket": near.bucket,
                "copied": copies[near.bucket].sent if near.bucket in copies else (),
            }
            for near in cloud.further_regions()
        ]
    }


def _finish(
    invocation: Invocation,
    cloud: Cloud,
    report: PushReport,
    filling: Filling,
    *,
    again: bool = False,
) -> None:
    """Fill the further regions, and print what was brought in all."""
    wanted = weights_set(cloud, report.manifest.sha256)
    copies = fill_further(cloud, wanted, invocation.output, again=again)
    _show(invocation, report, filling, copies)


def _push_nothing(invocation: Invocation, cloud: Cloud, filling: Filling) -> None:
    """The same without a directory or a source: what another bucket holds is copied.

    Raises:
        NotFoundError: none holds it.
        WeightsError: nothing says that what is there is the right set; or it is damaged, and none
            has it whole.
    """
    weights, trust = _question(cloud, invocation.output.progress)
    if weights.found is None and not weights.elsewhere:
        raise NotFoundError(
            f"There is nothing to push to {weights.place}: no DIRECTORY was named, the stack file"
            " names no source, and no other bucket of the project has these weights.",
            hint="Name a DIRECTORY, or write tpuflex:model.weights.source.",
        )
    choose(weights, trust)
    origin = to_copy(weights, trust)
    if origin is not None:
        ensure_bucket(invocation, cloud)
        _finish(invocation, cloud, _copied(cloud, filling, origin), filling)
        return
    check = checked(cloud, weights)
    if check.problems:
        origin = whole_copy(cloud, weights, check.problems, invocation.output.progress)
        if origin is not None:
            ensure_bucket(invocation, cloud)
            _finish(invocation, cloud, _copied(cloud, filling, origin), filling)
            return
    kept = tuple(file.path for file in check.manifest.files)
    if len(cloud.buckets) > 1:  # which the further regions may lack
        ensure_bucket(invocation, cloud)
    _finish(invocation, cloud, PushReport(check.manifest, (), kept, 0, 0.0), filling)


def _copied(cloud: Cloud, filling: Filling, origin: Elsewhere) -> PushReport:
    """Copy ``origin`` to the home, unless a further region would refuse it afterwards.

    Raises:
        ConflictError: one would: it holds other weights.
        TpuflexError: the cloud refused.
    """
    require_none_other(cloud, weights_set(cloud, origin.sha256))
    return filling.copy(origin)


def _question(cloud: Cloud, say: Say) -> tuple[Weights, Trust]:
    """What is there and elsewhere, and which of it there is a reason to trust."""
    model = cloud.stack.settings.model
    prefix = weights_prefix(model)
    found = cloud.weights.find(prefix)
    usable = found.sha256 if found is not None and found.manifest is not None else None
    others = elsewhere(cloud, say) if usable is None else ()
    place, source = f"gs://{cloud.bucket}/{prefix}", model.weights.source is not None
    return (
        Weights(place, cloud.stack.name, usable, source, others),
        Trust(
            pinned=model.weights.manifest_sha256,
            pushed=PushedWeights(cloud.stack.own_files).get(cloud.bucket, prefix),
        ),
    )


def _show(
    invocation: Invocation, report: PushReport, filling: Filling, copies: Mapping[str, object]
) -> None:
    """Print what was brought: ``report`` is of a push, or of the copy in its place; ``copies`` is
    of further regions."""
    output, copied = invocation.output, filling.report
    sent = () if report is copied else report.sent
    kept = report.kept if copied is None else copied.kept
    sent_bytes = 0 if report is copied else report.bytes_sent
    output.document(
        {
            "sent": sent,
            "kept": kept,
            "bytes_sent": sent_bytes,
            "copied": () if copied is None else copied.sent,
            "copied_from": None if filling.origin is None else filling.origin.place,
            "manifest_sha256": report.manifest.sha256,
            **copies,
        }
    )
    if copied is not None and filling.origin is not None:
        output.result(
            f"Copied {files_text(len(copied.sent))} ({copied.bytes_sent / 1e6:.1f} MB in"
            f" {copied.seconds:.1f} s) from {filling.origin.place}; {len(kept)} were already there."
        )
    else:
        output.result(
            f"Pushed {files_text(len(sent))} ({sent_bytes / 1e6:.1f} MB in "
            f"{report.seconds:.1f} s); {len(kept)} were already there."
        )
    output.result(f"manifest_sha256: {report.manifest.sha256}")
