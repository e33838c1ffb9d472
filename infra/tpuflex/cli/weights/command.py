"""`tpuflex weights …`: the model's weights in the stack's bucket."""

from __future__ import annotations

from pathlib import Path

import click

from tpuflex.cli.invocation import Invocation
from tpuflex.cli.options import (
    Commands,
    as_json,
    assume_yes,
    endpoint_name,
    pass_invocation,
    stack_name,
)

checkpoint = click.argument(
    "directory", required=False, type=click.Path(exists=True, file_okay=False, path_type=Path)
)


@click.group(
    cls=Commands,
    examples=(
        "tpuflex --stack prod weights push",
        "tpuflex --stack prod weights ls",
    ),
)
def weights() -> None:
    """The model's weights in the stack's bucket."""


@weights.command(
    examples=(
        "tpuflex --stack prod weights push  # what the stack file names",
        "tpuflex --stack prod weights push ./my-model --again",
    ),
)
@checkpoint
@click.option("--again", is_flag=True, help="Send every file, whatever the bucket holds.")
@stack_name
@endpoint_name
@as_json
@assume_yes
@pass_invocation
def push(invocation: Invocation, directory: Path | None, again: bool) -> None:
    """Push the weights to the stack's bucket, the manifest last.

    Takes DIRECTORY, or what tpuflex:model.weights.source names; of a model of the Hugging Face Hub
    (with HF_TOKEN if it is gated), or of a bucket, two files at a time are on this machine. Works
    before the first `up`: Pulumi then creates the bucket, with everything that it needs; one of a
    library that is not there yet after a question. APIs of the project that are off are enabled,
    on Google after a question.

    Files already in the bucket with the right checksum are not sent again, so an interrupted push
    continues. That checksum is a CRC32C, which can be forged: --again mends what a host reports as
    altered.

    Where the stack's zones are in several regions, they go to its home, and from there within Cloud
    Storage to the others; what is damaged there is copied anew, with --again everything.
    """
    from tpuflex.cli.weights.run import run_push
    from tpuflex.weights.library import in_library
    from tpuflex.weights.source import check_source

    stack = invocation.open_deployed(wrong_file=False)
    source = stack.settings.model.weights.source
    if directory is None and source is None and (again or not in_library(stack)):
        raise click.UsageError("Name a DIRECTORY, or set tpuflex:model.weights.source.")
    if directory is None:
        check_source(stack)
    run_push(invocation, invocation.connect(stack), directory, again=again)


@weights.command(
    "hash",
    examples=(
        "tpuflex weights hash",
        "tpuflex weights hash ./my-model --json",
    ),
)
@checkpoint
@stack_name
@endpoint_name
@as_json
@pass_invocation
def hash_(invocation: Invocation, directory: Path | None) -> None:
    """Print the SHA-256 of the manifest that a push would write; pushes nothing.

    Takes DIRECTORY, or what tpuflex:model.weights.source names, which is fetched two files at a
    time if it is elsewhere. Written to tpuflex:model.weights.manifest_sha256, it lets the host
    serve these weights and no others.
    """
    from tpuflex.weights.source import hash_weights

    stack = invocation.open_deployed(wrong_file=False)
    found = hash_weights(stack, directory, invocation.report, lambda: invocation.connect(stack))
    if found is None:
        raise click.UsageError("Name a DIRECTORY, or set tpuflex:model.weights.source.")
    invocation.output.document(found.to_json())
    invocation.output.result(f"manifest_sha256: {found.manifest.sha256}")


@weights.command(
    examples=("tpuflex --stack prod weights ls",),
)
@stack_name
@endpoint_name
@as_json
@pass_invocation
def ls(invocation: Invocation) -> None:
    """List the sets of weights in the stack's bucket.

    Each with its files and bytes, whether it is complete, when it was last used, and where it came
    from. In use is what an endpoint may read by the bucket's policy, or a slice of the project
    boots with; else the day that is kept with the set: of its push, and of the `up` and `down` of
    an endpoint.

    Where the stack's zones are in several regions, the sets in the bucket of each, also that its
    own is not there. Of the library's buckets in other regions, the stack's own set, if it is
    there: a region that was taken out of the stack file keeps it.
    """
    from tpuflex.cli.weights.run import run_ls

    stack = invocation.open_deployed(wrong_file=False)
    run_ls(invocation, invocation.connect(stack, start=False))


