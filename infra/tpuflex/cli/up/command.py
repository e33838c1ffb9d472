"""`tpuflex up`: from the stack file to a served completion."""

from __future__ import annotations

import click

from tpuflex.cli.examples import ExampleCommand
from tpuflex.cli.invocation import Invocation
from tpuflex.cli.options import as_json, assume_yes, pass_invocation, sha256, stack_name, verbose
from tpuflex.doctor.side_by_side import DECISIVE


@click.command(
    cls=ExampleCommand,
    examples=(
        "tpuflex up  # the dev stack, on this machine",
        "tpuflex --stack prod up --yes  # without a question, as a script",
        "tpuflex --stack prod up --refresh  # after somebody deleted a firewall rule",
        "tpuflex --stack prod up --renewal-only --yes  # on a schedule",
        "tpuflex --stack prod up --new-host  # another machine for a host that has failed",
    ),
)
@click.option(
    "--accept-weights",
    metavar="SHA256",
    default="",
    callback=sha256,
    help="Serve the weights in the bucket whose manifest has this hash, although nothing here "
    "says that they are yours.",
)
@click.option(
    "--allow-missing-weights",
    is_flag=True,
    help="Request chips although the pinned weights are not in the bucket and there is no source to"
    " push: the host waits for them, and is billed meanwhile.",
)
@click.option(
    "--skip-check",
    "skipped_checks",
    type=click.Choice(DECISIVE),
    multiple=True,
    help="Go on without this check of `tpuflex doctor`, such as permissions that are granted on a "
    "condition.",
)
@click.option(
    "--new-host",
    is_flag=True,
    help="Ask for another slice in place of the one that runs, or has run, although nothing of it "
    "has changed.",
)
@click.option(
    "--expect",
    metavar="DIGEST",
    default="",
    callback=sha256,
    help="Go on only if the plan is the one with this digest, which `tpuflex preview` gives; "
    "otherwise nothing is changed, and the exit code is 12.",
)
@click.option(
    "--refresh",
    is_flag=True,
    help="Compare all that the state has with the cloud first, as `preview --refresh`, and make or "
    "change back what was deleted or changed there.",
)
@click.option(
    "--renewal-only",
    is_flag=True,
    help="Go on only if the plan starts the next run by renew_before, or has no changes; otherwise "
    "nothing is changed, and the exit code is 12, or 4 where there is nothing to renew.",
)
@stack_name
@as_json
@assume_yes
@verbose
@pass_invocation
def up(
    invocation: Invocation,
    accept_weights: str,
    allow_missing_weights: bool,
    skipped_checks: tuple[str, ...],
    new_host: bool,
    expect: str,
    refresh: bool,
    renewal_only: bool,
) -> None:
    """Bring the stack's endpoint up and wait until it has served a completion.

    Enables the APIs that are off, on Google after a question, and waits until they answer. Then
    shows what will be created and what it costs, asks for consent, creates it, pushes missing
    weights, and waits through the queue and the host's boot. Safe to run again at any time: it
    continues where it stopped.

    A host that was READY before is asked for a completion: exit code 7 if it does not answer, 6 if
    it refuses the stack's key. One that cannot be asked from here is READY as its host says.

    Before it asks, it looks at what `tpuflex doctor` looks at, and refuses what cannot succeed, and
    what breaks a rule of `tpuflex policy` (exit code 11).
    Without weights, and without a source to push them from, nothing is created.

    Serves only weights that it has a reason to trust: those that the stack file pins, those that
    were pushed from here or are equal to the source, and those that the slice was made for before.

    With --new-host another slice is asked for, as if tpuflex:slice.rerun had changed: what serves
    goes on until that one does, and is deleted before where `replace` says so. The next `up`
    without it keeps what this one made.

    \b
    Under tpuflex:slice in the stack file:
      renew_before: 12h          an `up` in a run's last 12 hours, or after its end,
                                 starts the next run; once that serves, this one is
                                 drained and deleted
      replace: delete_first      it is deleted before, where the quota is for one
                                 slice only: the endpoint is away meanwhile
      drain: 10m                 how long answers that have begun may take to end
                                 before a slice is deleted
      drain_margin: 5m           how long before its run's end it admits no more
      rerun: monday              changing this word makes the next `up` start a new run
      give_up_after: 6h          Google fails the request after 6 hours in the queue
      on_boot_failure: delete    a new slice whose boot fails, or that never reports,
                                 is deleted; the next `up` starts another
      deletion_protection: true  a slice that serves is neither deleted nor replaced
    """
    from tpuflex.cli.up.run import run_up
    from tpuflex.deploy.approval import Approval

    if new_host and renewal_only:
        raise click.UsageError("--new-host and --renewal-only contradict each other: give one.")
    run_up(
        invocation,
        invocation.connect(invocation.open_stack(files_later=True)),
        accept_weights or None,
        missing_allowed=allow_missing_weights,
        skipped_checks=skipped_checks,
        new_host=new_host,
        approval=Approval(expect, renewal_only),
        refresh=refresh,
    )
