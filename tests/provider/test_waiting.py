"""Waiting for capacity, on a clock that only the test moves."""

from __future__ import annotations

from itertools import chain, pairwise

import pytest

from tests.provider.fakes import (
    NAME,
    NODE,
    Cloud,
    FakeTime,
    JsonObject,
    args,
    missing,
    node,
    queued,
    scripted,
    sequence,
)
from tpuflex.codes import Code
from tpuflex.errors import AccessError, ApiError, QuotaError, TpuflexError
from tpuflex.provider.call import Call, Deadlines, UnreadyError, pause_for
from tpuflex.provider.race import obtain
from tpuflex.request.snapshot import Snapshot
from tpuflex.request.states import Lifecycle

HOUR = 3600.0
DAY = 24 * HOUR
#: GETs before the POST: queued resource and node, looked for twice.
BEFORE = 4


def asked(cloud: Cloud) -> Cloud:
    """``cloud``, in which nothing exists until it was requested."""
    cloud.request = chain([missing()] * 2, cloud.request)
    cloud.node = chain([missing(NODE)] * 2, cloud.node)
    return cloud


def wait(call: Call, *, queue: float = DAY, provisioning: float = HOUR) -> Snapshot:
    """Ask in one zone and wait."""
    return obtain(call, args(), Deadlines(queue, provisioning, deletion=HOUR))


def test_states_are_said_once_each_with_their_meaning() -> None:
    """Each state gets one line in plain words, and the wait ends with ACTIVE."""
    cloud = Cloud(
        request=sequence(
            queued("CREATING"),
            queued("WAITING_FOR_RESOURCES"),
            queued("WAITING_FOR_RESOURCES"),
            queued("PROVISIONING"),
            queued("ACTIVE"),
        ),
        node=sequence(node("CREATING"), node("READY")),
    )
    call, _, said = scripted(asked(cloud))

    seen = wait(call)

    assert seen.lifecycle is Lifecycle.ACTIVE
    heads = [line.split(":")[0].split(",")[0] for _, line in said.lines][1:]
    assert heads == ["CREATING", "WAITING_FOR_RESOURCES", "PROVISIONING", "ACTIVE", "ACTIVE"]
    assert "ACTIVE, but the node is CREATING" in said.text


def test_a_long_wait_beats_every_minute_and_polls_gently() -> None:
    """Over a day: a sign of life every 60 s, and at most one poll per 15 s on average."""
    time = FakeTime()
    call, script, said = scripted(
        asked(Cloud(request=sequence(queued("WAITING_FOR_RESOURCES")))), time
    )

    with pytest.raises(UnreadyError, match="not active after 1d") as ended:
        wait(call)

    assert "run `up` again" in ended.value.hint
    moments = [at for at, _ in said.lines][1:]
    gaps = [later - earlier for earlier, later in pairwise(moments)]
    assert all(gap == pytest.approx(60) for gap in gaps)
    assert len(script.sent) <= DAY / 15
    assert time.now == pytest.approx(1000 + DAY)


def test_deadline_is_met_exactly() -> None:
    """The wait neither ends before its deadline nor a poll later."""
    time = FakeTime()
    call, _, _ = scripted(asked(Cloud(request=sequence(queued("WAITING_FOR_RESOURCES")))), time)

    with pytest.raises(UnreadyError):
        wait(call, queue=100)

    assert time.now == 1100


def test_cancel_ends_the_wait_and_keeps_what_was_seen() -> None:
    """A cancellation raises at once, with the request as it was last seen."""
    time = FakeTime(stop_at=1010.0)
    call, _, _ = scripted(asked(Cloud(request=sequence(queued("WAITING_FOR_RESOURCES")))), time)

    with pytest.raises(UnreadyError, match="stopped waiting") as ended:
        wait(call)

    assert time.now == 1010
    assert ended.value.snapshot.lifecycle is Lifecycle.WAITING


