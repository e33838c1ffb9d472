"""Retry-After: when it is honoured, how it is read, and when it asks too much."""

from __future__ import annotations

import email.utils

import pytest

from tests.gcp.fake_session import OK, PATH, dated, transport
from tpuflex.errors import (
    ApiError,
)


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
