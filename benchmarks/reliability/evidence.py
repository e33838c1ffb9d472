"""The record of a run, which :mod:`reliability.invariants` judges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from reliability.traces import Thing, ours, things

Json = dict[str, Any]
Name = Literal["I1", "I2", "I3", "I4", "I5", "I6", "I7", "I8", "I9", "I10", "R0"]

#: Commands that bring up, refresh, recover and remove a stack: ours, and Pulumi's where it differs.
UP, REFRESH, RECOVER, DOWN = ("up",), ("refresh",), ("recover",), ("down", "destroy")


@dataclass(frozen=True, slots=True)
class Command:
    """One command of a run.

    Attributes:
        name: its first word; ``event`` for what happened between commands.
        exit_code: negative for a signal, None if it did not end by itself.
        first_seq: the history's last line before it.
        last_seq: the history's last line after it.
        seconds: how long it took, in real time.
    """

    name: str
    exit_code: int | None
    first_seq: int = 0
    last_seq: int = 0
    seconds: float = 0.0

    def succeeded(self, kind: tuple[str, ...]) -> bool:
        """Whether it is one of ``kind`` and exited with 0."""
        return self.name in kind and self.exit_code == 0


@dataclass(frozen=True, slots=True)
class Evidence:
    """The record of a run.

    Attributes:
        history: calls as the control API returns them.
        strikes: the ``fault`` events of the history.
        deletions: its events of :data:`reliability.serving_hosts.DELETION`.
        inventory: what exists in the cloud at the end: service -> kind -> resources.
        export: ``pulumi stack export`` at the end; None if there is no stack.
        commands: the commands, in order.
        owners: owner label -> prefix of the names of that owner's resources.
        foreign: the inventory of somebody else's resources, taken before the run.
        reported: names that were reported as left behind.
        must_strike: whether a run without a strike is a failure of the rig.
    """

    history: Sequence[Json]
    inventory: Mapping[str, Mapping[str, Sequence[Json]]]
    export: Json | None
    commands: Sequence[Command]
    owners: Mapping[str, str]
    strikes: Sequence[Json] = ()
    deletions: Sequence[Json] = ()
    foreign: Mapping[str, Mapping[str, Sequence[Json]]] = field(default_factory=dict)
    reported: frozenset[str] = frozenset()
    must_strike: bool = False

    @property
    def last(self) -> Command:
        """The last command, or an empty one if there is none."""
        ran = [command for command in self.commands if command.name != "event"]
        return ran[-1] if ran else Command("", 0)

    def ours(self) -> list[Thing]:
        """Our resources in the cloud."""
        theirs = {thing.name for thing in things(self.foreign)}
        return [
            thing
            for thing in things(self.inventory)
            if thing.name not in theirs and ours(thing, self.owners)
        ]


@dataclass(frozen=True, slots=True)
class Violation:
    """One invariant that does not hold.

    Attributes:
        invariant: its key, such as ``I1``.
        text: what violates it.
    """

    invariant: Name
    text: str

    def __str__(self) -> str:
        return f"{self.invariant}: {self.text}"
