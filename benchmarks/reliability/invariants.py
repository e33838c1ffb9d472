"""What must hold whatever went wrong: pure checks on the record of a run.

======  ==========================================================================
I1      every cloud object of ours is in the state, or was reported as left behind
I2      at most one live queued resource per owner
I3      after a refresh, the state has nothing that the cloud lacks, except for what it marks as
        being deleted, and for a run that is over: that stays in the state after its leftover
        is gone, but never while its slice is alive
I4      a second `up` makes no mutating call
I5      after `down`, nothing of ours is in the cloud
I6      no resource of anybody else was touched
I7      a command that exits with 0 has done its work, and every command ends
I8      the snapshot is valid, and no operation is pending after `recover`
I9      a slice that serves is deleted by `down`, or once one that takes over from it is READY:
        the endpoint is never away, unless the program says so (``delete_first``), or the API
        refuses to say whether it serves, or says that it is not there
I10     a slice that serves is deleted once it has drained, or once it was asked to and its time
        is over, unless the API refuses to ask it
R0      the rig itself: a kill found a process to kill
======  ==========================================================================
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from embedded_cloud.faults.control import FAULTS
from reliability.evidence import (
    DOWN,
    RECOVER,
    REFRESH,
    UP,
    Command,
    Evidence,
    Name,
    Thing,
    Violation,
    is_leaving,
    is_mutating,
    is_over,
    known_to_state,
    pending_operations,
    present_resources,
    snapshot_faults,
    stored_resources,
    things,
    was_done,
)
from tpuflex.queued_resource.snapshot import parse_time

Json = dict[str, Any]

_OVER = frozenset({"SUSPENDING", "SUSPENDED", "FAILED", "DELETING"})
_QUEUED = frozenset({"waiting", "provisioning"})


def without_replaced(found: list[Violation], export: dict[str, Any] | None) -> list[Violation]:
    """``found`` without I2 while the state has what was replaced: the next `up` deletes it."""
    return [each for each in found if each.invariant != "I2" or not is_leaving(export)]


def violations(evidence: Evidence) -> list[Violation]:
    """The violated invariants, in the order of the table above."""
    return [Violation(name, text) for name, check in _CHECKS for text in check(evidence)]


def _i1(evidence: Evidence) -> Iterator[str]:
    for thing in evidence.ours():
        if thing.name not in evidence.reported and not known_to_state(thing, evidence.export):
            yield f"{thing.kind} {thing.name} is in the cloud, but not in the state"


def _i2(evidence: Evidence) -> Iterator[str]:
    racing = any(
        len(resource.get("inputs", {}).get("zones") or ()) > 1
        and (resource.get("outputs") or {}).get("lifecycle") in _QUEUED
        for resource in present_resources(evidence.export)
    )
    live = Counter(
        thing.owner
        for thing in evidence.ours()
        if thing.kind == "queuedResources"
        and thing.state not in _OVER
        and (thing.state == "ACTIVE" or not racing)
    )
    for owner, count in live.items():
        if count > 1:
            yield f"{count} live queued resources of owner {owner}"


def _i3(evidence: Evidence) -> Iterator[str]:
    if not evidence.last.succeeded(REFRESH + RECOVER):
        return
    there = things(evidence.inventory)
    for resource in present_resources(evidence.export):
        if not Thing.can_be(resource) or resource.get("delete"):
            continue
        found = [thing for thing in there if thing.is_resource(resource)]
        if is_over(resource):
            for thing in found:
                if thing.state not in _OVER:
                    yield f"{resource['id']} is {thing.state}, but the state says that it is over"
        leaving = (resource.get("outputs") or {}).get("lifecycle") == "deleting"
        found += [thing for thing in there if thing.is_node_of(resource)]  # left, and billed
        if not found and not leaving and not is_over(resource, without_leftover=True):
            yield f"{resource['id']} is in the state, but not in the cloud"


def _i4(evidence: Evidence) -> Iterator[str]:
    for before, again in zip(evidence.commands, evidence.commands[1:], strict=False):
        if not (before.succeeded(UP) and again.succeeded(UP)):
            continue
        for call in evidence.history:
            if again.first_seq < call["seq"] <= again.last_seq and is_mutating(call):
                yield f"a second `up` sent {call['method']} {call['path']}"


def _i5(evidence: Evidence) -> Iterator[str]:
    if not evidence.last.succeeded(DOWN):
        return
    for thing in evidence.ours():
        yield f"{thing.kind} {thing.name} is left after `{evidence.last.name}`"
    for resource in stored_resources(evidence.export):
        if resource.get("custom") and not resource["type"].startswith("pulumi:"):
            yield f"{resource['urn']} is left in the state after `{evidence.last.name}`"


def _i6(evidence: Evidence) -> Iterator[str]:
    now = {thing.name: thing for thing in things(evidence.inventory)}
    for before in things(evidence.foreign):
        after = now.get(before.name)
        if after is None:
            yield f"{before.kind} {before.name}, which is not ours, is gone"
        elif (after.labels, after.description) != (before.labels, before.description):
            yield f"{before.kind} {before.name}, which is not ours, was changed"
        for call in evidence.history:
            during = any(c.first_seq < call["seq"] <= c.last_seq for c in evidence.commands)
            if during and is_mutating(call) and was_done(call) and before.is_in(call["path"]):
                yield f"{call['method']} {call['path']} touched what is not ours"


def _i7(evidence: Evidence) -> Iterator[str]:
    for command in evidence.commands:
        if command.exit_code is None:
            yield f"`{command.name}` did not end"
    if not evidence.last.succeeded(UP):
        return
    mine = evidence.ours()
    for owner in evidence.owners:
        active = [
            thing
            for thing in mine
            if thing.owner == owner and thing.kind == "queuedResources" and thing.state == "ACTIVE"
        ]
        nodes = [thing for thing in mine if thing.kind == "nodes" and thing.state == "READY"]
        if not active:
            yield f"`up` ended with 0, but owner {owner} has no ACTIVE queued resource"
        elif not any(node.node_of(active[0]) for node in nodes):
            yield f"`up` ended with 0, but {active[0].name} has no READY node"


def _i8(evidence: Evidence) -> Iterator[str]:
    if evidence.export is None:
        return
    yield from snapshot_faults(evidence.export)
    if evidence.last.succeeded(RECOVER + UP + DOWN):
        for operation in pending_operations(evidence.export):
            urn = operation["resource"]["urn"]
            yield f"{operation['type']} of {urn} is pending after `{evidence.last.name}`"


def _r0(evidence: Evidence) -> Iterator[str]:
    for strike in evidence.strikes:
        if strike["effect"] == "kill" and not strike["processes"]:
            yield f"the kill point {strike['rule']} at {strike['method_id']} found nobody to kill"


# -- how slices that serve end -------------------------------------------------------------------

#: Calls that tell whether a slice serves, and those by which it is asked to drain.
_SEEN = ("queuedResources.get", "nodes.get", "nodes.list", "nodes.getGuestAttributes")
_ASKED = ("nodes.patch", *_SEEN)
#: Faults that do not pass, and the one by which the API says repeatedly that there is nothing.
_REFUSALS = {name for name, fault in FAULTS.items() if not fault.passes or fault.times > 1}
#: Seconds by which the clocks of cloud and provider may differ.
_CLOCKS_S = 5.0


@dataclass(frozen=True, slots=True)
class _Ending:
    """One of our commands has deleted a slice that served."""

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


_CHECKS: tuple[tuple[Name, Callable[[Evidence], Iterator[str]]], ...] = (
    ("I1", _i1),
    ("I2", _i2),
    ("I3", _i3),
    ("I4", _i4),
    ("I5", _i5),
    ("I6", _i6),
    ("I7", _i7),
    ("I8", _i8),
    ("I9", away),
    ("I10", cut_off),
    ("R0", _r0),
)
