"""Complete outputs: the plan, the status, progress."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import pytest

from tests.cli.typing import NOON
from tests.unit.stack_sections import sections
from tpuflex.cli.cloud import Cloud
from tpuflex.cli.daemon import Daemon
from tpuflex.cli.engine_progress import LiveProgress
from tpuflex.cli.host_progress import HostProgress
from tpuflex.cli.invocation import Invocation
from tpuflex.cli.output import Output, one_line, table_lines
from tpuflex.cli.plan import StackPlan, egress_text, image_grant
from tpuflex.cli.stack import OpenStack, open_stack
from tpuflex.cli.steps.ask import reach, summary
from tpuflex.cli.steps.boot import host_log
from tpuflex.cli.steps.status import show_status
from tpuflex.engine.events import EnginePlan, Failed, Finished, Note, Started, Step
from tpuflex.operate.ask import Answer
from tpuflex.operate.host import HostReport
from tpuflex.operate.kv_cache import KvCacheReport
from tpuflex.operate.slice import SliceStatus
from tpuflex.planning.cost import RunCost
from tpuflex.project import open_project
from tpuflex.request.outcomes import PREVIEWS, TABLE, Condition, PreviewAction
from tpuflex.request.states import Lifecycle
from tpuflex.settings.load import parse

NODE = "projects/p/locations/us-east5-a/nodes/n"


@pytest.fixture
def stack(project: Path) -> OpenStack:
    return open_stack(open_project(project, {}), "dev")


@pytest.fixture
def invocation() -> Invocation:
    return Invocation(environ={}, now=lambda: NOON)


def step(operation: str, kind: str = "gcp:storage/bucket:Bucket", name: str = "weights") -> Step:
    return Step(operation, kind, name, f"urn:{kind}::{name}")


def status(**changes: object) -> SliceStatus:
    facts: dict[str, object] = {
        "queued_resource": "tpuflex-dev-vllm-g1",
        "zone": "us-east5-a",
        "state": "ACTIVE",
        "lifecycle": Lifecycle.ACTIVE,
        "sentence": "the hosts run",
        "node": NODE,
        "node_state": "READY",
        "health": "HEALTHY",
        "address": "127.0.0.9",
        "active_since": NOON - timedelta(minutes=30),
        "expires": NOON + timedelta(hours=3, minutes=5),
        "host": HostReport("READY"),
        **changes,
    }
    return SliceStatus(**facts)  # type: ignore[arg-type]


class TestPlan:
    def test_on_google(self, stack: OpenStack, capsys: pytest.CaptureFixture[str]) -> None:
        """A plan shows model, zone, slice, duration, price with its limits, and the changes."""
        cost = RunCost(4, Decimal("5.40"), Decimal("21.60"), None)
        steps = (step("create"), step("create", name="b"), step("update", name="c"))

        StackPlan(stack, EnginePlan(steps), cost).show(Output(json=False, verbose=True))

        assert capsys.readouterr().out == (
            "Stack dev on the embedded cloud\n"
            "  model      HuggingFaceTB/SmolLM2-135M-Instruct\n"
            "  zone       us-east5-a\n"
            "  slice      v6e-1 (4 chips), Flex-start\n"
            "  runs       at most 4h from the moment it is granted, then it is deleted\n"
            "  price      $5.40 per hour, at most $21.60 for the whole run (chips only: "
            "storage, DNS zones or NAT, and traffic come on top)\n"
            "  memory     0.25 GiB weights, 1.00 GiB KV cache;\n"
            "             46,592 tokens cached, 91.0 sequences of 512\n"
            "  egress     Google's APIs only\n"
            "  resources  2 to create, 1 to change\n"
            "        TYPE                       NAME\n"
            "create  gcp:storage/bucket:Bucket  weights\n"
            "create  gcp:storage/bucket:Bucket  b\n"
            "update  gcp:storage/bucket:Bucket  c\n"
            "\n"
        )

    def test_a_way_out_that_goes_or_comes_is_told(self, stack: OpenStack) -> None:
        """A stack of an earlier version loses its NAT, and the plan says so before it does."""
        nat = EnginePlan((step("delete", "gcp:compute/routerNat:RouterNat", "nat"),))
        zone = EnginePlan((step("delete", "gcp:dns/managedZone:ManagedZone", "zone"),))

        assert "NAT, by which the hosts reached the internet" in egress_text("google", nat)
        assert "may reach the internet, through NAT; until now" in egress_text("internet", zone)
        assert StackPlan(stack, nat, RunCost(1, None, None, None)).to_json()["egress"] == "google"

    def test_a_role_that_somebody_else_grants_is_told(self, stack: OpenStack) -> None:
        """An image in another project: which role, there, to whom; none for one of ours."""
        theirs = sections({"serving.image": f"gcr.io/others/vllm@sha256:{'ab' * 32}"})

        def grant(mapping: dict[str, object]) -> dict[str, str] | None:
            return image_grant(replace(stack, settings=parse(mapping, "test")))

        assert grant(theirs) == {
            "project": "others",
            "role": "roles/artifactregistry.reader",
            "member": "serviceAccount:tpuflex-dev-vllm-host@acme-serving.iam.gserviceaccount.com",
        }
        assert grant(sections()) is None
        assert image_grant(stack) is None

    def test_when_a_request_gives_up(
        self, stack: OpenStack, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """M7: the plan says after which time the request gives up; without one it has no line."""
        slice_ = stack.settings.slice.model_copy(update={"give_up_after": timedelta(hours=6)})
        settings = stack.settings.model_copy(update={"slice": slice_})
        plan = StackPlan(
            replace(stack, settings=settings), EnginePlan(()), RunCost(1, None, None, None)
        )

        plan.show(Output(json=False, verbose=False))

        shown = capsys.readouterr().out
        assert "  gives up   6h after it is requested, unless granted before\n" in shown
        assert plan.to_json()["give_up_after"] == "6h"

    def test_unknown_price(self, stack: OpenStack) -> None:
        """A price that was not read is unknown, not zero."""
        plan = StackPlan(stack, EnginePlan(()), RunCost(1, None, None, None))

        assert plan.to_json()["usd_per_hour"] is None
        assert plan.changes == "none"

    def test_of_a_run_that_is_over(self, stack: OpenStack) -> None:
        """An update that requests nothing is shown as that, not as an update."""
        update = step("update", "tpuflex:tpu:QueuedResource", "vllm")
        cost = RunCost(1, None, None, None)

        over = StackPlan(stack, EnginePlan((update,)), cost, run_over=True)

        assert over.to_json()["request"] == TABLE[Condition.ENDED].preview.text
        assert (
            StackPlan(stack, EnginePlan((update,)), cost).request == PREVIEWS[PreviewAction.UPDATE]
        )

    def test_why_a_slice_is_replaced(self, stack: OpenStack) -> None:
        """A plan that takes a slice away names the inputs for which it does."""
        replaced = Step(
            "replace",
            "tpuflex:tpu:QueuedResource",
            "vllm",
            "urn:vllm",
            changed=("zones", "queuedResourceId", "description"),
            replaced_for=("queuedResourceId", "zones"),
        )

        plan = StackPlan(stack, EnginePlan((replaced,)), RunCost(1, None, None, None))

        assert plan.request == f"{PREVIEWS[PreviewAction.REPLACE]} (changed: zones)"

    def test_components_and_providers_do_not_count(self, stack: OpenStack) -> None:
        """Only resources in the cloud are counted."""
        component = Step("create", "tpuflex:index:Network", "n", "urn:n", custom=False)
        provider = step("create", "pulumi:providers:gcp", "p")

        plan = StackPlan(stack, EnginePlan((component, provider)), RunCost(1, None, None, None))

        assert plan.changes == "none"
        assert len(plan.plan.changes) == 2


class TestStatus:
    def test_ready(
        self,
        invocation: Invocation,
        stack: OpenStack,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """A serving endpoint: every fact, and exit code 0."""
        monkeypatch.setenv("TZ", "UTC")

        with pytest.raises(SystemExit) as ended:
            show_status(invocation, stack, status())

        assert ended.value.code == 0
        assert capsys.readouterr().out == (
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

    def test_a_request_that_will_be_given_up(
        self,
        invocation: Invocation,
        stack: OpenStack,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """M7: while it waits, until when; the exit code is that of waiting."""
        monkeypatch.setenv("TZ", "UTC")
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

        with pytest.raises(SystemExit) as ended:
            show_status(invocation, stack, waiting)

        assert ended.value.code == 3
        assert capsys.readouterr().out == (
            "Stack dev: waiting\n"
            "  queued resource  tpuflex-dev-vllm-g1 in us-east5-a\n"
            "  state            WAITING_FOR_RESOURCES: in the queue\n"
            "  model            HuggingFaceTB/SmolLM2-135M-Instruct\n"
            "  gives up         2026-11-21 17:30 UTC (in 5 h 30 min)\n"
            "  next             `tpuflex up` keeps waiting, `tpuflex down` gives up\n"
        )

    def test_a_slice_of_another_state(
        self, invocation: Invocation, stack: OpenStack, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """S5: the status says that a slice with our name was made by another state."""
        strange = "0" * 20
        with pytest.raises(SystemExit):
            show_status(invocation, stack, status(state_id=strange), foreign=True)

        shown = capsys.readouterr().out
        assert f"another state ({strange}), which this home has not" in shown
        assert "`tpuflex down`; here that leaves it alone" in shown

    def test_isolation_of_the_container(
        self, invocation: Invocation, stack: OpenStack, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Whether the server has rights on its host is said with every status."""
        host = HostReport("READY", isolation="privileged: the server died")

        with pytest.raises(SystemExit):
            show_status(invocation, stack, status(host=host))

        assert "  container        privileged: the server died\n" in capsys.readouterr().out

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
        self,
        invocation: Invocation,
        stack: OpenStack,
        capsys: pytest.CaptureFixture[str],
        cache: KvCacheReport,
        shown: str,
    ) -> None:
        """Version and KV cache of the server, beside the one that was planned."""
        host = HostReport("READY", vllm_version="0.32.0", kv_cache=cache)

        with pytest.raises(SystemExit):
            show_status(invocation, stack, status(host=host))

        text = capsys.readouterr().out
        assert "  vLLM             0.32.0\n" in text
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
    def test_exit_code(self, changes: dict[str, object], code: int) -> None:
        """3 while it only takes time, 7 when somebody has to act."""
        assert status(**changes).outcome.exit_code == code

    def test_cost(self) -> None:
        """The cost so far counts from the node's creation, and is unknown without a price."""
        assert status().cost(Decimal("5.40"), NOON) == Decimal("2.70")
        assert status().cost(None, NOON) is None
        assert status(active_since=None).cost(Decimal("5.40"), NOON) == Decimal("0.00")

    @pytest.mark.parametrize(("version", "old"), [("0.23.0", True), ("0.29.1rc1.dev468", False)])
    def test_a_server_with_known_holes(
        self,
        invocation: Invocation,
        stack: OpenStack,
        capsys: pytest.CaptureFixture[str],
        version: str,
        old: bool,
    ) -> None:
        """A vLLM below the security floor is said with every status, and to scripts."""
        host = HostReport("READY", vllm_version=version)
        for invocation.json in (False, True):
            invocation.__dict__.pop("output", None)
            with pytest.raises(SystemExit):
                show_status(invocation, stack, status(host=host))
            assert ("known security holes" in capsys.readouterr().out) == old


