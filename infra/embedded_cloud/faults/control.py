"""The fault rules as the control API shows and takes them, and faults by name and at random."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from types import MappingProxyType

from embedded_cloud.core.errors import invalid_argument
from embedded_cloud.core.json_types import JsonObject
from embedded_cloud.faults.injector import FaultInjector
from embedded_cloud.faults.processes import Roles
from embedded_cloud.faults.rule import (
    Answer,
    Delay,
    Effect,
    Empty,
    Html,
    OperationError,
    Reset,
    Rule,
    Stage,
    Timeout,
    Truncated,
    Where,
    parse_rule,
)

_QUOTA = "Quota 'TPUV6EPreemptiblePerProjectPerZoneForTPUAPI' exhausted. Limit 0 in zone."
_PER_MINUTE = "Quota exceeded for quota metric 'Requests' and limit 'Requests per minute'."
_STOCKOUT = 'There is no more capacity in the zone "us-east5-a"; GCE_STOCKOUT'
#: Real seconds that a call which is never answered holds its connection, at most.
SILENT_S = 40.0


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault by name.

    Attributes:
        effect: what goes wrong.
        stage: at which point of the call.
        passes: whether the same call succeeds when it is sent again; then the client must converge.
        method_ids: what it makes sense for (wildcards); empty for every call.
        times: how often it strikes in a row.
    """

    effect: Effect
    stage: Stage = Stage.BEFORE_COMMIT
    passes: bool = True
    method_ids: tuple[str, ...] = ()
    times: int = 1

    def rule(self, where: Where, *, nth: int = 1, rule_id: str = "") -> Rule:
        """The rule that makes this fault strike at the ``nth`` call that ``where`` means."""
        return Rule(
            id=rule_id,
            where=where,
            nth=nth,
            times=self.times,
            stage=self.stage,
            effect=self.effect,
        )


_BEGINS = ("tpu.*.create", "tpu.*.delete", "tpu.*.patch", "compute.*.insert", "compute.*.delete")
_POLLS = ("tpu.*.operations.get",)
_LATE = Stage.AFTER_COMMIT

#: Every named fault.
FAULTS: Mapping[str, Fault] = MappingProxyType(
    {
        "bad-request": Fault(Answer(status=400), passes=False),
        "unauthenticated": Fault(Answer(status=401, code="UNAUTHENTICATED", reason="authError")),
        "permission": Fault(
            Answer(status=403, message="Permission denied on resource.", reason="forbidden"),
            passes=False,
        ),
        "quota": Fault(Answer(status=403, message=_QUOTA, reason="quotaExceeded"), passes=False),
        "rate-limit-as-403": Fault(
            Answer(status=403, message=_PER_MINUTE, reason="rateLimitExceeded")
        ),
        "not-found-after-create": Fault(
            Answer(status=404), method_ids=("tpu.*.queuedResources.get",), times=3
        ),
        "conflict": Fault(
            Answer(status=409, code="ABORTED", message="The operation was aborted."), passes=False
        ),
        "too-many-requests": Fault(Answer(status=429, message=_PER_MINUTE)),
        "retry-after-seconds": Fault(Answer(status=429, message=_PER_MINUTE, retry_after_s=7)),
        "retry-after-date": Fault(Answer(status=503, retry_after_s=7, retry_after_date=True)),
        "internal": Fault(Answer(status=500, code="INTERNAL")),
        "bad-gateway": Fault(Answer(status=502, code="UNKNOWN")),
        "unavailable": Fault(Answer(status=503)),
        "gateway-timeout": Fault(Answer(status=504)),
        "reset": Fault(Reset()),
        "timeout": Fault(Timeout(hold_s=SILENT_S)),
        "answer-lost": Fault(Reset(), _LATE),
        "answer-never-comes": Fault(Timeout(hold_s=SILENT_S), _LATE),
        "unavailable-yet-done": Fault(Answer(status=503), _LATE),
        "truncated": Fault(Truncated(), Stage.MID_BODY),
        "html": Fault(Html()),
        "html-yet-done": Fault(Html(), _LATE),
        "empty": Fault(Empty()),
        "empty-yet-done": Fault(Empty(), _LATE),
        "slow": Fault(Delay(seconds=20)),
        "operation-refused": Fault(
            OperationError(code=3, message="FLEX_START provisioning model is not supported."),
            passes=False,
            method_ids=_BEGINS,
        ),
        "operation-stockout": Fault(
            OperationError(code=8, message=_STOCKOUT), passes=False, method_ids=_BEGINS
        ),
        "operation-precondition": Fault(
            OperationError(code=9, message="Failed precondition."),
            passes=False,
            method_ids=_BEGINS,
        ),
        "operation-internal": Fault(
            OperationError(code=13, message="Internal error."), passes=False, method_ids=_BEGINS
        ),
        "operation-forgotten": Fault(Answer(status=404), method_ids=_POLLS),
    }
)


def random_rules(
    seed: int, method_ids: Sequence[str], *, count: int = 1, names: Sequence[str] = ()
) -> list[Rule]:
    """Rules chosen by ``seed``: the same arguments give the same rules.

    Args:
        seed: of the random choice.
        method_ids: the API methods of the calls that a run makes, each as often as it is called.
        count: how many rules.
        names: the faults to choose from; all of them by default.
    """
    chance = random.Random(seed)  # noqa: S311 - reproducible, not secret
    calls = sorted(set(method_ids))
    rules = []
    for number in range(count):
        called = chance.choice(calls)
        fitting = [name for name in sorted(names or FAULTS) if fits(FAULTS[name], called)]
        name = chance.choice(fitting)
        where = Where(method_id=called)
        if name == "not-found-after-create":
            where = Where(method_id=called, after="tpu.*.queuedResources.create")
        nth = chance.randint(1, max(1, sum(item == called for item in method_ids)))
        fault = FAULTS[name]
        rules.append(fault.rule(where, nth=nth, rule_id=f"s{seed}.{number}.{name}"))
    return rules


def fits(fault: Fault, method_id: str) -> bool:
    """Whether ``fault`` makes sense for calls of ``method_id``."""
    return not fault.method_ids or any(fnmatchcase(method_id, p) for p in fault.method_ids)


_KEYS = frozenset({"rules", "roles"})


def show(injector: FaultInjector) -> JsonObject:
    """Rules with counters, roles, and how often a fault has struck in all."""
    return injector.book.to_json()


def put(injector: FaultInjector, document: JsonObject) -> JsonObject:
    """Add ``{"rules": [...], "roles": {...}}``; returns what :func:`show` does.

    Raises:
        CloudError: 400 naming what is not understood; then nothing was added.
    """
    unknown = sorted(document.keys() - _KEYS)
    rules = document.get("rules", [])
    if unknown or not isinstance(rules, list):
        raise invalid_argument('expected {"rules": [...], "roles": {...}}')
    parsed = [parse_rule(rule) for rule in rules]
    book = injector.book
    if "roles" in document:
        book.set_roles(Roles.from_json(document["roles"]))
    for rule in parsed:
        book.add(rule)
    return book.to_json()


def remove(injector: FaultInjector, rule_id: str | None) -> JsonObject:
    """Forget one rule, or everything but the roles; returns what there was before."""
    before = show(injector)
    if rule_id is None:
        injector.forget()
    else:
        injector.book.remove(rule_id)
    return before
