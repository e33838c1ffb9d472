"""Refusals that pass: a service account, or an API, that Google does not know of yet."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.provider.fakes import INPUTS, Answer, JsonObject, Sent
from tests.provider.zones import A, B, Run, Zone, granted, name, race
from tpuflex.errors import (
    AccessError,
    ApiError,
    ConflictError,
    NotFoundError,
    ServiceDisabledError,
    TpuflexError,
)
from tpuflex.provider.call import UnreadyError
from tpuflex.queued_resource.states import Lifecycle

ACCOUNT = INPUTS["serviceAccount"]
TEXT = f"Service account {ACCOUNT} does not exist."

REFUSALS = {
    "3": ApiError(TEXT, status=400, reason="INVALID_ARGUMENT"),
    "5": NotFoundError(TEXT),
    "7": AccessError(f"Permission 'iam.serviceaccounts.actAs' denied on service account {ACCOUNT}"),
    "9": ConflictError(TEXT, status=400, reason="FAILED_PRECONDITION"),
}


def refusing(run: Run, when: Callable[[Sent], Answer | None]) -> None:
    """Have the API of ``run`` answer with ``when`` where that gives an answer."""
    run.script.handler = lambda sent: when(sent) or run.zones(sent)


def known_at(run: Run, moment: float, refusal: TpuflexError) -> None:
    """Refuse every request for a slice until ``moment``."""

    def answer(sent: Sent) -> Answer | None:
        return refusal if sent.method == "POST" and run.time.now < moment else None

    refusing(run, answer)


@pytest.mark.parametrize("refusal", REFUSALS.values(), ids=REFUSALS)
def test_m5_a_new_service_account_is_waited_for(refusal: TpuflexError) -> None:
    """A create that is refused because the account is new is sent again until it is known."""
    run = race(a=Zone(granted(5, 5)))
    known_at(run, 1060, refusal)

    assert run.go().lifecycle is Lifecycle.ACTIVE

    assert 1060 <= run.time.now < 1090
    assert f"Google does not know {ACCOUNT} yet; asking again for 2m (10s so far)" in run.said.text
    ids = [sent.query["requestId"] for sent in run.script.sent if sent.method == "POST"]
    assert len(ids) > 1
    assert len(set(ids)) == len(ids)  # else Google would repeat its first answer


def test_m5_the_wait_for_an_account_ends_after_two_minutes() -> None:
    """An account that stays unknown is reported as Google says it; nothing is left."""
    run = race(a=Zone())
    known_at(run, 9999, REFUSALS["7"])

    with pytest.raises(AccessError, match="actAs"):
        run.go()

    assert 1100 <= run.time.now <= 1125
    assert run.zones.running() == []


def test_m5_a_refusal_that_names_no_account_is_final() -> None:
    """Other refusals with the same codes end the create at once."""
    run = race(a=Zone(refuse=ApiError("no such runtime", status=400, reason="INVALID_ARGUMENT")))

    with pytest.raises(ApiError, match="no such runtime"):
        run.go()

    assert run.time.now < 1010


def test_m5_an_operation_that_fails_so_is_started_again() -> None:
    """The refusal may come by the create operation, after the request was accepted."""
    run = race(a=Zone(granted(5, 5), operation_error={"code": 9, "message": TEXT}))

    def answer(_sent: Sent) -> Answer | None:
        if run.time.now >= 1060:
            run.zones.zones[A].operation_error = None
        return None

    refusing(run, answer)

    assert run.go().lifecycle is Lifecycle.ACTIVE
    assert run.asked().count(A) > 1


def test_m5_a_request_that_failed_so_is_deleted_and_placed_again() -> None:
    """A queued resource that FAILED for it is cleared away, and asked for again."""
    failure: JsonObject = {"code": 7, "message": TEXT}
    run = race(a=Zone({0.0: "ACCEPTED", 5.0: "FAILED"}, failure=failure))

    def answer(sent: Sent) -> Answer | None:
        zone = run.zones.zones[A]
        if sent.method == "POST" and run.time.now >= 1040:
            zone.grants, zone.failure = granted(5, 5), None
        return None

    refusing(run, answer)

    assert run.go().lifecycle is Lifecycle.ACTIVE
    assert run.asked().count(A) > 1
    assert run.zones.running() == [A]


def test_m5_one_zone_at_a_time_waits_for_the_account_too() -> None:
    """Ordered, the next zone is not asked because the first does not know the account yet."""
    run = race("ordered", a=Zone(granted(5, 5)), b=Zone())
    known_at(run, 1030, REFUSALS["3"])

    assert run.go().name == name(A)

    assert B not in run.asked()


def test_m5_what_exists_is_not_waited_for() -> None:
    """An update enabled and made nothing a moment ago: its refusals are final."""
    run = race(a=Zone())
    known_at(run, 9999, REFUSALS["7"])

    with pytest.raises((AccessError, UnreadyError)):
        run.go(known=[name(A)])

    assert run.time.now < 1010


def test_b2_an_api_that_was_just_enabled_is_waited_for() -> None:
    """Plain `pulumi up` enables the API a moment before: SERVICE_DISABLED passes."""
    run = race(a=Zone(granted(5, 5)), b=Zone())

    def answer(_sent: Sent) -> Answer | None:
        off = run.time.now < 1070
        return (
            ServiceDisabledError("it is disabled. If you enabled it recently, …") if off else None
        )

    refusing(run, answer)

    assert run.go().name == name(A)

    assert "the TPU API does not answer yet; asking again for 5m" in run.said.text
    assert 1070 <= run.time.now < 1100


def test_b2_an_api_that_stays_off_ends_the_create_within_five_minutes() -> None:
    """An API that nobody enabled is refused by name when the five minutes are over."""
    run = race(a=Zone())
    refusing(run, lambda _sent: ServiceDisabledError("tpu.googleapis.com is disabled"))

    with pytest.raises(ServiceDisabledError, match="is disabled"):
        run.go()

    assert 1280 <= run.time.now <= 1300
