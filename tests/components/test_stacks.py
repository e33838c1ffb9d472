"""Every stack file of the project: what its hosts boot with, and what a user sees before paying."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.components.preparation import Prepared
from tests.components.pulumi_plan import Plan
from tests.goldens.golden_texts import assert_golden
from tests.unit.stack_sections import PIN
from tools.docs.stacks_reference import planned_text, stack_head
from tpuflex.boot.config import boot_config
from tpuflex.cli.stack_plan import show_plan
from tpuflex.deploy.plan import StackPlan
from tpuflex.engine.events import EnginePlan, Step
from tpuflex.planning.cost import run_cost
from tpuflex.planning.memory import MemoryPlan
from tpuflex.planning.stack import plan_stack
from tpuflex.project import Project
from tpuflex.settings.load import parse
from tpuflex.settings.model import PLACEHOLDER_PROJECT
from tpuflex.stack.stack import Stack
from tpuflex.terminal.output import Output

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "stacks").glob("Pulumi.*.yaml"))
#: The project that a user writes where the files have a placeholder.
PROJECT = "acme-serving"

Deploy = Callable[..., Plan]


def name_of(file: Path) -> str:
    """The name of the stack in ``file``."""
    return file.name.removeprefix("Pulumi.").removesuffix(".yaml")


def sections_of(file: Path) -> dict[str, object]:
    """The sections of ``file``, with a project filled in."""
    text = file.read_text().replace(PLACEHOLDER_PROJECT, PROJECT)
    return {
        key.removeprefix("tpuflex:"): value for key, value in yaml.safe_load(text)["config"].items()
    }


def open_(file: Path) -> Stack:
    """The stack in ``file`` as a command sees it."""
    project = Project("tpuflex", ROOT, ROOT / "stacks", ROOT / ".tpuflex")
    return Stack(project, name_of(file), file, parse(sections_of(file), file.name))


def plan_of(stack: Stack, deployed: Deploy) -> StackPlan:
    """The plan of the first `up` of ``stack``."""
    made = deployed(sections_of(stack.file), stack=stack.name, prepare=Prepared(PIN), preview=True)
    steps = (
        Step("create", request.type, request.name, address, custom=request.custom)
        for address, request in made.requests.items()
    )
    return StackPlan(stack, EnginePlan.of(steps), run_cost(stack.settings))


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_hosts_boot_with(file: Path) -> None:
    """The whole boot configuration of each stack: arguments, environment, weights, secrets."""
    stack = open_(file)

    document = json.loads(boot_config(stack.settings, stack.names, PIN).to_json())

    text = json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    assert_golden(f"stacks/{stack.name}.boot.json", text)


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_plan_sheet_says(file: Path, deployed: Deploy, capsys: pytest.CaptureFixture[str]) -> None:
    """What `up` shows before it asks, as a whole: the plan, and every warning."""
    stack = open_(file)

    show_plan(Output(json=False, verbose=False), plan_of(stack, deployed))

    assert_golden(f"stacks/{stack.name}.plan.txt", capsys.readouterr().out)


def test_a_script_gets_the_warnings(deployed: Deploy) -> None:
    """`preview --json` has each warning with its key, so that a pipeline can stop at it."""
    stack = open_(ROOT / "stacks" / "Pulumi.gemma-4-31b-v6e-4-bf16.yaml")

    shown = plan_of(stack, deployed).to_json()["warnings"]

    assert [each["key"] for each in shown] == ["tpuflex:serving.flags.max_num_seqs"]  # type: ignore[attr-defined]


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_its_head_says_what_was_seen_and_what_was_not(file: Path) -> None:
    """A stack for chips that nobody of the project has used says so, and what is unproven."""
    head = stack_head(file.read_text())

    assert head.title.endswith(".")
    if parse(sections_of(file), file.name).cloud == "google":
        assert "Nobody has run tpuflex on a TPU" in head.unproven


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_its_head_agrees_with_the_planner(file: Path) -> None:
    """What a head says of tokens and sequences under Planned is the planner's own sentence."""
    settings = parse(sections_of(file), file.name)

    assert stack_head(file.read_text()).planned == planned_text(settings)


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_it_can_be_served(file: Path) -> None:
    """The planner knows every model that comes with a stack, and each of them fits."""
    plan = plan_stack(parse(sections_of(file), file.name))

    assert isinstance(plan, MemoryPlan)
    assert plan.problems == ()


def test_no_golden_outlives_its_stack() -> None:
    """A stack that is renamed or removed takes its goldens with it."""
    names = {name_of(file) for file in FILES}
    goldens = (ROOT / "tests" / "goldens" / "stacks").iterdir()
    assert {golden.name.rsplit(".", 2)[0] for golden in goldens} == names


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_m2_every_stack_says_where_its_weights_come_from(file: Path) -> None:
    """M2: `up` of a stack that comes with tpuflex pushes weights before it asks for chips."""
    model = yaml.safe_load(file.read_text())["config"]["tpuflex:model"]

    assert model["weights"]["source"]
