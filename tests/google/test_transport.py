"""What is retried, for how long, with Retry-After, and which error each refusal becomes."""

from __future__ import annotations

import email.utils
import itertools
import threading
import time
from dataclasses import replace
from typing import Any

import pytest
import requests

from tests.google.fake_session import BASE, OK, PATH, FakeSession, dated, refusal, transport
from tests.provider.fakes import FakeTime
from tpuflex.errors import (
    AccessError,
    AlreadyExistsError,
    ApiError,
    ConflictError,
    InterruptedByUser,
    NotFoundError,
    QuotaError,
    ServiceDisabledError,
)
from tpuflex.google.timing import SETTLED_AFTER, Settling, Timing
from tpuflex.google.transport import Transport


def test_json_goes_out_and_comes_back() -> None:
    """Method, URL, query and body are sent as given; the answer's object is returned."""
    sender, session = transport(OK)

    assert sender.call("POST", PATH, query={"force": "true"}, body={"a": 1}) == {"name": "q"}
    assert session.sent == [("POST", BASE + PATH, {"force": "true"}, b'{"a": 1}')]


@pytest.mark.parametrize(
    "fault",
    [
        refusal(408, ""),
        refusal(429, "RESOURCE_EXHAUSTED", "Quota exceeded for 'Requests per minute'"),
        refusal(500, "INTERNAL"),
        refusal(502, ""),
        (502, b"<html>Bad Gateway</html>"),
        refusal(503, "UNAVAILABLE"),
        refusal(504, "DEADLINE_EXCEEDED"),
        refusal(403, "PERMISSION_DENIED", errors=[{"reason": "rateLimitExceeded"}]),
        refusal(403, "PERMISSION_DENIED", "Quota exceeded: queries per minute"),
        requests.ConnectionError("reset"),
        requests.ReadTimeout("slow"),
        requests.exceptions.ChunkedEncodingError("cut"),
        (200, b"<html>sign in</html>"),
        (200, b'{"name": "q'),
        (200, b""),
        (200, b"[]"),
    ],
    ids=str,
)
def test_passing_faults_are_retried(fault: Any) -> None:
    """What may go away by itself is asked again, with a growing, jittered pause."""
    sender, session = transport(fault, fault, fault, OK)

    assert sender.call("GET", PATH) == {"name": "q"}

    gaps = [b - a for a, b in zip(session.at, session.at[1:], strict=False)]
    assert gaps == [0.5, 1.0, 2.0]


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (refusal(400, "INVALID_ARGUMENT"), ApiError),
        (refusal(400, "FAILED_PRECONDITION"), ConflictError),
        (refusal(403, "PERMISSION_DENIED", "Permission 'tpu.x' denied"), AccessError),
        (
            refusal(403, "PERMISSION_DENIED", errors=[{"reason": "accessNotConfigured"}]),
            ServiceDisabledError,
        ),
        (refusal(403, "PERMISSION_DENIED", "Quota 'X' exhausted"), QuotaError),
        (refusal(429, "RESOURCE_EXHAUSTED", "Quota 'TPUV6EPerProjectPerZone…'"), QuotaError),
        (refusal(404, "NOT_FOUND"), NotFoundError),
        (refusal(409, "ALREADY_EXISTS"), AlreadyExistsError),
        (refusal(409, "ABORTED"), ConflictError),
        (refusal(501, "UNIMPLEMENTED"), ApiError),
        ((302, b""), ApiError),
    ],
    ids=str,
)
def test_refusals_are_final_and_typed(fault: Any, kind: type[Exception]) -> None:
    """What no retry can cure is raised at once, as the kind that says who must act."""
    sender, session = transport(fault)

    with pytest.raises(kind) as raised:
        sender.call("GET", PATH, query={"access_token": "canary"})

    assert type(raised.value) is kind
    assert len(session.at) == 1
    assert "canary" not in str(raised.value)
    if isinstance(raised.value, ApiError):
        assert (raised.value.method, raised.value.url) == ("GET", BASE + PATH)
        assert raised.value.status == fault[0]


