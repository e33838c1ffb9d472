"""Watches one request, poll by poll, until it is ACTIVE or clearly never will be."""

from __future__ import annotations

from dataclasses import dataclass, field

from tpuflex.codes import Code
from tpuflex.errors import (
    AccessError,
    ApiError,
    NotFoundError,
    QuotaError,
    TpuflexError,
)
from tpuflex.provider.call import POLL_BUDGET, Call, Deadlines, UnreadyError, elapsed, pause_for
from tpuflex.queued_resource.causes import FAILURE_CODES, Cause, classify, explained, remedy
from tpuflex.queued_resource.model import Operation, Status
from tpuflex.queued_resource.name import RequestName
from tpuflex.queued_resource.outcomes import TABLE, Condition
from tpuflex.queued_resource.snapshot import NO_REASON, Snapshot
from tpuflex.queued_resource.states import Lifecycle, is_settled

#: For this long after the request was accepted, a 404 means "not yet" (eventual consistency).
_NOT_YET = 60.0
#: How many refusals in a row, over how long, mean that the permission is missing rather than
#: still being propagated (IAM changes take minutes).
_REFUSALS = 3
_REFUSED_FOR = 300.0
#: Seconds between polls that are refused.
_REFUSED_PAUSE = 10.0
_NOT_LISTED = "sent; not listed yet"
GO_ON = TABLE[Condition.WAITING].up.text


