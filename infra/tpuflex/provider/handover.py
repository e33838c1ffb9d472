"""The hand-over from a slice that serves to its replacement, which has to serve first.

The engine creates a replacement before it deletes the old slice, and deletes only once the creation
has succeeded. So a creation that takes over from a serving slice does not end when its hosts run,
but when its first host is READY (docs/adr/0036). The ways in which the wait can end are the rows of
:data:`tpuflex.provider.stages.TABLE` for what boots.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from pulumi_plugin.values import Properties
from tpuflex.advice import Advice
from tpuflex.codes import Code
from tpuflex.duration import parse_duration
from tpuflex.errors import (
    AccessError,
    BootError,
    ConflictError,
    FailedBootError,
    InterruptedByUser,
    TpuflexError,
)
from tpuflex.host.boot_wait import BootAdvice, BootDeadlines, BootWait, FreshlyServing
from tpuflex.host.report import CONFIG_KEY, HostReport
from tpuflex.provider.call import Call, Deadlines, UnreadyError
from tpuflex.provider.delete import Removal, delete_all
from tpuflex.provider.drain import call_off
from tpuflex.provider.serving_hosts import answering, boots, may_answer, reported
from tpuflex.provider.stages import Event, Stage, row_of
from tpuflex.provider.watch import GO_ON
from tpuflex.queued_resource.check import parse
from tpuflex.queued_resource.fields import RequestArgs
from tpuflex.queued_resource.name import RequestName
from tpuflex.queued_resource.outcomes import NOT_TAKEN_OVER, NOTHING_SERVES, TAKEN_OVER
from tpuflex.queued_resource.snapshot import Snapshot
from tpuflex.queued_resource.states import Lifecycle

#: What a host that keeps silent may lack; the advice of a first boot names what to do about it.
_SILENT = Advice("What keeps a host silent, and what to do about it: `{doctor}`, `{logs}`.")
#: Said where quota is refused while another slice serves.
_FOR_TWO = (
    "Until the new slice serves, {} does, and both need quota. Ask for more, or write replace:"
    " delete_first (tpuflex:slice.replace in a stack file), with which it is deleted first and"
    " nothing serves meanwhile."
)
#: Said where the next slice is only waited for, in the place of what is said of a first one.
_WAITS_ON = (
    "{} serves on, and only the next slice waits: run `up` again to go on waiting. `down` or"
    " `destroy` would delete both."
)


@dataclass(frozen=True, slots=True)
class HandOver:
    """What one creation or update takes over.

    Attributes:
        call: the engine call.
        args: the validated inputs of what takes over.
        names: the requests that serve until it does, or may come to; without any, there is nothing
            to wait for.
        others: those that did not when it began, and are asked once more before it ends.
    """

    call: Call
    args: RequestArgs
    names: tuple[RequestName, ...] = ()
    others: tuple[RequestName, ...] = ()

    @classmethod
    def begin(cls, call: Call, args: RequestArgs, before: Iterable[RequestName]) -> HandOver:
        """The hand-over from those of ``before`` that answer, or boot and may by the time that a
        request is granted, to what ``args`` ask for. What runs a script of its own never says that
        it serves: nobody waits for it."""
        if CONFIG_KEY not in args.metadata:
            return cls(call, args)
        every = tuple(before)
        names = answering(call, every, counts=may_answer)
        return cls(call, args, names, tuple(name for name in every if name not in names))

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
            if not error.snapshot.takes_over_from:  # else the wait for it has said so
                self._advise(error)
            error.keep_serving(self.names)
            raise
        except TpuflexError as error:
            self._advise(error)
            raise

    def _advise(self, error: TpuflexError) -> None:
        """Say what helps where there is quota for one slice, but not for two, and that giving up
        the next one by `down` gives up what serves."""
        serving = ", ".join(map(str, self.names))
        if serving and error.code is Code.QUOTA:
            both = _FOR_TWO.format(serving)
            error.hint = Advice("{hint} {both}", hint=error.hint, both=both)
        if serving and error.code in (Code.WAITING, Code.STOPPED):
            error.hint = Advice.of(_WAITS_ON.format(serving))

    def finish(self, seen: Snapshot, *, recorded: bool) -> Snapshot:
        """``seen``, which runs, once it serves; where its boot fails, it is deleted if the inputs
        say so.

        Args:
            seen: what takes over.
            recorded: whether the state has it already, and goes on with it as lost if it is
                deleted: only so does the next one take over from what serves. Otherwise it holds
                what serves, as before.

        Raises:
            UnreadyError: it does not serve, and is kept in the state.
            BootError: it was deleted, and the state has nothing of it.
        """
        try:
            return self.wait(seen)
        except UnreadyError as error:
            failed = isinstance(error.__cause__, FailedBootError)
            if self.args.on_boot_failure != "delete" or not failed:
                raise
            raise self._delete(seen, error, recorded=recorded) from error

    def _delete(self, seen: Snapshot, error: UnreadyError, *, recorded: bool) -> TpuflexError:
        """The error for ``seen``, whose boot has failed with ``error``, once it is deleted; or
        ``error`` itself, where it could not be deleted."""
        call = self.call
        call.report(f"{error.message}: deleting it, as onBootFailure says", warning=True)
        deadline = call.timing.monotonic() + Deadlines.of(self.args, 0).deletion
        try:
            delete_all([Removal(call, seen.name, self.args.labels, deadline, seen.created)])
        except (TpuflexError, InterruptedByUser) as left:
            return UnreadyError(
                f"{error.message}; it could not be deleted: {left.message}",
                snapshot=error.snapshot,
                hint=error.hint,
                code=error.code,
            )
        serves = _who_serves(
            call, error.snapshot.takes_over_from, "was not touched, and serves on."
        )
        hint = (
            f"It was deleted, as onBootFailure says (tpuflex:slice.on_boot_failure). {serves} When"
            " the cause is mended, run `up` again."
        )
        if not recorded:
            return BootError(error.message, hint=hint, code=error.code)
        gone = Snapshot(seen.name, at=call.timing.wall())
        return UnreadyError(error.message, snapshot=gone, hint=hint, code=error.code)

    def wait(self, seen: Snapshot) -> Snapshot:
        """Wait until ``seen``, which runs, serves; at once where nothing serves (any more) that it
        would take over from.

        Raises:
            UnreadyError: it does not serve; what serves until then is not touched.
        """
        names = self.names
        try:
            names = answering(self.call, names, known=True) + answering(self.call, self.others)
            if not names:
                return seen
            serving = ", ".join(map(str, names))
            self.call.report(f"its hosts run; {serving} serves until they do")
            self._wait(seen)
        except InterruptedByUser as error:
            message = f"stopped waiting until {seen.name} serves"
            advice = _WAITS_ON.format(", ".join(map(str, names))) if names else GO_ON
            raise _unready(seen, names, Event.STOPPED, message, advice) from error
        except TpuflexError as error:
            message = f"{seen.name} does not serve: {error.message}"
            serves = _who_serves(self.call, names, str(NOT_TAKEN_OVER.text))
            hint = Advice("{serves} {hint}", serves=serves, hint=error.hint)
            raise _unready(seen, names, Event.UNREADY, message, hint) from error
        self.call.report(f"{TAKEN_OVER.text} {serving}")
        try:
            return self.call.look(seen.name)
        except (TpuflexError, InterruptedByUser):
            return seen  # that it cannot be looked at once more must not lose what is billed

    def _wait(self, seen: Snapshot) -> None:
        timing, latest = self.call.timing, seen

        def look() -> None:
            nonlocal latest
            latest = self._require_active(seen)

        again = "`up` waits for it again; for another one, `tpuflex up --new-host`."
        BootWait(
            # The first look may not have found its nodes.
            observe=lambda: reported(self.call, latest),
            look=look,
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
            log=Advice("`{logs}`"),
            serves=FreshlyServing(timing.monotonic, Advice("`{logs}`; {again}", again=again)),
            advice=BootAdvice(
                failed="When the cause is mended, `tpuflex up --new-host` makes another in the"
                " place of this one; in a program of your own, change `rerun` and run `pulumi up`.",
                silent=Advice("{silent} {again}", silent=_SILENT, again=again),
                again="",
                later=again,
            ),
        ).run()

    def _changed(self, report: HostReport) -> None:
        detail = f": {report.detail}" if report.detail else ""
        self.call.report(f"its host boots, {report.phase or 'start'}{detail}", passing=True)

    def _require_active(self, seen: Snapshot) -> Snapshot:
        """``seen`` as it is now, if it still runs."""
        now = self.call.look_twice(seen.name)
        if now.lifecycle is not Lifecycle.ACTIVE:
            raise BootError(
                f"it is not active any more: {now.describe()}", hint="`up` looks again."
            )
        return now


def _unready(
    seen: Snapshot, serving: tuple[RequestName, ...], event: Event, message: str, hint: Advice | str
) -> UnreadyError:
    """The error that keeps what does not serve in the state, as it is by now, with what does."""
    kept = replace(seen, takes_over_from=serving)
    code = row_of(Stage.BOOTS, event).code
    return UnreadyError(message, snapshot=kept, hint=hint, code=code)


def _who_serves(call: Call, names: Iterable[RequestName], text: str) -> str:
    """A sentence on what users have, where the next slice does not serve: that ``names``, which
    served when it was waited for, do ``text``, unless their run has ended since."""
    try:
        still = answering(call, names, known=True)
    except (TpuflexError, InterruptedByUser):
        still = tuple(names)
    if not still:
        return str(NOTHING_SERVES.text)
    return f"{', '.join(map(str, still))} {text}"


def await_successor(
    call: Call, inputs: Properties, name: RequestName, successor: RequestName
) -> None:
    """Wait, before ``name`` is deleted because the state goes on with ``successor``, until that
    serves; no wait where ``name`` does not. The engine deletes at the end of any run that succeeds
    what its state has as to be deleted: what ran when it was made may have failed since, or boot
    still.

    Args:
        call: the engine call.
        inputs: of ``name``, whose deadlines count.
        name: the request that is to be deleted.
        successor: the one with which the state goes on.

    Raises:
        ConflictError: ``name`` answers, and ``successor``, whose hosts report, does not come to
            serve. A drain of ``name`` is called off.
        ApiError: the API does not say.
    """
    if not answering(call, [name]):
        return
    seen = call.look_twice(successor)
    try:
        said = reported(call, seen)
        if not seen.gone and (not boots(seen) or (said and said.serves_at(call.timing.wall()))):
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