_NO_QUOTA_PROJECT = (
    "Your application is authenticating by using local Application Default Credentials. The"
    " secretmanager.googleapis.com API requires a quota project, which is not set by default. To"
    " learn how to set your quota project, see https://cloud.google.com/docs/authentication/"
    "adc-troubleshooting/user-creds ."
)
_NO_QUOTA_PROJECT_BEFORE = (
    "Your application has authenticated using end user credentials from the Google Cloud SDK or"
    " Google Cloud Shell which are not supported by the secretmanager.googleapis.com. We recommend"
    " configuring the billing/quota_project setting in gcloud"
)
_DENIED = "Caller does not have required permission to use project other-project."


@pytest.mark.parametrize(
    ("message", "reason", "hint"),
    [
        (_NO_QUOTA_PROJECT, "SERVICE_DISABLED", "Run: "),
        (_NO_QUOTA_PROJECT_BEFORE, "SERVICE_DISABLED", "Run: "),
        (
            _DENIED,
            "USER_PROJECT_DENIED",
            "You need the role roles/serviceusage.serviceUsageConsumer on the quota project; or"
            " name another one: ",
        ),
    ],
)
def test_a_quota_project_is_no_quota(message: str, reason: str, hint: str) -> None:
    """A missing quota project is neither a quota of chips nor an API that is not enabled."""
    info = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason}
    sender, session = transport(refusal(403, "PERMISSION_DENIED", message, details=[info]))

    with pytest.raises(AccessError) as raised:
        sender.call("GET", "/v1/projects/my-project/secrets")

    assert type(raised.value) is AccessError
    assert str(raised.value.hint) == (
        f"{hint}gcloud auth application-default set-quota-project my-project\n"
        "If GOOGLE_APPLICATION_CREDENTIALS names a file, gcloud does not edit it: set"
        " GOOGLE_CLOUD_QUOTA_PROJECT=my-project instead."
    )
    assert len(session.at) == 1


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("This API method requires billing to be enabled. Please enable", "BILLING_DISABLED"),
        ("The billing account for the owning project is disabled", "accountDisabled"),
        ("Billing must be enabled for activation of service(s)", ""),
    ],
)
def test_missing_billing_names_the_command_that_links_an_account(message: str, reason: str) -> None:
    """A refusal for want of billing is no missing permission: the remedy links an account."""
    info = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason}
    sender, _ = transport(refusal(403, "PERMISSION_DENIED", message, details=[info]))

    with pytest.raises(AccessError) as raised:
        sender.call("GET", "/v1/projects/my-project/secrets")

    assert str(raised.value.hint) == (
        "Give the project a billing account: gcloud billing projects link my-project"
        " --billing-account=ACCOUNT_ID\nYours are listed by: gcloud billing accounts list"
    )


def test_budget_bounds_all_retries() -> None:
    """A call that keeps failing ends within its budget, with the last error."""
    sender, session = transport(*[refusal(503, "UNAVAILABLE", "still down")] * 100)

    with pytest.raises(ApiError, match="still down") as raised:
        sender.call("GET", PATH, budget=60)

    assert raised.value.status == 503
    assert session.time.now <= 1060
    assert len(session.at) > 4


def test_without_retries_each_call_is_tried_once() -> None:
    """Whatever budget a caller gives: a reading that is worth no wait."""
    time = FakeTime()
    session = FakeSession([refusal(503, "UNAVAILABLE", "still down"), OK], time)

    with pytest.raises(ApiError, match="still down"):
        Transport(session, BASE, time.timing(), retries=False).call("GET", PATH, budget=60)

    assert len(session.at) == 1


