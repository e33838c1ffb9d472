"""Figure 11, reduced to a thousand hostile stack files; and its checks, which can fail."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from reliability.figures import stack_files
from reliability.figures.stack_files import StackFileRig
from reliability.hostile_host import HostileHost
from reliability.hostile_stacks import CANARY, HostileStack, hostile_stack
from tpuflex.boot.config import boot_config
from tpuflex.boot.document import NO_MANIFEST, BootConfig
from tpuflex.errors import Finding, SettingsError
from tpuflex.naming import Names
from tpuflex.settings.model import StackSettings

SEED = 20261122
#: Parts of the thousand, so that each stays well below the limit of a test's time.
PARTS, SIZE = 5, 200


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[StackFileRig]:
    with stack_files.rig(tmp_path) as made:
        yield made


@pytest.mark.parametrize("part", range(PARTS))
def test_a_thousand_files(rig: StackFileRig, part: int) -> None:
    """Each file gives settings, or a refusal that names its key; what is accepted reaches the
    host's command line word for word, and no shell runs any of it."""
    numbers = range(part * SIZE, (part + 1) * SIZE)
    looked = [rig.look(f"file {number}", hostile_stack(SEED, number)) for number in numbers]
    rig.boot(looked)

    problems = {each.result.name: each.result.problems for each in looked if each.result.problems}
    assert problems == {}
    accepted = sum(each.config is not None for each in looked)
    assert SIZE // 20 < accepted < SIZE // 2


def test_a_file_is_known_by_its_number() -> None:
    """A case that failed can be made again; another seed makes other files."""
    assert hostile_stack(1, 7) == hostile_stack(1, 7)
    assert hostile_stack(1, 7) != hostile_stack(2, 7)


def config_with(value: str) -> BootConfig:
    """What a host boots with if the environment and a flag have ``value``."""
    settings = StackSettings.model_validate(
        {
            "cloud": "google",
            "project": "acme-serving",
            "slice": {
                "zones": ["us-east5-a"],
                "accelerator_type": "v6e-1",
                "max_run_duration": "4h",
            },
            "model": {"name": "acme/model"},
            "serving": {
                "image": "vllm/vllm-tpu@sha256:" + "ab" * 32,
                "flags": {"additional_config": {"a": value}},
                "env": {"OPTION": value},
            },
        }
    )
    return boot_config(settings, Names("p", "s", "e"), NO_MANIFEST)


def host(directory: Path, old: str, new: str) -> HostileHost:
    """A host whose script has ``new`` in place of ``old``."""
    made = HostileHost(directory)
    script = directory / "script"
    text = script.read_text()
    assert old in text
    script.write_text(text.replace(old, new))
    return made


def test_a_script_that_evaluates_is_noticed(tmp_path: Path) -> None:
    """The canary fires where a value becomes part of a command's text."""
    fooled = host(
        tmp_path,
        "    setting_list container.env env\n",
        '    setting_list container.env env\n    eval ": ${env[*]}"\n',
    )

    (problem,) = fooled.problems([config_with(f"$(touch {CANARY})")])

    assert "a shell ran a value" in problem


def test_a_script_that_splits_is_noticed(tmp_path: Path) -> None:
    """A value that becomes several words is seen as a difference."""
    fooled = host(tmp_path, '"${args[@]}" \\\n', "${args[@]} \\\n")

    problems = fooled.problems([config_with("two words"), config_with("one")])

    assert "arguments differ" in problems[0]
    assert problems[1] == ""


def test_a_host_that_refuses_what_was_accepted_is_noticed(tmp_path: Path) -> None:
    """Settings and host go by the same rules."""
    config = config_with("x")
    container = config.container.model_copy(update={"env": {"LD_PRELOAD": "/x.so"}})

    (problem,) = HostileHost(tmp_path).problems(
        [config.model_copy(update={"container": container})]
    )

    assert "refuses what the settings accepted" in problem


def kinds(rig: StackFileRig) -> set[str]:
    """The kinds of problems of one harmless file."""
    stack = HostileStack(b"config: {}\n", ("tpuflex:model",), 1)
    return {kind for kind, _ in rig.look("file", stack).result.problems}


def test_a_bug_is_noticed(rig: StackFileRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error that is no refusal counts as a traceback."""

    def broken(*_: object, **__: object) -> None:
        raise ValueError("broken")

    assert kinds(rig) == set()
    monkeypatch.setattr("tpuflex.cli.invocation.Invocation.open_stack", broken)

    assert "traceback" in kinds(rig)


def test_a_refusal_without_a_key_is_noticed(
    rig: StackFileRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So is one that blames something else."""

    def vague(*_: object, **__: object) -> None:
        raise SettingsError("file", (Finding("", "is wrong", ""),))

    monkeypatch.setattr(stack_files, "load_stack_file", vague)

    assert "no key" in kinds(rig)
