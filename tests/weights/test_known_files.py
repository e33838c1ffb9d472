"""A stack is planned by the files of its model, wherever they are, and by its name without them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pulumi
import pytest
import yaml

from tests.checkpoints import PublishedCheckpoint, llama_70b, pushing, smollm2
from tests.cli.typing import NOON, TypeIn
from tests.unit.stack_sections import sections
from tpuflex.boot.places import weights_prefix
from tpuflex.catalog.rows import Source
from tpuflex.cli.invocation import Invocation
from tpuflex.components.given import Given
from tpuflex.errors import SettingsError, WeightsError
from tpuflex.google.storage_client import storage_bucket
from tpuflex.planning.checkpoint import describe
from tpuflex.planning.memory import MemoryPlan
from tpuflex.planning.request import NotPlannable
from tpuflex.planning.stack import plan_stack
from tpuflex.settings.rules import warnings
from tpuflex.settings.weights_source import parse_source
from tpuflex.stack.connection import Connection
from tpuflex.stack.stack import Stack
from tpuflex.weights.known_files import known_by_source, planned_by, planned_by_files
from tpuflex.weights.stack_weights import StackWeights

EIGHT = "meta-llama/Llama-3.1-8B-Instruct"


def write_stack(project: Path, **changes: object) -> Invocation:
    """A stack file for an 8B model on one chip, with ``changes`` by dotted key, `__` for the dot;
    the invocation that opens it."""
    named = {key.replace("__", "."): value for key, value in changes.items()}
    found = sections({"model.name": EIGHT, "slice.accelerator_type": "v6e-1", **named})
    document = {"config": {f"tpuflex:{key}": value for key, value in found.items()}}
    (project / "stacks" / "Pulumi.prod.yaml").write_text(yaml.safe_dump(document))
    return Invocation(environ={}, now=lambda: NOON, directory=project, chosen_stack="prod")


@pytest.fixture
def open_with(project: Path) -> Callable[..., Stack]:
    """Opens that stack with these files in the directory that is its source."""

    def opened(files: PublishedCheckpoint, **changes: object) -> Stack:
        files.write(project / "model")
        return write_stack(project, model__weights__source="model", **changes).open_stack()

    return opened


def test_a_larger_model_in_the_directory_does_not_fit(
    open_with: Callable[..., Stack],
) -> None:
    """What the directory holds counts, not what the stack file calls it: 131 GiB on one chip."""
    with pytest.raises(SettingsError) as refused:
        open_with(llama_70b())

    (finding,) = refused.value.findings
    assert finding.key == "tpuflex:slice.accelerator_type"
    assert "take 131.42 GiB of each chip of v6e-1" in finding.problem


def test_what_fits_is_planned_by_the_files_and_says_what_is_other(
    open_with: Callable[..., Stack],
) -> None:
    """A smaller model than the name says is planned as it is, with a warning that names both."""
    stack = open_with(smollm2())

    plan = plan_stack(stack.settings)
    assert isinstance(plan, MemoryPlan)
    assert plan.weight_bytes == 269_030_016
    directory = stack.project.root / "model"
    assert planned_by(stack) == f"those of {directory}"
    (warned,) = (each for each in warnings(stack.settings) if each.key == "tpuflex:model.name")
    assert f"the files of {directory} are not the {EIGHT} that is known" in warned.problem
    assert "layers 30, not 32; hidden size 576, not 4096" in warned.problem


def quantized(method: str, **config: Any) -> PublishedCheckpoint:
    """A small model whose config.json says how it is quantised."""
    found = smollm2()
    said = {"quantization_config": {"quant_method": method}}
    return replace(found, config={**found.config, **said, **config})


@pytest.mark.parametrize(
    ("files", "flag", "key", "problem"),
    [
        (quantized("bitsandbytes"), None, "model.weights", "are quantized by bitsandbytes, which"),
        (quantized("gptq"), None, "model.weights", "are quantized by auto_gptq, which"),
        (
            quantized("bitsandbytes", architectures=["MistralForCausalLM"]),
            None,
            "model.weights",
            "are quantized by bitsandbytes, which",
        ),
        (
            quantized("compressed-tensors"),
            "fp8",
            "serving.flags.quantization",
            "and the weights are quantized by compressed-tensors",
        ),
        (
            smollm2(),
            "compressed-tensors",
            "serving.flags.quantization",
            "and the weights are not quantized",
        ),
    ],
)
def test_what_the_files_are_quantised_by_is_refused_as_the_flag_is(
    open_with: Callable[..., Stack],
    files: PublishedCheckpoint,
    flag: str | None,
    key: str,
    problem: str,
) -> None:
    """Files that the server could not read are refused when the stack file is opened, and so is a
    flag that says something else than they do; no remedy takes weights away."""
    flags = {"max_model_len": 4096, **({"quantization": flag} if flag else {})}

    with pytest.raises(SettingsError) as refused:
        open_with(files, serving__flags=flags)

    (finding,) = refused.value.findings
    assert finding.key == f"tpuflex:{key}"
    assert problem in finding.problem
    assert "delete" not in finding.remedy.lower()


def test_every_command_refuses_files_that_the_server_could_not_read(
    project: Path, type_in: TypeIn
) -> None:
    """`memory`, `recommend` and `init` say what `up` would, with its exit code."""
    quantized("bitsandbytes").write(project / "model")
    where, chips = str(project / "model"), ("--accelerator", "v6e-1")
    load = ("--context", "4096", "--concurrency", "1")
    new = ("--model", EIGHT, "--weights", "model", "--cloud", "google", "--project", "acme-serving")

    for words in (
        ("memory", "--model-dir", where, *chips, "--max-model-len", "4096"),
        ("memory", "--config", f"{where}/config.json", *chips, "--max-model-len", "4096"),
        ("recommend", "--model-dir", where, *load, "--verbose"),
        ("init", "--yes", "-s", "new", "--zone", "us-east5-a", "--run", "4h", *chips, *new),
    ):
        typed = type_in(*words)
        assert typed.code == 5, words
        assert "are quantized by bitsandbytes, which" in " ".join(f"{typed.out}{typed.err}".split())


@pytest.mark.parametrize("method", ["compressed-tensors", "fp8"])
def test_quantised_files_that_can_be_read_are_planned_by_their_bytes(
    open_with: Callable[..., Stack], method: str
) -> None:
    """The flag of the same name may stand beside them."""
    flags = {"max_model_len": 4096, "quantization": method}

    plan = plan_stack(open_with(quantized(method), serving__flags=flags).settings)

    assert isinstance(plan, MemoryPlan)
    assert plan.weight_bytes == 269_030_016


def test_files_that_are_no_whole_model_are_not_planned_by_the_name(
    open_with: Callable[..., Stack],
) -> None:
    """Where the output head is missing the plan says so, and nothing is counted."""
    whole = llama_70b()
    tensors = {name: each for name, each in whole.tensors.items() if name != "lm_head.weight"}

    stack = open_with(replace(whole, tensors=tensors))

    (warned,) = (each for each in warnings(stack.settings) if each.key == "tpuflex:model.name")
    assert "have no lm_head.weight" in warned.problem


def put(cloud: Connection, bucket: str, prefix: str, files: Path) -> None:
    """Upload ``files`` to a bucket of ``cloud``."""
    made = storage_bucket(bucket, project=cloud.stack.settings.project, environ=cloud.environ)
    if not made.exists():
        made.create(location="us-east5")
    for file in files.iterdir():
        made.blob(f"{prefix}/{file.name}").upload_from_filename(str(file))


def with_model(cloud: Connection, name: str, source: str | None) -> Connection:
    """``cloud`` with a stack that serves ``name`` from ``source``."""
    settings = cloud.stack.settings
    weights = settings.model.weights.model_copy(
        update={"source": None if source is None else parse_source(source)}
    )
    model = settings.model.model_copy(update={"name": name, "weights": weights})
    changed = settings.model_copy(update={"model": model})
    return replace(cloud, stack=replace(cloud.stack, settings=changed))


def test_a_model_in_a_bucket_is_planned_by_its_headers(cloud: Connection, tmp_path: Path) -> None:
    """What `gs://` names is read before the plan, and no more of it than its headers."""
    put(cloud, "acme-models", "team/small", smollm2(layers=2).write(tmp_path / "small", shards=2))
    asked = with_model(cloud, "HuggingFaceTB/SmolLM2-135M-Instruct", "gs://acme-models/team/small")

    stack = planned_by_files(asked).stack

    assert planned_by(stack) == "those of gs://acme-models/team/small"
    assert stack.settings.served.layers == 2  # type: ignore[union-attr]


def test_what_is_pushed_comes_before_its_source(cloud: Connection, tmp_path: Path) -> None:
    """The set in the stack's bucket is what hosts read, whatever the source holds by now."""
    name = "HuggingFaceTB/SmolLM2-135M-Instruct"
    asked = with_model(cloud, name, "gs://acme-models/team/small")
    put(cloud, "acme-models", "team/small", smollm2(layers=3).write(tmp_path / "source"))
    bucket = storage_bucket(
        asked.bucket, project=cloud.stack.settings.project, environ=cloud.environ
    )
    bucket.labels = cloud.stack.names.labels("state")
    bucket.create(location="us-east5")
    StackWeights(asked).store.push(
        pushing(
            smollm2(layers=2).write(tmp_path / "pushed"),
            weights_prefix(asked.stack.settings.model),
            name=name,
        )
    )

    stack = planned_by_files(asked).stack

    assert planned_by(stack).startswith(f"those of gs://{asked.bucket}/models/")
    assert stack.settings.served.layers == 2  # type: ignore[union-attr]


