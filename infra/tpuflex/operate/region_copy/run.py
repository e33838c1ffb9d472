"""One copy within the region: make the machine or find it, watch it, take it away."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tpuflex.copier.errors import Code
from tpuflex.copier.job import Job
from tpuflex.errors import (
    AccessError,
    ApiError,
    ConflictError,
    TpuflexError,
    WeightsError,
)
from tpuflex.operate.region_copy.grants import Grant, give

if TYPE_CHECKING:
    from tpuflex.copier.report import Report
    from tpuflex.gcp.listing import Apis
    from tpuflex.gcp.timing import Timing
    from tpuflex.gcp.weights_files import Progress
    from tpuflex.operate.region_copy.bodies import Place
    from tpuflex.operate.region_copy.machine import CopyMachine, Running
    from tpuflex.operate.region_copy.removal import Say

#: Seconds between two looks; until the first report; and without any news.
POLL_SECONDS = 3.0
_FIRST_REPORT_SECONDS = 600.0
_SILENCE_SECONDS = 1200.0
STOP_COMMAND = "tpuflex weights push --from-region --stop"

_AGAIN = "Run it again: it goes on where it stopped."
_ERRORS: dict[Code, tuple[Callable[..., TpuflexError], str]] = {
    "hub-refused": (
        AccessError,
        "Is the model gated, and what tpuflex:secrets names for hf_token a token that may read it?",
    ),
    "hub-unreachable": (ApiError, _AGAIN),
    "hub-content": (WeightsError, _AGAIN),
    "source-refused": (
        AccessError,
        "Has somebody changed the policy of the bucket that tpuflex:model.weights.source names, or"
        f" deleted the file? {_AGAIN}",
    ),
    "source-unreachable": (ApiError, _AGAIN),
    "source-content": (WeightsError, _AGAIN),
    "source-changed": (
        ConflictError,
        "Run it again once nobody changes the files there: it lists them anew.",
    ),
    "token": (AccessError, "Look at the secret that tpuflex:secrets names for the Hub's token."),
    "storage-refused": (AccessError, "Has somebody changed the bucket's policy? " + _AGAIN),
    "storage-unreachable": (ApiError, _AGAIN),
    "conflict": (ConflictError, "Wait until they are done, then run it again."),
    "in-the-way": (
        ConflictError,
        "A machine replaces nothing in a library, or in a bucket of yours. What a push that broke"
        " off has left goes with: tpuflex weights rm PREFIX --unfinished",
    ),
    "not-pinned": (
        WeightsError,
        "Correct tpuflex:model.weights.source or .manifest_sha256 in the stack file.",
    ),
    "internal": (ApiError, "Push from here instead: tpuflex weights push"),
}


@dataclass(frozen=True, slots=True)
class CopyPlan:
    """What is to be made, and for what.

    Attributes:
        place: whose it is, and where.
        job: what is to be copied.
        zones: where the machine may be, the best first.
        limit_seconds: after this Google deletes it.
        grants: what its account is granted.
    """

    place: Place
    job: Job
    zones: tuple[str, ...]
    limit_seconds: int
    grants: tuple[Grant, ...]


def same_job(running: Running, job: Job) -> None:
    """Check that the machine that is there copies what is wanted.

    Raises:
        ConflictError: it copies something else.
    """
    if running.job != job.to_json():
        raise ConflictError(
            f"{running.resource.title} in {running.zone} has another job of this stack: other"
            " weights, another token, or files of a bucket that were replaced since it was made",
            hint=f"Delete it, also where it is done: {STOP_COMMAND}\nThen run this once more.",
        )


def copies_into(running: Running, job: Job) -> bool:
    """Whether the machine that is there writes where ``job`` does."""
    try:
        its = Job.from_json(running.job)
    except (ValueError, KeyError, TypeError):
        return False
    return (its.bucket, its.prefix) == (job.bucket, job.prefix)


def start(plan: CopyPlan, machine: CopyMachine, apis: Apis, timing: Timing, say: Say) -> Running:
    """Make everything, the machine last: it has what it needs from its first second on.

    Raises:
        AlreadyExistsError: something of it is there, and not ours.
        CapacityError: no zone has a machine to give.
        AccessError, ApiError: something cannot be made.
    """
    machine.make_account()
    give(plan.grants, plan.place.account, apis, timing.pause)
    machine.make_network()
    running = machine.make(plan.zones, plan.job, plan.limit_seconds)
    say(f"The machine {running.resource.name} in {running.zone} copies.")
    return running


def watch(
    running: Running, job: Job, machine: CopyMachine, timing: Timing, progress: Progress
) -> Report:
    """Wait until the machine says that it is done.

    Raises:
        TpuflexError: it failed, is gone, or says nothing.
    """
    began = heard = timing.monotonic()
    last: Report | None = None
    while True:
        now = machine.look(running.resource)
        report = machine.report(running, job) if now is not None else None
        if report is not None and report != last:
            last, heard = report, timing.monotonic()
            progress(report.done_bytes, job.total_bytes)
        if report is not None and report.state == "done":
            return report
        if report is not None and report.state == "failed":
            raise _failure(report, job)
        if now is None or now.over:
            raise ApiError(
                f"The machine in {running.zone} is gone before it was done.", hint=_AGAIN
            )
        passed = timing.monotonic() - (began if last is None else heard)
        if passed > (_FIRST_REPORT_SECONDS if last is None else _SILENCE_SECONDS):
            raise ApiError(
                f"The machine in {running.zone} has said nothing for {passed / 60:.0f} minutes.",
                hint="Does a policy of the organisation forbid guest attributes"
                " (compute.disableGuestAttributesAccess) or the way to the Hub? Else: " + _AGAIN,
            )
        timing.pause(POLL_SECONDS)


def _failure(report: Report, job: Job) -> TpuflexError:
    make, hint = _ERRORS[report.code or "internal"]
    hint = hint.replace("PREFIX", job.prefix)
    return make(f"The machine gave up: {report.text or 'it does not say why'}", hint=hint)
