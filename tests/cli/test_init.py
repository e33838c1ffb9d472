"""`tpuflex init`: what it writes, and what it refuses."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.cli.typing import Typed, TypeIn, stack_file
from tests.goldens.golden_texts import assert_golden
from tpuflex.scaffold.shipped_stacks import shipped_names
from tpuflex.settings.load import load_stack_file

ROOT = Path(__file__).parents[2]


class TestNewProject:
    def test_on_this_machine(self, new: Path, type_in: TypeIn) -> None:
        """The whole output, and all files: a project that needs nothing but tpuflex."""
        typed = type_in("init", str(new), "--cloud", "embedded")

        assert typed.code == 0, typed.err
        assert typed.out == (
            f"New project demo with stack dev in {new}:\n"
            "  Pulumi.yaml\n"
            "  __main__.py\n"
            "  .gitignore\n"
            "  stacks/stack.schema.json\n"
            "  stacks/Pulumi.dev.yaml\n"
            "Next:\n"
            f"  cd {new}\n"
            "  tpuflex up\n"
            '  tpuflex ask "What is the capital of France?"\n'
            "  tpuflex down\n"
        )
        written = files(new)
        assert yaml.safe_load(written["Pulumi.yaml"]) == {
            "name": "demo",
            "description": "A private vLLM endpoint on Cloud TPU Flex-start capacity",
            "runtime": "python",
            "stackConfigDir": "stacks",
        }
        assert "from tpuflex.program import main" in written["__main__.py"]
        assert ".tpuflex/" in written[".gitignore"].splitlines()
        assert written["stacks/stack.schema.json"] == (ROOT / "docs/stack.schema.json").read_text()

    def test_with_yes_alone(self, new: Path, type_in: TypeIn) -> None:
        """--yes takes the embedded cloud, and the document says what was done."""
        typed = type_in("init", str(new), "--yes", "--json")

        assert typed.document == {
            "project": "demo",
            "directory": str(new),
            "stack": "dev",
            "written": [
                "Pulumi.yaml",
                "__main__.py",
                ".gitignore",
                "stacks/stack.schema.json",
                "stacks/Pulumi.dev.yaml",
            ],
            "as_is": [],
            "accelerators": [],
            "refused": [],
            "warnings": [],
            "next": [
                f"cd {new}",
                "tpuflex up",
                'tpuflex ask "What is the capital of France?"',
                "tpuflex down",
            ],
        }

    def test_the_default_stack_in_a_shell_that_names_another(
        self, new: Path, type_in: TypeIn
    ) -> None:
        """The commands that follow are for the stack that was made."""
        typed = type_in("init", str(new), "-s", "dev", "--yes", "--json", TPUFLEX_STACK="big")

        assert typed.document["next"][1:3] == [
            "tpuflex --stack dev up",
            'tpuflex --stack dev ask "What is the capital of France?"',
        ]

    def test_the_commands_that_follow_work_in_it(self, new: Path, type_in: TypeIn) -> None:
        """What it has written is a project to the other commands."""
        type_in("init", str(new), "--yes")

        typed = type_in("-C", str(new), "render", "--json")

        assert typed.code == 0, typed.err

    def test_where_a_directory_has_files(self, new: Path, type_in: TypeIn) -> None:
        """What is there stays, and what git shall ignore is for its owner to add."""
        new.mkdir()
        (new / ".gitignore").write_text("mine\n")

        typed = type_in("init", str(new), "--yes")

        assert typed.code == 0
        assert (new / ".gitignore").read_text() == "mine\n"
        assert typed.err == "Add .tpuflex/ to .gitignore, which was there already.\n"

    @pytest.mark.parametrize("name", ["__main__.py", "stacks/Pulumi.dev.yaml"])
    def test_nothing_is_overwritten(self, new: Path, type_in: TypeIn, name: str) -> None:
        """A file in the way is named, and nothing at all is written."""
        (new / name).parent.mkdir(parents=True)
        (new / name).write_text("mine")

        typed = type_in("init", str(new), "--yes")

        assert typed.code == 1
        assert typed.err.startswith(f"Error: There is a file {new / name} already")
        assert files(new) == {name: "mine"}

    def test_in_a_directory_that_others_may_write(self, new: Path, type_in: TypeIn) -> None:
        """It is refused as everywhere: what is run from it could be anybody's."""
        new.mkdir()
        new.chmod(0o777)

        typed = type_in("init", str(new), "--yes")

        assert typed.code == 6
        assert files(new) == {}

    @pytest.mark.parametrize("option", ["--name", "--stack"])
    def test_names_that_pulumi_refuses(self, new: Path, type_in: TypeIn, option: str) -> None:
        """They are refused here, before a file has one."""
        typed = type_in("init", str(new), "--yes", option, "../a b")

        assert typed.code == 2
        assert option in typed.err
        assert not new.exists()


