"""What the commands of `tpuflex weights` print."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pulumi_plugin.printable import printable
from tpuflex.advice import Advice
from tpuflex.planning.rates import month_text
from tpuflex.weights.listing import list_weights
from tpuflex.weights.removal import TAKE_DOWN, plan_removal, remove_sets
from tpuflex.weights.stack_weights import StackWeights
from tpuflex.weights.stored_set import files_text, last_used_text
from tpuflex.weights.trust import PIN_KEY
from tpuflex.weights.verification import verify

if TYPE_CHECKING:
    from tpuflex.cli.invocation import Invocation
    from tpuflex.stack.connection import Connection
    from tpuflex.terminal.output import Output
    from tpuflex.weights.listing import RegionListing
    from tpuflex.weights.removal import SetsRemoval, Wanted
    from tpuflex.weights.stored_set import StoredWeights
    from tpuflex.weights.verification import RegionVerified, Verification


def run_push(
    invocation: Invocation, cloud: Connection, directory: Path | None, *, again: bool
) -> None:
    """Bring the weights of the stack of ``cloud`` into its buckets, and print what was sent; raises
    as :func:`tpuflex.weights.stack_push.push`."""
    from tpuflex.cli.library_plan import library_report
    from tpuflex.deploy.weights_bucket import ensure_weights_bucket
    from tpuflex.weights.stack_push import push

    def make_bucket(known: Connection) -> None:
        ensure_weights_bucket(known, library_report(invocation), consent=invocation.consent)

    output = invocation.output
    pushed = push(cloud, directory, invocation.report, make_bucket, again=again)
    output.document(pushed.to_json())
    sent = pushed.home
    output.result(
        f"Pushed {files_text(len(sent.sent))} ({sent.bytes_sent / 1e6:.1f} MB in "
        f"{sent.seconds:.1f} s); {len(sent.kept)} were already there."
    )
    output.result(f"manifest_sha256: {sent.manifest.sha256}")


def run_ls(invocation: Invocation, cloud: Connection) -> None:
    """Print the sets of weights in the buckets of the stack of ``cloud``; raises as
    :func:`tpuflex.weights.listing.list_weights`."""
    output, found = invocation.output, list_weights(cloud)
    output.document(found.to_json())
    if not found.rows:
        output.result("The bucket holds no weights.")
        return
    header = ("PREFIX", "FILES", "MB", "MANIFEST", "USED", "SOURCE")
    several = len(found.regions) > 1 or bool(found.left)
    output.table(
        ("REGION", *header) if several else header,
        [
            (
                *((each.region,) if several else ()),
                one.prefix,
                str(one.files),
                f"{one.total_bytes / 1e6:.1f}",
                _written(each, one),
                "now" if each.uses.of(one.prefix) else last_used_text(one),
                one.source or "-",
            )
            for each, one in found.rows
        ],
    )
    everywhere = (*found.regions, *found.left)
    for line in dict.fromkeys(line for each in everywhere for line in each.uses.unlisted):
        output.result(f"Not looked at, so more may be in use: {line}")
    for each in found.left:
        place = f"gs://{each.bucket}/{each.stored[0].prefix}"
        advice = Advice(
            "To remove the set there, unless an endpoint uses it: {weights_rm} {place}", place=place
        )
        shown = advice.for_stack(cloud.stack.name, invocation.environ)
        output.result(f"The stack file names no zone in {each.region}. {shown}")
    for line in found.unlisted:
        output.result(f"Not looked at, so the set may be in more regions: {line}")


def _written(of: RegionListing, one: StoredWeights) -> str:
    if of.missing is not None:
        return "no bucket"
    if one.manifest is None:
        return "incomplete" if one.files else "not there"
    if one.wrong:
        return f"damaged, {files_text(one.wrong)}"
    return f"complete, {one.beside} beside" if one.beside else "complete"


def run_verify(invocation: Invocation, cloud: Connection, directory: Path | None) -> None:
    """Compare the weights of the stack of ``cloud`` with what they should be, and print the result.

    Raises:
        WeightsError: they differ.
        NotFoundError: there are none.
        TpuflexError: they cannot be looked at; of several regions the error with the highest exit
            code.
    """
    found = verify(StackWeights(cloud), directory, invocation.report)
    show_verification(found, invocation.output)


def show_verification(found: Verification, output: Output) -> None:
    """Print what was ``found``; raises as :func:`run_verify`."""
    output.document(found.to_json())
    for each in found.regions:
        _show_verified(each, output)
    if found.errors:
        *others, worst = found.errors
        for error in others:
            output.progress(f"Error: {error.message}\n{error.hint}".rstrip())
        raise worst


def _show_verified(looked: RegionVerified, output: Output) -> None:
    """Print how the set of one region was compared; nothing if it has an error, which is raised."""
    check, weights = looked.check, looked.weights
    if check is None or looked.error is not None:
        return
    prefix = weights.prefix
    where = f" in {weights.elsewhere}" if weights.elsewhere else ""
    output.result(f"{prefix}{where} matches its manifest.\nmanifest_sha256: {check.sha256}")
    if check.beside:
        output.result(
            "Beside them there is what the manifest does not name and no host reads"
            f" ({files_text(len(check.beside))}, such as {printable(check.beside[0])}): a push of"
            " other weights has left it, or somebody else has put it there. To remove it:"
            f" tpuflex --stack {weights.stack.name} weights rm"
            f" {weights.place if where else prefix} --unfinished"
        )
    if looked.compared:
        output.result(f"The manifest is {' and '.join(looked.compared)}.")
    else:
        output.result(
            "Whether that is the right one, nothing here says: name the DIRECTORY that it was"
            f" pushed from, or write the hash to {PIN_KEY}."
        )


def run_rm(invocation: Invocation, cloud: Connection, wanted: Wanted, *, dry_run: bool) -> None:
    """Remove the sets that are ``wanted``, after a question, and print what goes; raises as
    :func:`tpuflex.weights.removal.plan_removal` and
    :func:`tpuflex.weights.removal.remove_sets`."""
    output = invocation.output
    plan = plan_removal(cloud, wanted, dry_run=dry_run)
    _show_removal(plan, output)
    done = plan if dry_run else remove_sets(plan, invocation.report, invocation.consent)
    output.document(done.to_json())
    if done.error is not None:
        raise done.error
    if not plan.removals:
        output.result("There is nothing to remove.")
    elif plan.refused and dry_run:
        output.result(f"It would be refused: endpoints may use it. {TAKE_DOWN}")
    if dry_run and plan.removals:
        output.result("Nothing was changed (--dry-run).")
    elif plan.removals:
        output.result(f"Removed from {plan.buckets}.")


def _show_removal(plan: SetsRemoval, output: Output) -> None:
    rows = [(region, each) for region in plan.regions for each in region.removals]
    several = len(plan.regions) > 1
    if rows:
        places = {id(region): region.weights.location() for region in plan.regions}
        output.heading(f"To be removed from {plan.buckets}")
        header = ("PREFIX", "WHAT", "GIB", "COST")
        output.table(
            ("REGION", *header) if several else header,
            [
                (
                    *((places[id(region)],) if several else ()),
                    each.prefix,
                    files_text(len(each.files))
                    + (" and the manifest" if each.manifest is not None else ""),
                    f"{each.size / 2**30:.2f}",
                    month_text(each.size, places[id(region)]),
                )
                for region, each in rows
            ],
        )
        for _, each in rows:
            for name in each.kept:
                output.result(f"Kept: {each.prefix}/{name}: no push has written it.")
            for folder in each.spared:
                output.result(f"Kept: {each.prefix}/{folder}: it is a set of its own.")
    for region in plan.regions:
        where = f" ({region.weights.region})" if several else ""
        for verdict in region.kept:
            output.result(f"Kept: {verdict.stored.prefix}{where}: {verdict.why_kept}.")
    if rows:
        output.result(
            "Where the bucket keeps versions (a library's: seven days; a stack's: one), they can be"
            " had back as long, and are billed as long."
        )
    for line in plan.users:
        output.result(line)
