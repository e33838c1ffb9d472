"""What `tpuflex status --all` prints, on 80 columns and for scripts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.cli.samples import status
from tests.cli.test_measure import usage
from tests.cli.typing import NOON, Captured, TypeIn
from tpuflex.alerts.rules import alert_rules
from tpuflex.cli.endpoint.status_all import show_status_of_all
from tpuflex.cli.invocation import Invocation
from tpuflex.deploy.project_status import ProjectStatus, StackRow
from tpuflex.errors import AccessError, NotFoundError
from tpuflex.host.report import HostReport
from tpuflex.host.serving import Serving, ServingPhase
from tpuflex.operate.endpoint_status import EndpointStatus
from tpuflex.operate.health import Health
from tpuflex.queued_resource.states import Lifecycle
from tpuflex.stack.stack import Stack


def endpoint(stack: Stack, **changes: object) -> EndpointStatus:
    return EndpointStatus(stack, status(**changes), NOON)


@pytest.fixture
def google(stack: Stack) -> Stack:
    """A stack on Google, whose hours cost money."""
    return replace(stack, settings=stack.settings.model_copy(update={"cloud": "google"}))


def test_one_screen(google: Stack, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row for each stack that is up, the others on a line; below it what needs more words, once
    for those that share it. No line is longer than the terminal."""
    monkeypatch.setenv("TZ", "UTC")
    (waiting,) = (rule for rule in alert_rules(google.settings) if rule.name == "RequestsWaiting")
    serves = StackRow("chat", endpoint(google), usage=usage(), alerts=(waiting,))
    draining = HostReport("READY", serving=Serving(ServingPhase.DRAINING, reason="the run ends"))
    refused = AccessError("you lack tpu.nodes.list")
    queued = {
        "lifecycle": Lifecycle.WAITING,
        "state": "WAITING_FOR_RESOURCES",
        "node_state": "",
        "host": None,
        "expires": None,
    }
    rows = (
        replace(serves, name="gemma-4-31b-v6e-4-bf16", error=refused, age=23.4),
        StackRow("batch", endpoint(google, host=HostReport("weights")), alerts=()),
        serves,
        StackRow("drains", endpoint(google, host=draining), alerts=()),
        StackRow(
            "frozen",
            replace(endpoint(google), health=Health.no("direct", "no connection")),
            alerts=(),
        ),
        StackRow("hidden", error=refused),
        StackRow(
            "keyless",
            replace(endpoint(google), health=Health(None, why="no key", problem=refused)),
            unmeasured="no key",
            alerts=(),
        ),
        StackRow("queued", endpoint(google, **queued), alerts=()),
        StackRow("old", error=NotFoundError("none")),
        StackRow("older", error=NotFoundError("none")),
        StackRow("other", error=NotFoundError("no credentials"), reached=False),
    )
    output = Invocation(environ={"COLUMNS": "80"}).output

    show_status_of_all(output, ProjectStatus("shop", NOON, rows))

    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 80
    assert shown == (
        "Stacks of shop, 2026-11-21 12:00:00 UTC\n"
        "STACK                   STATE          ZONE        LEFT  COST   TOKENS/S  ALERTS\n"
        "gemma-4-31b-v6e-4-bf16  READY (stale)  us-east5-a  3h5m  $0.68  71.2      1\n"
        "batch                   boot: weights  us-east5-a  3h5m  $0.68            none\n"
        "chat                    READY          us-east5-a  3h5m  $0.68  71.2      1\n"
        "drains                  draining       us-east5-a  3h5m  $0.68            none\n"
        "frozen                  NOT READY      us-east5-a  3h5m  $0.68  ?         none\n"
        "hidden                  not known                                         ?\n"
        "keyless                 READY          us-east5-a  3h5m  $0.68  ?         ?\n"
        "queued                  waiting        us-east5-a        $0.00            none\n"
        "  together  $4.08 so far\n"
        "  not up    old, older\n"
        "            other: no credentials\n"
        "gemma-4-31b-v6e-4-bf16: STALE, 23 s old: you lack tpu.nodes.list\n"
        "chat: RequestsWaiting (ticket): Requests have waited for 30s.\n"
        "drains: draining; the run ends\n"
        "frozen: NOT READY, no connection\n"
        "hidden: you lack tpu.nodes.list\n"
        "keyless: READY, as its host says; no key\n"
    )


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--all", "--stack", "dev"), "--all is of every stack"),
        (("--watch",), "--watch is for --all"),
    ],
)
def test_usage(type_in: TypeIn, words: tuple[str, ...], problem: str) -> None:
    """A slip on the command line is refused before any cloud is asked."""
    typed = type_in("status", *words)

    assert typed.code == 2
    assert problem in typed.err


def test_nothing_is_up(type_in: TypeIn) -> None:
    """An embedded cloud that is not running is not started, and holds nothing."""
    typed = type_in("status", "--all", "--json")

    (dev,) = typed.document["stacks"]
    assert typed.code == typed.document["exit_code"] == 4
    assert (dev["stack"], dev["up"]) == ("dev", False)
    assert "not running" in dev["error"]["message"]