@dataclass
class Watch:
    """One request that is waited for, and its state so far.

    Attributes:
        call: the engine call.
        name: the queued resource.
        operation: name of its create operation while that may still report something.
        seen: the last look.
        granted: when it was first seen to have left the queue, on the monotonic clock.
        failure: how the create operation failed, if it did.
        listed: whether it was ever seen.
        unanswered_since: since when the API has not answered, on the monotonic clock.
    """

    call: Call
    name: RequestName
    operation: str = ""
    seen: Snapshot = field(init=False)
    started: float = field(init=False)
    granted: float | None = None
    failure: Status | None = None
    refusals: int = 0
    refused_since: float = 0.0
    missing_since: float | None = None
    not_before: float = 0.0
    listed: bool = False
    unanswered_since: float | None = None

    def __post_init__(self) -> None:
        self.seen = Snapshot(self.name)
        self.started = self.call.timing.monotonic()

    @classmethod
    def placed(cls, call: Call, name: RequestName, operation: Operation | None) -> Watch:
        """Watch what was just placed, or adopted if there is no ``operation``."""
        return cls(call, name, operation.name if operation is not None else "")

    @property
    def active(self) -> bool:
        """Whether the hosts run."""
        return self.seen.lifecycle is Lifecycle.ACTIVE

    @property
    def age(self) -> float:
        """Seconds since this call began to wait for it."""
        return self.call.timing.monotonic() - self.started

    def poll(self) -> None:
        """Look once. An API that does not answer never ends the wait.

        Raises:
            UnreadyError: it exists, or may exist, and will not become active; says why.
            AccessError, QuotaError, ApiError: it was rejected and does not exist.
            InterruptedByUser: the engine cancelled.
        """
        if self.call.timing.monotonic() < self.not_before:
            return
        # While polls are frequent, a request is retried within the poll; later the next poll is the
        # retry, so that an API that is down for hours is not called more often than a healthy one.
        budget = POLL_BUDGET if pause_for(self.age, 0.5) < POLL_BUDGET else 0.0
        try:
            if self.operation:
                self.failure = self._operation_failure(budget)
            self.seen = self.call.look(self.name, budget=budget)
        except AccessError as error:
            self._refused(error)
        except ApiError as error:
            self._unanswered(error)
        else:
            self.refusals = 0
            self.unanswered_since = None
            self._judge()

    def overdue(self, deadlines: Deadlines, began: float) -> str:
        """Which deadline has passed, as ``24h in the queue``; empty while there is time left.

        Args:
            deadlines: how long each part may take.
            began: when the wait in the queue began, in any zone.
        """
        if self.left(deadlines, began) > 0:
            return ""
        now = self.call.timing.monotonic()
        if self.granted is None:
            return f"{elapsed(now - began)} in the queue"
        return f"{elapsed(now - self.granted)} in PROVISIONING"

    def left(self, deadlines: Deadlines, began: float) -> float:
        """Seconds until its next deadline."""
        now = self.call.timing.monotonic()
        if self.granted is None:
            return began + deadlines.queue - now
        return self.granted + deadlines.provisioning - now

    def silence(self) -> float:
        """Seconds for which the API has not answered; 0 if it answered the last poll."""
        since = self.unanswered_since
        return 0.0 if since is None else self.call.timing.monotonic() - since

    def describe(self) -> str:
        """The last state, in plain words."""
        if self.seen.queued_resource is not None:
            return self.seen.describe()
        return "it cannot be found any more; looking again" if self.listed else _NOT_LISTED

    def _refused(self, error: AccessError) -> None:
        now = self.call.timing.monotonic()
        if not self.refusals:
            self.refused_since = now
        self.refusals += 1
        if self.refusals >= _REFUSALS and now - self.refused_since >= _REFUSED_FOR:
            raise UnreadyError(
                error.message, snapshot=self.seen, hint=error.hint, code=error.code
            ) from error
        self.not_before = now + _REFUSED_PAUSE
        if self.refusals == 1:
            text = f"refused: {error.message}; asking again for {elapsed(_REFUSED_FOR)}"
            self.call.report(text, passing=True)

    def _unanswered(self, error: ApiError) -> None:
        """Report it once; from then on the signs of life say for how long."""
        now = self.call.timing.monotonic()
        self.not_before = now + error.retry_after
        if self.unanswered_since is None:
            self.unanswered_since = now
            self.call.report(
                f"no answer about {self.name} ({error.message}); asking again", passing=True
            )

    def _operation_failure(self, budget: float) -> Status | None:
        """How the create operation failed; None if it did not, is not over, or was forgotten."""
        found = self.call.client.get_operation(self.operation, budget=budget)
        if found is not None and not found.done:
            return None
        self.operation = ""  # the queued resource says the rest
        return found.error if found is not None else None

    def _judge(self) -> None:
        seen = self.seen
        if self.failure is not None:
            self._raise_rejected(self.failure)
        if seen.queued_resource is None:
            self._raise_if_missing()
            return
        self.missing_since, self.listed = None, True
        where = seen.lifecycle
        if where is Lifecycle.WAITING:
            self.granted = None
        elif self.granted is None:
            self.granted = self.call.timing.monotonic()
        self._raise_if_settled()

    def _raise_rejected(self, failure: Status) -> None:
        if self.seen.gone:
            raise rejection(self.name, failure)
        if not is_settled(self.seen.state):
            cause = classify(failure.code, failure.message)
            raise self._unready(f"{self.name} was rejected", failure, cause)

    def _raise_if_settled(self) -> None:
        seen = self.seen
        if seen.state == "FAILED":
            failure = seen.failure or NO_REASON
            raise self._unready(f"{self.name} FAILED", failure, seen.cause)
        if seen.state == "SUSPENDED" and seen.lifecycle is Lifecycle.ENDED:
            raise UnreadyError(
                f"the run of {self.name} is over (SUSPENDED); its hosts are gone",
                snapshot=seen,
                code=Code.RUN_ENDED,
                hint="For a new run: change `rerun`, or `pulumi destroy` and `pulumi up`.",
            )
        if seen.state == "DELETING":
            raise UnreadyError(
                f"{self.name} is being deleted by someone else",
                snapshot=seen,
                hint=f"Run `pulumi up` again: it {TABLE[Condition.DELETING].up.text}.",
            )
        if seen.lifecycle is Lifecycle.LOST:
            trouble = seen.nodes.trouble() if seen.nodes.several else "its node is gone"
            raise UnreadyError(
                f"{self.name} is {seen.state} but {trouble}",
                snapshot=seen,
                hint="Run `pulumi up` again: it replaces it.",
            )

    def _raise_if_missing(self) -> None:
        now = self.call.timing.monotonic()
        if self.missing_since is None:
            self.missing_since = now
        if now - self.missing_since > _NOT_YET:
            raise UnreadyError(
                f"{self.name} was requested, but cannot be found",
                snapshot=self.seen,
                hint="Someone may have deleted it. Run `pulumi up` again.",
            )

    def _unready(self, what: str, failure: Status, cause: Cause) -> UnreadyError:
        hint = remedy(cause, failure.message, project=self.name.project)
        gap = "\n" if "\n" in hint else " "
        return UnreadyError(
            f"{what}: {explained(failure.message, cause)}",
            snapshot=self.seen,
            code=FAILURE_CODES.get(cause),
            hint=f"{hint}{gap}`pulumi up` replaces it, `pulumi destroy` removes it.",
        )


def rejection(name: RequestName, failure: Status) -> TpuflexError:
    """The error for a request that was rejected and does not exist."""
    cause = classify(failure.code, failure.message)
    message = f"{name} was rejected (code {failure.code}): {failure.message}"
    hint = remedy(cause, message, project=name.project)
    if cause is Cause.QUOTA:
        return QuotaError(message, hint=hint, code=Code.QUOTA)
    if FAILURE_CODES.get(cause) is Code.PERMISSION:
        return AccessError(message, hint=hint, code=Code.PERMISSION)
    if failure.code == 5:
        return NotFoundError(message)
    return ApiError(message, hint=hint)
