"""The wait until a host is READY, or has clearly failed. Pure: clock and questions are given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from operator import attrgetter

from tpuflex.advice import Advice
from tpuflex.duration import format_duration
from tpuflex.errors import (
    AccessError,
    ApiError,
    BootError,
    FailedBootError,
    NotFoundError,
    TpuflexError,
)
from tpuflex.host.report import HostReport
from tpuflex.host.serving import OLD_AFTER_S, Serving, ServingPhase

#: Advice for a host that is only slow.
LATER = Advice("`{up}` keeps waiting, `{status}` looks, `{down}` ends it.")

#: Advice for a host that gave up: it stays as it is, and is billed, until the next one is made.
AGAIN = Advice(
    "What it is likely to be, and what mends it: `{diagnose}`.\n"
    "When the cause is mended: `{reboot}` boots this host again, on the same capacity;\n"
    "`{up} --new-host` asks for another, and keeps the weights.\n"
    "Until then this one goes on being billed: `{down}` ends it."
)

#: Said after :data:`SILENT`.
_WAITS_AGAIN = Advice("`{up}` waits again, `{down}` ends it.")

#: What keeps a host silent. gcloud's own help on guest attributes names the policy; that Secure
#: Boot can fail a boot: https://cloud.google.com/compute/shielded-vm/docs/shielded-vm#secure-boot.
SILENT = Advice(
    "Until it says something it is billed all the same. What keeps a host silent:\n"
    "  - the organization policy compute.disableGuestAttributesAccess (`{doctor}` reads it):"
    "\n    have it lifted for the project, then `{up}`\n"
    "  - Secure Boot, which lets nothing unsigned boot: remove tpuflex:slice.secure_boot\n"
    "  - the startup script is missing, changed by somebody, or stuck, or the host has no way to\n"
    "    Google's APIs (firewall rules and routes that are not ours)"
)

#: Seconds after which a host has learned that its drain was called off: it is told at once, and
#: reports every few seconds.
_CALLED_OFF_SECONDS = 30.0

#: Seconds between two looks at the slice itself while its host says nothing new.
_LOOK_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class BootDeadlines:
    """How long a boot may take, in seconds.

    Attributes:
        first_report: until the host's first report; also how long its reports may be refused in
            a row later.
        ready: until it has served a completion.
        poll: between two questions for its report.
    """

    first_report: float
    ready: float
    poll: float = 1.0


@dataclass(frozen=True, slots=True)
class BootAdvice:
    """What is said to do after a wait that has come to nothing.

    Attributes:
        failed: when the host says that its boot failed.
        silent: when it says nothing; followed by ``again``.
        later: when it is only slow.
    """

    failed: Advice | str = AGAIN
    silent: Advice | str = SILENT
    again: Advice | str = _WAITS_AGAIN
    later: Advice | str = LATER


@dataclass
class BootWait:
    """One wait for one host.

    Attributes:
        observe: asks for the host's report; None before its first.
        look: asks whether the slice still runs, and raises if it does not.
        deadlines: how long it may take.
        now: a monotonic clock in seconds.
        sleep: waits that many seconds.
        changed: called with each report that differs from the last.
        refused: called with why a report cannot be read, once per reason.
        log: where the host's log is, for the errors.
        advice: what the errors say to do.
        serves: whether a report shows that the host serves.
    """

    observe: Callable[[], HostReport | None]
    look: Callable[[], object]
    deadlines: BootDeadlines
    now: Callable[[], float]
    sleep: Callable[[float], None]
    changed: Callable[[HostReport], None]
    refused: Callable[[str], None]
    log: Advice | str
    advice: BootAdvice = BootAdvice()
    serves: Callable[[HostReport], bool] = attrgetter("serves")
    _last: HostReport | None = field(init=False, default=None)
    _refusal: AccessError | ApiError | None = field(init=False, default=None)
    _absent: int = field(init=False, default=0)
    _began: float = field(init=False)
    _answered: float = field(init=False)
    _looked: float = field(init=False)
    _drains_since: float | None = field(init=False, default=None)

    def run(self) -> HostReport:
        """Wait until the host serves. No single odd answer of the API ends the wait.

        Raises:
            FailedBootError: the host says that its boot, or its server, has failed, or has said
                nothing in time.
            BootError: it does not serve in time, or takes no new requests any more, or the slice
                has ended.
            CapacityError: the slice was taken back, and waits for capacity again.
            AccessError: its reports are refused for good.
        """
        self._began = self._answered = self._looked = self.now()
        while True:
            report = self._report()
            if report is not None and self.serves(report):
                return report
            self._judge(report)
            if report is None or self.now() - self._looked >= _LOOK_SECONDS:
                self._look()
            self.sleep(self.deadlines.poll)

    def _report(self) -> HostReport | None:
        try:
            report = self.observe()
        except (AccessError, ApiError) as error:
            if self._refusal is None or self._refusal.message != error.message:
                self.refused(error.message)
            self._refusal = error
            return None
        self._refusal, self._answered = None, self.now()
        if report is not None and report != self._last:
            self._last = report
            self.changed(report)
        return report

    def _judge(self, report: HostReport | None) -> None:
        """Raise once it is clear, or time, that this boot came to nothing."""
        log, now = self._where_log(), self.now()
        if report is not None and report.error:
            raise FailedBootError(
                f"The host failed in phase {report.phase or 'start'}: {report.reason}",
                hint=Advice.lines(log, self.advice.failed),
                section="troubleshooting#codes-of-a-host",
            )
        if report is not None and report.ready and report.serving is not None:
            self._judge_server(report.serving)
        patience = min(self.deadlines.first_report, self.deadlines.ready)
        if self._refusal is not None and now - self._answered >= patience:
            raise self._unreadable(self._refusal, now - self._answered)
        if self._refusal is None and self._last is None and now - self._began >= patience:
            waited = _span(now - self._began)
            raise FailedBootError(
                f"The host has reported nothing for {waited}.",
                hint=Advice.lines(log, self.advice.silent),
                again=self.advice.again,
            )
        if now - self._began >= self.deadlines.ready:
            raise BootError(
                self._overdue(now - self._began), hint=Advice.lines(log, self.advice.later)
            )

    def _judge_server(self, serving: Serving) -> None:
        """Raise where a host that was READY does not serve any more. One that is degraded may serve
        again, and a drain that a deletion has begun may have been called off just now."""
        log = self._where_log()
        if serving.phase is ServingPhase.FAILED:
            raise FailedBootError(
                f"The host's server has failed: {serving.reason}",
                hint=Advice.lines(log, self.advice.failed),
                section="troubleshooting#another-host",
            )
        if serving.phase is not ServingPhase.DRAINING:
            self._drains_since = None
            return
        now = self.now()
        if self._drains_since is None:
            self._drains_since = now
        if now - self._drains_since >= _CALLED_OFF_SECONDS:
            raise BootError(
                f"The host takes no new requests any more: {serving.reason}",
                hint=Advice.lines(log, self.advice.failed),
            )

    def _unreadable(self, refusal: AccessError | ApiError, since: float) -> TpuflexError:
        """The error when reports are refused for good. That tells nothing of the host, but of a
        permission that is missing, or a service that does not work."""
        kind = AccessError if isinstance(refusal, AccessError) else ApiError
        silent = (self.advice.silent, self.advice.again)
        advice = silent if self._last is None else (self.advice.later,)
        hint = Advice.lines(refusal.hint, self._where_log(), *advice)
        message = f"The host's report could not be read for {_span(since)}: {refusal.message}"
        return kind(message, hint=hint)

    def _where_log(self) -> Advice:
        return Advice("The host's log: {log}", log=self.log)

    def _overdue(self, waited: float) -> str:
        if self._last is None:
            return f"The host has reported nothing for {_span(waited)}."
        detail = f" ({self._last.detail})" if self._last.detail else ""
        return f"The host is still in phase {self._last.phase}{detail} after {_span(waited)}."

    def _look(self) -> None:
        """Look at the slice, now and then: its run may be over, or it may have been deleted.
        Only a second "not found" in a row counts."""
        if self.now() - self._looked < _LOOK_SECONDS:
            return
        self._looked = self.now()
        try:
            self.look()
        except NotFoundError:
            self._absent += 1
            if self._absent > 1:
                raise
        except (AccessError, ApiError):
            return
        else:
            self._absent = 0


def _span(seconds: float) -> str:
    """A duration for people: whole minutes, below one whole seconds."""
    unit = 60 if seconds >= 60 else 1
    return format_duration(timedelta(seconds=int(seconds) // unit * unit))


class FreshlyServing:
    """Whether a host has said within one wait that it serves. One that was READY when it was first
    looked at has to say so again, which its watch does every minute.

    Args:
        now: a monotonic clock in seconds.
        advice: what the error says to do.
    """

    def __init__(self, now: Callable[[], float], advice: Advice | str) -> None:
        self._now = now
        self._advice = advice
        self._began = 0.0
        self._first: float | None = None
        self._fresh = False

    def __call__(self, report: HostReport) -> bool:
        """Whether ``report``, the latest, shows it."""
        if not report.serves:
            self._fresh = True  # so what comes next is new
            return False
        if report.serving is None or self._fresh:
            return True
        if self._first is None:
            self._first, self._began = report.serving.at, self._now()
        if report.serving.at != self._first:
            return True
        if self._now() - self._began >= OLD_AFTER_S:
            raise BootError(
                "The host was READY, and has said nothing since: its machine or its watch is gone",
                hint=self._advice,
            )
        return False
