"""What `alerts` prints, on 80 columns and for scripts."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tests.alerts.recording import recorded
from tests.alerts.test_recording import look_at
from tests.alerts.test_rules import settings
from tests.cli.samples import status
from tests.cli.typing import Captured, TypeIn
from tpuflex.advice import Advice
from tpuflex.alerts.judgement import Judge
from tpuflex.alerts.rules import alert_rules
from tpuflex.cli.alerts.show import show_alerts
from tpuflex.cli.invocation import Invocation
from tpuflex.errors import ApiError
from tpuflex.measure.alerts import Alerts, slice_numbers

AT = datetime(2026, 11, 29, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")


@pytest.fixture
def invocation() -> Invocation:
    """A terminal with 80 columns."""
    return Invocation(environ={"COLUMNS": "80"}, now=lambda: AT)


def alerts(first: int, last: int, **changes: object) -> Alerts:
    """What the rules say after the looks from ``first`` to ``last`` of the recording."""
    stack, recording = settings(), recorded()
    judge = Judge(alert_rules(stack))
    running = status(active_since=AT - timedelta(hours=2), expires=AT + timedelta(days=2))
    numbers, missing = slice_numbers(stack, running, AT)
    for number in range(first, last + 1):
        look = look_at(recording, number)
        verdicts = judge.look(replace(look, numbers={**numbers, **look.numbers}, missing=missing))
    looked = recording.at(last) - recording.at(first)
    found = Alerts("prod", look.at, verdicts, last - first + 1, looked.total_seconds())
    return replace(found, **changes)  # type: ignore[arg-type]


def test_an_alert_fires(invocation: Invocation, capsys: Captured) -> None:
    """Each rule has its state and what it was judged by; one that fires says what to type next."""
    frozen = recorded().stages["frozen"]
    show_alerts(invocation, alerts(frozen - 5, frozen + 20))

    assert capsys.readouterr().out == (
        "Alerts of stack prod, 2026-11-29 01:50:00 UTC\n"
        "ALERT               STATE          FOUND\n"
        "KvCacheFull         FIRING for 7m  100.0 % of the KV cache, 2 waiting, 0\n"
        "                                   preemptions in 5m\n"
        "RequestsWaiting     FIRING for 8m  2 waiting\n"
        "FirstTokenSlow      ok             -\n"
        "FirstTokenVerySlow  ok             -\n"
        "NoTokens            FIRING for 3m  7 in flight, 0 tokens in 3m\n"
        "TargetDown          ok             it answers\n"
        "BootStuck           ok             -\n"
        "RunEndsSoon         ok             2d left, 0 successors\n"
        "CostCapReached      ok             $10.80, the cap is $907.20\n"
        "SpendWithoutSlice   ok             1 node billed, 1 slice\n"
        "\n"
        "KvCacheFull (ticket): More than 85 % of the KV cache is in use, and requests\n"
        "wait or are preempted.\n"
        "  -> `tpuflex metrics --stack prod --watch` shows whether ever more requests are\n"
        "     preempted.\n"
        "     `tpuflex docs runbooks/kv-cache-full`\n"
        "RequestsWaiting (ticket): Requests have waited for 30s.\n"
        "  -> `tpuflex metrics --stack prod --watch` shows whether they get fewer.\n"
        "     `tpuflex docs runbooks/requests-waiting`\n"
        "NoTokens (page): Requests are in flight, and no token was generated in 3m.\n"
        "  -> `tpuflex verify --stack prod` says whether the engine is frozen;\n"
        "     `tpuflex restart --stack prod` starts it again.\n"
        "     `tpuflex docs runbooks/frozen-engine`\n"
        "3 of 10 alerts fire.\n"
    )


def test_a_server_that_could_not_be_asked(invocation: Invocation, capsys: Captured) -> None:
    """It is no alert, and not quiet either: why stands below, and the exit code is that of it."""
    refused = ApiError("No way to the endpoint.", hint="Open one.")
    found = alerts(0, 0, refused=refused)
    show_alerts(invocation, found)

    assert found.exit_code == 1
    assert capsys.readouterr().out.endswith(
        "No alert fires.\nThe server was not asked: No way to the endpoint.\n  -> Open one.\n"
    )


def test_what_fires_is_the_exit_code() -> None:
    """A script sees 16 when one fires, also where something else could not be asked."""
    looks = recorded().looks
    down = alerts(looks - 8, looks - 1)

    assert alerts(0, 3).exit_code == 0
    assert down.exit_code == replace(down, refused=ApiError("no way")).exit_code == 16
    assert down.to_json()["firing"] == ["TargetDown"]
    assert "KvCacheFull" in str(down.to_json()["unknown"])


@pytest.mark.parametrize("stack", ["prod", "dev"])
def test_a_document_names_its_stack_in_every_command(stack: str) -> None:
    """Who reads it has another shell, in which `tpuflex down` is about another stack."""
    refused = ApiError("No way to the endpoint.", hint=Advice("`{status}` says why."))
    document = alerts(0, 0, stack=stack, refused=refused).to_json()
    nexts = [each["next"] for each in document["alerts"]]  # type: ignore[attr-defined]

    for text in (*nexts, document["refused"]["hint"]):  # type: ignore[index]
        commands = re.findall("`(tpuflex [^`]*)`", text)
        assert commands
        assert all(f"--stack {stack}" in each for each in commands)


def test_options_of_a_look_do_not_print_rules(type_in: TypeIn) -> None:
    """What would be ignored is refused."""
    typed = type_in("alerts", "--watch", "5", "prometheus")

    assert typed.code == 2
    assert "asks no endpoint" in typed.err


def test_rules_and_dashboard_are_printed(type_in: TypeIn) -> None:
    """Both are about the job that is named, and come as a document, too."""
    rules = type_in("alerts", "prometheus", "--job", "vllm")

    assert rules.code == 0
    assert 'vllm:num_requests_waiting{job="vllm"}' in rules.out
    assert "- job_name: vllm" in rules.out
    for words in ("alerts", "prometheus"), ("alerts", "grafana"):
        assert type_in(*words, "--json").document