class TestProgress:
    def test_of_the_engine(self, capsys: pytest.CaptureFixture[str]) -> None:
        """In a log: a line for each finished resource, and each message once."""
        ticks = iter(range(100))
        slice_step = step("create", "tpuflex:tpu:QueuedResource", "vllm")
        with LiveProgress(Output(json=False, verbose=False), 2, lambda: next(ticks)) as progress:
            for event in (
                Started(step("create")),
                Finished(step("create")),
                Started(step("same", name="old")),
                Started(slice_step),
                Note("info", "WAITING_FOR_RESOURCES: in the queue", "vllm", passing=True),
                Note("info", "WAITING_FOR_RESOURCES: in the queue", "vllm", passing=True),
                Note("warning", "no price", ""),
                Note("error", "told at the end", "vllm"),
                Failed(slice_step),
            ):
                progress.listen(event)

        assert capsys.readouterr().err == (
            "  created  Bucket weights (1.0 s)\n"
            "  request  QueuedResource vllm\n"
            "           vllm: WAITING_FOR_RESOURCES: in the queue\n"
            "  warning  no price\n"
            "  failed   QueuedResource vllm\n"
        )

    def test_a_week_of_waiting_in_a_log(self, capsys: pytest.CaptureFixture[str]) -> None:
        """A line a minute at first, then one every five: never a longer silence."""
        now, said = 0.0, []
        with LiveProgress(Output(json=False, verbose=False), 2, lambda: now) as progress:
            for minute in range(7 * 24 * 60):
                now = minute * 60.0
                for name in ("vllm", "other"):
                    progress.listen(Note("info", f"waiting for {minute}m", name, passing=True))
                    if f"{name}: waiting for {minute}m\n" in capsys.readouterr().err:
                        said.append((name, now))

        moments = [at for name, at in said if name == "vllm"]
        gaps = [later - earlier for earlier, later in pairwise(moments)]
        assert set(gaps[:10]) == {60}
        assert max(gaps) == 300
        assert len(moments) < 2100
        assert len(said) == 2 * len(moments)

    def test_what_the_plan_has_shown(self, capsys: pytest.CaptureFixture[str]) -> None:
        """A note shown above the plan is not repeated; a new one is shown."""
        output = Output(json=False, verbose=False)
        with LiveProgress(output, 1, shown=frozenset({"the node was lost"})) as progress:
            progress.listen(Note("warning", "the node was lost", "vllm"))
            progress.listen(Note("warning", "the zone is out", "vllm"))

        assert capsys.readouterr().err == "  warning  vllm: the zone is out\n"

    def test_after_ctrl_c(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Interrupted by Ctrl-C is stopped, not failed: a request goes on waiting."""
        slice_step = step("create", "tpuflex:tpu:QueuedResource", "vllm")
        output = Output(json=False, verbose=False)
        with LiveProgress(output, 1, stopped=lambda: True) as progress:
            progress.listen(Failed(slice_step))

        assert capsys.readouterr().err == "  stopped  QueuedResource vllm\n"

    def test_of_the_host(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Each phase and detail once, and a heartbeat every half minute."""
        now = [0.0]
        with HostProgress(Output(json=False, verbose=False), lambda: now[0]) as progress:
            progress.changed(HostReport("weights", "1 of 2 GB"))
            progress.changed(HostReport("weights", "2 of 2 GB"))
            progress.changed(HostReport("health", "the server is starting"))
            for now[0] in (10.0, 29.0, 31.0, 40.0):
                progress.tick()

        assert capsys.readouterr().err == (
            "  host     weights: 1 of 2 GB\n"
            "  host     weights: 2 of 2 GB\n"
            "  host     health: the server is starting\n"
            "  host     health: the server is starting (31 s)\n"
        )

    def test_of_a_server_with_rights(self, capsys: pytest.CaptureFixture[str]) -> None:
        """A server that got all rights on its host is named, once; an isolated one is not."""
        privileged = HostReport("health", "slow", isolation="privileged: no device")
        with HostProgress(Output(json=False, verbose=False)) as progress:
            progress.changed(HostReport("health", "slow", isolation="isolated"))
            progress.changed(privileged)
            progress.changed(privileged)

        assert capsys.readouterr().err == (
            "  host     health: slow\n  host     the server is privileged: no device\n"
        )

    def test_of_a_transfer(self, capsys: pytest.CaptureFixture[str]) -> None:
        """In a log: a line every few seconds, and always the last."""
        now = [0.0]
        output = Output(json=False, verbose=False, clock=lambda: now[0])
        with output.transfer("weights") as show:
            for now[0], done in ((0.0, 0), (1.0, 1_000_000), (6.0, 2_000_000), (6.1, 3_000_000)):
                show(done, 3_000_000)

        assert capsys.readouterr().err == (
            "weights: 0.0 of 3.0 MB\nweights: 2.0 of 3.0 MB\nweights: 3.0 of 3.0 MB\n"
        )


class TestText:
    def test_line_that_is_redrawn(self) -> None:
        """It is truncated to the terminal's width, with a mark; what fits is left alone."""
        assert one_line("in the queue", 12) == "in the queue"
        assert one_line("in the queue", 8) == "in the…"

    def test_table(self) -> None:
        """Columns are as wide as necessary; no line ends in a space."""
        assert table_lines(("A", "B"), [("long", ""), ("x", "y")]) == ["A     B", "long", "x     y"]

    def test_speed(self) -> None:
        """The line after an answer: time to first token, rate, and whether it was cut off."""
        answer = Answer("Paris", 0.075, 1.075, 10, 41, "length")

        assert summary(answer) == ("TTFT 75 ms, 40.0 tokens/s (41 tokens, cut off by --max-tokens)")

    @pytest.mark.parametrize(
        ("hosts", "expected"),
        [
            ([{"node": NODE, "worker": 0, "serial_log": "/h/n.us-east5-a/serial.log"}], "/h/n."),
            ([{"node": NODE, "stub": True}], "`tpuflex logs`"),
            ([], "`tpuflex logs`"),
        ],
    )
    def test_log_on_the_embedded_cloud(
        self,
        stack: OpenStack,
        hosts: list[object],
        expected: str,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """The log of an emulated host is a file, where the embedded cloud says that it is."""
        monkeypatch.setattr(Daemon, "call", lambda *_: {"hosts": hosts})

        assert host_log(Cloud(stack, {}), status()).startswith(expected)

    def test_way_to_a_private_endpoint(self, stack: OpenStack) -> None:
        """B1: on Google, an endpoint that cannot be reached comes with the tunnel to type."""
        google = stack.settings.model_copy(update={"cloud": "google"})
        cloud = Cloud(OpenStack(stack.project, "tpu", stack.file, google), {})

        text = reach(cloud, status(address="10.0.0.2"))

        assert "tpuflex:network.allowed_cidrs" in text
        assert (
            "gcloud alpha compute tpus tpu-vm ssh n --zone=us-east5-a --project=p "
            "--tunnel-through-iap -- -N -o ServerAliveInterval=15 -o ServerAliveCountMax=3 "
            "-L 127.0.0.1:8000:10.0.0.2:8000\n"
            "  (needs gcloud's component: gcloud components install alpha)\n"
        ) in text
        assert "tpuflex ask --stack tpu --endpoint http://127.0.0.1:8000/v1" in text
