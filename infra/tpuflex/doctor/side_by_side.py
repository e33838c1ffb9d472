"""Examinations that run side by side, within a bound: one that does not end is unknown."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass

from tpuflex.doctor.check import Check, Group, Subject
from tpuflex.google.reading import Unread, attempt

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

    Each has a thread of its own that dies with the process: an endpoint that does not answer, or
    a gcloud that hangs, must keep nobody waiting.

    Args:
        examinations: what to examine.
        patience: seconds for all of them together.
    """
    give_up = time.monotonic() + patience
    begun = [(each, _begin(each)) for each in examinations]
    checks: list[tuple[Check, ...]] = []
    for each, outcome in begun:
        wait([outcome], timeout=max(0.0, give_up - time.monotonic()))
        found = outcome.result() if outcome.done() else [_endless(each, patience)]
        checks.append(tuple(found))
    return tuple(checks)


def _begin(examination: Examination) -> Future[Sequence[Check]]:
    outcome: Future[Sequence[Check]] = Future()

    def run() -> None:
        try:
            found = attempt(examination.examine)
        except BaseException as error:  # a bug: raised where the result is taken
            outcome.set_exception(error)
            return
        subject = Subject(examination.group, examination.name)
        outcome.set_result([subject.unknown(found)] if isinstance(found, Unread) else found)

    threading.Thread(target=run, daemon=True, name=f"doctor: {examination.name}").start()
    return outcome


def _endless(examination: Examination, patience: float) -> Check:
    why = f"no answer within {patience:g} s"
    return Subject(examination.group, examination.name).unknown(
        Unread(why, "Run it again; if it stays so, look at the network and its proxy.")
    )
