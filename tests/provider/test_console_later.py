"""What people read of what is there already, word by word, as it was reviewed."""

from __future__ import annotations

import pytest

from tests.provider.console import (
    DONE,
    GONE,
    MAKES,
    NO_ANSWER,
    NO_NODE,
    STOCK_OUT,
    THEIRS,
    UNREAD,
    WAITS,
    Case,
    assert_console,
    cloud,
    downs,
    known,
    refreshes,
    state,
    updates,
    zones,
)
from tests.provider.fakes import args, node, queued
from tests.provider.transcript import A, B
from tpuflex.errors import AccessError, ConflictError

CASES = {
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
    "again-after-the-run-that-was-accepted": Case(
        cloud(queued("SUSPENDED")),
        updates(outputs=state("ended"), onRunEnd="accept", tags=["a"]),
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
    "down-of-anothers-without-a-name": Case(
        cloud(queued("ACTIVE", of=args(labels={"tpuflex-owner": "ffff"})), node=[node()]), downs()
    ),
    "again-without-one-of-the-zones": Case(
        zones(a=cloud(queued("ACTIVE"), node=[node()]), b=cloud(WAITS, WAITS, GONE)),
        updates(outputs={**state(), "requests": UNREAD["requests"]}),
    ),
    "refresh-by-the-zones-of-the-inputs": Case(
        zones(a=cloud(queued("ACTIVE"), node=[node()]), b=cloud(WAITS)),
        refreshes(inputs=known(zones=[A, B]), outputs=state()),
    ),
    "down-by-the-zones-of-the-inputs": Case(
        zones(a=cloud(queued("ACTIVE"), GONE, node=[node(), NO_NODE]), b=cloud(WAITS, GONE)),
        downs(zones=[A, B]),
    ),
    "down-with-one-that-fails": Case(
        zones(
            a=cloud(queued("ACTIVE"), node=[node()], delete=[AccessError("denied")]),
            b=cloud(WAITS, WAITS, GONE),
        ),
        downs(zones=[A, B]),
    ),
    "refresh-of-what-is-said-to-be-over": Case(
        cloud(GONE), refreshes(outputs=state(expireTime="soon"))
    ),
    "refresh-at-the-very-end": Case(
        cloud(GONE), refreshes(outputs=state(expireTime="2027-01-15T08:16:40.500000Z"))
    ),
    "refresh": Case(cloud(queued("ACTIVE"), node=[node()]), refreshes(outputs=state())),
    "refresh-of-a-wait": Case(cloud(WAITS), refreshes(outputs=state("waiting"))),
    "refresh-of-a-failure": Case(
        cloud(queued("FAILED", failedData=STOCK_OUT)), refreshes(outputs=state())
    ),
    "refresh-of-a-failure-by-code": Case(
        cloud(queued("FAILED", failedData={"error": {"code": 8, "message": "no"}})),
        refreshes(outputs=state()),
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
def test_console(name: str) -> None:
    """Up again, down, refresh and import: the console reads as it was reviewed."""
    assert_console(name, CASES[name])
