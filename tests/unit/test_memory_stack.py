"""Memory plans of stack files."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tpuflex.catalog.catalog import builtin
from tpuflex.planning.memory import MemoryPlan
from tpuflex.planning.request import CpuMemoryRequest, MemoryRequest, NotPlannable
from tpuflex.planning.stack import memory_request, plan_stack
from tpuflex.settings.load import parse
from tpuflex.settings.model import PLACEHOLDER_PROJECT, StackSettings

_STACKS = sorted((Path(__file__).parents[2] / "stacks").glob("Pulumi.*.yaml"))


def _settings(path: Path, **model: str) -> StackSettings:
    text = path.read_text().replace(PLACEHOLDER_PROJECT, "a-project")
    config = yaml.safe_load(text)["config"]
    sections = {key.removeprefix("tpuflex:"): value for key, value in config.items()}
    sections["model"] = {**sections["model"], **model}
    return parse(sections, path.name)


def _stack(name: str) -> Path:
    [path] = [path for path in _STACKS if path.name == f"Pulumi.{name}.yaml"]
    return path


@pytest.mark.parametrize("path", _STACKS, ids=lambda path: path.name)
def test_every_stack_of_the_project_fits(path: Path) -> None:
    """Each stack file can be planned, and what it asks for fits its chips."""
    plan = plan_stack(_settings(path))

    assert isinstance(plan, MemoryPlan), plan
    assert plan.problems == ()


def test_first_proof_is_planned_as_its_log() -> None:
    """The flags of the boot log of E4B on v6e-1 give its 269,952 tokens."""
    plan = plan_stack(_settings(_stack("first-proof")))

    assert isinstance(plan, MemoryPlan)
    assert plan.cached_tokens == 269_952


def test_a_stack_on_google_is_a_request_for_chips() -> None:
    """All chips of the slice share the layers, unless the flags say otherwise."""
    asked = memory_request(_settings(_stack("gemma-4-26b-a4b-v6e-4")))

    assert isinstance(asked, MemoryRequest)
    assert (asked.accelerator.name, asked.tensor_parallel_size) == ("v6e-4", 4)


def test_a_stack_on_the_embedded_cloud_is_planned_for_the_cpu() -> None:
    """The development stack has the cache that its environment asks for."""
    asked = memory_request(_settings(_stack("dev")))

    assert isinstance(asked, CpuMemoryRequest)
    assert asked.kv_space_bytes == 2**30


def test_further_arguments_are_planned() -> None:
    """A number of blocks in serving.extra_args reaches the plan."""
    settings = _settings(_stack("first-proof"))
    serving = settings.serving.model_copy(
        update={"extra_args": ("--num-gpu-blocks-override", "100")}
    )
    settings = settings.model_copy(update={"serving": serving})

    plan = plan_stack(settings)

    assert isinstance(plan, MemoryPlan)
    assert plan.blocks == 100


def test_an_unknown_model_is_not_guessed() -> None:
    """Without a row in the catalog there is no plan, and the way to one is named."""
    plan = plan_stack(_settings(_stack("dev"), name="somebody/something"))

    assert plan == NotPlannable(
        "somebody/something is not in the catalog: add its row, or plan it with "
        "`tpuflex memory --model-dir`"
    )


def test_rows_of_the_stack_are_planned() -> None:
    """A model that only the stack file's own catalog has is planned by that row."""
    row = builtin().models["HuggingFaceTB/SmolLM2-135M-Instruct"].model_dump(mode="json")
    config = yaml.safe_load(_stack("dev").read_text())["config"]
    sections = {key.removeprefix("tpuflex:"): value for key, value in config.items()}
    sections["model"] = {**sections["model"], "name": "somebody/something"}
    sections["catalog"] = {"models": [{**row, "name": "somebody/something", "layers": 60}]}

    plan = plan_stack(parse(sections, "test"))

    assert isinstance(plan, MemoryPlan)
    assert plan.kv_bytes_per_token == 2 * 23_040
