"""The whole status, and what it says of a host and its server."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from tests.cli.samples import status
from tests.cli.typing import NOON
from tpuflex.cli.invocation import Invocation
from tpuflex.cli.stack import OpenStack
from tpuflex.cli.steps.status import brought_place, show_status
from tpuflex.host.report import CompileCacheReport, HostReport, KvCacheReport
from tpuflex.host.serving import Serving, ServingPhase
from tpuflex.operate.slice import SliceStatus
from tpuflex.request.states import Lifecycle
from tpuflex.settings.model import WeightsSettings


@pytest.fixture
def invocation() -> Invocation:
    return Invocation(environ={}, now=lambda: NOON)


Show = Callable[..., tuple[object, str]]


@pytest.fixture
def show(
    invocation: Invocation,
    stack: OpenStack,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Show:
    """Show a status; the exit code and the text."""
    monkeypatch.setenv("TZ", "UTC")

    def shown(found: SliceStatus, *, foreign: bool = False) -> tuple[object, str]:
        with pytest.raises(SystemExit) as ended:
            show_status(invocation, stack, found, foreign=foreign)
        return ended.value.code, capsys.readouterr().out

    return shown


def test_ready(show: Show) -> None:
    """A serving endpoint: every fact, and exit code 0."""
    code, text = show(status())

    assert code == 0
    assert text == (
        "Stack dev: READY\n"
        "  queued resource  tpuflex-dev-vllm-g1 in us-east5-a\n"
        "  state            ACTIVE: the hosts run\n"
        "  node             READY, HEALTHY\n"
        "  host             READY\n"
        "  endpoint         http://127.0.0.9:8000/v1\n"
        "  model            HuggingFaceTB/SmolLM2-135M-Instruct\n"
        "  expires          2026-11-21 15:05 UTC (in 3 h 05 min)\n"
        "  next             `tpuflex ask` talks to it, `tpuflex down` ends it\n"
    )


@pytest.mark.parametrize(
    ("serving", "code", "headline", "server"),
    [
        (Serving(ServingPhase.SERVING, running=2), 0, "READY", "serving; 2 requests running"),
        (
            Serving(ServingPhase.DRAINING, running=1, waiting=3, reason="the node is deleted"),
            7,
            "draining",
            "draining; 1 request running, 3 waiting: the node is deleted",
        ),
        (
            Serving(ServingPhase.DRAINING, drained=True, reason="the run ends"),
            7,
            "draining",
            "draining; 0 requests running; drained: the run ends",
        ),
        (
            Serving(ServingPhase.DEGRADED, restarts=1, reason="no token for 60 s"),
            3,
            "its server is started again",
            "degraded; started again once, because it was frozen: no token for 60 s",
        ),
        (
            Serving(ServingPhase.FAILED, drained=True, reason="frozen twice"),
            7,
            "the server failed",
            "failed; drained: frozen twice",
        ),
    ],
)
def test_what_the_server_does(
    show: Show, serving: Serving, code: int, headline: str, server: str
) -> None:
    """From READY on, what the host says of its server decides headline and exit code."""
    drains = replace(serving, drains_at=NOON + timedelta(hours=3))

    ended, text = show(status(host=HostReport("READY", serving=drains)))

    assert ended == code
    assert text.startswith(f"Stack dev: {headline}\n")
    assert f"  server           {server}\n" in text
    assert "  drains at        2026-11-21 15:00 UTC (in 3 h 00 min)\n" in text


@pytest.mark.parametrize(
    ("said_ago", "server"),
    [
        (timedelta(seconds=179), "serving"),
        (timedelta(minutes=12), "serving\n{} 12 min ago, at 2026-11-21 11:48 UTC, {}"),
        (timedelta(hours=2, minutes=5), "serving\n{} 2 h 05 min ago, at 2026-11-21 09:55 UTC, {}"),
    ],
)
def test_a_last_word_that_is_old(show: Show, said_ago: timedelta, server: str) -> None:
    """A host reports every minute: what it said long ago is shown with its age, because nothing
    else tells a host that is gone from one that serves."""
    serving = Serving(ServingPhase.SERVING, at=(NOON - said_ago).timestamp())
    expected = server.format(
        "said", "though it is due every minute: the host, or its watch, may be gone"
    )

    _, text = show(status(host=HostReport("READY", serving=serving)))

    indented = expected.replace("\n", "\n" + " " * 19)
    assert f"  server           {indented}\n  endpoint" in text


def test_where_the_time_of_the_boot_went(show: Show) -> None:
    """The chips are billed while a host boots: `status` shows each phase of it as a bar."""
    host = HostReport("READY", timeline={"config": 10.0, "image": 11.0, "READY": 15.0})

    _, text = show(status(host=host))

    assert re.search(
        "  boot             config         1.0 s  (.)\\1{7}\n"
        "                   image          4.0 s  \\1{32}\n"
        "                   together       5.0 s\n",
        text,
    )


def test_a_request_that_will_be_given_up(show: Show) -> None:
    """M7: while it waits, until when; the exit code is that of waiting."""
    waiting = status(
        state="WAITING_FOR_RESOURCES",
        lifecycle=Lifecycle.WAITING,
        sentence="in the queue",
        node_state="",
        health="",
        address="",
        active_since=None,
        expires=None,
        host=None,
        gives_up=NOON + timedelta(hours=5, minutes=30),
    )

    code, text = show(waiting)

    assert code == 3
    assert text == (
        "Stack dev: waiting\n"
        "  queued resource  tpuflex-dev-vllm-g1 in us-east5-a\n"
        "  state            WAITING_FOR_RESOURCES: in the queue\n"
        "  model            HuggingFaceTB/SmolLM2-135M-Instruct\n"
        "  gives up         2026-11-21 17:30 UTC (in 5 h 30 min)\n"
        "  next             `tpuflex up` keeps waiting, `tpuflex down` gives up\n"
    )


def test_a_slice_of_another_state(
    show: Show,
) -> None:
    """S5: the status says that a slice with our name was made by another state."""
    strange = "0" * 20
    _, text = show(status(state_id=strange), foreign=True)

    assert f"another state ({strange}), which this home has not" in text
    assert "`tpuflex down`; here that leaves it alone" in text


def test_isolation_of_the_container(
    show: Show,
) -> None:
    """Whether the server has rights on its host is said with every status."""
    host = HostReport("READY", isolation="privileged: the server died")

    _, text = show(status(host=host))

    assert "  container        privileged: the server died\n" in text


@pytest.mark.parametrize(
    ("cache", "shown"),
    [
        (
            KvCacheReport(128, 364, "auto", 46592),
            "364 blocks of 128 tokens, 46,592 in all, as planned\n",
        ),
        (
            KvCacheReport(128, 364, "fp8_e4m3", 46592),
            "364 blocks of 128 tokens, 46,592 in all; in fp8_e4m3, planned in the model's own "
            "type\n",
        ),
        (
            KvCacheReport(128, 364, "auto", 23296),
            "364 blocks of 128 tokens, 23,296 in all, -50.0 % of the plan\n"
            "                   planned: 364 blocks of 128 tokens, 46,592 in all\n",
        ),
        (
            KvCacheReport(128, 182, "auto", 23296),
            "182 blocks of 128 tokens, 23,296 in all, -50.0 % of the plan\n"
            "                   planned: 364 blocks of 128 tokens, 46,592 in all\n",
        ),
    ],
)
def test_what_the_server_reports(
    show: Show,
    cache: KvCacheReport,
    shown: str,
) -> None:
    """Version and KV cache of the server, beside the one that was planned; M6: its programs."""
    programs = CompileCacheReport("bucket", 412, 1_200_000_000, 3.4, compiled=0)
    host = HostReport("READY", vllm_version="0.32.0", kv_cache=cache, compile_cache=programs)

    _, text = show(status(host=host))

    assert "  vLLM             0.32.0\n" in text
    restored = "412 programs (1.2 GB) from the bucket in 3.4 s; 0 compiled"
    assert f"  compile cache    {restored}\n" in text
    assert f"  KV cache         {shown}" in text


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"host": HostReport("weights")}, 3),
        ({"host": None}, 3),
        ({"lifecycle": Lifecycle.WAITING, "node_state": "", "host": None}, 3),
        ({"lifecycle": Lifecycle.PROVISIONING}, 3),
        ({"host": HostReport("weights", error="checksum: differs")}, 7),
        ({"lifecycle": Lifecycle.ENDED}, 7),
        ({"lifecycle": Lifecycle.FAILED}, 7),
        ({"lifecycle": Lifecycle.LOST}, 7),
    ],
)
def test_exit_code(changes: dict[str, object], code: int) -> None:
    """3 while it only takes time, 7 when somebody has to act."""
    assert status(**changes).outcome.exit_code == code


def test_cost() -> None:
    """The cost so far counts from the node's creation, and is unknown without a price."""
    assert status().cost(Decimal("5.40"), NOON) == Decimal("2.70")
    assert status().cost(None, NOON) is None
    assert status(active_since=None).cost(Decimal("5.40"), NOON) == Decimal("0.00")


@pytest.mark.parametrize(("version", "old"), [("0.23.0", True), ("0.29.1rc1.dev468", False)])
def test_a_server_with_known_holes(
    show: Show,
    invocation: Invocation,
    version: str,
    old: bool,
) -> None:
    """A vLLM below the security floor is said with every status, and to scripts."""
    host = HostReport("READY", vllm_version=version)
    for invocation.json in (False, True):
        invocation.__dict__.pop("output", None)
        _, text = show(status(host=host))
        assert ("known security holes" in text) == old


def test_a_bucket_of_yours_is_named(stack: OpenStack) -> None:
    """With the place of the weights in it; of one that tpuflex makes nothing is said."""
    assert brought_place(stack.settings) == ""
    weights = WeightsSettings(bucket="gs://acme-models/llm")
    model = stack.settings.model.model_copy(update={"weights": weights})
    theirs = stack.settings.model_copy(update={"model": model})

    place = "gs://acme-models/llm/models/huggingfacetb-smollm2-135m-instruct/1"
    assert brought_place(theirs) == f"yours: {place}"
