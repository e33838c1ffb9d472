"""The console while capacity is requested, word by word, as it was reviewed."""

from __future__ import annotations

import pytest

from tests.provider.console import (
    DONE,
    GONE,
    MAKES,
    NO_ANSWER,
    NO_NODE,
    QUOTA,
    SEVERAL,
    STOCK_OUT,
    THEIRS,
    WAITS,
    Case,
    assert_console,
    cloud,
    ups,
    waits_until_asked,
    zones,
)
from tests.provider.fakes import args, missing, node, queued
from tpuflex.errors import (
    AccessError,
    AlreadyExistsError,
    ApiError,
    ConflictError,
    InterruptedByUser,
)

CASES = {
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
    "up-is-stopped-while-it-asks": Case(
        cloud(GONE, post=[InterruptedByUser("stopped on request")]), ups()
    ),
    "up-loses-the-answer-and-cannot-look": Case(
        cloud(GONE, GONE, AccessError("denied"), post=[ApiError("no answer")]), ups()
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
    "up-is-rejected-but-listed": Case(
        cloud(GONE, GONE, WAITS, operation=[{**DONE, "error": QUOTA}]),  # type: ignore[dict-item]
        ups(),
    ),
    "up-is-rejected-and-fails": Case(
        cloud(GONE, GONE, queued("FAILED", failedData=STOCK_OUT),
              operation=[{**DONE, "error": QUOTA}]),  # type: ignore[dict-item]
        ups(),
    ),
    "up-is-rejected-for-want-of-permission": Case(
        cloud(GONE, operation=[{"name": "o", "done": True, "error": {
            "code": 7, "message": "Permission 'tpu.nodes.create' denied"}}]),
        ups(),
    ),
    "up-is-rejected-for-what-it-names": Case(
        cloud(GONE, operation=[{"name": "o", "done": True, "error": {
            "code": 5, "message": "network n was not found"}}]),
        ups(),
    ),
    "up-waits-for-its-operation": Case(
        cloud(GONE, GONE, GONE, WAITS, queued("ACTIVE"), node=[NO_NODE] * 3 + [node()],
              operation=[{"name": "operations/1"}, {"name": "operations/1"}, DONE]),
        ups(),
    ),
    "up-has-a-forgotten-operation": Case(
        cloud(GONE, GONE, WAITS, queued("ACTIVE"), node=[NO_NODE, NO_NODE, node()],
              operation=[missing("operations/1")]),
        ups(),
    ),
    "up-fails": Case(cloud(GONE, GONE, queued("FAILED", failedData=STOCK_OUT)), ups()),
    "up-fails-without-a-reason": Case(cloud(GONE, GONE, queued("FAILED")), ups()),
    "up-is-rejected-by-code": Case(
        cloud(GONE, operation=[{"name": "o", "done": True, "error": {"code": 7, "message": "no"}}]),
        ups(),
    ),
    "up-fails-by-code": Case(
        cloud(GONE, GONE, queued("FAILED", failedData={"error": {"code": 8, "message": "no"}})),
        ups(),
    ),
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
            a=waits_until_asked([DONE], GONE),
            b=cloud(GONE, GONE, WAITS, queued("ACTIVE"), node=[NO_NODE, NO_NODE, node()]),
        ),
        ups(strategy="ordered", queueTimeout="60s", **SEVERAL),
    ),
    "ordered-cannot-withdraw-at-first": Case(
        zones(
            a=waits_until_asked([ApiError("busy", status=503), DONE], GONE),
            b=cloud(GONE, GONE, queued("ACTIVE"), node=[NO_NODE, NO_NODE, node()]),
        ),
        ups(strategy="ordered", queueTimeout="60s", **SEVERAL),
    ),
    "ordered-is-granted-at-the-last-moment": Case(
        zones(
            a=waits_until_asked([ConflictError("it was granted", status=400)], MAKES,
                                queued("ACTIVE"), node=[NO_NODE, NO_NODE, node()]),
            b=cloud(GONE),
        ),
        ups(strategy="ordered", queueTimeout="60s", **SEVERAL),
    ),
    "ordered-goes-on-where-it-waited": Case(
        zones(
            a=cloud(WAITS, GONE, delete=[missing()]),
            b=cloud(MAKES, MAKES, queued("ACTIVE"), node=[node()]),
        ),
        ups(strategy="ordered", **SEVERAL),
    ),
    "race-goes-on-where-it-stood": Case(
        zones(a=cloud(WAITS, WAITS, GONE), b=cloud(MAKES, queued("ACTIVE"), node=[node()])),
        ups(**SEVERAL),
    ),
    "race-meets-a-stranger": Case(
        zones(
            a=cloud(queued("ACTIVE", of=THEIRS), node=[node()]),
            b=cloud(GONE, GONE, queued("ACTIVE"), node=[NO_NODE, NO_NODE, node()]),
        ),
        ups(**SEVERAL),
    ),
    "race-cannot-look-everywhere": Case(
        zones(
            a=cloud(AccessError("denied"), AccessError("denied"), GONE),
            b=cloud(GONE, GONE, queued("ACTIVE"), node=[NO_NODE, NO_NODE, node()]),
        ),
        ups(**SEVERAL),
    ),
    "race-meets-another-request-of-ours": Case(
        zones(
            a=cloud(WAITS),
            b=cloud(queued("ACTIVE", of=args(acceleratorType="v6e-8")), node=[node()]),
        ),
        ups(**SEVERAL),
    ),
    "race-clears-leftovers-first": Case(
        zones(
            a=cloud(queued("SUSPENDED"), queued("SUSPENDED"), GONE, GONE, GONE, WAITS, GONE),
            b=cloud(queued("FAILED", failedData=STOCK_OUT), queued("FAILED"), GONE, GONE, GONE,
                    queued("ACTIVE"), node=[NO_NODE] * 5 + [node()]),
        ),
        ups(**SEVERAL),
    ),
    "race-is-stopped": Case(
        zones(a=cloud(GONE, GONE, WAITS), b=cloud(GONE, GONE, MAKES)), ups(**SEVERAL), stop_at=65
    ),
    "race-fails-everywhere": Case(
        zones(
            a=cloud(GONE, GONE, queued("FAILED", failedData=STOCK_OUT)),
            b=cloud(GONE, GONE, queued("FAILED", failedData=STOCK_OUT)),
        ),
        ups(deleteTimeout="60s", **SEVERAL),
    ),
    "ordered-takes-the-first": Case(
        zones(
            a=cloud(GONE, GONE, WAITS, queued("ACTIVE"), node=[NO_NODE, NO_NODE, node()]),
            b=cloud(GONE),
        ),
        ups(strategy="ordered", **SEVERAL),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_console(name: str) -> None:
    """Asking in one zone and in several: the console reads as it was reviewed."""
    assert_console(name, CASES[name])
