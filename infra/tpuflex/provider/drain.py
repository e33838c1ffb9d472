"""Before a slice that serves is deleted, its hosts finish the requests in flight.

Both sides communicate through Google's API, so it works with hosts that cannot be reached: a key of
the node's metadata asks, a guest attribute answers (docs/serving.md).
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime

from tpuflex.errors import AccessError, ApiError, NotFoundError
from tpuflex.google.queued_resources import observe_host
from tpuflex.host.report import CONFIG_KEY, DRAIN_KEY
from tpuflex.host.serving import REACTS_WITHIN_S, Serving, ServingPhase
from tpuflex.provider.call import HEARTBEAT, SECOND_LOOK, Call, elapsed
from tpuflex.queued_resource.model import Node
from tpuflex.queued_resource.name import RequestName
from tpuflex.queued_resource.rows import moment, rfc3339
from tpuflex.queued_resource.snapshot import Snapshot
from tpuflex.queued_resource.states import Lifecycle

#: Seconds for which the API may give no answer.
_UNANSWERED = 60.0
#: What is due within so many seconds is due now.
_DUE = 0.01


@dataclass
class Drain:
    """The drain of one slice, driven step by step.

    Attributes:
        call: the engine call.
        name: its queued resource.
        seconds: how long its hosts may take; 0 for no drain.
        over: whether there is nothing to wait for (any more).
        until: when the deletion goes on, in seconds since the epoch; None before it was asked for.
        spoke: by node, whether its host had anything to say when it was asked last.
    """

    call: Call
    name: RequestName
    seconds: float
    over: bool = False
    until: float | None = None
    said: str = ""
    unanswered_since: float | None = None
    spoke: dict[str, bool] = field(default_factory=dict)
    began: float = field(init=False)
    said_at: float = field(init=False)
    next_look: float = field(init=False)

    def __post_init__(self) -> None:
        self.began = self.said_at = self.next_look = self.call.timing.monotonic()
        self.over = self.seconds <= 0 or not self.call.drains

    def wait(self) -> float:
        """Seconds until the next step is due; 0 once it is over."""
        left = self.next_look - self.call.timing.monotonic()
        # A pause of what rounding leaves would never end.
        return 0.0 if self.over or left < _DUE else left

    def step(self, seen: Snapshot) -> bool:
        """Ask the hosts of ``seen``, or look how far they are; True once it may be deleted. That
        they cannot be asked never keeps a slice, which costs money, from being deleted."""
        if self.over or seen.lifecycle is not Lifecycle.ACTIVE:
            self.over = True
        elif not self.wait():
            self.next_look = self.call.timing.monotonic() + self.call.host_poll
            try:
                self.over = self._step(seen)
            except (AccessError, ApiError) as error:
                self.over = self._unanswered(error)
            else:
                self.unanswered_since = None
        return self.over

    def _unanswered(self, error: AccessError | ApiError) -> bool:
        """Whether to give the drain up: at once where the API refuses, after a while without an
        answer."""
        now = self.call.timing.monotonic()
        if self.unanswered_since is None:
            self.unanswered_since = now
        passing = not isinstance(error, AccessError) and error.passing
        if passing and now - self.unanswered_since < _UNANSWERED:
            return False
        self._say(f"its hosts cannot be asked to drain ({error.message})", warning=True)
        return True

    def _step(self, seen: Snapshot) -> bool:
        nodes = [node for node in seen.nodes.found if CONFIG_KEY in node.metadata]
        serving = {node.id: self._serving(node) for node in nodes}
        left = [node for node in nodes if _has_to_end(serving[node.id])]
        if not left:
            cut_off = sum(said.cut_off for said in serving.values() if said is not None)
            if cut_off:
                self._say(f"its host has cut off {cut_off} that had not ended", warning=True)
            elif self.until is not None:
                self._say(f"drained after {elapsed(self._age)}", passing=False)
            return True
        if self.until is None:
            self.until = self._ask(nodes)  # one that still boots shall not begin to serve
            # Hosts react from now on, however long this process stood still before.
            self.began = self.call.timing.monotonic()
        if self.call.timing.wall() >= self.until:
            self._say(f"not drained in time: {self._progress(serving)} is cut off", warning=True)
            return True
        begun = any(
            said is not None and said.phase is ServingPhase.DRAINING for said in serving.values()
        )
        if not begun and self._age >= REACTS_WITHIN_S:
            self._say("its host does not react: deleted without a drain", warning=True)
            return True
        latest = datetime.fromtimestamp(self.until, UTC).strftime("%H:%M UTC")
        self._say(
            f"waits until it has drained, until {latest} at the latest: {self._progress(serving)}"
        )
        return False

    @property
    def _age(self) -> float:
        return self.call.timing.monotonic() - self.began

    def _serving(self, node: Node) -> Serving | None:
        """What the node's first host says of serving; None where it does not, and on hosts of older
        scripts, which know of no drain. That one says nothing any more is asked twice: a single 404
        must not cut off what it answers."""
        host = self.name.node(node.id)
        report = observe_host(host, self.call.client)
        if report is None and self.spoke.get(node.id, True):
            self.call.pause(SECOND_LOOK)
            report = observe_host(host, self.call.client)
        self.spoke[node.id] = report is not None
        return report.serving if report is not None and report.ready else None

    def _ask(self, nodes: list[Node]) -> float:
        """Ask ``nodes`` to drain, unless an earlier run has; until when, in seconds since the
        epoch: an earlier run's time counts, but never for longer than this run would wait."""
        until = self.call.timing.wall() + self.seconds
        earlier = [_asked(node) for node in nodes]
        if all(earlier):
            return min(until, max(time for time in earlier if time is not None))
        text = rfc3339(datetime.fromtimestamp(until, UTC))
        for node in nodes:
            with suppress(NotFoundError):
                _patch(self.call, self.name, node, {**node.metadata, DRAIN_KEY: text})
        return until

    def _progress(self, serving: dict[str, Serving | None]) -> str:
        said = [each for each in serving.values() if each is not None]
        running, waiting = (
            sum(x) for x in zip(*((s.running, s.waiting) for s in said), strict=True)
        )
        requests = f"{running} request{'' if running == 1 else 's'}"
        return f"{requests} running{f', {waiting} waiting' if waiting else ''}"

    def _say(self, text: str, *, passing: bool = True, warning: bool = False) -> None:
        now = self.call.timing.monotonic()
        if text == self.said and now - self.said_at < HEARTBEAT:
            return
        self.said, self.said_at = text, now
        self.call.report(f"{self.name}: {text}", passing=passing and not warning, warning=warning)