@pytest.mark.parametrize(
    ("code", "message", "kind"),
    [
        (3, "FLEX_START provisioning model is not supported for v6e-4", ApiError),
        (8, "Quota 'TPUV6EPreemptiblePerProjectPerZoneForTPUAPI' exhausted. Limit 0", QuotaError),
        (7, "Permission 'tpu.nodes.create' denied", AccessError),
        (9, "Constraint constraints/compute.requireShieldedVm violated", AccessError),
    ],
)
def test_rejection_fails_at_once(code: int, message: str, kind: type[Exception]) -> None:
    """An operation that ends with an error, and no request to show for it, is final."""
    time = FakeTime()
    done: JsonObject = {
        "name": "operations/1",
        "done": True,
        "error": {"code": code, "message": message},
    }
    call, _, _ = scripted(asked(Cloud(operation=sequence(done))), time)

    with pytest.raises(kind, match="was rejected") as ended:
        wait(call)

    assert time.now == 1000
    assert message in str(ended.value)
    assert not isinstance(ended.value, UnreadyError)


@pytest.mark.parametrize("left", [False, True])
def test_a_project_without_billing_is_told_what_mends_it(left: bool) -> None:
    """A failure inside an operation or a request that is about billing names the command that
    links an account, not an administrator; its kind is that of a missing permission."""
    error: JsonObject = {"code": 9, "message": "This API method requires billing to be enabled."}
    done: JsonObject = {"name": "operations/1", "done": True, "error": error}
    failed = queued("FAILED", failedData={"error": error})
    cloud = Cloud(request=sequence(failed)) if left else Cloud(operation=sequence(done))
    call, _, _ = scripted(asked(cloud))

    with pytest.raises(TpuflexError) as ended:
        wait(call)

    assert ended.value.code is Code.PERMISSION
    assert (
        "gcloud billing projects link cloud-project --billing-account=ACCOUNT_ID\n"
        in ended.value.hint
    )
    assert "administrator" not in ended.value.hint


def test_rejection_with_a_request_left_behind_is_kept() -> None:
    """A rejected request that still exists must stay in the state, or it would leak."""
    failed = queued("FAILED", failedData={"error": {"code": 8, "message": "no more capacity"}})
    done: JsonObject = {
        "name": "operations/1",
        "done": True,
        "error": {"code": 8, "message": "stockout"},
    }
    call, _, _ = scripted(asked(Cloud(request=sequence(failed), operation=sequence(done))))

    with pytest.raises(UnreadyError, match="cause: stock-out") as ended:
        wait(call)

    assert ended.value.snapshot.lifecycle is Lifecycle.FAILED


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (queued("FAILED", failedData={"error": {"code": 13, "message": "oops"}}), "internal"),
        (queued("SUSPENDED"), "is over"),
        (queued("DELETING"), "being deleted by someone else"),
    ],
)
def test_settled_states_end_the_wait(state: JsonObject, words: str) -> None:
    """What cannot become ACTIVE any more is not waited for."""
    time = FakeTime()
    call, _, _ = scripted(asked(Cloud(request=sequence(state))), time)

    with pytest.raises(UnreadyError, match=words):
        wait(call)

    assert time.now == 1000


def test_a_request_that_was_given_up_is_a_lack_of_capacity() -> None:
    """M7: `up` ends with the code of missing capacity, whatever Google's words, and says what to
    do; the request stays in the state, and the next `up` replaces it."""
    asked_for = args(validUntilDuration="3600s")
    error = {"code": 9, "message": "The request timed out."}
    failed = queued("FAILED", of=asked_for, failedData={"error": error})
    call, _, _ = scripted(asked(Cloud(request=sequence(failed))))

    with pytest.raises(UnreadyError) as ended:
        wait(call)

    assert ended.value.code is Code.CAPACITY
    assert ended.value.snapshot.lifecycle is Lifecycle.FAILED
    assert str(ended.value) == (
        f"{NAME} FAILED: The request timed out. (cause: expired)\n"
        "It was not granted while it was valid: let it wait longer, or in more zones."
        " `pulumi up` replaces it, `pulumi destroy` removes it."
    )


