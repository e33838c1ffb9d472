"""Every way in gives the same verdict on the same files: a directory, the Hub, a bucket, and what
was pushed before."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from embedded_cloud.core.clock import ManualClock
from embedded_cloud.server import EmbeddedCloud
from tests.checkpoints import everything_in, pushing, smollm2, write_safetensors
from tests.hub_models import pauses
from tpuflex.errors import WeightsError
from tpuflex.google.storage_client import storage_bucket
from tpuflex.planning.model_files import ServerNeeds
from tpuflex.settings.weights_source import GsUrl, HubSource, LocalDirectory
from tpuflex.weights.bucket import WeightsBucket
from tpuflex.weights.checkpoint_bucket import checkpoint_objects, list_model
from tpuflex.weights.hub.client import HubClient
from tpuflex.weights.source import local_model, model_in

SHARDS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")
INDEX = "model.safetensors.index.json"
POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 4967215360\n"
MODEL = {"config.json", "tokenizer.json", INDEX, *SHARDS}


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[EmbeddedCloud]:
    """An embedded cloud with a Hub and a bucket."""
    with EmbeddedCloud(tmp_path / "emulator", clock=ManualClock()) as running:
        storage_bucket("models", project="acme", environ=dict(running.environ())).create(
            location="us-east5"
        )
        yield running


@pytest.fixture
def directory(cloud: EmbeddedCloud) -> Path:
    """A whole model, which the Hub has, too."""
    place = cloud.state_dir / "hub" / "acme" / "tiny"
    place.mkdir(parents=True)
    (place / "config.json").write_text("{}")
    (place / "tokenizer.json").write_text('{"version": "1.0"}')
    for number, shard in enumerate(SHARDS):
        write_safetensors(place / shard, {f"w{number}": ("BF16", (64, 64))})
    weight_map = {"w0": SHARDS[0], "w1": SHARDS[1]}
    (place / INDEX).write_text(json.dumps({"weight_map": weight_map}))
    return place


#: What of a place is taken, and what is left out.
Taken = tuple[set[str], set[str]]
Look = Callable[[EmbeddedCloud, Path, ServerNeeds], Taken]


def named(_cloud: EmbeddedCloud, directory: Path, needs: ServerNeeds) -> Taken:
    """The argument of `weights push`, `weights hash` and `weights verify`."""
    found = local_model(directory, needs)
    return {*found.paths}, {*found.left_out}


def source(_cloud: EmbeddedCloud, directory: Path, needs: ServerNeeds) -> Taken:
    """A directory that the stack file names."""
    found = model_in(LocalDirectory(directory.name), directory.parent, needs)
    return {*found.paths}, {*found.left_out}


def hub(cloud: EmbeddedCloud, _directory: Path, needs: ServerNeeds) -> Taken:
    """A model of the Hub, of which no tensor is fetched."""
    client = HubClient(f"{cloud.url}/huggingface", str, pauses([]))
    found = client.snapshot(HubSource("acme/tiny"), needs)
    return {file.path for file in found.files}, {*found.left_out}


def bucket(cloud: EmbeddedCloud, directory: Path, needs: ServerNeeds) -> Taken:
    """A model in a bucket."""
    environ = dict(cloud.environ())
    theirs = storage_bucket("models", project="acme", environ=environ)
    for name in everything_in(directory).paths:
        theirs.blob(f"team/tiny/{name}").upload_from_string((directory / name).read_bytes())
    place = GsUrl("models", "team/tiny")
    found = list_model(
        checkpoint_objects(place.bucket, place.prefix, environ=environ), place, needs
    )
    return {file.name for file in found.files}, {*found.left_out}


WAYS = pytest.mark.parametrize("look", [named, source, hub, bucket])


def pushed(cloud: EmbeddedCloud, directory: Path, needs: ServerNeeds) -> list[str]:
    """What is wrong with a set that has everything, beside what a push never takes."""
    weights = WeightsBucket(storage_bucket("models", project="acme", environ=dict(cloud.environ())))
    weights.push(pushing(directory, "models/tiny/1"))
    found = weights.verify("models/tiny/1", needs).problems
    return [str(each) for each in found if each.problem != "no data format"]


def below_a_folder(directory: Path) -> None:
    """The model is one level deeper than the place that is named."""
    files = [path for path in directory.iterdir() if path.is_file()]
    (directory / "tiny").mkdir()
    for path in files:
        path.rename(directory / "tiny" / path.name)


def only_pickles(directory: Path) -> None:
    """The weights are there as pickles only."""
    for name in (*SHARDS, INDEX):
        (directory / name).unlink()
    (directory / "pytorch_model.bin").write_bytes(b"pickle")


def without_an_index(directory: Path) -> None:
    """A shard is missing, and the index is, too: the names of the others tell."""
    (directory / INDEX).unlink()
    (directory / SHARDS[0]).unlink()


def only_an_adapter(directory: Path) -> None:
    """What PEFT writes, beside the tokenizer."""
    for name in (*SHARDS, INDEX, "config.json"):
        (directory / name).unlink()
    (directory / "adapter_config.json").write_text('{"peft_type": "LORA"}')
    write_safetensors(directory / "adapter_model.safetensors", {"lora_A": ("BF16", (8, 64))})


def indexed_as(name: str) -> Callable[[Path], None]:
    """The index names a file of another kind, whatever it holds."""

    def damage(directory: Path) -> None:
        (directory / name).parent.mkdir(exist_ok=True)
        (directory / SHARDS[1]).rename(directory / name)
        (directory / INDEX).write_text(json.dumps({"weight_map": {"w0": SHARDS[0], "w1": name}}))

    return damage


def index_names_more(directory: Path) -> None:
    """The index names a file that is not there, and no number tells of it."""
    weight_map = {"w0": SHARDS[0], "w1": SHARDS[1], "w2": "extra.safetensors"}
    (directory / INDEX).write_text(json.dumps({"weight_map": weight_map}))


NOT_LOADED = "named by the index, and no *.safetensors file beside it"
NO_WEIGHTS = "*.safetensors: missing, and vLLM on TPU loads no other weights"


@pytest.mark.parametrize(
    ("damage", "needs", "problems"),
    [
        (lambda it: (it / SHARDS[1]).unlink(), {}, [f"{SHARDS[1]}: missing"]),
        *(
            (indexed_as(name), {}, [f"{name}: {NOT_LOADED}"])
            for name in ("pytorch_model.bin", "modeling_x.py", "more/m.safetensors")
        ),
        (index_names_more, {}, ["extra.safetensors: missing"]),
        (without_an_index, {}, [f"{SHARDS[0]}: missing"]),
        (lambda it: (it / SHARDS[0]).write_bytes(b""), {}, [f"{SHARDS[0]}: empty"]),
        (
            lambda it: [(it / name).write_text(POINTER) for name in (*SHARDS, "tokenizer.json")],
            {},
            [
                f"{name}: a Git LFS pointer of 135 bytes, not the file"
                for name in (*SHARDS, "tokenizer.json")
            ],
        ),
        (
            below_a_folder,
            {},
            [
                "config.json: missing",
                NO_WEIGHTS,
                "tiny/config.json: in a folder, where a server does not look for config.json",
            ],
        ),
        (
            only_an_adapter,
            {},
            [
                "adapter_config.json: an adapter, and no model: merge it into its base model, and"
                " take that"
            ],
        ),
        (
            only_pickles,
            {},
            [NO_WEIGHTS, "pytorch_model.bin: a pickle, which runs code while it is read"],
        ),
        (
            lambda it: (it / "tokenizer.json").unlink(),
            {},
            ["tokenizer.json: missing, and so is every other tokenizer"],
        ),
        (
            lambda _: None,
            {"chat_template": "tool.jinja"},
            ["tool.jinja: missing, and tpuflex:serving.flags.chat_template names it"],
        ),
    ],
)
def test_a_set_that_no_server_loads(
    cloud: EmbeddedCloud,
    directory: Path,
    damage: Callable[[Path], object],
    needs: dict[str, str],
    problems: list[str],
) -> None:
    """What is incomplete is refused in the same words on every way in, before anything is fetched
    or made, and found in what was pushed before."""
    damage(directory)
    wanted = ServerNeeds(**needs)  # type: ignore[arg-type]
    verdicts = {}
    for look in (named, source, hub, bucket):
        with pytest.raises(WeightsError) as caught:
            look(cloud, directory, wanted)
        verdicts[look.__name__] = [line.strip() for line in caught.value.message.splitlines()[1:]]
        assert "cannot be served" in caught.value.message
    verdicts["pushed"] = pushed(cloud, directory, wanted)

    assert verdicts == dict.fromkeys(verdicts, problems)


def test_a_pushed_index_that_is_none(cloud: EmbeddedCloud, directory: Path) -> None:
    """It is one more problem of the set, and the other files are compared all the same."""
    (directory / INDEX).write_text("{}")
    (directory / SHARDS[0]).write_bytes(b"")
    damaged, empty = pushed(cloud, directory, ServerNeeds())
    assert damaged.startswith(f"{INDEX}: the index is damaged")
    assert empty == f"{SHARDS[0]}: empty"


@WAYS
def test_a_whole_model(cloud: EmbeddedCloud, directory: Path, look: Look) -> None:
    """One that is whole is taken, and nothing is wrong with it once it is pushed."""
    assert look(cloud, directory, ServerNeeds()) == (MODEL, set())
    assert pushed(cloud, directory, ServerNeeds()) == []


@WAYS
def test_a_model_for_images(cloud: EmbeddedCloud, directory: Path, look: Look) -> None:
    """One whose config.json has a part for images needs a processor, unless only text is served."""
    (directory / "config.json").write_text('{"vision_config": {"hidden_size": 1}}')

    with pytest.raises(WeightsError, match=r"processor_config\.json: missing.*vision_config"):
        look(cloud, directory, ServerNeeds())
    assert look(cloud, directory, ServerNeeds(media=False)) == (MODEL, set())


@WAYS
def test_what_is_no_part_of_it(cloud: EmbeddedCloud, directory: Path, look: Look) -> None:
    """The index says which weights are taken; copies of them, pickles, code and folders are left
    out, and named."""
    beside = {
        "consolidated.safetensors",
        "model.fp32.safetensors",
        "modeling_tiny.py",
        "onnx/model.onnx",
        "original/consolidated.00.pth",
        "original/model.safetensors",
        "original/params.json",
        "pytorch_model.bin",
    }
    for name in beside:
        (directory / name).parent.mkdir(exist_ok=True)
        (directory / name).write_bytes(b"x" * 1000)

    assert look(cloud, directory, ServerNeeds()) == (MODEL, beside)
    with_code = ServerNeeds(extra_files=("modeling_*.py",), own_code=True)
    assert look(cloud, directory, with_code)[0] == {*MODEL, "modeling_tiny.py"}


@pytest.mark.parametrize("look", [named, source, bucket])
def test_tensors_of_another_model(cloud: EmbeddedCloud, directory: Path, look: Look) -> None:
    """A config.json that does not describe the tensors is refused where the headers are read: of
    the Hub that is before a plan is shown."""
    (directory / "config.json").write_text(json.dumps(smollm2(layers=1).config))

    with pytest.raises(WeightsError, match=r"config\.json describes an embedding table of"):
        look(cloud, directory, ServerNeeds())