class TestNewStack:
    def test_in_this_project(self, project: Path, type_in: TypeIn) -> None:
        """A project that is there gets the stack file, and the schema if it has none."""
        typed = type_in("init", "--stack", "two", "--cloud", "embedded")

        assert typed.code == 0, typed.err
        assert typed.out.startswith(f"New stack two in {project}:\n")
        assert "  tpuflex --stack two up\n" in typed.out
        assert load_stack_file(stack_file(project, "two")).settings == (
            load_stack_file(stack_file(project, "dev")).settings
        )

    @pytest.mark.parametrize("place", ["../outside", "{parent}/outside", "link"])
    def test_outside_of_the_project(self, project: Path, type_in: TypeIn, place: str) -> None:
        """A checkout cannot have a file written elsewhere, by a path or through a link."""
        outside = project.parent / "outside"
        outside.mkdir()
        (project / "link").symlink_to(outside)
        manifest = project / "Pulumi.yaml"
        chosen = place.format(parent=project.parent)
        text = manifest.read_text().replace("stackConfigDir: stacks", f"stackConfigDir: {chosen}")
        manifest.write_text(text)

        typed = type_in("init", "--stack", "two", "--cloud", "embedded")
        assert typed.code != 0
        assert "is outside of the project" in typed.err
        assert list(outside.iterdir()) == []

    def test_of_a_name_that_is_taken(self, project: Path, type_in: TypeIn) -> None:
        """The stack file that is there stays as it is."""
        before = files(project)

        typed = type_in("init", "--yes")

        assert (typed.code, files(project)) == (1, before)

    def test_the_project_keeps_its_name(self, type_in: TypeIn) -> None:
        """--name is refused where it could not be honoured."""
        typed = type_in("init", "--yes", "--name", "other")

        assert typed.code == 2
        assert "--name is for a new project" in typed.err

    def test_with_another_model(self, project: Path, type_in: TypeIn) -> None:
        """Another model has other weights; the head says what was changed."""
        typed = type_in("init", "--stack", "two", "--cloud", "embedded", "--model", "a/b")
        settings = load_stack_file(stack_file(project, "two")).settings

        assert typed.code == 0, typed.err
        assert settings.model.name == "a/b"
        assert str(settings.model.weights.source) == "models/b"
        assert "#   model.name\n" in stack_file(project, "two").read_text()
        assert "hf download a/b --local-dir models/b" in typed.out

    @pytest.mark.parametrize("name", shipped_names())
    def test_from_each_that_comes_with_tpuflex(self, new: Path, type_in: TypeIn, name: str) -> None:
        """A template is the stack itself, in a project of one's own."""
        typed = type_in("init", str(new), "--template", name, "--project", "my-project-id-2")
        made = load_stack_file(stack_file(new, name)).settings
        text = (ROOT / "stacks" / f"Pulumi.{name}.yaml").read_text()
        (new / "stacks" / f"Pulumi.{name}.yaml").write_text(
            text.replace("my-project-id", "my-project-id-2")
            .replace("tpuflex-dev", made.project)
            .replace("tpuflex-demo", made.project)
        )

        assert typed.code == 0, typed.err
        assert made == load_stack_file(stack_file(new, name)).settings

    def test_from_a_template_that_is_misspelt(self, type_in: TypeIn) -> None:
        """The nearest is named, and all there are."""
        typed = type_in("init", "--template", "gemma-4-e4b-v6e1")

        assert typed.code == 4
        assert "Did you mean gemma-4-e4b-v6e-1?" in typed.err

    def test_two_beginnings(self, type_in: TypeIn) -> None:
        """--template and --from cannot both be honoured."""
        typed = type_in("init", "--template", "dev", "--from", "x")

        assert typed.code == 2


