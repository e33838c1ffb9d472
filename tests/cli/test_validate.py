"""`tpuflex validate`: every finding with its place, and nothing asked of anybody."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.cli.typing import TypeIn
from tpuflex.cli.main import COMMANDS

ROOT = Path(__file__).parents[2]
PRICE = """\
prices:
- generation: v6e
  region: us-east5
  kind: cheap
"""


@pytest.fixture
def stacks(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of the stack files, of a project that is the current directory."""
    monkeypatch.chdir(project)
    return project / "stacks"


def dev(stacks: Path, name: str, *changes: tuple[str, str]) -> str:
    """Write a stack file that is the dev stack's with changes; its path."""
    text = (stacks / "Pulumi.dev.yaml").read_text()
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    (stacks / f"Pulumi.{name}.yaml").write_text(text)
    return f"stacks/Pulumi.{name}.yaml"


def line_of(file: str, text: str) -> int:
    """The line of ``file`` that has ``text``."""
    lines = Path(file).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


class TestFiles:
    def test_every_stack_of_the_project(self, stacks: Path, type_in: TypeIn) -> None:
        """Each finding is a line with file, line and column; what is right is not printed."""
        wrong = dev(stacks, "wrong", ("max_num_seqs:", "max-num-seq:"), ("v6e-1", "v6e-3"))
        (stacks / "Pulumi.empty.yaml").touch()

        typed = type_in("validate")

        chips, flag = line_of(wrong, "v6e-3"), line_of(wrong, "max-num-seq")
        assert (typed.code, typed.err) == (5, "")
        assert typed.out.splitlines() == [
            "stacks/Pulumi.empty.yaml:1:1: Pulumi.empty.yaml: is empty. Delete the file, and let"
            " `tpuflex init --stack empty` write it.",
            f"{wrong}:{chips}:5: tpuflex:slice.accelerator_type: unknown accelerator type 'v6e-3'."
            " Nearest: v6e-32, v6e-8, v6e-4.",
            f"{wrong}:{flag}:7: tpuflex:serving.flags.max-num-seq: unknown key."
            " Did you mean max_num_seqs?",
        ]

    def test_what_is_right(self, stacks: Path, type_in: TypeIn) -> None:
        """Standard output stays empty; how many files were checked is said on standard error."""
        typed = type_in("validate", "stacks/Pulumi.dev.yaml")

        assert stacks.is_dir()
        assert (typed.code, typed.out) == (0, "")
        assert typed.err == "Nothing is wrong: 1 stack file checked.\n"

    def test_a_missing_key_has_the_line_of_its_section(self, stacks: Path, type_in: TypeIn) -> None:
        """The finding stands at the line of the section that lacks the key."""
        file = dev(stacks, "short", ("    max_run_duration: 4h\n", ""))

        typed = type_in("validate", file)

        assert typed.out.startswith(
            f"{file}:{line_of(file, 'tpuflex:slice')}:3: tpuflex:slice.max_run_duration: is missing"
        )

    def test_what_stacks_share(self, stacks: Path, type_in: TypeIn) -> None:
        """A mistake in catalog.yaml or Pulumi.yaml is found there, once for all stacks, and either
        stands for the stack files of its project."""
        dev(stacks, "two")
        Path("catalog.yaml").write_text(PRICE)
        with Path("Pulumi.yaml").open("a") as manifest:
            manifest.write("config:\n  tpuflex:polcy: {value: {}}\n")

        typed = type_in("validate", "catalog.yaml", "--json")

        found = typed.document["findings"]
        places = [(each["file"], each["line"], each["column"], each["key"]) for each in found]
        assert typed.code == 5
        assert typed.document["files"] == ["stacks/Pulumi.dev.yaml", "stacks/Pulumi.two.yaml"]
        assert ("Pulumi.yaml", 5, 3, "tpuflex:polcy") in places
        assert ("catalog.yaml", 4, 3, "catalog.yaml:prices[0].kind") in places
        assert len(places) == len(set(places))

    def test_what_is_not_yaml(self, stacks: Path, type_in: TypeIn) -> None:
        """The finding stands at the place that the parser names."""
        (stacks / "Pulumi.odd.yaml").write_text("config:\n  a: [\n")

        typed = type_in("validate", "stacks/Pulumi.odd.yaml")

        assert typed.out.startswith("stacks/Pulumi.odd.yaml:3:1: Pulumi.odd.yaml: is not YAML: ")

    @pytest.mark.parametrize(
        ("text", "place", "problem"),
        [("name: [\n", "2:1", "Pulumi.yaml: is not YAML"), ("a: b\n", "1:1", "name: the project")],
    )
    def test_a_project_file_that_cannot_be_read(
        self, stacks: Path, type_in: TypeIn, text: str, place: str, problem: str
    ) -> None:
        """It is a finding like others, and the other files are checked all the same."""
        (stacks.parent / "other").mkdir()
        (stacks.parent / "other/Pulumi.yaml").write_text(text)
        wrong = dev(stacks, "wrong", ("v6e-1", "v6e-3"))

        typed = type_in("validate", "other/Pulumi.yaml", wrong)

        first, second = typed.out.splitlines()
        assert typed.code == 5
        assert first.startswith(f"other/Pulumi.yaml:{place}: {problem}")
        assert second.startswith(f"{wrong}:{line_of(wrong, 'v6e-3')}:5: ")

    def test_a_misspelt_namespace(self, stacks: Path, type_in: TypeIn) -> None:
        """A file whose keys are all misspelt alike has findings: it is not another program's."""
        file = dev(stacks, "odd", ("tpuflex:", "tpuflx:"))

        typed = type_in("validate", file)

        slices = line_of(file, "tpuflx:slice")
        assert typed.code == 5
        assert (
            f"{file}:{slices}:3: tpuflx:slice: unknown key. Did you mean tpuflex:slice?"
            in typed.out.splitlines()
        )

    @pytest.mark.parametrize(
        ("words", "code"), [(["README.md"], 2), (["gone.yaml"], 4), (["x", "--changed"], 2)]
    )
    def test_what_is_no_stack_file(
        self, stacks: Path, type_in: TypeIn, words: list[str], code: int
    ) -> None:
        """It is refused, not passed as right; so are files that are named beside --changed."""
        (stacks.parent / "README.md").touch()

        assert type_in("validate", *words).code == code


