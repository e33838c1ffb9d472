"""Copies to further regions of a stack: what they cost is told before, and what else may fail."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.cli.examined import Doctor
from tests.cli.regions import (
    FAR,
    HOME,
    LIBRARY,
    listed,
    prefix_of,
    push,
    remove,
    tiny_checkpoint,
    two_regions,
    typed,
)
from tests.cli.test_down_purge import library_stack
from tests.copier.jobs import job_of
from tpuflex.boot.manifest import MANIFEST_NAME
from tpuflex.cli.region_machine import RegionMachine
from tpuflex.cli.region_source import region_source
from tpuflex.cli.region_weights import filling_texts, weights_set
from tpuflex.cli.stack import OpenStack
from tpuflex.cli.steps import push_from_region
from tpuflex.cli.steps.push_from_region import (
    _announced,
    _further_texts,
    run_push_from_region,
)
from tpuflex.cli.weights_elsewhere import elsewhere, weights_in
from tpuflex.copier.job import Job, JobFile
from tpuflex.errors import ConflictError, IncompleteTeardownError
from tpuflex.operate.region_copy.run import STOP_COMMAND
from tpuflex.operate.weights_choice import Trust, Weights, to_copy
from tpuflex.planning.copy_machine import estimate

HUB = region_source("hf://acme/tiny")


@pytest.fixture
def doctor(project: Path, tmp_path: Path) -> Iterator[Doctor]:
    """A stack in two regions."""
    with two_regions(project, tmp_path) as found:
        yield found


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Weights of a few bytes."""
    return tiny_checkpoint(tmp_path / "tiny")


def of_checkpoint(doctor: Doctor, directory: Path) -> Job:
    """The copy of a model whose files are those of ``directory``, all in LFS."""
    files = (
        JobFile(path.name, path.stat().st_size, hashlib.sha256(path.read_bytes()).hexdigest(), "")
        for path in sorted(directory.iterdir())
    )
    return replace(
        job_of(*files),
        bucket=doctor.cloud.bucket,
        prefix=prefix_of(doctor),
        model=doctor.stack.settings.model.name,
        revision=doctor.stack.settings.model.weights.revision,
        pinned="",
        create_only=True,
    )


def test_copies_to_further_regions_are_named_before_the_question(
    doctor: Doctor, checkpoint: Path
) -> None:
    """With the price of the network, for what a region lacks or has damaged; nothing for one that
    has it all; and other weights there are refused before a machine is made."""
    large = of_checkpoint(doctor, checkpoint)
    large = replace(large, files=(replace(large.files[0], size=62 * 2**30),))
    (lacking,) = _further_texts(doctor.cloud, large)
    assert "Afterwards: weights: 66.57 GB are copied from gs://" in lacking
    assert f"to gs://{FAR}; nothing passes through here, and the network costs $4.96" in lacking
    assert lacking in "\n".join(_announced(doctor.cloud, HUB, large, estimate(large.total_bytes)))

    push(doctor, checkpoint)
    job = of_checkpoint(doctor, checkpoint)
    assert list(_further_texts(doctor.cloud, job)) == []
    remove(doctor, FAR, f"{prefix_of(doctor)}/model.safetensors")
    (damaged,) = _further_texts(doctor.cloud, job)
    assert "(model.safetensors: missing): what is wrong is copied anew; weights: " in damaged
    assert "the network costs $0.01 at most" in damaged
    with pytest.raises(ConflictError, match="holds other weights"):
        list(_further_texts(doctor.cloud, replace(job, pinned="a" * 64)))
    with pytest.raises(ConflictError, match=f"wanted is {job.source}"):
        list(_further_texts(doctor.cloud, large))


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (None, ""),
        (ConflictError("Others are there.", hint="Ask them."), "Others are there.\n"),
        (KeyboardInterrupt(), ""),
    ],
)
def test_what_is_left_is_the_exit_code_whatever_else_failed(
    stack: OpenStack, error: BaseException | None, said: str
) -> None:
    """It may be billed: what failed beside it is told, too. Where nothing is left, that alone."""
    machine = RegionMachine(library_stack(stack), lambda _line: None, frozenset())

    def run() -> None:
        with machine.told_if_left():
            if error is not None:
                raise error

    if error is None:
        run()
    else:
        with pytest.raises(type(error)):
            run()
    machine.problems = ("instances: refused",)
    with pytest.raises(IncompleteTeardownError) as caught:
        run()
    assert caught.value.message.startswith(f"{said}Not all that was made for the copy")
    assert "instances: refused" in caught.value.message
    assert ("Ask them." in caught.value.hint) is bool(said)
    assert STOP_COMMAND in caught.value.hint


