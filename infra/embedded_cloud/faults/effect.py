"""What a fault does: one class per effect, in the form of the control API."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

#: Answers are held back for at most this long, in seconds of real time.
LONGEST_HOLD_S = 120.0

_Hold = Annotated[float, Field(ge=0, le=LONGEST_HOLD_S)]
_Header = Annotated[str, Field(pattern=r"^[A-Za-z0-9-]+$")]


class Model(BaseModel):
    """Strict and frozen: unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class Answer(Model):
    """An error answer in Google's shape."""

    kind: Literal["answer"] = "answer"
    status: int = Field(ge=200, le=599)
    """HTTP status code."""
    code: str = ""
    """Canonical code such as UNAVAILABLE; by default what belongs to the status."""
    message: str = ""
    """Google's text; one that says that it is injected, by default."""
    reason: str = ""
    """Machine-readable reason in `errors`, such as rateLimitExceeded."""
    retry_after_s: float | None = Field(default=None, ge=0)
    """Adds the header Retry-After."""
    retry_after_date: bool = False
    """Retry-After as an HTTP date (by the embedded cloud's clock) instead of seconds."""
    headers: dict[_Header, str] = {}
    """Further headers."""


class Reset(Model):
    """The connection is reset without an answer."""

    kind: Literal["reset"] = "reset"


class Timeout(Model):
    """No answer until the client gives up; then the connection is reset."""

    kind: Literal["timeout"] = "timeout"
    hold_s: _Hold = 60.0
    """Seconds of real time after which the connection is reset, should the client still wait."""


class Truncated(Model):
    """Half of the body, then the connection is closed."""

    kind: Literal["truncated"] = "truncated"


class Html(Model):
    """A login page with status 200, as captive portals and proxies answer."""

    kind: Literal["html"] = "html"
    status: int = Field(default=200, ge=200, le=599)


class Empty(Model):
    """Status 200 and no body."""

    kind: Literal["empty"] = "empty"


class Delay(Model):
    """The call succeeds, only later."""

    kind: Literal["delay"] = "delay"
    seconds: float = Field(ge=0)
    """On the embedded cloud's clock."""


class OperationError(Model):
    """The operation that the call begins, or asks about, is done and has failed.

    Before the commit of a call that begins an operation nothing is done, the answer is an
    operation under way, and the operation fails when it is asked about. After the commit the
    work is done, and the operation says otherwise.
    """

    kind: Literal["operation-error"] = "operation-error"
    code: int = Field(ge=1, le=16)
    """google.rpc code, such as 3, 8, 9 or 13."""
    message: str = "injected failure"
    reason: str = ""
    """Compute Engine's own code, such as ZONE_RESOURCE_POOL_EXHAUSTED; by default the canonical
    one."""


class Signal(StrEnum):
    """Signals that a kill point may send."""

    KILL = "KILL"
    TERM = "TERM"
    INT = "INT"
    STOP = "STOP"


class Kill(Model):
    """A signal to processes of the client, at this very point of the call."""

    kind: Literal["kill"] = "kill"
    roles: tuple[str, ...] = Field(min_length=1)
    """Who: `cli`, `engine`, `provider`, or another registered role; `family` is all of them; `gcp`
    is the embedded cloud's stand-in for the gcp provider."""
    signal: Signal = Signal.KILL
    then: Literal["reset", "proceed"] | None = None
    """What happens to the call: its connection is reset, or it proceeds. By default a call proceeds
    unless the signal is KILL."""
    hold_s: _Hold | None = None
    """Seconds of real time to wait for them to end; by default 10 for KILL, else none."""
    resume_after_s: float | None = Field(default=None, ge=0)
    """For STOP: they continue (SIGCONT) after these seconds of the embedded cloud's clock."""

    @property
    def breaks_off(self) -> bool:
        """Whether the call ends without an answer."""
        return self.then == "reset" or (self.then is None and self.signal is Signal.KILL)

    @property
    def waits_s(self) -> float:
        """How long the answer is held until the processes are dead."""
        if self.hold_s is not None:
            return self.hold_s
        return 10.0 if self.signal is Signal.KILL else 0.0


Effect: TypeAlias = Annotated[
    Answer | Reset | Timeout | Truncated | Html | Empty | Delay | OperationError | Kill,
    Field(discriminator="kind"),
]