@pytest.fixture
def hub(cloud: Connection, tmp_path: Path) -> Path:
    """Where the small Hub of ``cloud`` has its models."""
    del cloud
    return tmp_path / "emulator" / "hub"


def test_a_model_of_the_hub_is_planned_by_its_headers(cloud: Connection, hub: Path) -> None:
    """What `hf://` names is read in ranges before the plan, with its commit; where it is gated and
    there is no token, it is not known, and no failure."""
    directory = smollm2(layers=2).write(hub / "acme" / "small", shards=2)
    asked = with_model(cloud, "HuggingFaceTB/SmolLM2-135M-Instruct", "hf://acme/small")

    seen = planned_by_files(asked, reading=True).stack
    (directory / ".gated").write_text("hf_token")
    gated = planned_by_files(asked, reading=True).stack

    assert re.fullmatch("those of hf://acme/small@[0-9a-f]{40}", planned_by(seen))
    assert seen.settings.served.layers == 2  # type: ignore[union-attr]
    assert "is gated, and there is no token for the Hub): planned" in planned_by(gated)


@pytest.mark.parametrize("tensor", ["model.layers.1.mlp.up_proj.weight", "model.norm.weight"])
def test_a_model_of_the_hub_that_is_none_is_refused_before_chips(
    cloud: Connection, hub: Path, tensor: str
) -> None:
    """`up` refuses what lacks tensors before a byte of it is fetched; a preview says it."""
    whole = smollm2(layers=2)
    tensors = {name: each for name, each in whole.tensors.items() if name != tensor}
    replace(whole, tensors=tensors).write(hub / "acme" / "small")
    asked = with_model(cloud, "HuggingFaceTB/SmolLM2-135M-Instruct", "hf://acme/small")

    with pytest.raises(WeightsError, match="headers of the safetensors files have"):
        planned_by_files(asked)
    seen = planned_by_files(asked, reading=True).stack
    assert isinstance(plan_stack(seen.settings), NotPlannable)