class TestNotLookedAt:
    """What cannot be known without asking somebody is named, and no finding."""

    def test_environments(self, stacks: Path, type_in: TypeIn) -> None:
        """Only Pulumi Cloud opens them; what the file alone says wrongly is found all the same."""
        file = dev(stacks, "esc", ("config:", "environment: [team/chat]\nconfig:"))
        text = Path(file).read_text()
        Path(file).write_text(text.replace("  tpuflex:cloud: embedded\n", ""))
        whole = type_in("validate", file)
        Path(file).write_text(f"{text}\ntpuflex:cloud: google\n")
        wrong = type_in("validate", file)

        assert (whole.code, wrong.code) == (0, 5)
        assert "not looked at: its settings: environments of Pulumi ESC belong to them" in whole.err
        assert "tpuflex:cloud: stands outside of config" in wrong.out

    def test_weights_elsewhere(self, stacks: Path, type_in: TypeIn) -> None:
        """That the files of a model on the Hub were not read is said."""
        source = next(
            line.partition("source: ")[2]
            for line in (stacks / "Pulumi.dev.yaml").read_text().splitlines()
            if "source: " in line
        )
        file = dev(stacks, "hub", (source, "hf://HuggingFaceTB/SmolLM2-135M-Instruct"))

        typed = type_in("validate", file, "--json")

        assert typed.code == 0, typed.out
        (other,) = typed.document["not_looked_at"]
        assert other["what"].startswith("whether hf://HuggingFaceTB/SmolLM2-135M-Instruct fits")

    def test_the_stack_of_another_program(self, stacks: Path, type_in: TypeIn) -> None:
        """The stack files and catalogs of other programs are no findings, and are named."""
        (stacks / "Pulumi.other.yaml").write_text("config:\n  aws:region: eu-west-1\n")
        Path("shop").mkdir()
        Path("shop/catalog.yaml").write_text("shoes: []\n")

        typed = type_in("validate", "stacks/Pulumi.other.yaml", "shop/catalog.yaml")

        assert (typed.code, typed.out) == (0, "")
        assert "not looked at: not a stack file of tpuflex" in typed.err
        assert "shop/catalog.yaml: not looked at: no Pulumi.yaml is beside it" in typed.err


def test_changed_files(stacks: Path, type_in: TypeIn) -> None:
    """`--changed` checks what differs from a commit, by default from the last one."""
    dev(stacks, "old", ("v6e-1", "v6e-3"))
    for words in (
        ["init", "--quiet", "--initial-branch", "main"],
        ["add", "."],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "-m", "a"],
    ):
        subprocess.run(["git", *words], check=True)
    nothing = type_in("validate", "--changed", "--json")
    dev(stacks, "new")
    new = type_in("validate", "--changed", "main", "--json")

    assert (nothing.code, nothing.document["files"]) == (0, [])
    assert (new.code, new.document["files"]) == (0, ["stacks/Pulumi.new.yaml"])


def test_the_hook_of_pre_commit() -> None:
    """It runs a command that there is, on the files that decide about a stack."""
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    taken = ["Pulumi.yaml", "a/stacks/Pulumi.prod.yaml", "a/catalog.yaml"]
    left = ["a/values.yaml", "Pulumi.prod.json", "my-catalog.yaml"]

    assert hook["entry"].split()[1] in COMMANDS
    assert [name for name in [*taken, *left] if re.search(hook["files"], name)] == taken


def test_what_may_be_wrong_is_a_warning(type_in: TypeIn, project: Path) -> None:
    """A zone that nobody has seen grant anything is no error: it is said where it stands."""
    file = project / "stacks" / "Pulumi.dev.yaml"
    file.write_text(file.read_text().replace("us-east5-a", "us-east9-z"))

    typed = type_in("validate", "--json")

    assert typed.code == 0
    assert [each["key"] for each in typed.document["warnings"]] == ["tpuflex:slice.zones[0]"]
    assert typed.document["warnings"][0]["line"] > 1
