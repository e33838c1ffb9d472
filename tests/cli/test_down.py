"""`tpuflex down` of one stack: what is gone already, what could not be looked at, and a slice whose
boot has failed."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.cli.typing import Captured
from tests.provider.fakes import FakeTime
from tpuflex.cli.down.run import show_plan
from tpuflex.cli.invocation import Invocation
from tpuflex.deploy.boot import delete_slice
from tpuflex.deploy.ownership import Ownership
from tpuflex.deploy.stack_run import StackRun
from tpuflex.deploy.teardown import DownPlan, Planned, destroyed
from tpuflex.engine.events import EnginePlan, Note
from tpuflex.engine.failure import failure
from tpuflex.errors import AccessError, EngineError, IncompleteTeardownError, TpuflexError
from tpuflex.inventory.inventory import Inventory, Item
from tpuflex.inventory.listing import Unlisted
from tpuflex.inventory.unlisted import NOT_READ, reasons, recorded, unlisted_remedy
from tpuflex.naming import QUEUED_RESOURCE
from tpuflex.stack.connection import Connection
from tpuflex.stack.stack import Stack
from tpuflex.weights.stack_weights import StackWeights

GONE = "googleapi: Error 404: The specified bucket does not exist., notFound"


#: Nothing in particular, of which nothing is kept.
PLANNED = Planned(Ownership({}, {}, frozenset()), True, EnginePlan(()), Inventory(()), ())


class Run:
    """A stack run whose destroys fail one after the other, as listed."""

    def __init__(self, *failures: TpuflexError) -> None:
        self.failures = list(failures)
        self.steps: list[str] = []

    def destroy(self, _plan: EnginePlan, **_options: bool) -> None:
        self.steps.append("destroy")
        if self.failures:
            raise self.failures.pop(0)

    def refresh(self) -> None:
        self.steps.append("refresh")


def gone() -> TpuflexError:
    return failure("destroy", [Note("error", GONE, "vllm-weights")], "")


def test_a_plan_to_destroy_has_a_digest(cloud: Connection) -> None:
    """It is another one if anything else would go or be kept, and the same whatever state the slice
    is in meanwhile."""

    def digest(*items: Item, kept: tuple[str, ...] = ()) -> str:
        planned = replace(PLANNED, before=Inventory(items, kept=kept))
        return DownPlan(StackWeights(cloud), planned).digest

    bucket = Item("bucket", "weights", "us-east5", "")
    active, suspended = (Item("queued resource", "q", "z", state) for state in ("ACTIVE", "FAILED"))

    assert digest(active, bucket) == digest(bucket, suspended)
    assert len({digest(), digest(bucket), digest(active), digest(bucket, kept=("n",))}) == 4


def test_the_state_is_read_again_and_the_rest_deleted() -> None:
    """A bucket whose delete answer was lost does not stop `down` for good."""
    run, said = Run(gone()), list[str]()

    assert destroyed(cast("StackRun", run), PLANNED, said.append)

    assert run.steps == ["destroy", "refresh", "destroy"]
    assert said == [f"vllm-weights: {GONE}\nIt is gone already: reading the state again."]


def test_a_second_failure_points_to_recover() -> None:
    """It is not repeated for ever."""
    run = Run(gone(), gone())

    with pytest.raises(EngineError) as caught:
        destroyed(cast("StackRun", run), PLANNED, lambda _: None)

    assert run.steps == ["destroy", "refresh", "destroy"]
    assert "`tpuflex recover`, then `tpuflex down` again" in str(caught.value.hint)


def test_another_failure_is_not_repeated() -> None:
    """Only what is gone makes the state worth reading again."""
    run = Run(EngineError("boom"))

    with pytest.raises(EngineError, match="boom"):
        destroyed(cast("StackRun", run), PLANNED, lambda _: None)

    assert run.steps == ["destroy"]


ZONE = "projects/p/locations/us-east5-a"
DENIED = (
    "403: Permission 'tpu.nodes.list' denied on resource"
    f" '//tpu.googleapis.com/{ZONE}/queuedResources'"
)
CALL = f"GET https://tpu.googleapis.com/v2alpha1/{ZONE}/x"
REFUSED = Unlisted("queued resources", "us-east5-a", f"{CALL}: {DENIED}", DENIED)
STATE: list[dict[str, Any]] = [
    {"type": "gcp:dns/managedZone:ManagedZone", "id": "projects/p/managedZones/zone"},
    {"type": QUEUED_RESOURCE, "id": f"{ZONE}/queuedResources/q"},
    {"type": "gcp:compute/network:Network", "id": "projects/p/global/networks/net"},
    {"type": "pulumi:providers:gcp", "id": "x"},
]
NETWORK = Item("network", "net", "global")
KINDS = frozenset(("queued resource", "node", "DNS zone"))


def test_the_state_tells_what_could_not_be_listed() -> None:
    """An engineer on call: a slice, its node and DNS zones were missing from the list that `down`
    asks consent for, and were destroyed all the same."""
    found = recorded(STATE, Inventory((NETWORK,), (REFUSED,), KINDS))

    assert [(item.kind, item.name, item.location) for item in found] == [
        ("queued resource", "q", "us-east5-a"),
        ("node", "q", "us-east5-a"),
        ("DNS zone", "zone", "global"),
    ]
    assert {item.detail for item in found} == {NOT_READ}


def test_what_was_listed_whole_needs_no_state() -> None:
    """What the state knows, and is in no complete list, is gone."""
    assert recorded(STATE, Inventory((NETWORK,))) == ()


def test_a_reason_is_said_once() -> None:
    """An engineer on call: a wall of the same refusal, one for each kind and zone."""
    brief = DENIED.replace("us-east5-a", "us-west1-c")
    elsewhere = replace(REFUSED, where="us-west1-c", brief=brief)

    (line,) = reasons((REFUSED, elsewhere, replace(REFUSED, what="nodes")))

    assert line.startswith(
        "queued resources in us-east5-a and 1 more place, nodes in us-east5-a: 403: Permission"
    )
    unreachable = Unlisted("nodes", "", "z is unreachable", "z is unreachable")
    assert reasons((unreachable,)) == ["nodes: z is unreachable"]


@pytest.mark.parametrize(
    ("unlisted", "remedy"),
    [
        (REFUSED, "--role=roles/tpu.viewer"),
        ("networks: 403: This API method requires billing to be enabled.", "projects link p "),
    ],
)
def test_the_remedy_mends_the_cause(unlisted: object, remedy: str) -> None:
    """An engineer on call: "Run `tpuflex down` again" was all, and ended in the same way."""
    assert remedy in unlisted_remedy((unlisted,), "p")
    assert unlisted_remedy(("nodes: 503",), "p") == ""


def test_before_the_question(stack: Stack, capsys: Captured) -> None:
    """What could not be looked at is in the list, and said with what that means."""
    inventory = Inventory((NETWORK,), (REFUSED,), KINDS)
    mine = Ownership({"resources": STATE}, {}, frozenset())
    planned = Planned(mine, True, EnginePlan(()), inventory, ())

    show_plan(
        Invocation(environ={}).output,
        DownPlan(StackWeights(Connection(stack, {})), planned, "nothing"),
    )

    said = capsys.readouterr().out
    assert f"queued resource  us-east5-a  {NOT_READ}  q" in said
    assert said.index("Could not be looked at: queued resources") < said.index("cost so far")
    assert "is destroyed all the same" in said


@pytest.mark.parametrize("kind", ["bucket", "network"])
def test_the_weights_in_the_bucket_are_named(stack: Stack, capsys: Captured, kind: str) -> None:
    """Before the question it is said that what was pushed goes, where a bucket does."""
    inventory = Inventory((replace(NETWORK, kind=kind),))
    planned = Planned(Ownership({}, {}, frozenset()), True, EnginePlan(()), inventory, ())

    show_plan(Invocation(environ={}).output, DownPlan(StackWeights(Connection(stack, {})), planned))

    said = capsys.readouterr().out
    assert ("weights  what was pushed goes with the bucket" in said) is (kind == "bucket")


def test_what_could_not_be_compared_is_said(stack: Stack, capsys: Captured) -> None:
    """`down` deleted what it had not been allowed to read, and did not say so: nobody had looked
    whether it was still what the stack had made."""
    brief = "403: Permission 'iam.serviceAccounts.get' denied on resource"
    denied = AccessError(f"GET https://iam/x: {brief}", brief=brief)
    uncompared = {f"urn:pulumi:dev::p::type::{name}": denied for name in ("vllm-host", "other")}
    mine = Ownership({"resources": STATE}, {}, frozenset(), uncompared)
    planned = Planned(mine, True, EnginePlan(()), Inventory((NETWORK,)), ())

    show_plan(
        Invocation(environ={}).output,
        DownPlan(StackWeights(Connection(stack, {})), planned, "nothing"),
    )

    said = capsys.readouterr().out
    assert "Could not be compared with the state: vllm-host, other: 403: Permission 'iam." in said
    assert "nobody could look" in said
    assert "--role=roles/iam.serviceAccountViewer" in said


def deleted(*ends: TpuflexError | None) -> tuple[FakeTime, list[str], TpuflexError | None]:
    """The time it took, what was said and how it ended, where attempts end like ``ends``."""
    time, left = FakeTime(), [*ends]
    said: list[str] = []

    def destroy_slice() -> None:
        if (end := left.pop(0)) is not None:
            raise end

    cloud: Any = SimpleNamespace(timing=time.timing())
    stack_run: Any = SimpleNamespace(destroy_slice=destroy_slice, report=said.append)
    try:
        delete_slice(cloud, stack_run)
    except TpuflexError as error:
        return time, said, error
    assert left == []
    return time, said, None


@pytest.mark.parametrize(
    "first", [EngineError("it died"), IncompleteTeardownError("not gone after 30 min")]
)
def test_m7_what_may_pass_is_tried_again(first: TpuflexError) -> None:
    """An engine that died, and a slice that was not gone yet: the next attempt deletes it."""
    time, said, end = deleted(first, None)

    assert end is None
    assert time.pauses == [30.0]
    assert said == [
        f"It could not be deleted: {first.message}",
        "Trying again in 30 s (1 of 2) …",
    ]


def test_m7_three_attempts_are_all() -> None:
    """The last failure is the one that is reported."""
    failures = [EngineError(f"death {number}") for number in range(3)]

    time, _, end = deleted(*failures)

    assert end is failures[-1]
    assert time.pauses == [30.0, 30.0]


def test_m7_a_missing_permission_is_final() -> None:
    """Another attempt would be billed and refused."""
    refused = AccessError("no")

    assert deleted(refused)[2] is refused
