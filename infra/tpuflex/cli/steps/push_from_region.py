"""The steps of `tpuflex weights push --from-region`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from tpuflex.cli.prepare_weights import files_text, remember
from tpuflex.cli.region_bucket import elsewhere_texts, require_bucket_grantable, wrong_paths
from tpuflex.cli.region_job import copy_job, lists, of_git
from tpuflex.cli.region_machine import RegionMachine, region_machine
from tpuflex.cli.region_source import region_source
from tpuflex.cli.region_weights import filling_text, weights_set
from tpuflex.cli.shared_weights import is_shared
from tpuflex.cli.steps.push import fill_further
from tpuflex.errors import ConflictError, InterruptedByUser, WeightsError
from tpuflex.operate.region_copy.run import (
    STOP_COMMAND,
    CopyPlan,
    copies_into,
    same_job,
    start,
    watch,
)
from tpuflex.operate.serving_files import left_out_text
from tpuflex.operate.weights_choice import not_the_source
from tpuflex.planning.copy_machine import MACHINE_TYPE, CopyEstimate, estimate

if TYPE_CHECKING:
    from tpuflex.cli.cloud import Cloud
    from tpuflex.cli.invocation import Invocation
    from tpuflex.cli.region_source import RegionSource
    from tpuflex.copier.job import Job
    from tpuflex.copier.report import Report


def run_push_from_region(invocation: Invocation, cloud: Cloud, *, again: bool) -> None:
    """Have a machine in the bucket's region copy the model of the stack file, and print the result.

    Raises:
        SettingsError: the source is neither a model of the Hub nor a place in a bucket.
        WeightsError: it holds nothing that could be served, or is not what the stack file pins.
        InterruptedByUser: the user did not agree, or pressed Ctrl-C; the machine then goes on.
        IncompleteTeardownError: the machine, or what was made with it, is left, whatever else
            failed, too.
        TpuflexError: the Hub or the cloud refused.
    """
    from tpuflex.cli.steps.weights import ensure_bucket

    output = invocation.output
    source = region_source(cloud.stack.settings.model.weights.source)
    source.require_grantable(cloud)
    seen = source.seen(cloud, output.progress)
    if seen.left_out:
        output.progress(f"{seen.source}{left_out_text(seen.left_out)}")
    ensure_bucket(invocation, cloud)
    require_bucket_grantable(cloud)
    if is_shared(cloud.stack):
        _ensure_state(invocation, cloud)
    job = copy_job(cloud, seen, again=again)
    machine = region_machine(invocation, cloud)
    with machine.told_if_left():
        there = _already_there(cloud, job)
        if there is not None and not again:
            _tidy(machine, job, output.progress)
            _show(cloud, invocation, job, tuple(range(len(job.files))), there, 0.0)
            return
        if job.create_only:
            _require_free(cloud, job)
        began = cloud.timing.monotonic()
        with machine:
            report = _copy(invocation, cloud, machine, source, job)
        sha256 = _checked(cloud, job, report)
        _show(cloud, invocation, job, report.kept, sha256, cloud.timing.monotonic() - began)


def run_stop(invocation: Invocation, cloud: Cloud) -> None:
    """Delete the machine of an earlier command, with all that was made with it.

    Raises:
        IncompleteTeardownError: something of it is left.
    """
    machine = region_machine(invocation, cloud)
    with machine.told_if_left():
        machine.remove()
    invocation.output.document({"stopped": True})
    invocation.output.result(
        "Nothing is left of a copy within the region: no machine, account or network. Roles of its"
        f" account {machine.where_granted()}. What it sent stays."
    )


def _tidy(machine: RegionMachine, job: Job, say: Callable[[str], None]) -> None:
    """Remove the machine that a command has left which was killed; one that copies into another
    place works on: somebody waits for it."""
    running = machine.machine.find()
    if running is not None and not running.over and not copies_into(running, job):
        say(f"{running.resource.title} in {running.zone} copies other weights, and works on.")
        return
    machine.remove()


def _already_there(cloud: Cloud, job: Job) -> str | None:
    """Hash of the manifest in the bucket, if that is complete and of what is listed now.

    Raises:
        WeightsError: the pinned weights are there, and the source is not them.
    """
    found = cloud.weights.find(job.prefix)
    if found is None or found.manifest is None:
        return None
    same = lists(found.manifest, job)
    if not same and job.pinned == found.sha256:
        raise not_the_source(
            f"gs://{cloud.bucket}/{job.prefix}", pinned=job.pinned, local=job.source
        )
    # The Hub says no sum of a part, which is what hosts check: an unknown manifest is read within
    # the region, and is the one that a machine would write, to the byte, or is refused.
    if not same or job.pinned not in ("", found.sha256) or found.sha256 not in job.known:
        return None
    sources = {one.prefix: one.source for one in cloud.weights.list()}
    check = cloud.weights.verify(job.prefix, cloud.stack.settings.model.weights.extra_files)
    # Where nothing may be replaced, what was pushed from elsewhere does not become the Hub's.
    told = job.create_only or sources.get(job.prefix) == job.source
    if check.problems or not told or check.sha256 != found.sha256:
        return None
    # What lies there may be somebody else's, with other files of Git beside the Hub's shards.
    there = cloud.weights.contents(job.prefix)
    if there.found is None or there.found.sha256 != found.sha256:
        return None
    return found.sha256 if job.pinned or of_git(there, job) else None


def _require_free(cloud: Cloud, job: Job) -> None:
    """Check that nothing is in the place of the set that would have to be replaced, as far as sizes
    and marks tell: the machine may add to what outlives the stack, and no more.

    Raises:
        ConflictError: something is.
    """
    wrong = wrong_paths(cloud.weights.contents(job.prefix), job)
    if not wrong:
        return
    raise ConflictError(
        f"gs://{job.bucket}/{job.prefix} holds something else already ({wrong[0]}), which other"
        " stacks may serve; a machine replaces nothing there. Nothing was made.",
        hint="Give these weights another name in the stack file (tpuflex:model.weights.revision)."
        f" What a push that broke off has left goes with: tpuflex weights rm {job.prefix}"
        " --unfinished",
    )


def _ensure_state(invocation: Invocation, cloud: Cloud) -> None:
    """Make sure that the stack has a state with an id, which what is made for the copy carries: by
    it `down` knows that it is ours.

    Raises:
        AlreadyExistsError: somebody else holds the stack's names.
        TpuflexError: the engine failed.
    """
    from tpuflex.cli.stack_run import STATE, StackRun
    from tpuflex.cli.steps.first_up import require_free_names
    from tpuflex.engine.state import state_ids

    run = StackRun(invocation, cloud)
    if run.engine.exists() and state_ids(run.engine.deployment()):
        return
    require_free_names(cloud, run, run.preview_without_weights(), invocation.output.progress)
    run.up_part(STATE)


def _copy(
    invocation: Invocation, cloud: Cloud, machine: RegionMachine, source: RegionSource, job: Job
) -> Report:
    output, say = invocation.output, invocation.output.progress
    running = machine.machine.find()
    if running is not None and running.over:
        running = None
    if running is None:
        # Of an earlier command; its account may have roles in another bucket, which end with it.
        if machine.machine.resources()[0]:
            machine.remove()
            machine.require_removed()
        expected = estimate(job.total_bytes)
        zones = cloud.stack.settings.slice.zones
        grants = (machine.grant(), *source.grants(cloud))
        for line in _announced(cloud, source, job, expected):
            say(line)
        if not invocation.yes:
            output.confirm("Go ahead?")
        plan = CopyPlan(machine.place, job, zones, expected.limit_seconds, grants)
        machine.begin()
        running = start(plan, machine.machine, machine.apis, cloud.timing, say)
    else:
        same_job(running, job)
        machine.begin()
        say(f"The machine {running.resource.name} in {running.zone} is copying already.")
    try:
        with output.transfer("  copying  weights") as progress:
            return watch(running, job, machine.machine, cloud.timing, progress)
    except KeyboardInterrupt as error:
        machine.keep()
        raise InterruptedByUser(
            f"Stopped waiting; the machine in {running.zone} goes on copying.",
            hint=f"The same command waits for it; `{STOP_COMMAND}` deletes it. Google does so at"
            " the end of its time, whatever happens.",
        ) from error


def _announced(
    cloud: Cloud, source: RegionSource, job: Job, expected: CopyEstimate
) -> Iterator[str]:
    settings = cloud.stack.settings
    size, minutes = job.total_bytes / 1e9, expected.expected_seconds / 60
    yield (
        f"{job.source}: {files_text(len(job.files))}, {size:.1f} GB, to gs://{job.bucket} by a"
        f" machine in {settings.region}; nothing passes through here."
    )
    yield (
        f"Made for it, and removed at the end: {MACHINE_TYPE} with Debian and an external address,"
        " a network that lets nothing in, and a service account that may"
        + (" add to that place, replace nothing," if job.create_only else " write there")
        + " and nowhere else"
        + (f" and read {reads}." if (reads := source.reads(cloud)) else ".")
    )
    yield from source.elsewhere_texts(cloud)
    yield from elsewhere_texts(cloud)
    yield from _further_texts(cloud, job)
    if cloud.stack.embedded:
        yield "It costs nothing: the embedded cloud is free."
        return
    yield (
        f"The machine: about {minutes:.0f} minutes, about ${expected.expected_dollars} (prices of"
        " us-central1; elsewhere up to half more). Google deletes it after"
        f" {expected.limit_seconds / 60:.0f} minutes at the latest: ${expected.most_dollars} at"
        " most."
    )


def _further_texts(cloud: Cloud, job: Job) -> Iterator[str]:
    """What is copied to further regions once the machine is done, and what that costs.

    Raises:
        ConflictError: one of them holds other weights under their name.
    """
    for near in cloud.further_regions():
        found = near.weights.find(job.prefix)
        same = found is not None and found.manifest is not None and lists(found.manifest, job)
        # The manifest is not known before it is written, unless it is pinned; what it will list is.
        wanted = job.pinned or (found.sha256 if found is not None and same else job.source)
        if text := filling_text(cloud, near, weights_set(cloud, wanted), job.total_bytes):
            yield f"Afterwards: {text}"


def _checked(cloud: Cloud, job: Job, report: Report) -> str:
    """Hash of the manifest that is in the bucket now. The machine's word is not taken for it.

    Raises:
        WeightsError: what is there is not what was asked for.
    """
    found = cloud.weights.find(job.prefix)
    extra = cloud.stack.settings.model.weights.extra_files
    if found is None or found.manifest is None:
        raise WeightsError(
            f"The machine says it is done, and gs://{job.bucket}/{job.prefix} has no manifest.",
            hint="Run it again.",
        )
    check = cloud.weights.verify(job.prefix, extra)
    right = lists(found.manifest, job) and found.sha256 == report.manifest_sha256
    if check.problems or not right or job.pinned not in ("", found.sha256):
        raise WeightsError(
            f"gs://{job.bucket}/{job.prefix} is not what {job.source} lists",
            hint="Run it again: what is wrong is brought anew.",
        )
    remember(cloud, found.sha256)
    return found.sha256


def _show(
    cloud: Cloud,
    invocation: Invocation,
    job: Job,
    kept: tuple[int, ...],
    sha256: str,
    seconds: float,
) -> None:
    """Fill the stack's further regions, and print what `weights push` prints."""
    remember(cloud, sha256)
    output = invocation.output
    copies = fill_further(cloud, weights_set(cloud, sha256), output, again=False)
    there = {job.files[place].path for place in kept}
    sent = [file for file in job.files if file.path not in there]
    count = sum(file.size for file in sent)
    output.document(
        {
            "sent": [file.path for file in sent],
            "kept": [file.path for file in job.files if file.path in there],
            "bytes_sent": count,
            "manifest_sha256": sha256,
            **copies,
        }
    )
    output.result(
        f"Copied {files_text(len(sent))} ({count / 1e6:.1f} MB in {seconds:.1f} s);"
        f" {len(there)} were already there."
    )
    output.result(f"manifest_sha256: {sha256}")