def test_expired_token_is_renewed_once() -> None:
    """401 renews the token and asks again; a second 401 is the user's to solve."""
    sender, session = transport(refusal(401, "UNAUTHENTICATED"), OK)
    sender.call("GET", PATH)
    assert session.refreshed == 1

    sender, session = transport(*[refusal(401, "UNAUTHENTICATED")] * 2)
    with pytest.raises(AccessError) as raised:
        sender.call("GET", PATH)
    assert str(raised.value.hint) == "Run: gcloud auth application-default login"
    assert session.refreshed == 1


def test_cancel_ends_the_pause() -> None:
    """A cancellation during a retry's pause ends the call at once."""
    sender, session = transport((503, b"", {"Retry-After": "30"}), stop_at=1010.0)

    with pytest.raises(InterruptedByUser):
        sender.call("GET", PATH)

    assert session.time.now == 1010


def test_no_answer_has_status_0() -> None:
    """A request that was never answered is told apart from one that was refused."""
    sender, _ = transport(*[requests.ConnectionError("reset")] * 50)

    with pytest.raises(ApiError) as raised:
        sender.call("POST", PATH, body={})

    assert raised.value.status == 0


def test_rate_limit_that_lasts_is_no_missing_quota() -> None:
    """A rate limit that outlasts a call is no missing permission or quota, and the caller learns
    how long to wait."""
    slow = refusal(403, "PERMISSION_DENIED", "Quota exceeded for 'Requests per minute'")
    sender, _ = transport((*slow, {"Retry-After": "120"}))

    with pytest.raises(ApiError) as raised:
        sender.call("GET", PATH, budget=15)

    assert raised.value.passing
    assert raised.value.retry_after == 120
    assert "slower" in str(raised.value.hint)


def test_token_server_that_does_not_answer_is_asked_again() -> None:
    """An expired token whose renewal fails on the way is renewed at the next attempt."""
    expired = refusal(401, "UNAUTHENTICATED")
    sender, session = transport(expired, expired, OK)
    session.refresh_faults = [requests.ConnectionError("token server")]

    assert sender.call("GET", PATH) == {"name": "q"}

    assert session.refreshed == 2


def test_jitter_spreads_retries_over_the_whole_pause() -> None:
    """Full jitter: between nothing and the doubled pause, never above it."""
    faults = [refusal(503, "UNAVAILABLE")] * 5
    for jitter, gaps in ((0.0, [0] * 5), (0.999, [1, 2, 4, 8, 16])):
        time = FakeTime()
        session = FakeSession([*faults, OK], time)
        timing = replace(time.timing(), jitter=itertools.repeat(jitter).__next__)
        Transport(session, BASE, timing).call("GET", PATH)

        found = [b - a for a, b in itertools.pairwise(session.at)]
        assert found == pytest.approx(gaps, abs=0.02)


def test_the_clock_for_deadlines_goes_on_while_the_machine_sleeps() -> None:
    """The time in the queue counts on, so the deadline must: not Python's own monotonic clock."""
    timing = Timing.real(threading.Event())

    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    before = time.clock_gettime(clock)
    assert before <= timing.monotonic() <= time.clock_gettime(clock)


def _disabled() -> tuple[int, Any]:
    service = {"service": "tpu.googleapis.com", "consumer": "projects/1"}
    details = [{"reason": "SERVICE_DISABLED", "domain": "googleapis.com", "metadata": service}]
    text = "Cloud TPU API has not been used in project 1 before or it is disabled."
    return refusal(403, "PERMISSION_DENIED", text, details=details)


def test_b2_an_api_that_is_off_is_refused_at_once() -> None:
    """Where nobody has enabled an API, SERVICE_DISABLED is final; the hint, which `down` and
    `status` show too, advises no `up`, which would change the slice."""
    sender, session = transport(_disabled())

    with pytest.raises(ServiceDisabledError) as refused:
        sender.call("GET", "/v2alpha1/projects/my-project/locations")

    assert len(session.sent) == 1
    assert "gcloud services enable tpu.googleapis.com --project=my-project" in str(
        refused.value.hint
    )
    assert "tpuflex up" not in str(refused.value.hint)


