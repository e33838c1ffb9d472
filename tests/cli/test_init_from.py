"""`tpuflex init --from`: another tool's configuration becomes a stack, or is refused by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.new_stacks import GOOGLE, files, stack_file
from tests.cli.typing import TypeIn
from tests.goldens.golden_texts import assert_golden

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
        """The template as it was published asks for more cache than its chips have: that is refused
        together with the keys that cannot be honoured, and nothing is written."""
        before = files(project)

        typed = type_in("init", *GOOGLE, "--from", str(FOREIGN / "inference.yaml"))

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
