"""`weights push` of a model of the Hub by the real command line: with a small disk, and killed."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import requests
import yaml

from embedded_cloud import daemon
from embedded_cloud.machines.namespace import Plan, refusal
from reliability.rig import StackRig
from tests.docs.blocks import ROOT
from tests.docs.typed_pages import untyped
from tests.engine.readme_shell import Shell
from tests.hub_models import MODEL, put_model, safetensors
from tpuflex.engine.find import Engine

pytestmark = [
    pytest.mark.engine,
    pytest.mark.timeout(300),
    pytest.mark.skipif(bool(refusal()), reason=f"no mount of one's own: {refusal()}"),
]

#: Two of the three shards, and some kilobytes.
ROOM = 2 * len(safetensors()) + 500_000
PUSH = ("weights", "push", "--yes")


def put_shards(emulator: Path) -> None:
    """Let the Hub have a model of three shards."""
    directory = put_model(emulator)
    for shard in directory.glob("*.safetensors"):
        shard.unlink()
    for number in (1, 2, 3):
        name = f"model-0000{number}-of-00003.safetensors"
        (directory / name).write_bytes(safetensors(name=f"w{number}"))


def take_from_hub(stack_file: Path) -> None:
    """Let the stack have its weights from the Hub."""
    document = yaml.safe_load(stack_file.read_text())
    document["config"]["tpuflex:model"]["weights"] = {"source": f"hf://{MODEL}"}
    stack_file.write_text(yaml.safe_dump(document))


class SmallDiskRig(StackRig):
    """Commands that have room for two shards."""

    def command(self, words: Sequence[str]) -> list[str]:
        """As usual, in a place of its own."""
        models = self.home / ".tpuflex" / "models"
        models.mkdir(mode=0o700, exist_ok=True)
        return Plan({str(models): ROOM}).command(super().command(words))


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[SmallDiskRig]:
    """A stack whose weights come from the Hub."""
    with SmallDiskRig(tmp_path / "project", speed=20) as rig:
        take_from_hub(rig.home / "stacks" / "Pulumi.dev.yaml")
        put_shards(rig.home / ".tpuflex" / "emulator")
        yield rig


def versions(rig: StackRig) -> list[str]:
    """Names of all versions of the objects of the stack's bucket."""
    (bucket,) = rig.control.inventory()["storage"]["buckets"]
    name = str(bucket["name"]).rpartition("/")[2]
    answer = requests.get(
        f"{rig.control.url}/storage/v1/b/{name}/o?versions=true",
        headers={"Authorization": f"Bearer {rig.control.token}"},
        timeout=60,
    )
    return [str(each["name"]) for each in answer.json()["items"]]


def test_a_push_that_was_killed_goes_on(rig: SmallDiskRig) -> None:
    """Kill -9 before the first file is there, after some, and before the manifest. The same
    command goes on with room for two shards of three, sends each file once, and the weights
    verify. When the branch has moved since, the set that is replaced is named."""
    for stage, nth in (("before-commit", 1), ("after-commit", 2), ("before-commit", 3)):
        kill = {
            "where": {"method_id": "storage.objects.insert"},
            "nth": nth,
            "stage": stage,
            "effect": {"kind": "kill", "roles": ["cli"]},
        }
        assert rig.run(*PUSH, rules=[kill]).exit_code == -9, rig.said[-1]
        assert rig.run("weights", "verify").exit_code == 4
    assert rig.run(*PUSH).exit_code == 0, rig.said[-1]
    assert rig.run("weights", "verify").exit_code == 0, rig.said[-1]
    found = versions(rig)
    assert len(found) == len(set(found)) == 6

    changed = (
        rig.home / ".tpuflex" / "emulator" / "hub" / MODEL / "model-00003-of-00003.safetensors"
    )
    changed.write_bytes(safetensors(name="another"))
    assert rig.run(*PUSH).exit_code == 0, rig.said[-1]
    assert "pushed   in place of the set" in rig.said[-1].stderr


def test_the_guide_of_a_small_machine(tmp_path: Path, pulumi_engine: Engine) -> None:
    """Its lines push a model of three shards with room for two of them."""
    root, home = tmp_path / "clone", tmp_path / "tpuflex"
    root.mkdir()
    home.mkdir(mode=0o700)
    path = f"{ROOT / '.venv' / 'bin'}:/usr/bin:/bin"
    if pulumi_engine.source == "path":
        path += f":{pulumi_engine.path.parent}"
    else:
        (home / "engine").symlink_to(pulumi_engine.path.parents[1])
    shell = Shell(root, {"PATH": path, "HOME": str(tmp_path), "LANG": "C.UTF-8"})
    daemon.start(home / "emulator", port=0, stub_hosts=True)
    try:
        shell.enter("export TPUFLEX_HOME=$HOME/tpuflex")
        shell.type("tpuflex init --cloud embedded --stack chat")
        take_from_hub(root / "stacks" / "Pulumi.chat.yaml")
        put_shards(home / "emulator")
        (home / "models").mkdir(mode=0o700)
        line = "tpuflex --stack chat weights push --yes"
        small = Plan({str(home / "models"): ROOM}).command(["/bin/bash", "-c", line])
        assert "Pushed 5 files" in shell.type(shlex.join(small), printed=line)
    finally:
        daemon.stop(home / "emulator")
        shutil.rmtree(home)
    assert untyped("tests/acceptance/weights/test_push_from_hub.py", shell.typed) == []