def test_a_machine_that_is_left_is_told_where_further_copies_fail(
    doctor: Doctor, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The set is in its home, a killed command's machine cannot be removed, and another region
    holds other weights: the exit code is that of what is left."""
    push(doctor, checkpoint)
    weights = doctor.stack.settings.model.weights
    doctor.change("model", weights=weights.model_copy(update={"source": f"hf://a/b@{'0' * 40}"}))
    far = doctor.cloud.further_regions()[0].weights._bucket.blob(
        f"{prefix_of(doctor)}/{MANIFEST_NAME}"
    )
    far.upload_from_string(far.download_as_bytes().replace(b'"revision": "1"', b'"revision": "2"'))
    pushed = doctor.cloud.weights.find(prefix_of(doctor))
    assert pushed is not None
    job = replace(of_checkpoint(doctor, checkpoint), known=(pushed.sha256,))
    machine = RegionMachine(doctor.cloud, lambda _line: None, frozenset())

    def refused() -> None:
        machine.problems = ("instances: refused",)

    monkeypatch.setattr(machine, "remove", refused)
    seen = SimpleNamespace(left_out=())
    source = SimpleNamespace(require_grantable=lambda _: None, seen=lambda *_: seen)
    monkeypatch.setattr(push_from_region, "region_source", lambda _: source)
    monkeypatch.setattr(push_from_region, "copy_job", lambda *_, **__: job)
    monkeypatch.setattr(push_from_region, "region_machine", lambda *_: machine)
    monkeypatch.setattr(push_from_region, "_ensure_state", lambda *_: None)
    with pytest.raises(IncompleteTeardownError, match=r"holds other weights.*\n.*could be removed"):
        run_push_from_region(typed(), doctor.cloud, again=False)


def test_what_is_copied_anew_is_priced(
    doctor: Doctor, checkpoint: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """--again copies all of it, and damage only what is damaged; both say what the network
    costs."""
    push(doctor, checkpoint)
    cloud = doctor.cloud
    found = cloud.weights.find(prefix_of(doctor))
    assert found is not None
    wanted = weights_set(cloud, found.sha256)
    capsys.readouterr()
    push(doctor, checkpoint, again=True)
    again = capsys.readouterr().err
    remove(doctor, FAR, f"{prefix_of(doctor)}/model.safetensors")
    (damaged,) = filling_texts(doctor.cloud, wanted)
    push(doctor, None)

    text = "weights: 0.00 GB are copied from gs://"
    assert f"to gs://{FAR}; nothing passes through here, and the network costs $0.01" in again
    assert text in again
    assert "is copied anew; " + text in damaged
    assert "the network costs $0.01 at most" in damaged
    assert filling_texts(doctor.cloud, wanted) == []


def test_the_cheapest_of_other_regions_is_copied_from(doctor: Doctor, checkpoint: Path) -> None:
    """Not the first by name: from Tokyo the network costs more than from Iowa."""
    push(doctor, checkpoint)
    for name in listed(doctor, HOME):
        remove(doctor, HOME, name)
    model = doctor.stack.settings.model
    for region in ("asia-northeast1", "us-central1"):
        bucket = LIBRARY.bucket("tpuflex-dev", region)
        labels = {"tpuflex-owner": LIBRARY.owner}
        body = {"name": bucket, "location": region.upper(), "labels": labels}
        doctor.call("POST", "storage/v1/b?project=tpuflex-dev", body)
        weights_in(doctor.cloud, bucket).push(
            checkpoint,
            prefix_of(doctor),
            model=model.name,
            revision=model.weights.revision,
            progress=lambda _done, _total: None,
        )
    said: list[str] = []
    found = elsewhere(doctor.cloud, said.append)
    assert said == []
    assert [each.region for each in found] == ["us-central1", "asia-northeast1", "europe-west4"]
    origin = to_copy(Weights("x", "dev", None, False, found), Trust(pinned=found[-1].sha256))
    assert origin == found[0]
