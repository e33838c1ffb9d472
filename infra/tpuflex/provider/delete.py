"""Deletion: complete only when the queued resource and all of its nodes are gone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tpuflex.advice import Advice
from tpuflex.codes import Code
from tpuflex.errors import (
    AccessError,
    ApiError,
    ConflictError,
    InterruptedByUser,
    NotFoundError,
)
from tpuflex.provider.call import HEARTBEAT, POLL_BUDGET, Call, elapsed, pause_for
from tpuflex.provider.drain import Drain
from tpuflex.queued_resource.model import Node
from tpuflex.queued_resource.name import Nodes, RequestName
from tpuflex.queued_resource.outcomes import STUCK, TABLE, Condition
from tpuflex.queued_resource.ownership import NO_RECORDS, Records
from tpuflex.queued_resource.snapshot import Snapshot


@dataclass
class Orphans:
    """The deletion of nodes whose queued resource is gone: one by one, because nothing groups them
    any more.

    Attributes:
        call: the engine call.
        name: the queued resource that is gone.
        operations: our delete operations by node id; empty once one has ended.
    """

    call: Call
    name: RequestName
    operations: dict[str, str] = field(default_factory=dict)

    def left(self, nodes: Iterable[Node]) -> list[Node]:
        """Those of ``nodes`` whose deletion is not under way."""
        return [node for node in nodes if node.state != "DELETING" and not self._running(node.id)]

    def delete(self, nodes: Iterable[Node]) -> None:
        """Request the deletion of all that are left; a refusal does not stop the rest."""
        failures = list[AccessError | ApiError]()
        for node in nodes:
            if node.state == "DELETING" or self.operations.get(node.id):
                continue
            try:
                answer = self.call.client.delete_node(self.name.node(node.id))
            except NotFoundError:
                continue
            except (AccessError, ApiError) as error:
                failures.append(error)
            else:
                self.operations[node.id] = answer.name
        if failures:
            raise failures[0]

    def _running(self, id_: str) -> bool:
        """Whether our delete operation of the node is still running; it counts as running while
        Google does not answer, and as ended once Google has forgotten it."""
        operation = self.operations.get(id_)
        if not operation:
            return False
        try:
            found = self.call.client.get_operation(operation, budget=POLL_BUDGET)
        except ApiError:
            return True
        if found is not None and not found.done:
            return True
        self.operations[id_] = ""
        return False


def orphaned(nodes: Nodes) -> str:
    """The state of the nodes, in words: ``its node is DELETING``."""
    if nodes.several:
        return nodes.left_over()
    return f"its node is {nodes.first.state if nodes.first is not None else ''}"


_REFUSALS = 3


@dataclass
class Removal:
    """One deletion and its progress, driven step by step so that several can run side by side.

    Attributes:
        call: the engine call.
        name: the queued resource.
        labels: labels that identify the owner; what carries another owner is left alone.
        deadline: on the monotonic clock.
        created: `createTime` of the request to delete, if known.
        where: prefix of its progress lines, where there are several.
        records: the requests that the state has a record of.
        drain: what its hosts end before; None where they are not asked.
    """

    call: Call
    name: RequestName
    labels: dict[str, str]
    deadline: float
    created: str = ""
    where: str = ""
    records: Records = NO_RECORDS
    drain: Drain | None = None
    operation: str = ""
    orphans: Orphans = field(init=False)
    said: str = ""
    refusals: int = 0
    not_before: float = 0.0
    stood: Condition | None = None
    held: set[tuple[str, str]] = field(default_factory=set)
    started: float = field(init=False)
    said_at: float = field(init=False)

    def __post_init__(self) -> None:
        self.started = self.said_at = self.call.timing.monotonic()
        self.orphans = Orphans(self.call, self.name)

    def step(self) -> bool:
        """Look, and take the next action; True once nothing is left.

        Raises:
            ConflictError: it belongs to someone else, or is not gone at the deadline.
            AccessError: a permission is missing.
            InterruptedByUser: the engine cancelled; the deletion may go on in the cloud.
        """
        now = self.call.timing.monotonic()
        if now < self.not_before:
            return False
        try:
            seen = self._look()
            if seen is not None and self._done(seen):
                return True
            if seen is not None:
                self._act(seen)
            self.refusals = 0
        except AccessError:
            self.refusals += 1
            if self.refusals >= _REFUSALS:
                raise
        except InterruptedByUser as error:
            raise self.interrupted() from error
        if self.call.timing.monotonic() >= self.deadline:
            raise ConflictError(
                f"{self.name} is not gone after {elapsed(now - self.started)} ({self.said})",
                hint=STUCK,
                code=Code.NOT_GONE,
            )
        return False

    def wait(self) -> float:
        """Seconds until the next step."""
        if self.drain is not None and (pause := self.drain.wait()) > 0:
            return pause
        now = self.call.timing.monotonic()
        age = now - self.started
        pause = pause_for(age, self.call.timing.jitter(), self.call.waits.count)
        pause = max(pause, self.not_before - now)
        return max(0.0, min(pause, self.deadline - now, self.said_at + HEARTBEAT - now))

    def interrupted(self) -> InterruptedByUser:
        """The error to raise when the engine cancels."""
        return InterruptedByUser(f"stopped while deleting {self.name}", hint=STUCK)

    def _look(self) -> Snapshot | None:
        """The present state, looked up twice if nothing is there; None if the API cannot be
        reached."""
        try:
            return self.call.look_twice(self.name, budget=POLL_BUDGET)
        except ApiError as error:
            self._no_answer(error)
            return None

    def _no_answer(self, error: ApiError) -> None:
        self.not_before = self.call.timing.monotonic() + error.retry_after
        self.call.report(f"no answer about {self.name} ({error.message})", passing=True)

    def _done(self, seen: Snapshot) -> bool:
        if self.stood is None:
            self.stood = seen.condition(self.labels, self.created, known=self._known(seen))
        if seen.gone:
            text = TABLE[self.stood].down.text
            if self.where and self.stood is Condition.GONE:
                text = "it is gone"  # one of several: the resource stays in the state
            self.call.report(f"{self.where or f'{self.name}: '}{text}")
            return True
        if self._ours(seen):
            return False
        if seen.queued_resource is None or (seen.created and seen.created != self.created):
            # Not the request to delete: ours is gone, and another owner took the name (a node
            # without a request can only be judged by its labels).
            self.call.report(
                f"{self.name} belongs to {seen.owner} now: {TABLE[Condition.FOREIGN].down.text}",
                warning=True,
            )
            return True
        raise ConflictError(
            f"{self.name} belongs to {seen.owner} and was left alone",
            hint=Advice(
                "Whose it is: {sweep}. If it is another's for certain, take it out of this"
                " state: pulumi state delete URN"
            ),
            code=Code.NAME_TAKEN,
        )

    def _known(self, seen: Snapshot) -> bool:
        return self.records.know(seen.name, seen.created)

    def _ours(self, seen: Snapshot) -> bool:
        """Whether it is ours. What our request is seen to hold is ours from then on: when the
        request is gone, the node's labels are all that is left, and anybody may change those."""
        if self._orphans(seen):
            return True
        ours = seen.belongs_to(self.labels, known=self._known(seen))
        if ours and seen.queued_resource is not None:
            self.held |= {_birth(node) for node in seen.nodes.found if self.name.holds(node)}
        return ours

    def _orphans(self, seen: Snapshot) -> tuple[Node, ...]:
        """The nodes that our request has left behind."""
        if seen.queued_resource is not None:
            return ()
        marked = seen.orphans(self.labels, known=self._known(seen))
        return tuple(n for n in seen.nodes.found if n in marked or _birth(n) in self.held)

    def _act(self, seen: Snapshot) -> None:
        if self._in_progress(seen):
            self._report(seen)
            return
        if self.drain is not None and not self.drain.step(seen):
            self.said = "its host is draining"
            return
        try:
            if seen.queued_resource is not None:
                answer = self.call.client.delete_queued_resource(
                    self.name, request_id=self.call.new_id(), force=True
                )
                self.operation = answer.name
            else:
                self.orphans.delete(self._orphans(seen))
            sentence = "" if seen.queued_resource is None else f"it was {seen.state}"
            self._report(seen, "deleting", sentence)
        except NotFoundError:
            return
        except ApiError as error:
            if isinstance(error, ConflictError):
                # PROVISIONING cannot be deleted, for up to two hours: retry until it can.
                self._report(seen, "cannot be deleted yet")
            elif error.passing:
                self._no_answer(error)
            else:
                raise

    def _in_progress(self, seen: Snapshot) -> bool:
        """Whether a deletion is under way, so that another would be refused."""
        if self.operation:
            done = self._operation_done()
            if done is False:
                return True
            self.operation = ""
        if seen.queued_resource is not None:
            return seen.state == "DELETING"
        return not self.orphans.left(self._orphans(seen))

    def _operation_done(self) -> bool | None:
        """Whether our delete operation is done; None if Google has forgotten it."""
        try:
            found = self.call.client.get_operation(self.operation, budget=POLL_BUDGET)
        except ApiError:
            return False
        return found.done if found is not None else None

    def _report(self, seen: Snapshot, note: str = "", sentence: str = "") -> None:
        now = self.call.timing.monotonic()
        if seen.queued_resource is None:
            sentence = f"the queued resource is gone, {orphaned(seen.nodes)}"
        elif not sentence:
            sentence = seen.describe()
        line = f"{self.where}{note}: {sentence}" if note else f"{self.where}{sentence}"
        if line != self.said:
            self.call.report(line)
        elif now - self.said_at >= HEARTBEAT:
            self.call.report(f"{line} ({elapsed(now - self.started)} so far)", passing=True)
        else:
            return
        self.said, self.said_at = line, now


