"""The hook in the pipeline: applies the rules that strike in a call."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable

import psutil

from embedded_cloud.clock import Clock
from embedded_cloud.errors import CloudError
from embedded_cloud.faults import processes
from embedded_cloud.faults.book import FaultBook
from embedded_cloud.faults.effect import (
    LONGEST_HOLD_S,
    Delay,
    Effect,
    Kill,
    OperationError,
    Signal,
)
from embedded_cloud.faults.replies import (
    failed_operation,
    operation_name,
    pending_operation,
    replaced,
)
from embedded_cloud.faults.rule import CallFacts, Rule, Stage
from embedded_cloud.history import History
from embedded_cloud.inbound_request import InboundRequest, parse_object
from embedded_cloud.json_types import JsonValue
from embedded_cloud.pipeline import CallFaults
from embedded_cloud.routing import Delivery, Match, Reply

#: Lets that many seconds of the cloud's time pass.
Pause = Callable[[float], Awaitable[None]]

#: Query parameters that name what a call creates.
_NEW_ID = ("queuedResourceId", "nodeId", "secretId")
#: Services whose calls begin operations; elsewhere an operation cannot fail.
_WITH_OPERATIONS = frozenset({"tpu", "compute", "serviceusage"})
_BODY_LIMIT = 1 << 20
_TICK_S = 0.01


class FaultInjector:
    """Injects the faults of a book into the calls of one embedded cloud.

    Args:
        clock: the cloud's time.
        history: where every strike is recorded.
        pause: how a delay waits; by default until the cloud's clock has moved that far.
    """

    def __init__(self, clock: Clock, history: History, pause: Pause | None = None) -> None:
        self.book = FaultBook()
        self.clock = clock
        self.history = history
        self.pause = pause or self._until
        self.failing: dict[str, tuple[OperationError, CallFacts]] = {}
        self._resumptions: set[asyncio.Task[None]] = set()

    async def arrived(self, match: Match, inbound: InboundRequest) -> CallFaults | None:
        """The faults of a call; None if no rule was ever set."""
        facts = await _facts(match, inbound)
        return _CallFaults(self, facts, self.book.arrived(facts))

    def forget(self) -> None:
        """No rule, no counter and no failing operation any more; the roles stay."""
        self.book.remove()
        self.failing.clear()

    def strike(self, rule: Rule, facts: CallFacts, **about: JsonValue) -> None:
        """Record that ``rule`` has its effect now."""
        self.book.strike(rule)
        self.history.note(
            "fault",
            rule=rule.id,
            stage=rule.stage.value,
            effect=rule.effect.kind,
            method=facts.method,
            path=facts.path,
            method_id=facts.method_id,
            **about,
        )

    async def kill(self, rule: Rule, effect: Kill, facts: CallFacts) -> None:
        """Send the signal and wait for its effect."""
        found = await asyncio.to_thread(processes.find, self.book.roles, effect.roles)
        victims = [process for _, process in found]
        who: list[JsonValue] = [processes.described(role, process) for role, process in found]
        self.strike(rule, facts, signal=effect.signal.value, processes=who)
        reached = await asyncio.to_thread(processes.send, victims, effect.signal.value)
        if effect.signal is Signal.STOP and effect.resume_after_s is not None:
            task = asyncio.create_task(self._resume(reached, effect.resume_after_s))
            self._resumptions.add(task)
            task.add_done_callback(self._resumptions.discard)
        if effect.waits_s:
            await asyncio.to_thread(processes.await_end, reached, effect.waits_s)

    async def _resume(self, stopped: list[psutil.Process], seconds: float) -> None:
        await self.pause(seconds)
        await asyncio.to_thread(processes.send, stopped, "CONT")

    async def _until(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        end, limit = self.clock.now() + seconds, loop.time() + LONGEST_HOLD_S
        while self.clock.now() < end and loop.time() < limit:  # noqa: ASYNC110
            # Another thread or process moves the clock, and nothing announces it.
            await asyncio.sleep(_TICK_S)


class _CallFaults:
    """The rules that strike in one call."""

    def __init__(self, injector: FaultInjector, facts: CallFacts, rules: tuple[Rule, ...]) -> None:
        self._injector = injector
        self._facts = facts
        self._rules = rules
        self.fired: tuple[str, ...] = ()

    async def before_commit(self) -> Reply | None:
        failing = self._injector.failing.get(self._facts.path.partition("/projects/")[2])
        if failing is not None and self._facts.method == "GET":
            effect, begun_by = failing
            name = operation_name(begun_by)
            now = self._injector.clock.now()
            return Reply(200, failed_operation(effect, begun_by, {"name": name}, now))
        answer: Reply | None = None
        for rule in self._due(Stage.BEFORE_COMMIT):
            answer = await self._apply(rule, answer)
        return answer

    async def after_commit(self, reply: Reply) -> Reply:
        if reply.status < 300:
            self._injector.book.done(self._facts)
        for rule in self._due(Stage.AFTER_COMMIT):
            reply = await self._apply(rule, reply) or reply
        halfway = self._due(Stage.MID_BODY)
        if halfway and reply.delivery is Delivery.WHOLE:
            breaks = any(_breaks_off(rule.effect) for rule in halfway)
            how = Delivery.CUT if breaks else Delivery.HALTING
            return dataclasses.replace(reply, delivery=how)
        return reply

    async def mid_body(self) -> None:
        for rule in self._due(Stage.MID_BODY):
            await self._apply(rule, Reply())

    async def answered(self) -> None:
        for rule in self._due(Stage.AFTER_RESPONSE):
            await self._apply(rule, Reply())

    def _due(self, stage: Stage) -> list[Rule]:
        return [rule for rule in self._rules if rule.stage is stage]

    async def _apply(self, rule: Rule, answer: Reply | None) -> Reply | None:
        """Apply ``rule``; returns the answer so far (None: no answer yet)."""
        effect = rule.effect
        if isinstance(effect, OperationError) and self._facts.service not in _WITH_OPERATIONS:
            return answer
        if isinstance(effect, Kill):
            self.fired += (rule.id,)
            await self._injector.kill(rule, effect, self._facts)
            return Reply(502, delivery=Delivery.RESET) if effect.breaks_off else answer
        self._note(rule)
        if isinstance(effect, Delay):
            await self._injector.pause(effect.seconds)
            return answer
        polled = self._facts.service == "tpu" and self._facts.method != "GET"
        if isinstance(effect, OperationError) and polled and rule.stage is Stage.BEFORE_COMMIT:
            return self._begin_failing(effect)
        return replaced(effect, self._facts, answer, self._injector.clock.now())

    def _note(self, rule: Rule) -> None:
        self.fired += (rule.id,)
        self._injector.strike(rule, self._facts)

    def _begin_failing(self, effect: OperationError) -> Reply:
        """Nothing is done; an operation is begun that fails when it is asked about."""
        facts, now = self._facts, self._injector.clock.now()
        name = operation_name(facts)
        self._injector.failing[name.removeprefix("projects/")] = (effect, facts)
        return Reply(200, pending_operation(facts, name, now))


def _breaks_off(effect: Effect) -> bool:
    return effect.breaks_off if isinstance(effect, Kill) else not isinstance(effect, Delay)


async def _facts(match: Match, inbound: InboundRequest) -> CallFacts:
    return CallFacts(
        method=inbound.method,
        path=inbound.path,
        method_id=match.route.method_id,
        service=match.service.name,
        resource=await _resource(inbound),
    )


async def _resource(inbound: InboundRequest) -> str:
    """The path, and in a call that creates something its name."""
    if inbound.method != "POST":
        return inbound.path
    for key in _NEW_ID:
        if key in inbound.query:
            return f"{inbound.path}/{inbound.query[key]}"
    if inbound.path.startswith(("/upload/", "/resumable/")) or inbound.length > _BODY_LIMIT:
        return f"{inbound.path}/{inbound.query.get('name', '')}"
    try:
        name = parse_object(await inbound.read() or b"{}").get("name")
    except (ValueError, CloudError):  # refused later, whatever the faults do
        return inbound.path
    return f"{inbound.path}/{name}" if isinstance(name, str) else inbound.path
