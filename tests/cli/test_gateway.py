"""What `gateway status` prints, on 80 columns."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.cli.typing import Captured
from tpuflex.cli.gateway.status import show_status
from tpuflex.cli.invocation import Invocation
from tpuflex.gateway.gateway_status import (
    ClassStatus,
    GatewayStatus,
    LateStatus,
    LimitStatus,
    UpstreamStatus,
)

AT = datetime(2026, 11, 29, 12, tzinfo=UTC)
SLOW = LateStatus(pace="slow", limit=1.5, since=AT - timedelta(minutes=2))


def upstream(name: str, **changes: object) -> UpstreamStatus:
    fields = {
        "name": name,
        "state": "open",
        "why": "",
        "since": AT - timedelta(minutes=5),
        "in_flight": 12,
        "limit": 128,
        "waiting": 0,
        "first_token_p95": 0.42,
        "late": {},
        "kv_use": 0.31,
        "run_seconds_left": 6 * 86_400.0 + 4 * 3600,
    }
    return UpstreamStatus.model_validate(fields | changes)


def test_how_a_gateway_is(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    """What serves nothing is said first, and under the table why an upstream gets nothing; clients
    that are near a limit stand above the others."""
    monkeypatch.setenv("TZ", "UTC")
    found = GatewayStatus(
        at=AT,
        since=AT - timedelta(hours=2, minutes=5),
        models={"served": 1, "other": 0},
        unseen_stacks={"west": "Stack west has no slice. Next: tpuflex up --stack west"},
        upstreams=(
            upstream("prod/prod-g7", late={"interactive": SLOW}),
            upstream(
                "prod/prod-g6",
                state="draining",
                why="it ends what it has, and gets nothing new.",
                in_flight=2,
                run_seconds_left=300.0,
            ),
            upstream(
                "url",
                state="closed",
                why="it refuses its key.",
                in_flight=0,
                run_seconds_left=None,
            ),
        ),
        classes=(
            ClassStatus(
                name="interactive",
                waiting=3,
                room=256,
                answered=12_345,
                not_answered={"client_left": 2, "overloaded": 1_037, "first_token": 12},
            ),
            ClassStatus(name="batch", waiting=0, room=2048, answered=0, not_answered={}),
            ClassStatus(
                name="", waiting=0, room=0, answered=0, not_answered={"invalid_api_key": 4}
            ),
        ),
        limits=(
            LimitStatus(client="mobile", limit="tokens_per_minute", used=90_000, most=100_000),
            LimitStatus(client="mobile", limit="usd_per_day", used=1.5, most=20),
        ),
        why="The gateway does not answer.",
    )
    show_status(Invocation(environ={"COLUMNS": "80"}, now=lambda: AT), found)

    assert capsys.readouterr().out == (
        "Gateway, 2026-11-29 12:00:00 UTC, up for 2h5m\n"
        "This is its last answer. The gateway does not answer.\n"
        "Nothing serves other: its requests are refused.\n"
        "Stack west has no slice. Next: tpuflex up --stack west\n"
        "UPSTREAM      STATE              IN FLIGHT  FIRST TOKEN P95  KV USE  RUN ENDS IN\n"
        "prod/prod-g7  open, slow for     12 of 128  0.42 s           31 %    6d4h\n"
        "              interactive\n"
        "prod/prod-g6  draining           2 of 128   0.42 s           31 %    5m\n"
        "url           closed             0 of 128   -                -       -\n"
        "prod/prod-g7 has been slow for interactive requests for 2m: more than 5 % of its\n"
        "  first tokens came after 1.5 s.\n"
        "prod/prod-g6 has drained for 5m: it ends what it has, and gets nothing new.\n"
        "url has been closed for 5m: it refuses its key.\n"
        "\n"
        "CLASS        WAITING    ANSWERED  NOT ANSWERED\n"
        "interactive  3 of 256   12,345    1,037 overloaded, 12 first_token, 2\n"
        "                                  client_left\n"
        "batch        0 of 2048  0         -\n"
        "(none)       -          0         4 invalid_api_key\n"
        "\n"
        "CLIENT  LIMIT              USED    OF\n"
        "mobile  tokens_per_minute  90,000  100,000  90 %\n"
        "mobile  usd_per_day        1.50    20.00    8 %\n"
    )
