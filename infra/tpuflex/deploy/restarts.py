"""Have the host of a slice start again what does not serve: its server, or the whole machine. The
slice keeps its capacity, and Pulumi's state is not looked at."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

from tpuflex.advice import Advice
from tpuflex.catalog.zones import region_of
from tpuflex.deploy.boot import poll_seconds, require_active, wait_ready
from tpuflex.duration import format_roughly
from tpuflex.errors import (
    AccessError,
    ApiError,
    BootError,
    ConflictError,
    InterruptedByUser,
    WeightsError,
)
from tpuflex.google.queued_resources import observe_host
from tpuflex.host.report import RESTART_KEY, HostReport, wall_seconds
from tpuflex.host.serving import REACTS_WITHIN_S, Serving, ServingPhase
from tpuflex.operate.slice import SliceStatus, slice_status
from tpuflex.planning.cost import cost_in, usd
from tpuflex.queued_resource.name import RequestName
from tpuflex.stack.progress import Consent, Report, require_consent, silent
from tpuflex.weights.stack_weights import StackWeights

if TYPE_CHECKING:
    from tpuflex.stack.connection import Connection
    from tpuflex.stack.stack import Stack

#: Seconds that a drain may take beyond its time: docker ends a server, or does not answer.
_BEYOND_THE_DRAIN = 180.0
#: Seconds for Google to reset a machine; eight hosts took four minutes.
_RESET_WITHIN = 600.0
#: Phases of a boot that a restart has nothing to do in.
_KEPT_PHASES = frozenset({"fetch", "image", "weights"})
#: Said where the host does not do what it is asked for.
_OTHERWISE = Advice(
    "`{reboot}` boots its machine again, on the same capacity; `{up} --new-host` asks for another."
)


@dataclass(frozen=True, slots=True)
class Restart:
    """A restart, or a reboot, of which a completion was served afterwards.

    Attributes:
        stack: the stack.
        slice: its slice, as it is now.
        seconds: from the request until the host has served a completion.
        per_hour: what the slice costs, in US dollars; None where the price is not known.
    """

    stack: Stack
    slice: SliceStatus
    seconds: float
    per_hour: Decimal | None

    def to_json(self) -> dict[str, object]:
        """The document that `tpuflex restart --json` and `reboot --json` print."""
        host = self.slice.host
        return {
            "stack": self.stack.name,
            "endpoint": self.stack.settings.url(self.slice.address),
            "seconds": round(self.seconds, 1),
            "boot_seconds": {} if host is None else host.seconds_by_phase(),
            "usd_per_hour": usd(self.per_hour),
            "slice": self.slice.to_json(self.stack.name),
        }


def restart(
    cloud: Connection, report: Report = silent, *, consent: Consent, drains: bool = True
) -> Restart:
    """Have the host start its server again, and wait until that has served a completion.

    The host is asked by a key of its node's metadata. It reads its secrets again, and keeps its
    weights and compiled programs.

    Args:
        cloud: the stack's cloud.
        report: receives what will be done, then the progress.
        consent: answers the question.
        drains: whether requests in flight may end before, for ``slice.drain`` at most.

    Raises:
        NotFoundError: there is no slice.
        CapacityError: its request is waiting.
        ConflictError: its host cannot be asked.
        BootError: the host does not react, or its server does not serve again.
        InterruptedByUser: there is no consent, or the wait was stopped.
    """
    status = _running(cloud)
    host = _require_watch(cloud, status)
    drain = cloud.stack.settings.slice.drain.total_seconds() if drains else 0.0
    _tell(report, cloud, status, _restart_plan(host, drain))
    require_consent(consent, "Go ahead?")
    began = cloud.timing.monotonic()
    _ask(cloud, status, f"{secrets.token_hex(8)} {drain:.0f}")
    try:
        _await_end(cloud, status, host, drain, report)
    except KeyboardInterrupt as error:
        _call_off(cloud, status)
        raise InterruptedByUser(
            "The restart was called off; the host admits requests again.",
            hint=Advice("`{status}` shows whether it serves."),
        ) from error
    except BootError:
        _call_off(cloud, status)
        raise
    status, _ = wait_ready(cloud, report, before=host)
    return _ended(cloud, status, began)


def reboot(cloud: Connection, report: Report = silent, *, consent: Consent) -> Restart:
    """Boot the machine of the slice again, and wait until it has served a completion.

    Requests in flight are cut off.

    Args:
        cloud: the stack's cloud.
        report: receives what will be done, then the progress.
        consent: answers the question.

    Raises:
        NotFoundError: there is no slice.
        CapacityError: its request is waiting.
        WeightsError: the weights that the host would fetch are gone.
        BootError: the slice has no machine, or that does not serve again.
        InterruptedByUser: there is no consent, or the wait was stopped.
    """
    status = _running(cloud)
    _require_weights(cloud, status)
    _tell(report, cloud, status, _reboot_plan(status.host))
    require_consent(consent, "Go ahead?")
    began = cloud.timing.monotonic()
    _reset(cloud, status, report)
    before = status.host if status.host is not None else HostReport()
    status, _ = wait_ready(cloud, report, before=before)
    return _ended(cloud, status, began)


def _require_weights(cloud: Connection, status: SliceStatus) -> None:
    """Refuse a boot that would wait for weights, as far as the caller may look."""
    region = region_of(status.zone)
    at = next(each for each in StackWeights(cloud).everywhere() if each.region == region)
    with suppress(AccessError, ApiError):
        if at.found is None:
            raise WeightsError(
                f"{at.place} holds no weights: the host would boot, and wait for them.",
                hint=Advice("`{weights_push}`, then `{reboot}`."),
            )


def _running(cloud: Connection) -> SliceStatus:
    stack = cloud.stack
    status = slice_status(
        stack.settings, stack.names, cloud.tpu, now=cloud.now(), recorded=cloud.recorded_zones
    )
    require_active(status)
    return status


def _require_watch(cloud: Connection, status: SliceStatus) -> HostReport:
    """What the host says, if what is asked of it will be done.

    Raises:
        ConflictError: it will not.
    """
    host, now = status.host, cloud.now().timestamp()
    where = f"The host of {status.queued_resource}"
    if status.unread:
        raise ConflictError(
            f"{where} cannot be asked: {status.unread}", hint=Advice("Try again: `{restart}`")
        )
    if host is None or not (host.ready or host.error):
        raise ConflictError(
            f"{where} boots: its server has not served yet.",
            hint=Advice("`{up}` waits until it serves. {otherwise}", otherwise=_OTHERWISE),
        )
    if host.error:
        raise ConflictError(f"{where} cannot be asked: its boot has failed.", hint=_OTHERWISE)
    if host.serving is None:
        raise ConflictError(
            f"{where} cannot be asked: nothing watches over its server, or not yet.",
            hint=Advice(
                "If it has only just become READY: `{restart}`. {otherwise}", otherwise=_OTHERWISE
            ),
        )
    if host.serving.phase is ServingPhase.DRAINING:
        raise ConflictError(
            f"{where} drains: {host.serving.reason}.", hint=status.advice.sentence()
        )
    if host.serving.is_old(now):
        raise ConflictError(
            f"{where} has said nothing for {_roughly(now - host.serving.at)}:"
            " its machine or its watch is gone.",
            hint=_OTHERWISE,
        )
    return host


def _restart_plan(host: HostReport, drain: float) -> Mapping[str, str]:
    kept = {k: s for k, s in host.seconds_by_phase().items() if k not in _KEPT_PHASES}
    what = "the server is started again, on the same machine"
    running = host.serving.running + host.serving.waiting if host.serving else 0
    if not drain:
        what += f"; {_requests(running)} in flight cut off" if running else ""
    elif running:
        what += f", once {_requests(running)} have ended, in {_roughly(drain)} at most"
    return {
        "what": what,
        "kept": "the slice, its address, the weights and the compiled programs",
        "read": "again: the secrets, in the versions that it has",
        "away": _away(sum(kept.values())),
    }


def _reboot_plan(host: HostReport | None) -> Mapping[str, str]:
    serving = host.serving if host is not None else None
    running = serving.running + serving.waiting if serving is not None else 0
    cut = f"; {_requests(running)} in flight cut off" if running else ""
    seconds = wall_seconds(host.seconds_by_phase()) if host is not None and host.ready else 0
    return {
        "what": f"the machine boots again{cut}",
        "kept": "the slice, its address, and the compiled programs; the weights are fetched again",
        "away": f"{_away(seconds)}, and some minutes of the machine's own",
    }


def _away(seconds: float) -> str:
    if not seconds:
        return "as long as a boot: no length of an earlier one is known"
    return f"about {_roughly(seconds)}, as in its last boot"


def _roughly(seconds: float) -> str:
    return format_roughly(timedelta(seconds=seconds))


def _requests(count: int) -> str:
    return f"{count} request{'' if count == 1 else 's'}"


def _tell(report: Report, cloud: Connection, status: SliceStatus, plan: Mapping[str, str]) -> None:
    per_hour = cost_in(cloud.stack.settings, status.zone).per_hour
    billed = f": it goes on at ${per_hour} per hour" if per_hour else ""
    report(f"Stack {cloud.stack.name}: {status.queued_resource} in {status.zone}")
    for name, text in {**plan, "cost": f"nothing more{billed}"}.items():
        report(f"  {name:<6} {text}")


def _reset(cloud: Connection, status: SliceStatus, report: Report) -> None:
    """Reset the machine, and wait until Google says that this was done."""
    project = cloud.stack.settings.project
    name = RequestName(project, status.zone, status.queued_resource)
    began = cloud.timing.monotonic()
    operation = cloud.tpu.reset_queued_resource(name)
    report(f"{name.id} is being reset …")
    while operation.name and not operation.done:
        if cloud.timing.monotonic() - began >= _RESET_WITHIN:
            report(f"Google does not say that {name.id} was reset; waiting for its host.")
            return
        cloud.sleep(poll_seconds(cloud))
        found = cloud.tpu.get_operation(operation.name)
        if found is None:
            return
        operation = found
    if operation.error is not None:
        failure = operation.error
        raise ApiError(
            f"{name.id} could not be reset (code {failure.code}): {failure.message}",
            hint=Advice("`{up} --new-host` asks for another slice."),
        )


def _ask(cloud: Connection, status: SliceStatus, key: str) -> None:
    """Set the key in the metadata of the node; an empty one is taken away."""
    node = cloud.tpu.get_node(status.node)
    if node is None:
        raise BootError(f"{status.node} is gone.", hint=Advice("`{status}` shows what there is."))
    metadata = {name: text for name, text in node.metadata.items() if name != RESTART_KEY}
    if key:
        metadata[RESTART_KEY] = key
    # A patch of metadata is one of all of it.
    cloud.tpu.patch_node(status.node, {"metadata": {**metadata}}, mask=["metadata"])


def _call_off(cloud: Connection, status: SliceStatus) -> None:
    with suppress(AccessError, ApiError, BootError):  # what is said next counts more
        _ask(cloud, status, "")


def _await_end(
    cloud: Connection, status: SliceStatus, host: HostReport, drain: float, report: Report
) -> None:
    """Wait until the host has begun to boot again: its requests have ended.

    Raises:
        BootError: it has not, in time.
    """
    began, said, reacted = cloud.timing.monotonic(), "", False
    while True:
        found = None
        with suppress(AccessError, ApiError):  # asked again; the wait has its end
            found = observe_host(status.node, cloud.tpu)
        if found is not None and (found.began != host.began or not found.ready):
            return
        serving = found.serving if found is not None else None
        if serving is not None and serving.phase is ServingPhase.DRAINING:
            reacted = True
            text = _progress(serving)
            if text != said:
                report(f"  host     {text}")
            said = text
        waited = cloud.timing.monotonic() - began
        if waited >= (drain + _BEYOND_THE_DRAIN if reacted else REACTS_WITHIN_S):
            what = f"goes on as before ({said})" if reacted else "does not react"
            raise BootError(
                f"The host {what}, {_roughly(waited)} after it was asked for a restart.",
                hint=_OTHERWISE,
            )
        cloud.sleep(poll_seconds(cloud))


def _progress(serving: Serving) -> str:
    if serving.drained:
        return "takes nothing new, and has ended what it had begun"
    if not serving.running + serving.waiting:
        return "takes nothing new"
    waiting = f", {serving.waiting} waiting" if serving.waiting else ""
    return f"takes nothing new: {_requests(serving.running)} running{waiting}"


def _ended(cloud: Connection, status: SliceStatus, began: float) -> Restart:
    seconds = cloud.timing.monotonic() - began
    per_hour = cost_in(cloud.stack.settings, status.zone).per_hour
    return Restart(cloud.stack, status, seconds, per_hour)
