"""Why an engine operation failed, as one error of ours: the program's, the provider's, or the
engine's own. Pure.

What our provider says is sorted by its code. Only the engine's words, and Google's through other
providers, are sorted by their text: they come without one."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import ParamSpec, TypeVar

from tpuflex import gcloud_commands, known_messages
from tpuflex.advice import Advice
from tpuflex.both_ends import both_ends_of_lines
from tpuflex.codes import Code, deciding_code
from tpuflex.engine.events import Note, Step
from tpuflex.engine.state_lock import ThisMachine
from tpuflex.errors import (
    AccessError,
    AlreadyExistsError,
    BootError,
    CapacityError,
    ConflictError,
    EngineError,
    IncompleteTeardownError,
    NotFoundError,
    PlanChangedError,
    QuotaError,
    ServiceDisabledError,
    TpuflexError,
)
from tpuflex.google.bucket_owner import another_name
from tpuflex.known_messages import Sentence
from tpuflex.queued_resource.causes import of_text, unpaid
from tpuflex.queued_resource.outcomes import TABLE, Condition
from tpuflex.roles.refusal import refusal_remedy

P = ParamSpec("P")
R = TypeVar("R")

#: What the message of a failure because of a lock begins with.
LOCKED = "Another operation is running on this stack, or one was killed while it ran."
_RECOVER = Advice("An earlier run was killed. Repair its state first: {recover}")
#: A refusal to delete the slice.
_SLICE = re.compile(r"\bDELETE \S+/queuedResources/|\btpu\.nodes\.delete\b")
_STILL_BILLED = "The slice is still there, and still billed."


def unreadable(stderr: str) -> bool:
    """Whether the engine says in ``stderr`` that a file of the state is not whole."""
    said = known_messages.STATE_TORN.search(stderr) or known_messages.NOT_WHOLE_JSON.search(stderr)
    return said is not None


def nothing_to_do(error: RuntimeError) -> bool:
    """Whether an operation "failed" only because everything was excluded from it."""
    return known_messages.NO_SUMMARY.search(str(error)) is not None


def less_than_planned(notes: Iterable[Note], steps: Iterable[Step]) -> bool:
    """Whether an update "failed" only because not all of its plan was needed: resources that were
    to be replaced were kept, or changed in place.

    Args:
        notes: every message of the run.
        steps: every step that it took.
    """
    notes = list(notes)
    missed = {
        found["urn"] for note in notes if (found := known_messages.NOT_COME_TO.search(note.text))
    }
    kept = {step.urn for step in steps if step.operation in ("same", "update")}
    return bool(missed) and missed <= kept and not any(_problems(notes))


class ProgramFailures:
    """Our own errors on their way through the engine.

    The engine would turn an exception of the program into a traceback in its diagnostics.
    A guarded function keeps the error here and gives the engine one clean line.
    """

    def __init__(self) -> None:
        self.errors: list[TpuflexError] = []

    def guard(self, function: Callable[P, R]) -> Callable[P, R]:
        """``function``, its TpuflexError kept here and passed to the engine as a plain failure."""

        @wraps(function)
        def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                return function(*args, **kwargs)
            except TpuflexError as error:
                raise self._keep(error) from error

        return guarded

    def guard_async(self, function: Callable[P, Awaitable[R]]) -> Callable[P, Awaitable[R]]:
        """The same for a coroutine function."""

        @wraps(function)
        async def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                return await function(*args, **kwargs)
            except TpuflexError as error:
                raise self._keep(error) from error

        return guarded

    def _keep(self, error: TpuflexError) -> Exception:
        from pulumi import RunError

        self.errors.append(error)
        return RunError(error.message)


def failure(operation: str, notes: Iterable[Note], stderr: str) -> TpuflexError:
    """The error to report for a failed ``operation`` (up, preview, refresh, destroy).

    Args:
        operation: the engine's command.
        notes: every message of the run; those of severity ``error`` count.
        stderr: what the engine printed to standard error.
    """
    if known_messages.STACK_LOCKED.search(stderr):
        in_bucket = known_messages.LOCK_IN_BUCKET.search(stderr)
        return EngineError(
            f"{LOCKED}{_holder(stderr)}",
            hint=Advice(
                "Wait for it to end, or press Ctrl-C there, and run this again. If that process is"
                " dead: {free}",
                free="pulumi cancel" if in_bucket else Advice("{recover}"),
            ),
            locked=True,
            section="troubleshooting#a-lock-in-a-bucket" if in_bucket else "",
        )
    if (removed := known_messages.NO_STACK.search(stderr)) is not None:
        return NotFoundError(
            f"The stack {removed['stack']} is not there any more: a `tpuflex down` that ran"
            " meanwhile has removed it.",
            hint=Advice("Run `{up}` to bring it up anew."),
        )
    notes = list(notes)
    hint = (
        _RECOVER
        if known_messages.STATE_TORN.search(stderr)
        or any(known_messages.PENDING_OPERATIONS.search(n.text) for n in notes)
        else ""
    )
    problems = list(_problems(notes))
    if not problems:
        said = both_ends_of_lines(without_traceback(stderr), first=4, last=8)
        if not said:
            return EngineError(
                f"pulumi {operation} ended without a word: it crashed or was killed.",
                hint="" if operation == "preview" else Advice("Repair the state first: {recover}"),
            )
        return EngineError(f"pulumi {operation} failed:\n{said}", hint=hint)
    crash = next(
        (match for p in problems if (match := known_messages.PROGRAM_ERROR.search(p.text))), None
    )
    if crash is not None:
        return EngineError(
            f"The Pulumi program failed: {crash['error']}",
            hint="That is a bug. `tpuflex -v …` shows the whole of it.",
        )
    unplanned = next((p for p in problems if known_messages.UNPLANNED.search(p.text)), None)
    if unplanned is not None:
        return PlanChangedError(
            "The stack's state, its files or the cloud have changed since it was planned. The"
            " engine stopped before the first step that was not in the plan:"
            f" {_step_of(unplanned)}.",
            hint=Advice(
                "What was in the plan may be done in part. Run `{up}` again for the plan as"
                " it is now; with --expect, have that approved first."
            ),
        )
    deaths = (known_messages.PLUGIN_DIED.search(problem.text) for problem in problems)
    died = next(filter(None, deaths), None)
    if died is not None:
        return _death(operation, died["plugin"], died["printed"].strip())
    text = "\n".join(map(str, problems))
    if known_messages.BUCKET_NAME_TAKEN.search(text):
        return AlreadyExistsError(text, status=409, hint=another_name())
    if operation == "destroy" and (retained := known_messages.RETAINED.search(text)) is not None:
        command = gcloud_commands.end_retention(f"gs://{retained['bucket']}")
        return IncompleteTeardownError(
            text,
            hint=Advice(
                "Run `{down}` again after that time. To end the policy before, unless it is"
                " locked: {command}",
                command=command,
            ),
        )
    code = deciding_code(problem.code for problem in problems)
    if operation == "destroy" and code is Code.NOT_GONE:
        return IncompleteTeardownError(
            text, hint=Advice("Run `{down}` again: it goes on where this one stopped.")
        )
    if code is None:
        stale = operation == "destroy" and known_messages.GONE.search(text) is not None
        return EngineError(text, hint=hint or _advice(operation, text), stale=stale)
    outcome = OUTCOMES[code]
    refused = [problem for problem in problems if problem.code is code]
    off = code is Code.PERMISSION and all(
        known_messages.API_DISABLED.search(each.text) for each in refused
    )
    kind = ServiceDisabledError if code is Code.PERMISSION and off else outcome.error
    advice = _again(operation) if outcome.hint is None else outcome.hint
    if code is Code.PERMISSION:
        billed = _STILL_BILLED if operation == "destroy" and _SLICE.search(text) else ""
        mending = refusal_remedy(text)
        # Our own provider has said it already, where its error had a remedy.
        said = "" if mending in text else mending
        advice = Advice.lines(billed, said, advice)
    return kind(text, hint=hint or advice)


def _advice(operation: str, text: str) -> Advice | str:
    """What to do about a failure that has no code."""
    if known_messages.NO_PASSPHRASE.search(text):
        return "Set PULUMI_CONFIG_PASSPHRASE."
    if known_messages.EXISTS.search(text):
        return Advice("If an earlier run made it, `{recover}` adds it to the state.")
    if operation == "destroy" and known_messages.GONE.search(text):
        return Advice("It is gone, but the state has it: run `{recover}`, then `{down}` again.")
    foreign = _foreign_rules_advice(text) if operation == "destroy" else None
    return foreign or _again(operation)


def _death(operation: str, plugin: str, printed: str) -> EngineError:
    """The error for a plugin that died. The engine takes what it was doing for failed, and keeps
    nothing of it (docs/adr/0010)."""
    command = "down" if operation == "destroy" else operation
    message = f"{plugin} ended in the middle of `{command}`: it crashed or was killed"
    message = f"{message} (out of memory, for example)." + (f"\n{printed}" if printed else "")
    if operation == "preview":
        return EngineError(message, hint="Nothing was changed: run it again.")
    return EngineError(
        f"{message}\nWhat it had begun may be in the cloud but not in the state.",
        hint=Advice("Repair the state first: {recover}"),
    )


def _step_of(problem: _Problem) -> str:
    """The step that was not in the plan. The engine does not say what it would delete, and quotes
    the values of inputs."""
    refused = known_messages.UNPLANNED.search(problem.text)
    if refused is None or refused["step"] is None:
        return f"one of {problem.name} with other inputs"
    step = refused["step"]
    return "a deletion" if step.startswith("delete") else f"{step} of {problem.name}"


def without_traceback(text: str) -> str:
    """``text`` with each Python traceback reduced to its last line, the error itself."""
    return known_messages.TRACEBACK.removed(text)


def _holder(stderr: str) -> str:
    """Who holds the lock, as a sentence; empty if the engine does not say."""
    found = known_messages.LOCK_HOLDER.search(stderr)
    if found is None:
        return ""
    machine = ThisMachine()
    here = found["host"] == machine.hostname()
    command = machine.command(int(found["pid"])) if here else ""
    named = f" (`{command}`)" if command else ""
    return (
        f" It is process {found['pid']}{named} of {found['user']} on {found['host']},"
        f" since {found['time']}."
    )


@dataclass(frozen=True, slots=True)
class _Problem:
    """One error that the engine printed."""

    name: str
    text: str
    code: Code | None

    def __str__(self) -> str:
        return f"{self.name}: {self.text}" if self.name else self.text


def _problems(notes: Iterable[Note]) -> Iterable[_Problem]:
    seen = set()
    for note in notes:
        if (
            note.severity != "error"
            or known_messages.ECHO.search(note.text)
            or known_messages.NOT_COME_TO.search(note.text)
        ):
            continue
        text = known_messages.ERROR_LIST.removed(without_traceback(note.text).strip())
        text = known_messages.LOGGED.removed(text.removeprefix("error: ").strip())
        if text and text not in seen:
            seen.add(text)
            lacks = of_text(text)
            text = f"{text} (it asks for {lacks})" if lacks else text
            yield _Problem(note.name, text, note.code or _googles(text))


#: Google's words in failures without a code: those of other providers, and what ours passes on.
_GOOGLES: tuple[tuple[Sentence, Code], ...] = (
    (known_messages.PLUGIN_QUOTA, Code.QUOTA),
    (known_messages.PLUGIN_REFUSED, Code.PERMISSION),
    (known_messages.API_DISABLED, Code.PERMISSION),
    (known_messages.PLUGIN_FORBIDDEN, Code.PERMISSION),
)


def _googles(text: str) -> Code | None:
    """The code for a failure that came without one."""
    if unpaid(text):
        return Code.PERMISSION
    return next((code for sentence, code in _GOOGLES if sentence.search(text)), None)


@dataclass(frozen=True, slots=True)
class CodeOutcome:
    """How a command ends.

    Attributes:
        error: class of the error, which sets the exit code.
        hint: what the error says to do; empty where the provider's text says all; None for the
            command to run again.
    """

    error: type[TpuflexError]
    hint: Advice | str | None = None


_ENDED = Advice.of(TABLE[Condition.ENDED].status.text)
#: How a command ends, by the code of its failure; a `down` of what is :attr:`Code.NOT_GONE` ends
#: with :class:`IncompleteTeardownError`.
OUTCOMES: Mapping[Code, CodeOutcome] = {
    Code.WAITING: CodeOutcome(CapacityError, ""),
    Code.CAPACITY: CodeOutcome(
        CapacityError,
        Advice("The request is kept: run `{up}` again to go on waiting, or `{down}`."),
    ),
    Code.RUN_OVER: CodeOutcome(BootError, "These are keys of tpuflex:slice in the stack file."),
    Code.RUN_ENDED: CodeOutcome(BootError, _ENDED.sentence()),
    Code.NOT_GONE: CodeOutcome(ConflictError),
    Code.PROTECTED: CodeOutcome(ConflictError, ""),
    Code.NOT_SERVING: CodeOutcome(BootError, ""),
    Code.NAME_TAKEN: CodeOutcome(AlreadyExistsError),
    Code.QUOTA: CodeOutcome(QuotaError),
    Code.PERMISSION: CodeOutcome(AccessError),
    Code.STOPPED: CodeOutcome(EngineError, ""),
}


def _again(operation: str) -> Advice:
    if operation == "destroy":
        return Advice("Run `{down}` again once that is fixed.")
    return Advice("Run `{up}` again once that is fixed.")


def _foreign_rules_advice(text: str) -> Advice | None:
    """What to do about a failed ``down`` whose messages are ``text``; None if no firewall rule
    keeps its network.

    Some organisations add rules to every network of every project, some minutes after it was made.
    A rule is of no use without its network, but tpuflex deletes nothing that it has not made.
    """
    found = list(known_messages.NETWORK_IN_USE.finditer(text))
    if not found:
        return None
    rules = dict.fromkeys(match["rule"] for match in found)
    command = gcloud_commands.delete_firewall_rules(found[0]["project"], *rules)
    return Advice(
        "The stack has no such firewall rule: somebody else made it, or an organisation that adds"
        " rules to every network. Run: {command}\nthen `{down}` again.",
        command=command,
    )