def test_b2_an_api_that_was_just_enabled_is_asked_again() -> None:
    """While APIs settle, SERVICE_DISABLED passes: 60 s are waited, whatever the budget."""
    time = FakeTime()
    session = FakeSession([], time)

    def answer(*_words: Any, **_options: Any) -> Any:
        session.answers.append(_disabled() if time.now < 1060 else OK)
        return FakeSession.request(session, *_words, **_options)

    patient = type("Patient", (), {"request": staticmethod(answer)})()
    settling = Settling()
    settling.begin(time.now)
    sender = Transport(patient, BASE, time.timing(), settling)

    assert sender.call("GET", PATH, budget=0) == {"name": "q"}
    assert 1060 <= time.now < 1090


def test_b2_an_api_that_does_not_settle_is_refused() -> None:
    """Five minutes after it was enabled, SERVICE_DISABLED is final again."""
    time = FakeTime()
    session = FakeSession([_disabled() for _ in range(100)], time)
    settling = Settling()
    settling.begin(time.now)

    with pytest.raises(ServiceDisabledError):
        Transport(session, BASE, time.timing(), settling).call("GET", PATH)

    assert 1000 + SETTLED_AFTER - 30 <= time.now <= 1000 + SETTLED_AFTER


def test_retry_after_is_honoured() -> None:
    """Seconds and HTTP dates both hold us off at least that long."""
    date = email.utils.formatdate(1.8e9 + 1000 + 9 + 20, usegmt=True)
    sender, session = transport(
        (429, b"", {"Retry-After": "9"}), (503, b"", {"Retry-After": date}), OK
    )

    sender.call("GET", PATH)

    first, second, third = session.at
    assert 9 <= second - first <= 10
    assert third >= 1000 + 9 + 20


def test_retry_after_beyond_the_budget_is_not_waited_for() -> None:
    """A server that asks for more patience than the call has gets its error reported."""
    sender, session = transport((503, b"", {"Retry-After": "3600"}))

    with pytest.raises(ApiError):
        sender.call("GET", PATH)

    assert session.time.now == 1000


@pytest.mark.parametrize("text", ["soon", "-5", "²", "Wed, 99 Foo 2026 25:61:00 GMT"])
def test_retry_after_that_cannot_be_read_is_left_out(text: str) -> None:
    """A header that says nothing is no accident: the call goes on as if there were none."""
    sender, session = transport(dated(text), OK)

    assert sender.call("GET", PATH) == {"name": "q"}

    assert session.time.now == 1000.5


def test_retry_after_for_ages_is_not_waited_for() -> None:
    """A number beyond all measure ends the call like any that is beyond its budget."""
    sender, session = transport(dated("9" * 400))

    with pytest.raises(ApiError):
        sender.call("GET", PATH)

    assert session.time.now == 1000


def test_retry_after_without_a_zone_is_utc() -> None:
    """A date whose zone is unknown is read as UTC, whatever zone this machine is in."""
    date = email.utils.formatdate(1.8e9 + 1000 + 20)
    assert date.endswith("-0000")
    sender, session = transport(dated(date), OK)

    sender.call("GET", PATH)

    assert session.at[1] - session.at[0] == pytest.approx(20.5, abs=1)


@pytest.mark.parametrize("off", [-9 * 3600.0, 5 * 3600.0])
def test_retry_after_counts_from_the_answers_own_date(off: float) -> None:
    """A clock of ours that is hours off neither stops the polls for hours nor hastens them."""
    server = 1.8e9 + 1000 + off
    dates = {"Retry-After": email.utils.formatdate(server + 20, usegmt=True)}
    dates["Date"] = email.utils.formatdate(server, usegmt=True)
    sender, session = transport((503, b"", dates), OK)

    sender.call("GET", PATH)

    assert session.at[1] - session.at[0] == pytest.approx(20.5)
