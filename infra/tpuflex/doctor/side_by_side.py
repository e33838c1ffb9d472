"""Examinations that run side by side, within a bound: one that does not end is unknown."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import TypeVar

from tpuflex.doctor.check import Check, Group, Subject
from tpuflex.errors import ApiError
from tpuflex.google.reading import Unread, attempt

T = TypeVar("T")
#: Seconds of this machine's time for all examinations together.
PATIENCE = 20.0
#: Names of the examinations that `up` asks for before anything is created: what is wrong there is
#: found out late otherwise, when much is made already or chips are running.
DECISIVE = ("billing", "permissions", "account", "key", "policies", "offers", "quota", "image")


@dataclass(frozen=True, slots=True)
class Examination:
    """One examination, which gives one check or several.

    Attributes:
        group: the group of its checks.
        name: what is examined, said where it does not end.
        examine: reads, and says how it stands.
    """

    group: Group
    name: str
    examine: Callable[[], Sequence[Check]]

    @property
    def decisive(self) -> bool:
        """Whether `up` asks for it before anything is created."""
        return self.name in DECISIVE


def examine_all(
    examinations: Sequence[Examination], *, patience: float = PATIENCE
) -> tuple[tuple[Check, ...], ...]:
    """The checks of each of ``examinations``.

    Args:
        examinations: what to examine.
        patience: seconds for all of them together.
    """
    found = read_all([(each.name, each.examine) for each in examinations], patience=patience)
    return tuple(
        (Subject(each.group, each.name).unknown(checks),)
        if isinstance(checks, Unread)
        else tuple(checks)
        for each, checks in zip(examinations, found, strict=True)
    )


def read_all(
    reads: Sequence[tuple[str, Callable[[], T]]], *, patience: float = PATIENCE
) -> tuple[T | Unread, ...]:
    """What each of ``reads`` returns, or why it could not be read.

    Each has a thread of its own that dies with the process: an endpoint that does not answer, or
    a gcloud that hangs, must keep nobody waiting.

    Args:
        reads: names, and what does the reading.
        patience: seconds for all of them together.
    """
    give_up = time.monotonic() + patience
    outcomes = [_begin(name, read) for name, read in reads]
    for outcome in outcomes:
        wait([outcome], timeout=max(0.0, give_up - time.monotonic()))
    return tuple(outcome.result() if outcome.done() else _endless(patience) for outcome in outcomes)


def _begin(name: str, read: Callable[[], T]) -> Future[T | Unread]:
    outcome: Future[T | Unread] = Future()

    def run() -> None:
        try:
            outcome.set_result(attempt(read))
        except BaseException as error:  # a bug: raised where the result is taken
            outcome.set_exception(error)

    threading.Thread(target=run, daemon=True, name=f"doctor: {name}").start()
    return outcome


def _endless(patience: float) -> Unread:
    why = f"no answer within {patience:g} s"
    remedy = "Run it again; if it stays so, look at the network and its proxy."
    return Unread(why, remedy, error=ApiError(why, hint=remedy))
