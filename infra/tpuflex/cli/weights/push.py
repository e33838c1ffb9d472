"""The steps of `tpuflex weights push`: to the stack's home, and from there to its other regions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tpuflex.cli.weights.run import ensure_bucket
from tpuflex.errors import NotFoundError
from tpuflex.weights.copies import RegionSet, fill_regions, filling_texts, weights_set
from tpuflex.weights.known_files import known_by_source
from tpuflex.weights.push import PushReport
from tpuflex.weights.push_record import PushedWeights
from tpuflex.weights.source import check_source, named_model, weights_origin
from tpuflex.weights.stack_push import push_weights
from tpuflex.weights.stack_weights import StackWeights
from tpuflex.weights.stored_set import files_text
from tpuflex.weights.trust import Trust, Weights, choose
from tpuflex.weights.verification import checked, require_source

if TYPE_CHECKING:
    from tpuflex.cli.invocation import Invocation
    from tpuflex.stack.connection import Connection
    from tpuflex.stack.progress import Report
    from tpuflex.weights.checkpoint_directory import LocalModel
    from tpuflex.weights.remote_model import RemoteModel


def run_push(
    invocation: Invocation, cloud: Connection, directory: Path | None, *, again: bool
) -> None:
    """Bring the weights of the stack of ``cloud`` into its bucket, and from there into that of each
    further region of its zones, and print what was sent.

    Args:
        invocation: the command.
        cloud: the stack's cloud.
        directory: the checkpoint; None for what the stack file names.
        again: whether every file is sent, whatever the buckets hold.

    Raises:
        NotFoundError: there is neither a directory nor a source, and nothing to fill regions from.
        WeightsError: nothing says that those in the bucket are the right ones; or the directory
            holds none, or other ones than the stack file pins.
        SettingsError: the server could not read them.
        ConflictError: other weights are there already, in a bucket that outlives the stack.
        InterruptedByUser: the user did not agree.
        TpuflexError: the Hub, the engine or the cloud refused.
    """
    output, source = invocation.output, cloud.stack.settings.model.weights.source
    origin: LocalModel | RemoteModel
    if directory is not None:
        origin = named_model(cloud.stack, directory, output.progress)
        cloud = known_by_source(cloud, directory)
        ensure_bucket(invocation, cloud)
    elif source is not None:
        check_source(cloud.stack, cloud)
        cloud = known_by_source(cloud)
        ensure_bucket(invocation, cloud)
        origin = weights_origin(cloud.stack, source, output.progress, lambda: cloud)
    else:
        _fill_alone(invocation, cloud)
        return
    report = push_weights(
        StackWeights(cloud), origin, invocation.report, lambda: False, again=again
    )
    _finish(invocation, cloud, report, again=again)


def fill_further(
    home: StackWeights, wanted: RegionSet, report: Report, *, again: bool
) -> dict[str, object]:
    """Have the further regions of the stack of ``home`` have what its home has, and say first what
    that costs; for ``--json`` what was copied. Empty for a stack in one region. Raises as
    :func:`~tpuflex.weights.copies.fill_regions`.
    """
    if len(home.cloud.buckets) == 1:
        return {}
    for line in filling_texts(home, wanted, again=again):
        report(line)
    filled = fill_regions(home, wanted, report, lambda: False, again=again)
    copies = {near.bucket: sent for near, sent in filled}
    return {
        "copies": [
            {
                "region": near.elsewhere,
                "bucket": near.bucket,
                "copied": copies[near.bucket].sent if near.bucket in copies else (),
            }
            for near in home.further()
        ]
    }


def _finish(
    invocation: Invocation, cloud: Connection, report: PushReport, *, again: bool = False
) -> None:
    """Fill the further regions, and print what was sent in all."""
    output, sha256 = invocation.output, report.manifest.sha256
    copies = fill_further(
        StackWeights(cloud), weights_set(cloud, sha256), invocation.report, again=again
    )
    output.document(
        {
            "sent": report.sent,
            "kept": report.kept,
            "bytes_sent": report.bytes_sent,
            "manifest_sha256": sha256,
            **copies,
        }
    )
    output.result(
        f"Pushed {files_text(len(report.sent))} ({report.bytes_sent / 1e6:.1f} MB in "
        f"{report.seconds:.1f} s); {len(report.kept)} were already there."
    )
    output.result(f"manifest_sha256: {sha256}")


def _fill_alone(invocation: Invocation, cloud: Connection) -> None:
    """Fill the further regions from what the home has, without a directory or a source.

    Raises:
        NotFoundError: it has nothing.
        WeightsError: nothing says that what is there is the right set, or it is damaged.
    """
    model, home = cloud.stack.settings.model, StackWeights(cloud)
    found = home.found()
    if found is None or found.manifest is None:
        raise NotFoundError(
            f"There is nothing to push to {home.place}: no DIRECTORY was named, and"
            " the stack file names no source.",
            hint="Name a DIRECTORY, or write tpuflex:model.weights.source.",
        )
    weights = Weights(home.place, cloud.stack.name, found.sha256, source=False)
    pushed = PushedWeights(cloud.stack.own_files).get(home.bucket, home.prefix)
    choose(weights, Trust(pinned=model.weights.manifest_sha256, pushed=pushed))
    check = checked(home, weights)
    if check.problems:
        require_source(weights, check.problems)
    if len(cloud.buckets) > 1:  # which the further regions may lack
        ensure_bucket(invocation, cloud)
    kept = tuple(file.path for file in check.manifest.files)
    _finish(invocation, cloud, PushReport(check.manifest, (), kept, 0, 0.0))