class TestOnGoogle:
    def test_by_options(self, project: Path, type_in: TypeIn) -> None:
        """The whole stack file for a model on chips, with flags to begin with."""
        words = ("--model", "google/gemma-4-E4B-it", "--accelerator", "v6e-4", "--zone")
        typed = type_in("init", *GOOGLE, *words, "us-east5-a", "--zone", "us-east5-b")

        assert typed.code == 0, typed.err
        assert_golden(
            "init/gemma-4-e4b-it-v6e-4.yaml",
            stack_file(project, "gemma-4-e4b-it-v6e-4").read_text(),
        )

    def test_the_smallest_chips_that_fit_are_proposed(self, type_in: TypeIn) -> None:
        """With --yes the model decides the accelerator type."""
        small = type_in("init", *GOOGLE, "--yes", "--json", "--model", "google/gemma-4-E2B-it")
        large = type_in("init", *GOOGLE, "--yes", "--json", "--model", "google/gemma-4-26B-A4B-it")

        assert small.document["stack"] == "gemma-4-e2b-it-v6e-1"
        assert large.document["stack"] == "gemma-4-26b-a4b-it-v6e-4"

    def test_what_does_not_fit(self, project: Path, type_in: TypeIn) -> None:
        """It is refused before anything is written."""
        before = files(project)
        words = (
            "--model",
            "google/gemma-4-31B-it",
            "--accelerator",
            "v6e-1",
            "--zone",
            "us-east5-a",
        )

        typed = type_in("init", *GOOGLE, *words)

        assert typed.code == 5
        assert "tpuflex:slice.accelerator_type" in typed.err
        assert "Nothing was written. Change a value with --set KEY=VALUE." in typed.err
        assert files(project) == before

    def test_set(self, project: Path, type_in: TypeIn) -> None:
        """--set changes any setting, and null removes one."""
        words = (
            "--set",
            "serving.flags.max_num_seqs=8",
            "--set",
            "tpuflex:serving.flags.dtype=null",
        )
        typed = type_in("init", *GOOGLE, "--yes", "--stack", "s", *words)
        flags = load_stack_file(stack_file(project, "s")).settings.serving.flags

        assert typed.code == 0, typed.err
        assert (flags.max_num_seqs, flags.dtype) == (8, None)

    @pytest.mark.parametrize(
        ("change", "code"),
        [
            ("serving.flags.max_num_seqs", 2),
            ("=8", 2),
            ("cloud.x=1", 5),
            ("slice.zones=[", 5),
            ("serving.flags.nothing=1", 5),
        ],
    )
    def test_set_wrongly(self, type_in: TypeIn, change: str, code: int) -> None:
        """A change that cannot be made is an error, and no traceback."""
        typed = type_in("init", *GOOGLE, "--yes", "--stack", "s", "--set", change)

        assert typed.code == code
        assert "bug in tpuflex" not in typed.err


def test_the_catalog_of_the_project_counts(project: Path, type_in: TypeIn) -> None:
    """A row of catalog.yaml changes what fits, and a wrong one is named."""
    shutil.rmtree(project / "stacks")
    (project / "catalog.yaml").write_text("models: 3\n")

    typed: Typed = type_in("init", "--yes")

    assert typed.code == 5
    assert "catalog.yaml" in typed.err


GOOGLE = ("--project", "acme-serving", "--run", "4h")


def files(root: Path) -> dict[str, str]:
    """Texts by path of everything below ``root``."""
    found = (path for path in sorted(root.rglob("*")) if path.is_file())
    return {str(path.relative_to(root)): path.read_text() for path in found}


FOREIGN = Path(__file__).parents[1] / "scaffold" / "foreign"
#: The template leaves the context to vLLM, which takes all that the model has.
SHORTER = ("--set", "serving.flags.max_model_len=16384")


