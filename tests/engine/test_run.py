"""The engine through the Automation API, on the embedded cloud."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Iterator
from dataclasses import replace

import pulumi
import pytest
import yaml
from pulumi.runtime.rpc import UNKNOWN

from embedded_cloud.core.json_types import JsonObject
from tests.engine.embedded import Embedded
from tests.engine.libraries import call
from tpuflex.deploy.stack_run import SECRETS
from tpuflex.engine.commands import Target
from tpuflex.engine.events import Finished, Note, RunProgress
from tpuflex.engine.failure import ProgramFailures
from tpuflex.engine.run import EngineRun
from tpuflex.errors import CapacityError, EngineError, NotFoundError, PlanChangedError, WeightsError
from tpuflex.program import deploy

pytestmark = [
    pytest.mark.engine,
    pytest.mark.timeout(180),
    # Pulumi's SDK abandons the event loop of an inline program whose engine failed.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

Program = Callable[[], None]


@pytest.fixture
def embedded(strictly_embedded: Embedded) -> Embedded:
    return strictly_embedded


@pytest.fixture(autouse=True)
def _collected() -> Iterator[None]:
    """Collects what a failed program has left in the test that owns it, and not in a later one."""
    yield
    gc.collect()


def stack_run(
    embedded: Embedded, program: Program | None = None, seen: list[RunProgress] | None = None
) -> EngineRun:
    def endpoint() -> None:
        deploy(embedded.settings, project="tpuflex", stack="dev", environ=embedded.environ)

    return EngineRun(
        Target(embedded.root, "dev", embedded.engine, embedded.environ),
        program or endpoint,
        failures=ProgramFailures(),
        listener=(seen if seen is not None else []).append,
    )


def test_a_part_of_a_stack_has_no_output_that_nobody_knows(embedded: Embedded) -> None:
    """The secrets alone are made: what only a slice tells is left out, and not written down as the
    engine's marker for it, neither for the stack nor for the endpoint."""
    run = stack_run(embedded)

    run.up(targets=SECRETS)

    outputs, state = run.outputs(), json.dumps(run.deployment())
    assert outputs["model"] == embedded.settings.model.name
    assert not {"endpoint", "lifecycle", "queued_resource"} & outputs.keys()
    assert UNKNOWN not in state


def test_life_of_a_stack(embedded: Embedded) -> None:
    """Up, no changes, refresh, destroy, remove: progress is told and nothing is left."""
    seen: list[RunProgress] = []
    run = stack_run(embedded, seen=seen)
    assert not run.exists()

    run.up()
    outputs = run.outputs()
    again = run.preview()
    run.refresh()
    planned = run.preview_destroy()
    run.destroy()
    run.remove()

    assert outputs["lifecycle"] == "active"
    assert again.changes == ()
    assert {step.operation for step in planned.changes} == {"delete"}
    created = {p.step.type for p in seen if isinstance(p, Finished)}
    assert "tpuflex:tpu:QueuedResource" in created
    assert any(isinstance(p, Note) and "ACTIVE" in p.text for p in seen)
    assert embedded.remaining() == []
    assert (embedded.root / "stacks" / "Pulumi.dev.yaml").is_file()
    assert not stack_run(embedded).exists()


def test_outputs_of_a_stack_that_is_not_there(embedded: Embedded) -> None:
    """Asking for the outputs of a stack that was never up names the command that brings it up."""
    with pytest.raises(NotFoundError) as caught:
        stack_run(embedded).outputs()

    assert str(caught.value.hint) == "Run: tpuflex up --stack dev"


def test_error_of_the_program(embedded: Embedded) -> None:
    """An error of ours inside of the program comes out whole, not as text of the engine."""

    def program() -> None:
        raise WeightsError("a shard is cut short", hint="push again")

    with pytest.raises(WeightsError) as caught:
        stack_run(embedded, program).up()

    assert str(caught.value.hint) == "push again"


def test_bug_in_the_program(embedded: Embedded) -> None:
    """An exception that is none of ours is one line, not a traceback."""

    def program() -> None:
        raise KeyError("boom")

    with pytest.raises(EngineError) as caught:
        stack_run(embedded, program).preview()

    assert caught.value.message == "The Pulumi program failed: 'boom'"


def test_no_capacity(embedded: Embedded) -> None:
    """A stock-out is a CapacityError in Google's own words; what is left can be destroyed."""
    words = "There is no more capacity in the zone"
    failing: JsonObject = {
        "provisioning_s": 0.1,
        "failure": {"code": "RESOURCE_EXHAUSTED", "message": words},
    }
    embedded.set_capacity(failing)

    with pytest.raises(CapacityError, match=words):
        stack_run(embedded).up()

    assert "queuedResources" in embedded.remaining()
    stack_run(embedded).destroy()
    assert embedded.remaining() == []


