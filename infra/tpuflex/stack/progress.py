"""The two callbacks of a service function: one receives its progress, one is asked for consent.

A line of progress is plain text, so ``print`` can be the callback, and a function that reports
only lines (``Callable[[str], None]``) can be given the same one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tpuflex.engine import events
from tpuflex.errors import InterruptedByUser
from tpuflex.host.report import HostReport


@dataclass(frozen=True, slots=True)
class TransferBegan:
    """A transfer of ``what`` begins."""

    what: str

    def __str__(self) -> str:
        return f"{self.what} …"


@dataclass(frozen=True, slots=True)
class Transfer:
    """How far a transfer is.

    Attributes:
        what: what is transferred, as in ``pushing  weights``.
        done: bytes so far.
        total: bytes in all.
    """

    what: str
    done: int
    total: int

    def __str__(self) -> str:
        return f"{self.what}: {self.done / 1e6:.1f} of {self.total / 1e6:.1f} MB"


@dataclass(frozen=True, slots=True)
class TransferEnded:
    """The transfer of ``what`` is over, also if it failed."""

    what: str

    def __str__(self) -> str:
        return f"{self.what}: ended"


@dataclass(frozen=True, slots=True)
class WorkBegan:
    """Something begins that takes seconds and tells nothing meanwhile, such as ``Planning``."""

    what: str

    def __str__(self) -> str:
        return f"{self.what} …"


@dataclass(frozen=True, slots=True)
class WorkEnded:
    """What began last is over, also if it failed."""

    what: str

    def __str__(self) -> str:
        return f"{self.what}: ended"


@dataclass(frozen=True, slots=True)
class EngineBegan:
    """The engine begins to change a stack; its events follow.

    Attributes:
        total: how many resources it works on; 0 if that is not known.
        stopped: whether the user has asked it to stop.
    """

    total: int
    stopped: Callable[[], bool]

    def __str__(self) -> str:
        return "The engine begins."


@dataclass(frozen=True, slots=True)
class EngineEnded:
    """The engine is through, also if it failed."""

    def __str__(self) -> str:
        return "The engine has ended."


@dataclass(frozen=True, slots=True)
class BootBegan:
    """The wait for a host's boot begins."""

    def __str__(self) -> str:
        return "Waiting for the host …"


@dataclass(frozen=True, slots=True)
class BootReported:
    """What the host says of itself has changed."""

    report: HostReport

    def __str__(self) -> str:
        return f"The host: {self.report.phase} {self.report.detail}".rstrip()


@dataclass(frozen=True, slots=True)
class BootUnread:
    """The host's report cannot be read, and is asked for again."""

    why: str

    def __str__(self) -> str:
        return f"The host's report cannot be read, asking again: {self.why}"


@dataclass(frozen=True, slots=True)
class BootGoesOn:
    """The host was asked again, and boots still."""

    def __str__(self) -> str:
        return "The host boots still."


@dataclass(frozen=True, slots=True)
class BootEnded:
    """The wait for a host's boot is over, also if it failed."""

    def __str__(self) -> str:
        return "The wait for the host has ended."


Progress = (
    str
    | TransferBegan
    | Transfer
    | TransferEnded
    | WorkBegan
    | WorkEnded
    | EngineBegan
    | events.RunProgress
    | EngineEnded
    | BootBegan
    | BootReported
    | BootUnread
    | BootGoesOn
    | BootEnded
)
#: Takes what a function tells while it works.
Report = Callable[[Progress], None]


def silent(_progress: object) -> None:
    """A :data:`Report` for callers that want to hear nothing."""


@contextmanager
def working(report: Report, what: str) -> Iterator[None]:
    """While inside, ``what`` is done, and nothing else may be told but lines."""
    report(WorkBegan(what))
    try:
        yield
    finally:
        report(WorkEnded(what))


@contextmanager
def transfer(report: Report, what: str) -> Iterator[Callable[[int, int], None]]:
    """While inside, a transfer is under way.

    Yields a function that takes the bytes done and the bytes in total.
    """
    report(TransferBegan(what))
    try:
        yield lambda done, total: report(Transfer(what, done, total))
    finally:
        report(TransferEnded(what))


@dataclass(frozen=True, slots=True)
class Question:
    """What a function asks before it goes on.

    Attributes:
        text: the question.
        expected: what has to be typed for a yes, such as the stack's name; empty for a mere yes.
    """

    text: str
    expected: str = ""

    def __str__(self) -> str:
        return self.text


#: Answers a question: True to go ahead.
Consent = Callable[[Question], bool]


def agree(_question: Question) -> bool:
    """A :data:`Consent` that goes ahead, as ``--yes`` does: at once, so what was looked at before
    need not be looked at again."""
    return True


def require_consent(consent: Consent, text: str, *, expected: str = "") -> None:
    """Go on only if ``consent`` says so.

    Raises:
        InterruptedByUser: it does not.
    """
    if not consent(Question(text, expected)):
        reason = f"the answer was not {expected!r}" if expected else "you did not agree"
        raise InterruptedByUser(f"Nothing was done: {reason}.")


def require_name(consent: Consent, what: str, name: str) -> None:
    """Go on only if ``name`` is typed, which is ``what``, such as ``stack's name``; raises as
    :func:`require_consent`."""
    require_consent(consent, f"Type the {what} ({name}) to go ahead", expected=name)
