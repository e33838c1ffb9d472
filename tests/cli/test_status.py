"""The whole status, and what `status` and a failed `up` advise."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.cli.samples import status
from tests.cli.typing import NOON, Captured
from tests.unit.stack_sections import sections
from tpuflex.cli.endpoint.status import (
    existing_place,
    show_status,
    zone_text,
)
from tpuflex.cli.invocation import Invocation
from tpuflex.codes import Code
from tpuflex.deploy.boot import after_failed_boot
from tpuflex.errors import (
    AccessError,
    FailedBootError,
    IncompleteTeardownError,
    ServiceDisabledError,
)
from tpuflex.host.boot_wait import BootAdvice
from tpuflex.host.report import CompileCacheReport, HostReport, KvCacheReport
from tpuflex.host.serving import Serving, ServingPhase
from tpuflex.operate.endpoint_status import EndpointStatus, advice_text, with_last_known
from tpuflex.operate.endpoint_status import status as read_status
from tpuflex.operate.slice import SliceStatus
from tpuflex.queued_resource.outcomes import ACCEPTED
from tpuflex.queued_resource.states import Lifecycle
from tpuflex.settings.load import parse
from tpuflex.settings.model import WeightsSettings
from tpuflex.stack.connection import Connection
from tpuflex.stack.stack import Stack

Show = Callable[..., tuple[object, str]]


@pytest.fixture
def show(
    invocation: Invocation, stack: Stack, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> Show:
    """Show a status; the exit code and the text."""
    monkeypatch.setenv("TZ", "UTC")

    def shown(found: SliceStatus, *, foreign: bool = False) -> tuple[object, str]:
        status = EndpointStatus(stack, found, NOON, foreign)
        show_status(invocation.output, status)
        return status.exit_code, capsys.readouterr().out

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
        "  next             `tpuflex ask` talks to it, `tpuflex client` shows how programs do, "
        "`tpuflex down` ends it\n"
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
            "degraded: no token for 60 s",
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
    ("restarts", "shown"),
    [
        (1, "once, at 2026-11-21 11:40 UTC: it died with status 137"),
        (3, "3 times, the last time at 2026-11-21 11:40 UTC: it died with status 137"),
    ],
)
def test_restarts_of_the_server(show: Show, restarts: int, shown: str) -> None:
    """A server that serves again has not been well: how often, when last, and why."""
    serving = Serving(
        ServingPhase.SERVING,
        restarts=restarts,
        restarted_at=NOON - timedelta(minutes=20),
        restarted_why="it died with status 137",
    )

    code, text = show(status(host=HostReport("READY", serving=serving)))

    assert code == 0
    assert f"  server           serving\n  restarts         {shown}\n" in text


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
    timeline = {"config": 10.0, "image": 11.0, "READY": 15.0}
    host = HostReport("READY", timeline=timeline, ended={"image": 15.0})

    _, text = show(status(host=host))

    assert re.search(
        "  boot             config         1.0 s  (.)\\1{7}\n"
        "                   image          4.0 s  \\1{32}\n"
        "                   together       5.0 s\n",
        text,
    )


def test_a_request_that_will_be_given_up(show: Show) -> None:
    """While it waits, until when; the exit code is that of waiting."""
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


def test_a_slice_of_another_state(show: Show) -> None:
    """S5: the status says that a slice with our name was made by another state."""
    strange = "0" * 20
    _, text = show(status(state_id=strange), foreign=True)

    assert f"another state ({strange}), which this home has not" in text
    assert "`tpuflex down`; here that leaves it alone" in text


def test_isolation_of_the_container(show: Show) -> None:
    """Whether the server has rights on its host is said with every status."""
    host = HostReport("READY", isolation="privileged: there is no TPU device")

    _, text = show(status(host=host))

    assert "  container        privileged: there is no TPU device\n" in text


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
def test_what_the_server_reports(show: Show, cache: KvCacheReport, shown: str) -> None:
    """Version and KV cache of the server, beside the one that was planned; its programs."""
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
    show: Show, invocation: Invocation, version: str, old: bool
) -> None:
    """A vLLM below the security floor is said with every status, and to scripts."""
    host = HostReport("READY", vllm_version=version)
    for invocation.json in (False, True):
        invocation.__dict__.pop("output", None)
        _, text = show(status(host=host))
        assert ("known security holes" in text) == old


def test_a_bucket_of_yours_is_named(stack: Stack) -> None:
    """With the place of the weights in it; of one that tpuflex makes nothing is said."""
    assert existing_place(stack.settings) == ""
    weights = WeightsSettings(bucket="gs://acme-models/llm")
    model = stack.settings.model.model_copy(update={"weights": weights})
    theirs = stack.settings.model_copy(update={"model": model})

    place = "gs://acme-models/llm/models/huggingfacetb-smollm2-135m-instruct/1"
    assert existing_place(theirs) == f"yours: {place}"


class StackPart:
    """The part of an :class:`~tpuflex.stack.stack.Stack` that is read."""

    def __init__(self, **slice_: str) -> None:
        changes: Any = {f"slice.{key}": value for key, value in slice_.items()}
        self.name = "dev"
        self.settings = parse(sections(changes), "test")
        self.names = None


def test_a_refusal_does_not_hide_what_may_be_billed() -> None:
    """Where reading is refused, the slice that the state last knew is named with its zone; the
    kind of the refusal, and what mends it, stay."""
    refusal = ServiceDisabledError("off", hint="gcloud", code=Code.PERMISSION)

    told = with_last_known(refusal, ("g1 in us-east5-a",))

    assert type(told) is ServiceDisabledError
    assert (str(told.hint), told.code) == ("gcloud", Code.PERMISSION)
    assert told.message == (
        "off\nThe stack's state last knew of g1 in us-east5-a: it may still run, and be billed."
    )
    assert with_last_known(refusal, ()) is refusal


def test_status_reads_the_state_where_the_cloud_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    """`status` that may not read the cloud ends with what the state knows."""

    def refused(*_: object, **__: object) -> None:
        raise AccessError("403")

    steps = "tpuflex.operate.endpoint_status"
    monkeypatch.setattr(f"{steps}.slice_status", refused)
    parts: dict[str, Any] = {
        "stack": StackPart(),
        "tpu": None,
        "recorded_zones": None,
        "now": lambda: NOON,
    }
    parts["recorded_requests"] = lambda: ("g1 in us-east5-a",)
    cloud = cast("Connection", SimpleNamespace(**parts))

    with pytest.raises(AccessError, match="g1 in us-east5-a: it may still run"):
        read_status(cloud)


def test_a_run_that_ended_elsewhere_needs_no_option() -> None:
    """A run is over and the region has moved: both lines say that `up` starts a new run there."""
    stack = StackPart()
    over = status(
        zone="europe-west4-a", state="SUSPENDED", lifecycle=Lifecycle.ENDED, node_state=""
    )
    there = stack.settings.slice.zones

    assert zone_text(over, there).endswith(f"`tpuflex up` starts a new run in {there[0]}")
    assert "--new-host" not in str(advice_text(over, cast("Stack", stack)))
    assert "--new-host" in str(advice_text(replace(over, zone=there[0]), cast("Stack", stack)))
    assert "replaces the slice" in zone_text(status(zone="europe-west4-a"), there)
    assert zone_text(replace(over, zone=there[0]), there) == ""


def test_an_accepted_end_asks_for_nothing() -> None:
    """Where the stack file accepts the end of a run, `status` says that `up` succeeds without a
    slice; what brings one back stays named."""
    over = status(state="SUSPENDED", lifecycle=Lifecycle.ENDED, node_state="")

    accepted = advice_text(over, cast("Stack", StackPart(on_run_end="accept")))
    kept = advice_text(over, cast("Stack", StackPart()))

    assert accepted == ACCEPTED.text
    assert str(accepted).endswith(str(kept))


@pytest.mark.parametrize("on_run_end", ["keep", "delete", "accept"])
def test_an_end_that_is_renewed_asks_for_an_up(on_run_end: str) -> None:
    """Where the stack file renews, a plain `up` starts the next run: nothing has to be changed,
    whatever on_run_end says, and wherever the run was."""
    over = status(state="SUSPENDED", lifecycle=Lifecycle.ENDED, node_state="")
    stack = cast("Stack", StackPart(renew_before="1h", on_run_end=on_run_end))

    for each in (over, replace(over, zone="europe-west4-a")):
        advice = str(advice_text(each, stack))
        assert "`tpuflex up` starts the next run" in advice
        assert "rerun" not in advice
    assert advice_text(status(), stack) == status().advice


@pytest.mark.parametrize(("on_boot_failure", "told"), [("delete", True), ("keep", False)])
def test_a_booting_host_says_who_would_delete_it(on_boot_failure: str, told: bool) -> None:
    """With on_boot_failure: delete, only the `up` that was granted the slice deletes it."""
    stack = cast("Stack", StackPart(on_boot_failure=on_boot_failure))

    assert ("`tpuflex down` does" in str(advice_text(status(host=None), stack))) is told
    assert "on_boot_failure" not in str(advice_text(status(), stack))


def test_a_deletion_that_failed_names_the_command_that_deletes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where `up` could not delete a slice whose boot failed, `down` is named, and no second one,
    nor an `up` that would only wait."""
    error = IncompleteTeardownError("not gone", hint="Run `tpuflex down` again: it goes on.")

    def fails(*_: object) -> None:
        raise error

    monkeypatch.setattr("tpuflex.deploy.boot.slice_status", fails)
    cloud: Any = type("Cloud", (), {"stack": StackPart(on_boot_failure="delete"), "tpu": None})
    failure = FailedBootError("silent", hint="The host's log: there", again=BootAdvice().again)

    hint = str(after_failed_boot(cloud, cast("Any", None), failure, None).hint)

    assert hint.startswith(
        "The slice was not deleted, and is billed, because that failed: not gone"
    )
    assert (
        "\n`tpuflex down` deletes it; a later `tpuflex up` does not: it ran before that.\n" in hint
    )
    assert "again" not in hint
    assert "The host's log: there" in hint