def test_a_push_refuses_what_the_server_could_not_read(
    cloud: Connection, tmp_path: Path, hub: Path
) -> None:
    """Of a directory and of the Hub, before a bucket is made or a byte is sent."""
    quantized("gptq").write(tmp_path / "here")
    quantized("gptq").write(hub / "acme" / "small")
    google = with_model(cloud, "acme/small", "hf://acme/small")
    settings = google.stack.settings.model_copy(update={"cloud": "google"})
    google = replace(google, stack=replace(google.stack, settings=settings))

    for directory in (tmp_path / "here", None):
        with pytest.raises(SettingsError, match="are quantized by auto_gptq, which"):
            known_by_source(google, directory)


def test_without_files_the_plan_is_by_the_name_and_says_so(cloud: Connection) -> None:
    """Where nothing is pushed, or a source cannot be asked, that is no failure."""
    name = "HuggingFaceTB/SmolLM2-135M-Instruct"
    nothing = planned_by_files(with_model(cloud, name, None)).stack
    nowhere = planned_by_files(with_model(cloud, name, "gs://acme-nowhere/model")).stack

    assert planned_by(nothing) == (
        "not known (nothing is pushed, and the stack names no source): planned by the model's name."
        " By files: tpuflex memory --model-dir DIR"
    )
    assert "not known (gs://acme-nowhere does not exist" in planned_by(nowhere)
    assert isinstance(plan_stack(nowhere.settings), MemoryPlan)