def _birth(node: Node) -> tuple[str, str]:
    """What tells a node from a later one of the same name."""
    return node.id, node.create_time


def delete(
    call: Call, name: RequestName, labels: dict[str, str], *, deadline: float, created: str = ""
) -> None:
    """Delete ``name`` with its nodes and wait until all are gone.

    Args:
        call: the engine call.
        name: the queued resource.
        labels: labels that identify the owner; what carries another owner is left alone.
        deadline: on the monotonic clock.
        created: `createTime` of the request to delete, if known.

    Raises:
        ConflictError: it belongs to someone else, or is not gone at the deadline.
        AccessError: a permission is missing.
        InterruptedByUser: the engine cancelled; the deletion may go on in the cloud.
    """
    delete_all([Removal(call, name, labels, deadline, created)])


def delete_all(removals: list[Removal]) -> None:
    """Drive ``removals`` side by side until all are gone; a failure does not stop the others.

    Raises:
        As :meth:`Removal.step`; of several failures the first, once the others have ended.
    """
    left, failures = list(removals), list[ConflictError | AccessError | ApiError]()
    while left:
        for removal in [*left]:
            try:
                if removal.step():
                    left.remove(removal)
            except (AccessError, ApiError) as error:
                left.remove(removal)
                failures.append(error)
        if left and left[0].call.timing.pause(min(removal.wait() for removal in left)):
            raise left[0].interrupted()
    if failures:
        raise failures[0]
