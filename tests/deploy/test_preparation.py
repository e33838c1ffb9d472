"""What `tpuflex up` does before it requests chips, and before the stack's own bucket goes."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.checkpoints import tiny
from tests.reports import lines_to
from tpuflex.boot.manifest import Manifest, WeightsFile, manifest
from tpuflex.boot.places import weights_prefix
from tpuflex.boot.planned import PlannedWeights
from tpuflex.deploy.preparation import EndpointPreparation, _lost_texts
from tpuflex.errors import NotFoundError, SettingsError, WeightsError
from tpuflex.planning.model_files import ServerNeeds, WeightsProblem
from tpuflex.project import open_project
from tpuflex.settings.model import WeightsSettings
from tpuflex.stack.connection import Connection
from tpuflex.stack.stack import Stack, read_stack
from tpuflex.weights import bucket as weights
from tpuflex.weights.checkpoint_directory import LocalModel
from tpuflex.weights.push import Push, PushReport
from tpuflex.weights.push_record import PushedWeights
from tpuflex.weights.stack_weights import StackWeights
from tpuflex.weights.stored_set import FoundManifest, WeightsCheck
from tpuflex.weights.trust import Weights

SHARD = WeightsFile(path="model.safetensors", size=9, crc32c="AAAAAA==", sha256="0" * 64)
OURS = manifest((SHARD,), model="m", revision="1")
ALTERED = manifest((SHARD.model_copy(update={"sha256": "1" * 64}),), model="m", revision="1")
TRUNCATED = WeightsProblem("shard", "size")


@dataclass
class Bucket:
    """A bucket with one set of weights, and a source on the disk.

    Attributes:
        prefix: where the weights are.
        there: the manifest in the bucket.
        local: the manifest of the source.
        problems: what is wrong in the bucket until it is pushed to.
        pushed: the directories that were pushed.
    """

    prefix: str
    there: Manifest | None = OURS
    local: Manifest = OURS
    problems: tuple[WeightsProblem, ...] = ()
    pushed: list[Path] = field(default_factory=list)

    def find(self, prefix: str) -> FoundManifest | None:
        assert prefix == self.prefix
        return None if self.there is None else FoundManifest(self.there.sha256, self.there)

    def verify(self, prefix: str, _needs: ServerNeeds) -> WeightsCheck:
        assert prefix == self.prefix
        assert self.there is not None
        return WeightsCheck(self.there.sha256, self.there, self.problems)

    def push(self, push: Push) -> PushReport:
        found = self.find(push.prefix)
        push.require("", self.local, found, "Nothing was sent.")
        assert isinstance(push.model, LocalModel)
        self.pushed.append(push.model.directory)
        replaced = found.sha256 if found is not None and found.sha256 != self.local.sha256 else ""
        self.there = self.local
        return PushReport(self.local, ("shard",), (), 1_000_000, 0.5, replaced)


@dataclass
class Case:
    """A preparation of the dev stack, and what it said."""

    preparation: EndpointPreparation
    bucket: Bucket
    said: list[str]

    def ready(self) -> str:
        """The hash of the weights, once they are in place."""
        return self.preparation._ensure_weights()

    @property
    def known(self) -> str | None:
        """What the home remembers."""
        cloud = self.preparation.cloud
        return PushedWeights(cloud.stack.project.home).get(cloud.bucket, self.bucket.prefix)


def case(project: Path, **weights: object) -> Case:
    """The dev stack with these settings of its weights, on a cloud with our weights."""
    stack = read_stack(open_project(project, {}), "dev")
    settings = WeightsSettings.model_validate(weights)
    model = stack.settings.model.model_copy(update={"weights": settings})
    stack = replace(stack, settings=stack.settings.model_copy(update={"model": model}))
    if settings.source is not None:
        tiny(project / "model")
    return on(stack)


def on(stack: Stack) -> Case:
    """A preparation of ``stack`` on a cloud with our weights."""
    bucket = Bucket(weights_prefix(stack.settings.model))
    cloud = Connection(stack, {})
    weights = StackWeights(cloud)
    vars(weights)["store"] = bucket
    said: list[str] = []
    return Case(EndpointPreparation(weights, lines_to(said), lambda: False), bucket, said)


def planned(case: Case, manifest: Manifest) -> None:
    """Have the state name ``manifest`` for the slice."""
    bucket = case.preparation.cloud.bucket
    before = PlannedWeights(bucket, case.bucket.prefix, manifest.sha256)
    case.preparation = replace(case.preparation, before=lambda: before)


def test_weights_of_the_state_are_left_alone(project: Path) -> None:
    """What the slice was made for before is served again: nothing is pushed and nothing said."""
    stack = case(project, source="./model")
    planned(stack, OURS)

    assert stack.ready() == OURS.sha256
    assert (stack.bucket.pushed, stack.said) == ([], [])


def test_what_was_pushed_from_here_is_served(project: Path) -> None:
    """After `weights push` an `up` needs no other word."""
    first = case(project)
    PushedWeights(project / ".tpuflex").put(
        first.preparation.cloud.bucket, first.bucket.prefix, OURS.sha256
    )

    assert first.ready() == OURS.sha256


def test_missing_weights_are_pushed_and_remembered(project: Path) -> None:
    """The source is pushed, and its hash is what the host will be given."""
    stack = case(project, source="./model")
    stack.bucket.there = None

    assert stack.ready() == OURS.sha256 == stack.known
    assert stack.bucket.pushed == [project / "model"]


def test_missing_weights_without_a_source_request_no_chips(project: Path) -> None:
    """S7: nobody waits for weights with chips that are billed; the error names both commands."""
    stack = case(project)
    stack.bucket.there = None

    with pytest.raises(WeightsError, match="No chips were requested") as caught:
        stack.ready()

    assert "tpuflex weights push DIRECTORY --stack dev" in str(caught.value.hint)
    assert "tpuflex up" in str(caught.value.hint)


def before_the_first_up(project: Path, **weights: object) -> Case:
    """A case without a bucket, and without a certificate to look for."""
    stack = case(project, **weights)
    vars(stack.preparation.weights)["exists"] = lambda: False
    return stack


def test_m2_missing_weights_end_a_first_up_before_anything_is_made(project: Path) -> None:
    """No bucket and no source: the error comes before the question, and says how to push."""
    stack = before_the_first_up(project)

    with pytest.raises(WeightsError, match="holds no complete weights") as caught:
        stack.preparation.check()

    assert caught.value.exit_code == 7
    assert "weights push DIRECTORY --stack dev`, which makes the bucket" in str(caught.value.hint)
    assert "tpuflex:model.weights.source" in str(caught.value.hint)


def test_m2_a_source_that_is_not_there_ends_an_up_before_anything_is_made(project: Path) -> None:
    """What is to be pushed is looked for before the question, also where the bucket exists."""
    stack = case(project, source="./model")
    stack.bucket.there = None
    vars(stack.preparation.weights)["exists"] = lambda: True
    stack.preparation.check()
    shutil.rmtree(project / "model")

    with pytest.raises((WeightsError, SettingsError), match="model"):
        stack.preparation.check()


def test_m2_chips_may_be_requested_before_the_pinned_weights_are_there(project: Path) -> None:
    """M2: --allow-missing-weights: the host is told which weights to wait for, with a warning."""
    stack = before_the_first_up(project, manifest_sha256=OURS.sha256)
    stack.bucket.there = None
    with pytest.raises(WeightsError, match="No chips were requested"):
        stack.preparation.check()

    stack.preparation = replace(stack.preparation, awaited=True)
    stack.preparation.check()

    assert stack.ready() == OURS.sha256
    (said,) = stack.said
    assert "holds no weights: the host will wait for them" in said


def test_m2_nobody_waits_for_weights_that_nothing_names(project: Path) -> None:
    """M2: --allow-missing-weights needs a pin, else a host could never begin; it is refused."""
    stack = before_the_first_up(project)
    stack.preparation = replace(stack.preparation, awaited=True)

    with pytest.raises(WeightsError, match="--allow-missing-weights cannot be honoured") as caught:
        stack.preparation.check()

    assert "tpuflex:model.weights.manifest_sha256" in str(caught.value.hint)


def test_a_truncated_file_is_pushed_again(project: Path) -> None:
    """A file that does not match the manifest is named and pushed again before chips cost."""
    stack = case(project, source="./model")
    planned(stack, OURS)
    stack.bucket.problems = (TRUNCATED,)

    assert stack.ready() == OURS.sha256
    assert stack.bucket.pushed == [project / "model"]
    assert stack.said == [
        "  warning  the set in the bucket cannot be served: shard: size",
        "  pushed   weights: 1 file, 1.0 MB in 0.5 s",
    ]


def test_a_truncated_file_without_a_source_requests_no_chips(project: Path) -> None:
    """Without a source only the user can fix it; the error names the command."""
    stack = case(project)
    planned(stack, OURS)
    stack.bucket.problems = (TRUNCATED,)

    with pytest.raises(WeightsError, match="cannot be served") as caught:
        stack.ready()

    assert str(caught.value.hint) == "Run: tpuflex weights push DIRECTORY --stack dev"


def test_a_replaced_manifest_is_refused(project: Path) -> None:
    """S7: a manifest that is neither the state's nor pushed from here is not served; the error
    says how to accept it."""
    stack = case(project)
    planned(stack, OURS)
    stack.bucket.there = ALTERED

    with pytest.raises(WeightsError, match=f"made for {OURS.sha256}") as caught:
        stack.ready()

    assert f"--accept-weights {ALTERED.sha256}" in str(caught.value.hint)
    stack.preparation = replace(stack.preparation, accepted=ALTERED.sha256)
    assert stack.ready() == ALTERED.sha256


def test_a_replaced_manifest_is_not_the_source(project: Path) -> None:
    """S7: where there is a source, it is what counts, and nothing is overwritten unasked."""
    stack = case(project, source="./model")
    stack.bucket.there = ALTERED

    with pytest.raises(WeightsError, match=ALTERED.sha256):
        stack.ready()

    assert stack.bucket.pushed == []
    stack.bucket.there = OURS
    assert stack.ready() == OURS.sha256


def test_a_pin_always_wins(project: Path) -> None:
    """S7: with a hash in the stack file nothing else is served, pushed or accepted; the set that
    is replaced is named."""
    stack = case(project, source="./model", manifest_sha256=OURS.sha256)
    planned(stack, ALTERED)
    stack.bucket.there = ALTERED
    assert stack.ready() == OURS.sha256
    assert stack.bucket.there == OURS
    assert f"pushed   in place of the set {ALTERED.sha256}" in "\n".join(stack.said)

    stack.bucket.there, stack.bucket.local, stack.bucket.pushed = None, ALTERED, []
    with pytest.raises(WeightsError, match="Nothing was sent"):
        stack.ready()
    assert stack.bucket.pushed == []

    stack.preparation = replace(stack.preparation, accepted=ALTERED.sha256)
    with pytest.raises(WeightsError, match="contradicts"):
        stack.ready()


def test_an_accepted_hash_must_be_the_one_that_is_there(project: Path) -> None:
    """An option that cannot be honoured is refused, in the preview already."""
    stack = case(project, source="./model")
    planned(stack, OURS)
    stack.preparation = replace(stack.preparation, accepted=ALTERED.sha256)

    with pytest.raises(WeightsError, match="cannot be honoured"):
        asyncio.run(stack.preparation.planned("bucket"))


def test_a_preview_shows_what_is_there(project: Path) -> None:
    """A preview plans with the manifest in the bucket; without one the hash is not known yet."""
    stack = case(project, source="./model")
    assert asyncio.run(stack.preparation.planned("bucket")) == OURS.sha256

    stack.bucket.there = None
    assert asyncio.run(stack.preparation.planned("bucket")) is None


class NoSecrets:
    """Secret Manager before anything was put there."""

    def list_versions(self, secret: str) -> tuple[object, ...]:
        raise NotFoundError(f"no {secret}")


def test_a_certificate_without_a_value_is_refused_before_anything_is_made(project: Path) -> None:
    """An `up` that found this out later would stop half done."""
    stack = read_stack(open_project(project, {}), "dev")
    pinned = stack.settings.secrets.model_copy(update={"tls_certificate_version": 1})
    stack = replace(stack, settings=stack.settings.model_copy(update={"secrets": pinned}))
    preparation = on(stack).preparation
    vars(preparation.cloud)["secrets"] = NoSecrets()

    with pytest.raises(NotFoundError, match="Version 1 of the TLS certificate") as told:
        preparation.check()

    assert "tpuflex secrets put tls-certificate" in str(told.value.hint)


def moving(project: Path) -> Case:
    """The dev stack, in the library, with nothing there yet, and a source."""
    found = on(case(project, source="./model", bucket="library").preparation.cloud.stack)
    found.bucket.there = None
    cloud = found.preparation.cloud
    before = PlannedWeights(cloud.made_bucket, found.bucket.prefix, OURS.sha256)
    found.preparation = replace(found.preparation, before=lambda: before)
    return found


def test_sets_that_go_with_the_bucket_are_named(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is said before the question, of each that the library does not have, too."""
    monkeypatch.setattr(Connection, "is_there", lambda _cloud, _bucket: True)
    cloud = moving(project).preparation.cloud
    prefixes = (weights_prefix(cloud.stack.settings.model), "models/m/2")
    both = [SimpleNamespace(prefix=prefix, total_bytes=10**9) for prefix in prefixes]
    there = SimpleNamespace(list=lambda: both)
    monkeypatch.setattr(weights, "weights_bucket", lambda *_words, **_more: there)
    for found, gone in ((None, prefixes), (OURS.sha256, prefixes[1:])):
        lines = _lost_texts(cloud, Weights("gs://b/p", "dev", found, source=True))
        assert [each.partition(", 1.00 GB, is deleted with")[0] for each in lines] == [
            f"  warning  gs://{cloud.made_bucket}/{prefix}" for prefix in gone
        ]