def call_off(call: Call, names: Iterable[RequestName]) -> None:
    """Have the hosts of ``names`` serve again that a deletion, which was stopped, has asked to
    drain. That they cannot be told is said, and no reason to fail."""
    for name in names:
        try:
            for node in call.look(name).nodes.found:
                if DRAIN_KEY in node.metadata:
                    _patch(call, name, node, _without_key(node))
                    call.report(f"{name} had been asked to drain: it is told to serve on")
        except (AccessError, ApiError, NotFoundError) as error:
            call.report(f"{name} cannot be told to serve on ({error.message})", warning=True)


def _without_key(node: Node) -> dict[str, str]:
    return {key: value for key, value in node.metadata.items() if key != DRAIN_KEY}


def _patch(call: Call, name: RequestName, node: Node, metadata: dict[str, str]) -> None:
    # A patch of metadata is one of all of it.
    call.client.patch_node(name.node(node.id), {"metadata": {**metadata}}, mask=["metadata"])


def _has_to_end(serving: Serving | None) -> bool:
    """Whether a host has anything that it would end if it were given time. One whose server has
    died has nothing; one whose watch was started again, and waits for a completion, may have."""
    if serving is None or serving.drained or serving.phase is ServingPhase.FAILED:
        return False
    return serving.phase is not ServingPhase.DEGRADED or serving.running + serving.waiting > 0


def _asked(node: Node) -> float | None:
    """Until when an earlier run has given it time; None if none has, or nobody can tell."""
    try:
        return moment(node.metadata.get(DRAIN_KEY, "")).timestamp()
    except ValueError:
        return None
