"""What people read: the console of each case, word by word, as it was reviewed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from golden_texts import assert_golden
from provider_fakes import (
    INPUTS,
    NAME,
    NODE,
    Answer,
    Cloud,
    Handler,
    args,
    missing,
    node,
    queued,
    sequence,
)
from provider_transcript import A, B, ByZone, transcript
from tpuflex.errors import AccessError, AlreadyExistsError, ApiError, ConflictError
from tpuflex.provider.arguments import input_properties
from tpuflex.provider.call import Call
from tpuflex.provider.codec import Properties
from tpuflex.provider.operations import create, delete_resource, read, update
from tpuflex.provider.refresh import Found

BORN = "2026-11-21T08:00:00.123456789Z"
WAITS = queued("WAITING_FOR_RESOURCES")
MAKES = queued("PROVISIONING")
THEIRS = args(labels={"tpuflex-owner": "ffff", "tpuflex-stack": "prod", "tpuflex-project": "x"})
STOCK_OUT = {"error": {"code": 8, "message": "There is no more capacity in the zone"}}
QUOTA = {"code": 8, "message": "Quota 'TPUV6EPerProjectPerZone' exhausted. Limit 0 in zone"}
DONE: Answer = {"name": "operations/1", "done": True}
NO_ANSWER = ApiError("no answer", retry_after=20.0)


@dataclass(frozen=True)
class Case:
    """One call.

    Attributes:
        cloud: makes what is there.
        act: the call.
        stop_at: when the engine cancels.
    """

    cloud: Callable[[], Handler]
    act: Callable[[Call], Any]
    stop_at: float | None = None


def known(**changed: Any) -> Properties:
    return input_properties(args(**changed))


def state(lifecycle: str = "active", **more: Any) -> Properties:
    return {**known(), "name": NAME, "lifecycle": lifecycle, "createTime": BORN, **more}


def ups(timeout: float = 0, **changed: Any) -> Callable[[Call], Any]:
    return lambda call: create(call, known(**changed), timeout=timeout)


def updates(
    old: Properties | None = None, outputs: Properties | None = None, **changed: Any
) -> Callable[[Call], Any]:
    before = known() if old is None else old
    return lambda call: update(
        call, NAME, before, known(**changed), outputs or state("waiting"), timeout=0
    )


def downs(timeout: float = 0, outputs: Properties | None = None, **changed: Any) -> Any:
    return lambda call: delete_resource(
        call, NAME, known(**changed), outputs or state(), timeout=timeout
    )


def refreshes(inputs: Properties | None = None, outputs: Properties | None = None) -> Any:
    def act(call: Call) -> str:
        found = read(call, NAME, known() if inputs is None else inputs, outputs or {})
        return "nothing" if found is None else _shown(found)

    return act


def _shown(found: Found) -> str:
    shown = {key: value for key, value in found.outputs.items() if key not in found.inputs}
    return "".join(f"\n{key:>18}: {value}" for key, value in sorted(shown.items()))


def cloud(*requests: Answer, **more: Any) -> Callable[[], Handler]:
    """What GETs of the request find, one after the other; ``more`` for the other questions."""
    return lambda: Cloud(
        request=sequence(*requests), **{key: sequence(*value) for key, value in more.items()}
    )


def zones(**clouds: Callable[[], Handler]) -> Callable[[], Handler]:
    names = {"a": A, "b": B}
    return lambda: ByZone({names[key]: made() for key, made in clouds.items()})  # type: ignore[misc]


GONE = missing()
NO_NODE = missing(NODE)
SEVERAL = {"zones": [A, B]}
UNREAD = {**state("waiting"), "requests": [NAME, NAME.replace(A, B)]}

CASES: dict[str, Case] = {
    # -- up: one zone --------------------------------------------------------------------
    "up": Case(
        cloud(GONE, GONE, queued("CREATING"), WAITS, MAKES, queued("ACTIVE"), node=[
            NO_NODE, NO_NODE, node("CREATING"), node()]),
        ups(),
    ),
    "up-is-stopped": Case(cloud(GONE, GONE, WAITS), ups(), stop_at=130),
    "up-waits-too-long": Case(cloud(GONE, GONE, WAITS), ups(queueTimeout="150s")),
    "up-provisions-too-long": Case(
        cloud(GONE, GONE, WAITS, MAKES), ups(provisioningTimeout="100s")
    ),
    "up-has-no-more-time": Case(cloud(GONE, GONE, WAITS), ups(timeout=90)),
    "up-finds-its-own": Case(cloud(WAITS, WAITS, queued("ACTIVE"), node=[node()]), ups()),
    "up-clears-a-leftover": Case(
        cloud(queued("SUSPENDED"), queued("SUSPENDED"), GONE, GONE, GONE, queued("ACTIVE"),
              node=[NO_NODE] * 5 + [node()]),
        ups(),
    ),
    "up-finds-another-request": Case(
        cloud(queued("ACTIVE", of=args(acceleratorType="v6e-8")), node=[node()]), ups()
    ),
    "up-finds-anothers": Case(cloud(queued("ACTIVE", of=THEIRS), node=[node()]), ups()),
    "up-finds-a-stranger": Case(
        cloud(queued("ACTIVE", of=THEIRS) | {"tpu": {"nodeSpec": [{"node": {}}]}}), ups()
    ),
    "up-meets-a-name-that-is-taken": Case(
        cloud(GONE, post=[AlreadyExistsError("it exists", status=409)]), ups()
    ),
    "up-loses-the-answer": Case(cloud(GONE, post=[ApiError("no answer")]), ups()),
    "up-loses-the-answer-and-finds-it": Case(
        cloud(GONE, GONE, WAITS, queued("ACTIVE"), node=[NO_NODE, NO_NODE, node()],
              post=[ApiError("overloaded", status=503)]),
        ups(),
    ),
    "up-in-no-such-place": Case(cloud(GONE, post=[missing("locations/us-east5-a")]), ups()),
    "up-may-not": Case(
        cloud(GONE, post=[AccessError("Permission 'tpu.nodes.create' denied")]), ups()
    ),
    "up-is-rejected": Case(cloud(GONE, operation=[{**DONE, "error": QUOTA}]), ups()),  # type: ignore[dict-item]
    "up-is-rejected-for-its-form": Case(
        cloud(GONE, operation=[{"name": "o", "done": True, "error": {
            "code": 3, "message": "v6e-4 is not supported in this zone"}}]),
        ups(),
    ),
    "up-fails": Case(cloud(GONE, GONE, queued("FAILED", failedData=STOCK_OUT)), ups()),
    "up-fails-without-a-reason": Case(cloud(GONE, GONE, queued("FAILED")), ups()),
    "up-ends": Case(cloud(GONE, GONE, queued("SUSPENDED")), ups()),
    "up-is-deleted-by-someone": Case(cloud(GONE, GONE, WAITS, queued("DELETING")), ups()),
    "up-vanishes": Case(cloud(GONE, GONE, WAITS, GONE), ups()),
    "up-loses-its-node": Case(cloud(GONE, GONE, queued("ACTIVE")), ups()),
    "up-gets-no-answer-for-a-while": Case(
        cloud(GONE, GONE, WAITS, NO_ANSWER, queued("ACTIVE"), node=[NO_NODE, NO_NODE, node()]),
        ups(),
    ),
    "up-is-refused-for-long": Case(
        cloud(GONE, GONE, WAITS, AccessError("denied", hint="Ask for it.")), ups()
    ),
    "up-meets-an-unknown-state": Case(
        cloud(GONE, GONE, queued("ON_HOLD"), queued("ACTIVE"), node=[NO_NODE, NO_NODE, node()]),
        ups(),
    ),
    # -- up: several zones ---------------------------------------------------------------
    "race": Case(
        zones(
            a=cloud(GONE, GONE, *[WAITS] * 4, GONE),
            b=cloud(GONE, GONE, WAITS, MAKES, queued("ACTIVE"), node=[NO_NODE, NO_NODE, node()]),
        ),
        ups(**SEVERAL),
    ),
    "race-with-a-zone-that-cannot": Case(
        zones(
            a=cloud(GONE, operation=[{**DONE, "error": QUOTA}]),  # type: ignore[dict-item]
            b=cloud(GONE, GONE, WAITS, queued("ACTIVE"), node=[NO_NODE, NO_NODE, node()]),
        ),
        ups(**SEVERAL),
    ),
    "race-that-nobody-can-win": Case(
        zones(
            a=cloud(GONE, operation=[{**DONE, "error": QUOTA}]),  # type: ignore[dict-item]
            b=cloud(GONE, post=[AccessError("denied", hint="Ask for it.")]),
        ),
        ups(**SEVERAL),
    ),
    "race-waits-too-long": Case(
        zones(a=cloud(GONE, GONE, WAITS), b=cloud(GONE, GONE, WAITS)),
        ups(queueTimeout="100s", **SEVERAL),
    ),
    "race-with-a-loser-that-stays": Case(
        zones(
            a=cloud(GONE, GONE, WAITS, delete=[AccessError("denied")]),
            b=cloud(GONE, GONE, queued("ACTIVE"), node=[NO_NODE, NO_NODE, node()]),
        ),
        ups(deleteTimeout="60s", **SEVERAL),
    ),
    "ordered": Case(
        zones(
            a=cloud(GONE, GONE, *[WAITS] * 12, GONE),
            b=cloud(GONE, GONE, WAITS, queued("ACTIVE"), node=[NO_NODE, NO_NODE, node()]),
        ),
        ups(strategy="ordered", queueTimeout="60s", **SEVERAL),
    ),
    "ordered-takes-the-first": Case(
        zones(
            a=cloud(GONE, GONE, WAITS, queued("ACTIVE"), node=[NO_NODE, NO_NODE, node()]),
            b=cloud(GONE),
        ),
        ups(strategy="ordered", **SEVERAL),
    ),
    # -- up again ------------------------------------------------------------------------
    "again-waits-on": Case(cloud(WAITS, WAITS, queued("ACTIVE"), node=[node()]), updates()),
    "again-is-anothers": Case(cloud(queued("ACTIVE", of=THEIRS), node=[node()]), updates()),
    "again-changes-the-node": Case(
        cloud(queued("ACTIVE"), node=[node()]),
        updates(outputs=state(), description="for people", tags=["a"], externalIps=True),
    ),
    "again-changes-what-only-a-boot-reads": Case(
        cloud(queued("ACTIVE", of=args(onBootChange="update")),
              node=[node(of=args(onBootChange="update"))]),
        updates(outputs=state(), onBootChange="update",
                metadata={"startup-script": "x", "tpuflex-config": "y"}),
    ),
    "again-is-refused-a-change": Case(
        cloud(queued("ACTIVE"), node=[node()], patch=[{"name": "operations/4"}], operation=[
            {"name": "operations/4", "done": True, "error": {"code": 7, "message": "denied"}}]),
        updates(outputs=state(), tags=["a"]),
    ),
    "again-changes-for-too-long": Case(
        cloud(queued("ACTIVE"), node=[node()], patch=[{"name": "operations/4"}],
              operation=[{"name": "operations/4"}]),
        updates(outputs=state(), tags=["a"]),
    ),
    "again-after-the-run": Case(
        cloud(queued("SUSPENDED")), updates(outputs=state("ended"), tags=["a"])
    ),
    "again-after-the-run-and-all-is-gone": Case(cloud(GONE), updates(outputs=state("ended"))),
    "again-cleans-up-after-the-run": Case(
        cloud(queued("SUSPENDED"), queued("SUSPENDED"), queued("DELETING"), GONE),
        updates(outputs=state("ended"), onRunEnd="delete"),
    ),
    "again-cannot-clean-up": Case(
        cloud(queued("SUSPENDED"), delete=[ConflictError("busy", status=409)]),
        updates(outputs=state("ended"), onRunEnd="delete", deleteTimeout="90s"),
    ),
    "again-is-stopped-while-it-cleans-up": Case(
        cloud(queued("SUSPENDED")),
        updates(outputs=state("ended"), onRunEnd="delete"),
        stop_at=70,
    ),
    # -- down ----------------------------------------------------------------------------
    "down": Case(
        cloud(queued("ACTIVE"), queued("DELETING"), queued("DELETING"), GONE,
              node=[node(), node("DELETING"), node("DELETING"), NO_NODE]),
        downs(),
    ),
    "down-of-nothing": Case(cloud(GONE), downs()),
    "down-of-what-is-made": Case(
        cloud(*[MAKES] * 40, queued("ACTIVE"), GONE, node=[node(), NO_NODE],
              delete=[*[ConflictError("not in PROVISIONING", status=400)] * 40, DONE]),
        downs(),
    ),
    "down-of-an-orphaned-node": Case(
        cloud(GONE, node=[node(), node(), node("DELETING"), NO_NODE]), downs()
    ),
    "down-of-anothers": Case(cloud(queued("ACTIVE", of=THEIRS), node=[node()]), downs()),
    "down-of-what-became-anothers": Case(
        cloud(queued("ACTIVE", of=THEIRS), node=[node()]),
        downs(outputs=state(createTime="2026-11-20T08:00:00Z")),
    ),
    "down-for-too-long": Case(
        cloud(queued("ACTIVE"), node=[node()], operation=[{"name": "operations/2"}]),
        downs(timeout=100),
    ),
    "down-is-stopped": Case(
        cloud(queued("ACTIVE"), node=[node()], operation=[{"name": "operations/2"}]),
        downs(),
        stop_at=70,
    ),
    "down-may-not": Case(
        cloud(queued("ACTIVE"), node=[node()], delete=[AccessError("denied")]), downs()
    ),
    "down-gets-no-answer": Case(
        cloud(NO_ANSWER, queued("ACTIVE"), GONE, node=[node(), NO_NODE]), downs()
    ),
    "down-is-protected": Case(
        cloud(queued("ACTIVE"), node=[node()]), downs(deletionProtection=True)
    ),
    "down-of-what-waits-though-protected": Case(
        cloud(WAITS, WAITS, GONE), downs(deletionProtection=True)
    ),
    "down-in-both-zones": Case(
        zones(a=cloud(queued("ACTIVE"), GONE, node=[node(), NO_NODE]), b=cloud(WAITS, GONE)),
        downs(outputs=UNREAD),
    ),
    # -- refresh -------------------------------------------------------------------------
    "refresh": Case(cloud(queued("ACTIVE"), node=[node()]), refreshes(outputs=state())),
    "refresh-of-a-wait": Case(cloud(WAITS), refreshes(outputs=state("waiting"))),
    "refresh-of-a-failure": Case(
        cloud(queued("FAILED", failedData=STOCK_OUT)), refreshes(outputs=state())
    ),
    "refresh-of-an-ended-run": Case(cloud(queued("SUSPENDED")), refreshes(outputs=state())),
    "refresh-of-a-lost-node": Case(cloud(queued("ACTIVE")), refreshes(outputs=state())),
    "refresh-of-an-orphan": Case(cloud(GONE, node=[node()]), refreshes(outputs=state())),
    "refresh-of-anothers": Case(
        cloud(queued("ACTIVE", of=THEIRS), node=[node()]),
        refreshes(outputs=state(createTime="2026-11-20T08:00:00Z")),
    ),
    "refresh-of-nothing": Case(
        cloud(GONE), refreshes(outputs=state(expireTime="2030-01-01T00:00:00Z"))
    ),
    "refresh-of-a-run-that-was-over": Case(
        cloud(GONE), refreshes(outputs=state("ended", nodeState="READY", specHash="0123"))
    ),
    "refresh-of-a-run-that-is-over-by-now": Case(
        cloud(GONE), refreshes(outputs=state(expireTime="2026-11-21T12:05:00Z"))
    ),
    "refresh-in-both-zones": Case(
        zones(a=cloud(WAITS), b=cloud(queued("ACTIVE"), node=[node()])), refreshes(outputs=UNREAD)
    ),
    "import": Case(cloud(queued("ACTIVE"), node=[node()]), refreshes(inputs={})),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_console_reads_as_it_was_reviewed(name: str) -> None:
    """Every line, when it comes, what is asked of Google meanwhile, and the error at the end."""
    case = CASES[name]

    text = transcript(case.cloud(), case.act, stop_at=case.stop_at)

    assert_golden(f"console/{name}.txt", text)


def test_inputs_are_those_of_the_fakes() -> None:
    """The cases are about the request that the scripted cloud holds."""
    assert known()["labels"] == INPUTS["labels"]