@pytest.mark.parametrize(
    "copy", ["unsloth/SmolLM2-135M-Instruct", "huggingfacetb/smollm2-135m-INSTRUCT"]
)
def test_a_copy_says_of_what_it_is_taken_to_be_one(cloud: Connection, copy: str) -> None:
    """A name that is not quite one of the catalog's is planned as that, which the plan names."""
    stack = planned_by_files(with_model(cloud, copy, None)).stack

    assert "planned by what is known of HuggingFaceTB/SmolLM2-135M-Instruct." in planned_by(stack)
    assert isinstance(plan_stack(stack.settings), MemoryPlan)


@pytest.fixture
def other_model(project: Path, type_in: TypeIn) -> TypeIn:
    """Types commands in a project where what is called an 8B is a 70B."""
    llama_70b().write(project / "model")
    write_stack(project, model__weights__source="model")
    return type_in


def test_memory_recommend_and_init_read_the_files_too(other_model: TypeIn, project: Path) -> None:
    """None of them takes the name's word for what is in the directory."""
    load = ("--context", "8192", "--concurrency", "1", "--json")
    named = ("--model", EIGHT, "--weights", "model", "--zone", "us-east5-a")
    new = (*named, "--cloud", "google", "--project", "acme-serving", "--run", "4h")

    planned = other_model("memory", "-s", "prod", "--json")
    ranked = other_model("recommend", "--model-dir", str(project / "model"), *load)
    made = other_model("init", "--yes", "-s", "new", "--accelerator", "v6e-1", *new)
    proposed = other_model("init", "--yes", "-s", "new", *new)

    assert (planned.code, planned.document["fits"]) == (5, False)
    assert planned.document["weight_bytes"] == 141_107_412_992
    assert ranked.document["options"][0]["accelerator_type"] == "v6e-8"
    assert made.code == 5
    assert "take 131.42 GiB of each chip of v6e-1" in made.err
    assert proposed.code == 0
    text = (project / "stacks" / "Pulumi.new.yaml").read_text()
    assert "accelerator_type: v6e-8" in text


def test_the_component_plans_by_the_files_that_it_is_told_of() -> None:
    """What the command line has read takes the place of the name's row there, too, and is no input:
    another day's row of the same files changes nothing."""
    large = sections(
        {
            "model.name": "google/gemma-4-31B-it",
            "slice.accelerator_type": "v6e-1",
            "serving.flags.max_model_len": 4096,
        }
    )
    small = describe(
        smollm2().config,
        None,
        name="google/gemma-4-31B-it",
        source=Source(where="a directory", date=NOON.date()),
        where="config.json",
    )

    with pytest.raises(pulumi.RunError, match="take 58"):
        Given(large)
    assert "catalog" not in Given(large, small).inputs()