def test_suspending_is_waited_through_to_its_cause() -> None:
    """A provisioning that fails goes through SUSPENDING; the cause is only known in FAILED."""
    failed = queued(
        "FAILED", failedData={"error": {"code": 8, "message": "reached IN_USE_ADDRESSES limit"}}
    )
    cloud = Cloud(request=sequence(queued("PROVISIONING"), queued("SUSPENDING"), failed))
    call, _, _ = scripted(asked(cloud))

    with pytest.raises(UnreadyError, match="cause: quota"):
        wait(call)


def test_unknown_state_is_shown_and_waited_through() -> None:
    """A state that a later API may bring is shown as it is and does not end the wait."""
    cloud = Cloud(
        request=sequence(queued("ON_HOLD"), queued("ACTIVE")), node=sequence(node("READY"))
    )
    call, _, said = scripted(asked(cloud))

    wait(call)

    assert "ON_HOLD: a state that this version does not know" in said.text


def test_poll_failures_never_fail_the_wait() -> None:
    """An API that does not answer for a while does not lose the slice."""
    down = ApiError("unavailable", status=503)
    cloud = Cloud(
        request=sequence(down, down, down, down, queued("ACTIVE")), node=sequence(node("READY"))
    )
    call, _, _ = scripted(asked(cloud))

    assert wait(call).lifecycle is Lifecycle.ACTIVE


def test_lost_permission_ends_the_wait_but_keeps_the_request() -> None:
    """Refused for five minutes, the permission is gone rather than in flux: say so, and forget
    nothing. A single refusal passes."""
    time = FakeTime()
    call, script, _ = scripted(asked(Cloud(request=sequence(AccessError("403")))), time)

    with pytest.raises(UnreadyError, match="403"):
        wait(call)

    assert time.now == pytest.approx(1300, abs=40)
    assert len(script.sent) > BEFORE + 3

    once = sequence(AccessError("403"), queued("ACTIVE"))
    call, _, _ = scripted(asked(Cloud(request=once, node=sequence(node()))))
    assert wait(call).lifecycle is Lifecycle.ACTIVE


def test_404_right_after_the_request_is_not_yet() -> None:
    """For a minute after the API accepted the request, a 404 only means "not yet"."""
    time = FakeTime()
    cloud = Cloud(
        request=sequence(*[missing()] * 5, queued("ACTIVE")),
        node=sequence(*[missing()] * 5, node("READY")),
    )
    call, _, _ = scripted(asked(cloud), time)
    wait(call)

    call, _, _ = scripted(asked(Cloud()), time)
    began = time.now
    with pytest.raises(UnreadyError, match="cannot be found"):
        wait(call)
    assert 60 <= time.now - began <= 75


def test_forgotten_operation_is_no_failure() -> None:
    """Google forgets operations; the queued resource says the rest."""
    cloud = Cloud(
        request=sequence(queued("WAITING_FOR_RESOURCES"), queued("ACTIVE")),
        node=sequence(node()),
        operation=sequence(missing("operations/1")),
    )
    call, script, _ = scripted(asked(cloud))

    wait(call)

    assert sum("operations" in request.path for request in script.sent) == 1


def test_active_without_a_node_is_lost() -> None:
    """An ACTIVE queued resource whose node is gone will not come back by itself."""
    call, _, _ = scripted(asked(Cloud(request=sequence(queued("ACTIVE")))))

    with pytest.raises(UnreadyError, match="its node is gone") as ended:
        wait(call)

    assert ended.value.snapshot.lifecycle is Lifecycle.LOST


def test_many_waits_share_one_pace() -> None:
    """However many wait in a process, together they poll ten times a second at most on average;
    a few are as quick as one, and old waits are as slow as ever."""
    for waits in (1, 5, 32, 64, 1000):
        assert waits / pause_for(0.0, 0.5, waits) <= 10
    assert pause_for(0.0, 0.5, 5) == pause_for(0.0, 0.5, 1) == 0.5
    assert pause_for(DAY, 0.5, 64) == pause_for(DAY, 0.5, 1) == 30
