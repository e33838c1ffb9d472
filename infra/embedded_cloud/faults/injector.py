"""The hook in the pipeline: applies the rules that strike in a call."""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from email.utils import formatdate

import psutil

from embedded_cloud.core.clock import Clock, rfc3339
from embedded_cloud.core.errors import CODES, CloudError
from embedded_cloud.core.history import History
from embedded_cloud.core.inbound_request import InboundRequest, parse_object
from embedded_cloud.core.json_types import JsonObject, JsonValue, text
from embedded_cloud.core.pipeline import CallFaults
from embedded_cloud.core.routing import Delivery, Match, Reply
from embedded_cloud.faults import processes
from embedded_cloud.faults.processes import Roles
from embedded_cloud.faults.rule import (
    LONGEST_HOLD_S,
    Answer,
    CallFacts,
    Delay,
    Effect,
    Empty,
    Html,
    Kill,
    OperationError,
    Reset,
    Rule,
    Signal,
    Stage,
    Timeout,
    Truncated,
)


@dataclass(slots=True)
class _Entry:
    """One rule and its memory."""

    rule: Rule
    seen: int = 0
    chosen: int = 0
    struck: int = 0
    done: set[tuple[str, str]] = field(default_factory=set)

    def to_json(self) -> JsonObject:
        return {**self.rule.to_json(), "seen": self.seen, "fired": self.struck}


