"""Memory plans of stack files."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tpuflex.catalog.catalog import builtin
from tpuflex.planning.memory import MemoryPlan
from tpuflex.planning.stack import plan_stack
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
