"""The hand-over from a slice that serves to the one that replaces it: that one first serves.

The engine creates what replaces before it deletes what is replaced, and deletes only once the
creation has succeeded. So a creation that takes over from a slice that serves does not end when its
hosts run, but when its first host is READY (docs/adr/0036).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from pulumi_plugin.values import Properties
from tpuflex.codes import Code
from tpuflex.duration import parse_duration
from tpuflex.errors import (
    AccessError,
    BootError,
    ConflictError,
    InterruptedByUser,
    TpuflexError,
)
from tpuflex.host.boot_wait import WAITS_AGAIN, BootAdvice, BootDeadlines, BootWait
from tpuflex.host.metadata_keys import CONFIG_KEY
from tpuflex.host.report import HostReport
from tpuflex.provider.call import Call, Deadlines, UnreadyError
from tpuflex.provider.delete import Removal, delete_all
from tpuflex.provider.drain import call_off
from tpuflex.provider.serving_hosts import answers, boots, may_answer, reported, that_answer
from tpuflex.provider.watch import GO_ON
from tpuflex.request.check import parse
from tpuflex.request.fields import RequestArgs
from tpuflex.request.name import RequestName
from tpuflex.request.outcomes import NOT_TAKEN_OVER, TAKEN_OVER
from tpuflex.request.snapshot import Snapshot
from tpuflex.request.states import Lifecycle

#: What a host that keeps silent may lack; the advice of a first boot names what to do about it.
_SILENT = "What keeps a host silent, and what to do about it: `tpuflex doctor`, `tpuflex logs`."
#: Seconds within which a host that serves reports again, with some to spare.
_SILENCE = 180.0
#: Said where quota is refused while another slice serves.
_FOR_TWO = (
    "Until the new slice serves, {} does, and both need quota. Ask for more, or write replace:"
    " delete_first (tpuflex:slice.replace in a stack file), with which it is deleted first and"
    " nothing serves meanwhile."
)


@dataclass(frozen=True, slots=True)
class HandOver:
    """What one creation or update takes over.

    Attributes:
        call: the engine call.
        args: the validated inputs of what takes over.
        names: the requests that serve until it does, or may come to; without any, there is nothing
            to wait for.
    """

    call: Call
    args: RequestArgs
    names: tuple[RequestName, ...] = ()

    @classmethod
    def begin(cls, call: Call, args: RequestArgs, before: Iterable[RequestName]) -> HandOver:
        """The hand-over from those of ``before`` that answer, or boot and may by the time that a
        request is granted, to what ``args`` ask for. What runs a script of its own never says that
        it serves: nobody waits for it."""
        if CONFIG_KEY not in args.metadata:
            return cls(call, args)
        return cls(call, args, that_answer(call, before, counts=may_answer))

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Have what serves until then go on, and the state remember it, should the block fail.

        Raises:
            UnreadyError: that of the block, with that in its snapshot.
        """
        call_off(self.call, self.names)
        try:
            yield
        except UnreadyError as error:
            error.snapshot = self._unproven(error.snapshot)
            self._advise(error)
            raise
        except TpuflexError as error:
            self._advise(error)
            raise

    def _advise(self, error: TpuflexError) -> None:
        """Say what helps where there is quota for one slice, but not for two."""
        if self.names and error.code is Code.QUOTA:
            error.hint = " ".join(filter(None, (error.hint, _FOR_TWO.format(*self.names))))

    def wait(self, seen: Snapshot) -> Snapshot:
        """Wait until ``seen``, which runs, serves; at once where nothing serves (any more) that it
        would take over from.

        Raises:
            UnreadyError: it does not serve; what serves until then is not touched.
        """
        serving = ", ".join(map(str, self.names))
        try:
            names = that_answer(self.call, self.names, known=True)
            if not names:
                return seen
            serving = ", ".join(map(str, names))
            self.call.report(f"its hosts run; {serving} serves until they do")
            self._wait(seen, serving)
        except InterruptedByUser as error:
            message = f"stopped waiting until {seen.name} serves"
            raise self._unready(seen, message, _serves_on(serving, GO_ON), Code.STOPPED) from error
        except TpuflexError as error:
            message = f"{seen.name} does not serve: {error.message}"
            raise self._unready(seen, message, error.hint, Code.NOT_SERVING) from error
        self.call.report(f"{TAKEN_OVER.text} {serving}")
        try:
            return self.call.look(seen.name)
        except (TpuflexError, InterruptedByUser):
            return seen  # that it cannot be looked at once more must not lose what is billed

    def _wait(self, seen: Snapshot, serving: str) -> None:
        timing = self.call.timing
        again = "`up` waits for it again; for another one, change `rerun`."
        BootWait(
            observe=lambda: reported(self.call, seen),
            look=lambda: self._require_active(seen),
            deadlines=BootDeadlines(
                first_report=parse_duration(self.args.first_report_timeout).total_seconds(),
                ready=parse_duration(self.args.ready_timeout).total_seconds(),
                poll=self.call.host_poll,
            ),
            now=timing.monotonic,
            sleep=self.call.pause,
            changed=self._changed,
            refused=lambda reason: self.call.report(
                f"its host's report cannot be read ({reason}); asking again", passing=True
            ),
            log="`tpuflex logs`",
            serves=_Anew(timing.monotonic),
            advice=BootAdvice(
                failed=_serves_on(
                    serving,
                    "When the cause is mended, change `rerun` (tpuflex:slice.rerun in a stack file)"
                    " and run `up`: another one is made in the place of this one.",
                ),
                silent=_serves_on(serving, f"{_SILENT} {again}"),
                later=_serves_on(serving, again),
            ),
        ).run()

    def _changed(self, report: HostReport) -> None:
        detail = f": {report.detail}" if report.detail else ""
        self.call.report(f"its host boots, {report.phase or 'start'}{detail}", passing=True)

    def _require_active(self, seen: Snapshot) -> None:
        """Check that it still runs.

        Raises:
            BootError: it does not.
        """
        now = self.call.look_twice(seen.name)
        if now.lifecycle is not Lifecycle.ACTIVE:
            raise BootError(f"it is not active any more: {now.describe()}", hint=WAITS_AGAIN)

    def _unproven(self, seen: Snapshot) -> Snapshot:
        return replace(seen, takes_over_from=self.names)

    def _unready(self, seen: Snapshot, message: str, hint: str, code: Code) -> UnreadyError:
        """The error that keeps what does not serve in the state, as it is by now."""
        return UnreadyError(message, snapshot=self._unproven(seen), hint=hint, code=code)