def test_teardown_of_what_is_all_protected(embedded: Embedded) -> None:
    """Where everything is protected there is nothing to destroy, and that is no failure."""

    def program() -> None:
        pulumi.ComponentResource(
            "shop:index:Shelf", "shelf", opts=pulumi.ResourceOptions(protect=True)
        )

    run = stack_run(embedded, program)
    run.up()

    planned = run.preview_destroy(keep_protected=True)
    run.destroy(keep_protected=True)

    assert [step.name for step in planned.changes] == []
    assert any(resource.get("protect") for resource in run.resources())


def edited(embedded: Embedded, section: str, **values: object) -> None:
    """Change settings of the stack file."""
    file = embedded.root / "stacks" / "Pulumi.dev.yaml"
    document = yaml.safe_load(file.read_text())
    document["config"].setdefault(f"tpuflex:{section}", {}).update(values)
    file.write_text(yaml.safe_dump(document))


def planned(embedded: Embedded) -> list[str]:
    """Plan what the stack file says, run that plan, and say what it was."""
    run = stack_run(embedded)
    plan = run.preview(save=True)
    run.up(plan=plan)
    return sorted(map(str, plan.changes))


def test_a_plan_that_is_run(embedded: Embedded) -> None:
    """Held to its plan, the engine does all of it, so that the next plan has no more than was
    changed since: a creation, a change in place, and a replacement in either order."""
    planned(embedded)
    edited(embedded, "network", allowed_cidrs=["192.0.2.0/24"])
    edited(embedded, "slice", rerun="monday")
    second = planned(embedded)
    edited(embedded, "slice", rerun="tuesday", replace="delete_first")
    third = planned(embedded)

    assert second == [
        "create Firewall vllm-network-serving",
        "replace QueuedResource vllm",
        "update Network vllm-network",
        "update VllmEndpoint vllm",
    ]
    assert third == ["replace QueuedResource vllm", "update VllmEndpoint vllm"]
    assert stack_run(embedded).preview().changes == ()


def test_a_plan_of_more_than_is_needed(embedded: Embedded) -> None:
    """A replacement that a preview has to expect, and that is not needed once all is known, is left
    out, and that is no failure."""
    run = stack_run(embedded)
    run.up()
    plan = run.preview(save=True)
    saved = json.loads(plan.saved)
    (slice_,) = (urn for urn in saved["resourcePlans"] if "tpu:QueuedResource::" in urn)
    saved["resourcePlans"][slice_]["steps"] = ["create-replacement", "replace", "delete-replaced"]

    run.up(plan=replace(plan, saved=json.dumps(saved).encode()))

    assert len(embedded.cloud.cloud.inventory()["tpu"]["queuedResources"]) == 1


def test_what_was_changed_outside_is_found_and_brought_right(embedded: Embedded) -> None:
    """Of what somebody deletes or changes after an `up`, a preview without a refresh knows nothing;
    one with it names each, changes neither the state nor the cloud, and can be run. Right after
    that, all is as the state has it."""
    run = stack_run(embedded)
    run.up()
    state = run.deployment()
    rules = {
        each["urn"].rpartition("::")[2]: f"compute/v1/{each['id']}"
        for each in state["resources"]
        if each["type"] == "gcp:compute/firewall:Firewall"
    }
    assert call(embedded, "DELETE", rules["vllm-network-egress-deny"]).ok
    assert call(embedded, "PATCH", rules["vllm-network-ssh"], json={"priority": 5}).ok

    plain = run.preview()
    plan = run.preview(save=True, refresh=True)
    kept = run.deployment()
    run.up(plan=plan)
    after = run.preview(refresh=True)

    assert (plain.drift, plain.changes, plain.refreshed) == ((), (), False)
    assert list(map(str, plan.drift)) == [
        "Firewall vllm-network-egress-deny",
        "Firewall vllm-network-ssh: priority",
    ]
    assert sorted(map(str, plan.changes)) == [
        "create Firewall vllm-network-egress-deny",
        "update Firewall vllm-network-ssh",
    ]
    assert kept["resources"] == state["resources"]
    assert (after.drift, after.changes, after.refreshed) == ((), (), True)


def test_a_plan_that_was_overtaken(embedded: Embedded) -> None:
    """A firewall is planned, and before that is run somebody else deletes the slice: no other one
    is bought, and the error names it."""
    run = stack_run(embedded)
    run.up()
    edited(embedded, "network", allowed_cidrs=["192.0.2.0/24"])
    plan = run.preview(save=True)
    stack_run(embedded).destroy(targets=("**tpuflex:tpu:QueuedResource::*",))

    with pytest.raises(PlanChangedError, match="not in the plan: one of vllm with other inputs"):
        run.up(plan=plan)

    assert "queuedResources" not in embedded.remaining()