class TestFrom:
    @pytest.mark.parametrize("name", ["inference.yaml", "values.yaml", "serve.sh"])
    def test_published_configurations(self, project: Path, type_in: TypeIn, name: str) -> None:
        """With --yes: the whole stack file, and every refusal by name."""
        typed = type_in("init", *GOOGLE, "--yes", "--json", "--from", str(FOREIGN / name), *SHORTER)

        assert typed.code == 0, typed.err
        text = stack_file(project, typed.document["stack"]).read_text()
        assert_golden(f"init/{name}.stack.yaml", text)
        head = text.partition("config:")[0]
        for each in typed.document["refused"]:
            assert f"# Refused: {each['key']}" in head
            assert f"Refused: {each['key']}" in typed.err

    @pytest.mark.parametrize("cloud", ["google", "embedded"])
    def test_a_model_that_cannot_be_read(self, project: Path, type_in: TypeIn, cloud: str) -> None:
        """No other model takes the place of one that was refused, not even with --yes."""
        before = files(project)
        source = project.parent / "values.yaml"
        source.write_text("image: {command: vllm serve google/gemma-4-31B-it}\n")

        typed = type_in(
            *("init", "--cloud", cloud, "--project", "acme-serving", "--yes"),
            *("--from", str(source)),
        )

        assert typed.code == 5
        assert "names no model that tpuflex could read" in typed.err
        assert "image.command: is not a list of words" in typed.err
        assert files(project) == before

    def test_without_consent(self, project: Path, type_in: TypeIn) -> None:
        """Keys that cannot be honoured are not dropped silently: nothing is written."""
        before = files(project)

        typed = type_in("init", *GOOGLE, *SHORTER, "--from", str(FOREIGN / "inference.yaml"))

        assert typed.code == 5
        assert "inference.scheduling.ttft_threshold_sec" in typed.err
        assert typed.err.endswith("To make the stack without these keys, add --yes.\n")
        assert files(project) == before

    def test_what_does_not_fit(self, project: Path, type_in: TypeIn) -> None:
        """More cache than the chips have is refused together with the keys that cannot be honoured,
        and nothing is written."""
        before = files(project)

        whole = ("--set", "serving.flags.max_model_len=262144")
        typed = type_in("init", *GOOGLE, *whole, "--from", str(FOREIGN / "inference.yaml"))

        assert typed.code == 5
        assert "tpuflex:serving.flags.max_model_len: one sequence of 262,144 tokens" in typed.err
        assert "inference.scheduling.ttft_threshold_sec" in typed.err
        assert files(project) == before

    def test_with_consent(
        self, project: Path, type_in: TypeIn, answer: Callable[..., None]
    ) -> None:
        """At a terminal the keys are shown, and the question asked."""
        answer("y")
        typed = type_in("init", *GOOGLE, *SHORTER, "--from", str(FOREIGN / "inference.yaml"))

        assert typed.code == 0, typed.err
        assert "Make the stack without these keys?" in typed.err
        assert stack_file(project, "gemma-4-31b-it-v6e-4").is_file()

    def test_a_context_that_nothing_names(self, project: Path, type_in: TypeIn) -> None:
        """Where the model's own does not fit, the longest that does is written and named."""
        words = ("--yes", "--json", "--from", str(FOREIGN / "inference.yaml"))
        typed = type_in("init", *GOOGLE, *words)

        assert typed.code == 0, typed.err
        text = stack_file(project, "gemma-4-31b-it-v6e-4").read_text()
        assert "max_model_len: 67328" in text
        assert "# Refused: --max-model-len: nothing names it" in text

    def test_the_cheapest_that_fits(self, type_in: TypeIn, tmp_path: Path) -> None:
        """The first type that holds all that the file says is chosen; the others are named with
        price, and with what would have to change."""
        words = ("--yes", "--json", "--from", str(FOREIGN / "values.yaml"))
        typed = type_in("init", *GOOGLE, *words)

        assert typed.code == 0, typed.err
        cheapest, chosen, dearest = typed.document["accelerators"]
        assert (cheapest["name"], cheapest["usd_per_hour"]) == ("v6e-1", 1.35)
        assert any("max_model_len 107776" in each for each in cheapest["holds"])
        assert (chosen["name"], chosen["chosen"]) == ("v6e-4", True)
        assert (dearest["name"], dearest["chosen"]) == ("v6e-8", False)

        file = tmp_path / "serve.sh"
        file.write_text("vllm serve meta-llama/Llama-3.1-8B --max-model-len 8k")
        typed = type_in("init", *GOOGLE, "--stack", "b", "--yes", "--from", str(file))
        assert typed.code == 0, typed.err
        assert "v6e-1 ($1.35/h, chosen): " in typed.out
        assert "v6e-4 ($5.40/h): " in typed.out

    @pytest.mark.parametrize(
        ("command", "problem"),
        [
            ("vllm serve some/model", "nobody knows how large some/model is"),
            (
                "vllm serve google/gemma-4-31B-it --max-model-len 256K -tp 1",
                "Nothing of it fits v6e-1, v6e-4, v6e-8.",
            ),
        ],
    )
    def test_chips_are_not_guessed(
        self, project: Path, type_in: TypeIn, tmp_path: Path, command: str, problem: str
    ) -> None:
        """A model of unknown size, or one that fits on nothing, gets no chips by default."""
        before = files(project)
        file = tmp_path / "serve.sh"
        file.write_text(command)

        typed = type_in("init", *GOOGLE, "--yes", "--from", str(file))

        assert typed.code == 5
        assert problem in typed.err
        assert files(project) == before

    def test_a_variable_that_nothing_sets(
        self,
        project: Path,
        type_in: TypeIn,
        tmp_path: Path,
        answer: Callable[..., None],
    ) -> None:
        """It is an error that says how to give it, taken from the environment, or asked for; what
        an option says anyway is not."""
        file = tmp_path / "serve.sh"
        file.write_text("vllm serve $MODEL \\\n  --max-model-len 8k --max-num-seqs $SEQS\n")
        where = ("--accelerator", "v6e-1", "--zone", "us-east5-a")
        model = ("--model", "google/gemma-4-E4B-it")
        words = ("init", *GOOGLE, *where, *model, "--from", str(file))

        typed = type_in(*words, "--yes")
        assert typed.code == 2
        assert (
            "Give SEQS=VALUE before the command: nothing in serve.sh:1 sets it for --max-num-seqs."
            in typed.err
        )
        assert "MODEL" not in typed.err

        assert type_in(*words, "--stack", "a", "--yes", SEQS="16").code == 0
        assert "max_num_seqs: 16" in stack_file(project, "a").read_text()

        answer("8")
        typed = type_in(*words, "--stack", "b")
        assert typed.code == 0, typed.err
        assert "$SEQS, which serve.sh:1 has at --max-num-seqs: " in typed.err
        assert "max_num_seqs: 8" in stack_file(project, "b").read_text()

    def test_what_is_left_out_is_named(self, type_in: TypeIn, tmp_path: Path) -> None:
        """Keys of one kind together, with the reason; and nobody has to agree."""
        file = tmp_path / "serve.sh"
        file.write_text(
            "docker run --rm -it -e HF_HOME=/x -e HF_HUB_OFFLINE=1 vllm/vllm-tpu:nightly"
            " --model google/gemma-4-E4B-it --max-model-len 8k"
        )

        words = ("--accelerator", "v6e-1", "--zone", "us-east5-a", "--from", str(file))
        typed = type_in("init", *GOOGLE, *words)

        assert typed.code == 0, typed.err
        assert (
            "Left out: -e HF_HOME, -e HF_HUB_OFFLINE: the server reads its weights from the stack's"
            " bucket, and downloads nothing.\n" in typed.err
        )
        assert (
            "Left out: docker run --rm, docker run -it: tpuflex starts the container" in typed.err
        )

    def test_what_is_wrong_in_our_terms(self, type_in: TypeIn, tmp_path: Path) -> None:
        """A finding about a value from the file names the file's key, too."""
        file = tmp_path / "serve.sh"
        file.write_text("vllm serve google/gemma-4-E4B-it --tensor-parallel-size 4")

        words = ("--accelerator", "v6e-1", "--zone", "us-east5-a", "--from", str(file))
        typed = type_in("init", *GOOGLE, *words)

        assert typed.code == 5
        assert (
            "tpuflex:serving.flags.tensor_parallel_size (from --tensor-parallel-size)" in typed.err
        )
