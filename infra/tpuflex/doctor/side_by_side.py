"""Examinations that run side by side, within a bound: one that does not end is unknown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tpuflex.doctor.check import Check, Group, Subject
from tpuflex.google.reading import PATIENCE, Unread, read_all

#: Names of the examinations that `up` asks for before anything is created: what is wrong there is
#: found out late otherwise, when much is made already or chips are running.
DECISIVE = (
    *("billing", "permissions", "account", "key", "channels"),
    *("policies", "offers", "quota", "image"),
)


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