@weights.command(
    examples=(
        "tpuflex --stack prod weights rm models/google-gemma-4-e4b-it/1",
        "tpuflex --stack prod weights rm --unfinished  # what pushes that broke off have left",
        "tpuflex --stack prod weights rm --unused-for 30 --dry-run",
    ),
)
@click.argument("set_", metavar="[SET]", required=False, default="")
@click.option(
    "--unfinished", is_flag=True, help="Only what pushes that broke off have left, of SET or all."
)
@click.option(
    "--unused-for",
    "unused_days",
    type=click.IntRange(min=1),
    metavar="DAYS",
    help="The complete sets that nobody has used for so many days.",
)
@click.option("--with-readers", is_flag=True, help="Remove SET although endpoints use it.")
@click.option("--dry-run", is_flag=True, help="Say what would be removed, and stop.")
@stack_name
@endpoint_name
@as_json
@assume_yes
@pass_invocation
def rm(
    invocation: Invocation,
    set_: str,
    unfinished: bool,
    unused_days: int | None,
    with_readers: bool,
    dry_run: bool,
) -> None:
    """Remove weights from the stack's bucket, each set's manifest first.

    Where its zones are in several regions, from the bucket of each, or only from that which SET
    names as gs://BUCKET/PREFIX, which may be one of the library in a region that the stack file
    does not name.

    Takes SET, as `weights ls` shows it, or what an option describes; says what goes and what it
    costs a month, and asks for the set's name. A set that an endpoint uses is refused, and so is
    one of which that cannot be told: any endpoint that may read it by the bucket's policy, or whose
    slice in this project boots with it. In a bucket of yours only what a push has written goes.

    With --unfinished alone, a set in which something was written within 24 hours stays: somebody
    may be pushing. With --unused-for, a set stays of which nothing says when it was last used. The
    same command goes on where one was killed. Exit code 4: there is no such set.
    """
    from tpuflex.cli.weights.run import run_rm
    from tpuflex.weights.removal import Wanted, named_set

    if bool(set_ or unfinished) == (unused_days is not None):
        raise click.UsageError("Name a SET, or give --unfinished, or --unused-for DAYS alone.")
    if with_readers and (not set_ or unfinished):
        raise click.UsageError("--with-readers goes with a SET that is to be removed as a whole.")
    bucket, prefix = named_set(set_.rstrip("/"))
    if set_ and not prefix:
        # "$SET/" of a script whose variable is empty, or a bucket: not all that it holds.
        raise click.UsageError(f"{set_} names no set: name one as `tpuflex weights ls` shows it.")
    cloud = invocation.connect(invocation.open_deployed(wrong_file=False), start=False)
    wanted = Wanted(prefix, unfinished, unused_days, with_readers, bucket=bucket)
    run_rm(invocation, cloud, wanted, dry_run=dry_run)


@weights.command(
    examples=("tpuflex --stack prod weights verify",),
)
@checkpoint
@stack_name
@endpoint_name
@as_json
@pass_invocation
def verify(invocation: Invocation, directory: Path | None) -> None:
    """Compare the weights in the bucket with their manifest, by size and checksum.

    The manifest itself is compared with what says which weights they should be: the hash that the
    stack file pins; DIRECTORY, or what tpuflex:model.weights.source names; else what was pushed
    from here. Files that the manifest does not name are told, and are no damage: no host reads
    them.

    Where the stack's zones are in several regions, the weights in the bucket of each; the exit code
    is the highest of them.
    """
    from tpuflex.cli.weights.run import run_verify

    cloud = invocation.connect(invocation.open_deployed(wrong_file=False), start=False)
    run_verify(invocation, cloud, directory)
