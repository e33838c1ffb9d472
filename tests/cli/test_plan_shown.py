"""The whole plan, and what it says of a request."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from pulumi_plugin.values import UNKNOWN_STRING
from tests.cli.samples import step
from tests.cli.typing import Captured
from tests.unit.stack_sections import sections
from tpuflex.cli.stack_plan import egress_text, show_plan
from tpuflex.deploy.plan import StackPlan, image_grant
from tpuflex.engine.events import EnginePlan, Step
from tpuflex.naming import QUEUED_RESOURCE
from tpuflex.planning.cost import RunCost
from tpuflex.queued_resource.outcomes import PREVIEWS, PreviewAction
from tpuflex.settings.identity import IdentitySettings
from tpuflex.settings.load import parse
from tpuflex.settings.network import NetworkSettings
from tpuflex.stack.stack import Stack
from tpuflex.terminal.output import Output

#: Of a price that was not read.
COST = RunCost(1, None, None, None)


def shown(stack: Stack, capsys: Captured, *steps: Step, **changes: object) -> tuple[str, Any]:
    """The plan of a stack with other settings, for people and for scripts."""
    settings = stack.settings.model_copy(update=changes)
    plan = StackPlan(replace(stack, settings=settings), EnginePlan(steps), COST)
    show_plan(Output(json=False, verbose=False), plan)
    return capsys.readouterr().out, plan.to_json()


def test_on_google(stack: Stack, capsys: Captured) -> None:
    """A plan shows model, zone, slice, duration, price with its limits, and the changes."""
    cost = RunCost(4, Decimal("5.40"), Decimal("21.60"), None)
    steps = (step("create"), step("create", name="b"), step("update", name="c"))

    show_plan(Output(json=False, verbose=True), StackPlan(stack, EnginePlan(steps), cost))

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


def test_a_way_out_that_goes_or_comes_is_told(stack: Stack) -> None:
    """A stack that is to have no NAT any more loses it, and the plan says so before it does."""
    nat = EnginePlan((step("delete", "gcp:compute/routerNat:RouterNat", "nat"),))
    zone = EnginePlan((step("delete", "gcp:dns/managedZone:ManagedZone", "zone"),))

    assert "NAT, by which the hosts reached the internet" in egress_text("google", nat)
    assert "may reach the internet, through NAT; until now" in egress_text("internet", zone)
    assert StackPlan(stack, nat, COST).to_json()["egress"] == "google"


def test_a_bucket_that_goes_is_named(stack: Stack, capsys: Captured) -> None:
    """Weights that an `up` deletes, because the stack keeps them in a library or in another region
    from now on, are told before it does; what is made or changed is not."""
    gone = replace(step("delete"), before={"name": "acme-weights"})
    moved = replace(step("replace", name="b"), before={"name": "acme-weights-of-before"})
    others = (step("create", name="c"), step("update", name="d"), step("delete", "a:b:C", "e"))

    text, _ = shown(stack, capsys, gone, moved, *others)

    assert [line for line in text.splitlines() if "gs://" in line] == [
        "  deletes    gs://acme-weights with everything in it",
        "  deletes    gs://acme-weights-of-before with everything in it",
    ]


def test_a_role_that_somebody_else_grants_is_told(stack: Stack) -> None:
    """An image in another project: which role, there, to whom; none for one of ours."""
    theirs = sections({"serving.image": f"gcr.io/others/vllm@sha256:{'ab' * 32}"})

    def grant(mapping: dict[str, object]) -> dict[str, str] | None:
        return image_grant(replace(stack, settings=parse(mapping, "test")))

    assert grant(theirs) == {
        "project": "others",
        "role": "roles/artifactregistry.reader",
        "member": "serviceAccount:tpuflex-dev-vllm-host@acme-serving.iam.gserviceaccount.com",
    }
    mine = "serving@acme-serving.iam.gserviceaccount.com"
    existing = grant({**theirs, "identity": {"service_account": mine}})
    assert existing is not None
    assert existing["member"] == f"serviceAccount:{mine}"
    assert grant(sections()) is None
    assert image_grant(stack) is None


def test_when_a_request_gives_up(stack: Stack, capsys: Captured) -> None:
    """The plan says after which time the request gives up; without one it has no line."""
    slice_ = stack.settings.slice.model_copy(update={"give_up_after": timedelta(hours=6)})
    text, document = shown(stack, capsys, slice=slice_)

    assert "  gives up   6h after it is requested, unless granted before\n" in text
    assert document["give_up_after"] == "6h"


def test_a_network_of_yours_is_named(stack: Stack, capsys: Captured) -> None:
    """Whoever agrees to a plan sees which network the hosts go into, and that it stays."""
    network = NetworkSettings(name="team", subnetwork="serving", egress="existing")
    text, document = shown(stack, capsys, network=network)

    project = stack.settings.project
    path = f"projects/{project}/regions/{stack.settings.region}/subnetworks/serving"
    assert f"  network    yours, and kept: {path}\n" in text
    assert "  egress     what your network lets the hosts reach: nothing is made for it\n" in text
    assert document["network"] == {
        "network": f"projects/{project}/global/networks/team",
        "subnetwork": path,
    }


def test_a_bucket_of_yours_is_named(stack: Stack, capsys: Captured) -> None:
    """Where the weights are, that they stay, and who pays for them."""
    weights = {"bucket": "gs://acme-models/llm", "manifest_sha256": "5a" * 32}
    settings = parse(sections({"model.weights": weights}), "test")
    seen = {"name": "acme-models", "location": "US-EAST5", "projectNumber": 1234.0}
    read = replace(step("read", "gcp:storage/bucket:Bucket", "b"), inputs=seen)
    stack = replace(stack, settings=settings)
    text, document = shown(stack, capsys, read)

    words = " ".join(text.split())
    assert (
        "weights yours, and kept: gs://acme-models/llm/models/google-gemma-4-e4b-it/1, in us-east5,"
        " billed to project 1234 egress"
    ) in words
    assert "resources none" in words
    assert document["bucket"] == "gs://acme-models"


@pytest.mark.parametrize("manage_grants", [True, False])
def test_an_account_of_yours_is_named(stack: Stack, capsys: Captured, manage_grants: bool) -> None:
    """Whoever agrees to a plan sees as whom the hosts run, and who grants that what they need."""
    mine = "serving@acme-serving.iam.gserviceaccount.com"
    identity = IdentitySettings(service_account=mine, manage_grants=manage_grants)
    text, document = shown(stack, capsys, identity=identity)

    others = "" if manage_grants else "; others grant it what hosts need"
    assert f"  account    yours, and kept: {mine}{others}\n" in text
    assert document["service_account"] == mine


def test_unknown_price(stack: Stack) -> None:
    """A price that was not read is unknown, not zero."""
    plan = StackPlan(stack, EnginePlan(()), COST)

    assert plan.to_json()["usd_per_hour"] is None
    assert plan.changes == "none"


def test_of_a_run_that_is_over(stack: Stack) -> None:
    """An update that requests nothing is shown as that, not as an update."""
    update = step("update", "tpuflex:tpu:QueuedResource", "vllm")

    over = StackPlan(stack, EnginePlan((update,)), COST, run_over="the run is over")

    assert over.to_json()["request"] == "the run is over"
    assert StackPlan(stack, EnginePlan((update,)), COST).request == PREVIEWS[PreviewAction.UPDATE]


def test_why_a_slice_is_replaced(stack: Stack) -> None:
    """A plan that takes a slice away names the inputs for which it does."""
    replaced = Step(
        "replace",
        "tpuflex:tpu:QueuedResource",
        "vllm",
        "urn:vllm",
        changed=("zones", "queuedResourceId", "description"),
        replaced_for=("queuedResourceId", "zones"),
    )

    plan = StackPlan(stack, EnginePlan((replaced,)), COST)

    assert plan.request == f"{PREVIEWS[PreviewAction.REPLACE]} (changed: zones)"


def test_a_hand_over_is_announced(stack: Stack, capsys: Captured) -> None:
    """A plan that replaces a slice says that two are billed for a while; not one that deletes the
    first before it asks for the next."""
    change = step("replace", QUEUED_RESOURCE, "vllm")
    told, _ = shown(stack, capsys, change)
    untold, _ = shown(stack, capsys, replace(change, deleted_first=True))

    assert "hand-over  what serves goes on until the new slice serves" in told
    assert "hand-over" not in untold


@pytest.mark.parametrize(
    ("before", "inputs", "stays"),
    [
        ({"metadata": {"a": "1", "b": "2"}}, {"metadata": {"a": "1", "b": UNKNOWN_STRING}}, True),
        ({"network": "projects/p/global/networks/n"}, {"network": UNKNOWN_STRING}, True),
        ({"tags": ["a", "b"]}, {"tags": ["a", UNKNOWN_STRING]}, True),
        # More than what is unknown has changed.
        ({"metadata": {"a": "1", "b": "2"}}, {"metadata": {"a": "0", "b": UNKNOWN_STRING}}, False),
        ({"metadata": {"a": "1"}}, {"metadata": {"a": "1", "b": UNKNOWN_STRING}}, False),
        ({"zones": ["x"]}, {"zones": ["y"]}, False),
        # It is replaced for what has become of it, and for no input.
        ({}, {}, False),
    ],
)
def test_what_is_replaced_for_unknown_values_alone_may_stay(
    stack: Stack, capsys: Captured, before: Any, inputs: Any, stays: bool
) -> None:
    """Where a bucket was deleted outside, its weights are not known before they are pushed again:
    the update keeps the slice if they are the same. So no replacement is announced."""
    causes = ("queuedResourceId", *(before or {"lifecycle": ""}))
    change = replace(
        step("replace", QUEUED_RESOURCE, "vllm"), before=before, inputs=inputs, replaced_for=causes
    )

    told, document = shown(stack, capsys, change)

    assert document["changes"][0]["may_stay"] is stays
    assert ("  request    is kept, unless what is not known before the update" in told) is stays
    assert ("  hand-over  if it is replaced, what serves goes on" in told) is stays
    assert ("  resources  1 to keep or replace" in told) is stays


def test_components_and_providers_do_not_count(stack: Stack) -> None:
    """Only resources in the cloud are counted."""
    component = Step("create", "tpuflex:index:Network", "n", "urn:n", custom=False)
    provider = step("create", "pulumi:providers:gcp", "p")

    plan = StackPlan(stack, EnginePlan((component, provider)), COST)

    assert plan.changes == "none"
    assert len(plan.plan.changes) == 2