class FaultBook:
    """Rules and counters. Nothing in it is random: the same calls meet the same faults.

    Attributes:
        roles: which processes a kill point may mean.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: dict[str, _Entry] = {}
        self._given = 0
        self._struck = 0
        self.roles = Roles()

    def add(self, rule: Rule) -> Rule:
        """Put ``rule`` in force, with an id if it has none; one of the same id is replaced."""
        with self._lock:
            if not rule.id:
                self._given += 1
                rule = rule.model_copy(update={"id": f"r{self._given}"})
            self._entries[rule.id] = _Entry(rule)
            return rule

    def remove(self, rule_id: str | None = None) -> None:
        """Forget one rule, or all of them and the counters."""
        with self._lock:
            if rule_id is not None:
                self._entries.pop(rule_id, None)
                return
            self._entries.clear()
            self._given = self._struck = 0

    def set_roles(self, roles: Roles) -> None:
        """Set which process has which role."""
        self.roles = roles

    @property
    def struck(self) -> int:
        """How many faults have struck since the last :meth:`remove` of all."""
        return self._struck

    def arrived(self, facts: CallFacts) -> tuple[Rule, ...]:
        """Count a call; returns the rules that strike in it, in the order of their setting."""
        with self._lock:
            return tuple(entry.rule for entry in self._entries.values() if _chooses(entry, facts))

    def done(self, facts: CallFacts) -> None:
        """Remember a call that succeeded, for rules with ``after``."""
        with self._lock:
            for entry in self._entries.values():
                entry.done.add((facts.method_id, facts.resource))

    def strike(self, rule: Rule) -> None:
        """Count that ``rule`` has had its effect."""
        with self._lock:
            self._struck += 1
            entry = self._entries.get(rule.id)
            if entry is not None:
                entry.struck += 1

    def to_json(self) -> JsonObject:
        """Rules with their counters (``seen`` matching calls, ``fired`` times) and the sum."""
        with self._lock:
            rules: list[JsonValue] = [entry.to_json() for entry in self._entries.values()]
            return {"rules": rules, "firings": self._struck, "roles": self.roles.to_json()}


def _chooses(entry: _Entry, facts: CallFacts) -> bool:
    if not entry.rule.where.matches(facts, entry.done):
        return False
    entry.seen += 1
    if not entry.rule.strikes_at(entry.seen, entry.chosen):
        return False
    entry.chosen += 1
    return True


_LOGIN_PAGE = b"<!DOCTYPE html><html><head><title>Sign in</title></head><body>Sign in</body></html>"
_TYPICAL = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ABORTED",
    412: "FAILED_PRECONDITION",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


def replaced(effect: Effect, facts: CallFacts, right: Reply | None, now: float) -> Reply:
    """The answer that is given instead.

    Args:
        effect: what goes wrong; a delay or a kill changes no answer.
        facts: the call.
        right: the right answer, once the call was done.
        now: the embedded cloud's time, epoch seconds.
    """
    match effect:
        case Answer():
            return _answer(effect, facts, now)
        case Reset():
            return Reply(status=502, delivery=Delivery.RESET)
        case Timeout():
            return Reply(status=504, delivery=Delivery.SILENT, silent_s=effect.hold_s)
        case Truncated():
            return dataclasses.replace(right or Reply(), delivery=Delivery.CUT)
        case Html():
            return Reply(effect.status, _LOGIN_PAGE, {"Content-Type": "text/html; charset=UTF-8"})
        case Empty():
            return Reply(200, b"", {"Content-Type": "application/json; charset=UTF-8"})
        case OperationError():
            body = right.body if right is not None and isinstance(right.body, dict) else {}
            return Reply(200, failed_operation(effect, facts, body, now))
        case _:
            return right or Reply()


def pending_operation(facts: CallFacts, name: str, now: float) -> JsonObject:
    """The operation that a call seems to have begun, under way."""
    return {"name": name, "metadata": _metadata(facts, now), "done": False}


def failed_operation(
    effect: OperationError, facts: CallFacts, body: JsonObject, now: float
) -> JsonObject:
    """The operation in ``body`` (or an invented one), done and failed."""
    if facts.service == "compute":
        return _failed_compute_operation(effect, facts, body)
    return {
        "name": text(body, "name") or operation_name(facts),
        "metadata": body.get("metadata") or _metadata(facts, now),
        "done": True,
        "error": {"code": effect.code, "message": effect.message},
    }


def operation_name(facts: CallFacts) -> str:
    """Name of the operation that a GET asks about; an invented one for any other call."""
    if facts.method == "GET":
        return facts.path.lstrip("/").partition("/")[2]
    digest = hashlib.sha256(facts.resource.encode()).hexdigest()
    place = facts.path.lstrip("/").partition("/")[2]
    parent = "/".join(place.split("/")[:4]) if place.startswith("projects/") else "projects/-"
    return f"{parent}/operations/operation-injected-{digest[:13]}"


def _answer(effect: Answer, facts: CallFacts, now: float) -> Reply:
    code = effect.code or _TYPICAL.get(effect.status, "UNKNOWN")
    message = effect.message or f"Injected {effect.status} for {facts.method_id}."
    error = CloudError(effect.status, code, message, legacy_reason=effect.reason)
    headers = dict(effect.headers)
    if effect.retry_after_s is not None:
        headers["Retry-After"] = (
            formatdate(now + effect.retry_after_s, usegmt=True)
            if effect.retry_after_date
            else f"{effect.retry_after_s:.0f}"
        )
        # By the same clock: a client counts from the one date to the other.
        headers.setdefault("Date", formatdate(now, usegmt=True))
    return Reply(effect.status, error.body(), headers)


def _failed_compute_operation(
    effect: OperationError, facts: CallFacts, body: JsonObject
) -> JsonObject:
    """Compute's own shape: https://cloud.google.com/compute/docs/api/how-tos/api-requests-responses."""
    names = {number: (code, http) for code, (number, http, _) in CODES.items()}
    code, http = names.get(effect.code, ("UNKNOWN", 500))
    name = text(body, "name") or operation_name(facts).rpartition("/")[2]
    return {
        "kind": "compute#operation",
        **body,
        "name": name,
        "status": "DONE",
        "progress": 100,
        "httpErrorStatusCode": http,
        "httpErrorMessage": code,
        "error": {"errors": [{"code": effect.reason or code, "message": effect.message}]},
    }


def _metadata(facts: CallFacts, now: float) -> JsonObject:
    kind = "type.googleapis.com/google.cloud.common.OperationMetadata"
    target = facts.resource.lstrip("/").partition("/")[2]
    return {
        "@type": kind,
        "createTime": rfc3339(now),
        "target": target,
        "verb": facts.method_id.rpartition(".")[2],
        "cancelRequested": False,
    }


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
