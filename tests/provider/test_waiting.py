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
from tpuflex.provider.call import Call, Deadlines, UnreadyError
from tpuflex.provider.race import obtain
from tpuflex.queued_resource.snapshot import Snapshot
from tpuflex.queued_resource.states import Lifecycle

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


def test_a_long_wait_beats_every_minute_and_polls_gently() -> None:
    """Over a day: a sign of life every 60 s, and at most one poll per 15 s on average."""
    time = FakeTime()
    call, script, said = scripted(
        asked(Cloud(request=sequence(queued("WAITING_FOR_RESOURCES")))), time
    )

    with pytest.raises(UnreadyError, match="not active after 1d") as ended:
        wait(call)

    assert "run `up` again" in str(ended.value.hint)
    moments = [at for at, _ in said.lines][1:]
    gaps = [later - earlier for earlier, later in pairwise(moments)]
    assert all(gap == pytest.approx(60) for gap in gaps)
    assert len(script.sent) <= DAY / 15
    assert time.now == pytest.approx(1000 + DAY)


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
    assert "gcloud billing projects link cloud-project --billing-account=ACCOUNT_ID\n" in str(
        ended.value.hint
    )
    assert "administrator" not in str(ended.value.hint)


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