class _Anew:
    """Whether a host serves now. One that was READY when it was first looked at has to say so
    again: its word may be hours old, and its machine gone (its watch reports every minute)."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._began = now()
        self._first: float | None = None
        self._fresh = False

    def __call__(self, report: HostReport) -> bool:
        """Whether ``report``, the latest, shows it.

        Raises:
            BootError: it was READY, and has said nothing since.
        """
        if not report.serves:
            self._fresh = True  # so what comes next is new
            return False
        if report.serving is None or self._fresh:
            return True
        if self._first is None:
            self._first = report.serving.at
        if report.serving.at != self._first:
            return True
        if self._now() - self._began >= _SILENCE:
            raise BootError(
                "The host was READY, and has said nothing since: its machine or its watch is gone",
                hint="`tpuflex logs`; for another one, change `rerun`.",
            )
        return False


def _serves_on(serving: str, advice: str) -> str:
    return f"{serving} {NOT_TAKEN_OVER.text} {advice}"


def await_heir(call: Call, inputs: Properties, name: RequestName, heir: RequestName) -> None:
    """Wait, before ``name`` is deleted because the state goes on with ``heir``, until that serves;
    at once where ``name`` does not. The engine deletes at the end of any run that succeeds what its
    state has as to be deleted: what ran when it was made may have failed since, or boot still.

    Args:
        call: the engine call.
        inputs: of ``name``, whose deadlines count.
        name: the request that is to be deleted.
        heir: the one with which the state goes on.

    Raises:
        ConflictError: ``name`` answers, and ``heir``, whose hosts report, does not come to. A drain
            of ``name`` is called off.
        ApiError: the API does not say.
    """
    if not that_answer(call, [name]):
        return
    seen = call.look_twice(heir)
    try:
        if not seen.gone and (not boots(seen) or answers(reported(call, seen))):
            return
    except AccessError:
        return  # a permission that is missing hides every successor's word
    call_off(call, [name])
    try:
        HandOver(call, parse(inputs), (name,)).wait(seen)
    except UnreadyError as error:
        raise ConflictError(
            f"{error.message}: {name} is not deleted",
            hint=error.hint,
            code=error.code,
        ) from error


def without_successor(
    call: Call, args: RequestArgs, seen: Snapshot, error: UnreadyError, *, stays: bool
) -> TpuflexError:
    """The error for a successor whose boot has failed, once that is deleted; or ``error`` itself,
    where it could not be deleted.

    Args:
        call: the engine call.
        args: the validated inputs.
        seen: the successor.
        error: why it does not serve.
        stays: whether the state has it already, and goes on with it as lost: only so does the next
            one take over from what serves. Otherwise it holds what serves, as before.
    """
    call.report(f"{error.message}: deleting it, as onBootFailure says", warning=True)
    deadline = call.timing.monotonic() + Deadlines.of(args, 0).deletion
    try:
        delete_all([Removal(call, seen.name, args.labels, deadline, seen.created)])
    except (TpuflexError, InterruptedByUser) as left:
        return UnreadyError(
            f"{error.message}; it could not be deleted: {left.message}",
            snapshot=error.snapshot,
            hint=error.hint,
            code=error.code,
        )
    hint = (
        "It was deleted, as onBootFailure says (tpuflex:slice.on_boot_failure). What serves was not"
        " touched, and serves on. When the cause is mended, run `up` again."
    )
    if not stays:
        return BootError(error.message, hint=hint, code=error.code)
    gone = Snapshot(seen.name, at=call.timing.wall())
    return UnreadyError(error.message, snapshot=gone, hint=hint, code=error.code)
