"""What `tpuflex up` does before it requests chips."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tpuflex.boot.config import weights_prefix
from tpuflex.boot.manifest import manifest
from tpuflex.cli.cloud import Cloud
from tpuflex.cli.output import Output
from tpuflex.cli.prepare import ensure_weights
from tpuflex.cli.stack import OpenStack, open_stack
from tpuflex.errors import WeightsError
from tpuflex.gcp.weights_report import PushReport, StoredWeights, WeightsProblem
from tpuflex.project import open_project
from tpuflex.settings.model import WeightsSettings

MANIFEST = manifest((), model="m", revision="1", created="2026-11-21T12:00:00+00:00")


class Bucket:
    """A bucket with one set of weights, in which ``problems`` are found until it is pushed to."""

    def __init__(self, prefix: str, *problems: WeightsProblem) -> None:
        self.prefix = prefix
        self.problems = problems
        self.pushed: list[Path] = []

    def list(self) -> tuple[StoredWeights, ...]:
        return (StoredWeights(self.prefix, MANIFEST, 1, 1000),)

    def verify(self, prefix: str) -> tuple[WeightsProblem, ...]:
        assert prefix == self.prefix
        return self.problems

    def push(self, directory: Path, prefix: str, **details: object) -> PushReport:
        assert prefix == self.prefix
        assert details["model"]
        self.pushed.append(directory)
        return PushReport(MANIFEST, ("shard",), (), 1_000_000, 0.5)


def stack_of(project: Path, source: str | None) -> OpenStack:
    """The dev stack with another source of weights."""
    stack = open_stack(open_project(project, {}), "dev")
    weights = WeightsSettings(source=source)
    model = stack.settings.model.model_copy(update={"weights": weights})
    return replace(stack, settings=stack.settings.model_copy(update={"model": model}))


def ensure(stack: OpenStack, *problems: WeightsProblem) -> tuple[Bucket, list[str]]:
    """Ensure the weights in a bucket with ``problems``; what was pushed and said."""
    bucket = Bucket(weights_prefix(stack.settings.model), *problems)
    cloud = Cloud(stack, {})
    vars(cloud)["weights"] = bucket
    said: list[str] = []
    ensure_weights(cloud, said.append, Output(json=False, verbose=False), lambda: False)
    return bucket, said


TRUNCATED = WeightsProblem("shard", "size")


def test_complete_weights_are_left_alone(project: Path) -> None:
    """Nothing is pushed and nothing said."""
    bucket, said = ensure(stack_of(project, "./model"))

    assert (bucket.pushed, said) == ([], [])


def test_a_truncated_file_is_pushed_again(project: Path) -> None:
    """A file that does not match the manifest is named and pushed again before chips cost."""
    (project / "model").mkdir()
    (project / "model" / "config.json").write_text("{}")

    bucket, said = ensure(stack_of(project, "./model"), TRUNCATED)

    assert bucket.pushed == [project / "model"]
    assert said == [
        "  warning  shard in the bucket does not match the manifest (size)",
        "  pushed   weights: 1 file, 1.0 MB in 0.5 s",
    ]


def test_a_truncated_file_without_a_source_requests_no_chips(project: Path) -> None:
    """Without a source only the user can fix it; the error names the command."""
    with pytest.raises(WeightsError, match="does not match its manifest") as caught:
        ensure(stack_of(project, None), TRUNCATED)

    assert caught.value.hint == "Run: tpuflex weights push DIRECTORY --stack dev"
