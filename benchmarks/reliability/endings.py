"""How slices that serve end: checks of the deletions in the record of a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from embedded_cloud.faults.control import FAULTS
from reliability.evidence import DOWN, UP, Command, Evidence
from reliability.snapshot import stored_resources
from reliability.traces import was_done
from tpuflex.request.snapshot import parse_time

Json = dict[str, Any]

#: Calls that tell whether a slice serves, and those by which it is asked to drain.
_SEEN = ("queuedResources.get", "nodes.get", "nodes.list", "nodes.getGuestAttributes")
_ASKED = ("nodes.patch", *_SEEN)
#: Faults that do not pass, and the one by which the API says repeatedly that there is nothing.
_REFUSALS = {name for name, fault in FAULTS.items() if not fault.passes or fault.times > 1}
#: Seconds by which the clocks of cloud and provider may differ.
_CLOCKS_S = 5.0


@dataclass(frozen=True, slots=True)
class _Ending:
    """One of our commands has deleted a slice that served.

    Attributes:
        command: the command.
        now: when that was, by the cloud's clock.
        slices: it as it was just before, once for each of its nodes.
        others: the other slices that served then.
    """

    command: Command
    now: float
    slices: Sequence[Json]
    others: Sequence[Json]

    @property
    def request(self) -> str:
        """Its name."""
        return str(self.slices[0]["request"])

    @property
    def taken_over(self) -> bool:
        """Whether another one served in its place."""
        owner = self.slices[0]["owner"]
        return any(other["owner"] == owner and not other["asked"] for other in self.others)

    @property
    def late(self) -> bool:
        """Whether it came to serve when what replaces it was there already."""
        return all(each["late"] for each in self.slices)

    def cut_off(self) -> str:
        """How requests of it were cut off; empty if they were not."""
        for each in self.slices:
            until = parse_time(each["asked"])
            over = until is not None and until.timestamp() <= self.now + _CLOCKS_S
            if not each["drained"] and not over:
                return f"asked to drain until {each['asked']}" if each["asked"] else "not asked"
        return ""

    def refused(self, evidence: Evidence, methods: tuple[str, ...]) -> bool:
        """Whether one of ``methods`` was refused during the command, or did not find what is
        there several times in a row."""
        return any(
            _during(self.command, strike)
            and strike["method_id"].endswith(methods)
            and strike["rule"].rpartition(".")[2] in _REFUSALS
            for strike in evidence.strikes
        )


def away(evidence: Evidence) -> Iterator[str]:
    """I9."""
    inputs = [resource.get("inputs") or {} for resource in stored_resources(evidence.export)]
    if any(each.get("replace") == "delete_first" for each in inputs):
        return
    for ending in _endings(evidence):
        due = _is_down(evidence, ending.command) or ending.taken_over or ending.late
        if not due and not ending.refused(evidence, _SEEN):
            yield f"`{ending.command.name}` deleted {ending.request}, which served: none does now"


def cut_off(evidence: Evidence) -> Iterator[str]:
    """I10."""
    for ending in _endings(evidence):
        how = ending.cut_off()
        if how and not ending.refused(evidence, _ASKED):
            yield f"`{ending.command.name}` deleted {ending.request}, which served, {how}"


def _endings(evidence: Evidence) -> Iterator[_Ending]:
    for deletion in evidence.deletions:
        call = _call_of(deletion, evidence.history)
        slices = [s for s in deletion["serving"] if s["request"] == deletion["request"]]
        others = [s for s in deletion["serving"] if s["request"] != deletion["request"]]
        for command in evidence.commands:
            if call is not None and slices and _during(command, call):
                yield _Ending(command, deletion["now"], slices, others)


def _is_down(evidence: Evidence, command: Command) -> bool:
    """Whether ``command`` is a `down`, or a `recover` after one: the provider of a `down` that was
    killed may live on, and goes on."""
    so_far = evidence.commands[: evidence.commands.index(command) + 1]
    names = [each.name for each in so_far if each.name in UP + DOWN]
    return bool(names) and names[-1] in DOWN


def _call_of(deletion: Json, history: Sequence[Json]) -> Json | None:
    """The call before which a deletion was noted, if it took effect."""
    named = (
        call
        for call in history
        if call["seq"] > deletion["seq"]
        and call["method"] == "DELETE"
        and call["path"].endswith(deletion["request"])
    )
    found = next(named, None)
    return found if found is not None and was_done(found) else None


def _during(command: Command, line: Json) -> bool:
    return bool(command.first_seq < line["seq"] <= command.last_seq)
