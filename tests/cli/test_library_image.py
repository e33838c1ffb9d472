"""Images in the library: pushed, listed, looked at before chips are asked for, kept while used."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import pytest

from tests.cli.examined import PROJECT, Doctor, healthy
from tests.images import image, layer, small_image
from tests.operate.test_registry import IMAGE as IN_REGISTRY
from tpuflex.boot.places import image_prefix
from tpuflex.boot.planned import planned_image
from tpuflex.cli import library_image
from tpuflex.cli.cloud import Cloud
from tpuflex.cli.library_image import push_image, read_layout, require_in_library
from tpuflex.cli.output import Output
from tpuflex.cli.steps.library_contents import library_contents, show_contents
from tpuflex.cli.steps.ready import require_ready
from tpuflex.cli.steps.weights_ls import run_weights_ls
from tpuflex.errors import NotFoundError, SettingsError, TpuflexError, WeightsError
from tpuflex.gcp.weights_report import PushReport
from tpuflex.host.metadata_keys import CONFIG_KEY
from tpuflex.naming import library_names
from tpuflex.operate.doctor.check import Standing
from tpuflex.startup.image_archive import Image

IMAGE = small_image()
REFERENCE = f"vllm/vllm-tpu@{IMAGE.digest}"
PREFIX = f"images/sha256/{IMAGE.digest[7:]}"
LIBRARY = library_names("tpuflex-dev")
BUCKET = LIBRARY.bucket("tpuflex-dev", "us-east5")


@pytest.fixture
def doctor(project: Path, tmp_path: Path) -> Iterator[Doctor]:
    """A stack in a project with a library, whose image is to come from there."""
    with healthy(project, tmp_path) as found:
        found.call(
            "POST",
            "storage/v1/b?project=tpuflex-dev",
            {
                "name": BUCKET,
                "location": "US-EAST5",
                "labels": {"tpuflex-owner": LIBRARY.owner},
            },
        )
        weights = found.stack.settings.model.weights.model_copy(update={"bucket": "library"})
        found.change("model", weights=weights)
        found.change("serving", image=REFERENCE, image_source="library")
        yield found


def quiet() -> Output:
    """Of a command with --json."""
    return Output(json=True, verbose=False)


def push(doctor: Doctor, layout: Path, *, again: bool = False) -> PushReport:
    """`tpuflex library image push --layout`."""
    return push_image(doctor.cloud, REFERENCE, IMAGE.layout(layout), quiet(), again=again)


def objects(doctor: Doctor) -> dict[str, Any]:
    """What is in the library's bucket, by name."""
    listed = doctor.call("GET", f"storage/v1/b/{BUCKET}/o").get("items", [])
    return {each["name"]: each for each in listed}


def remove(doctor: Doctor, name: str) -> None:
    """Delete an object."""
    doctor.remove(f"storage/v1/b/{BUCKET}/o/{name.replace('/', '%2F')}")


def test_an_image_is_a_set_of_its_blobs(doctor: Doctor, tmp_path: Path) -> None:
    """The bucket has the image's blobs below its digest and a manifest, which has the same hash
    wherever and however often it is pushed; the second push sends nothing, one with --again all."""
    (tmp_path / "layout" / "blobs" / "sha256").mkdir(parents=True)
    (tmp_path / "layout" / "blobs" / "sha256" / ("a" * 64)).write_bytes(b"of another image")
    first = push(doctor, tmp_path / "layout")
    second = push(doctor, tmp_path / "other")
    third = push(doctor, tmp_path / "other", again=True)

    names = {f"{PREFIX}/blobs/sha256/{sha256}" for sha256 in IMAGE.blobs}
    assert set(objects(doctor)) == {*names, f"{PREFIX}/MANIFEST.json"}
    assert image_prefix(REFERENCE) == PREFIX
    assert len(first.sent) == len(third.sent) == len(IMAGE.blobs)
    assert second.sent == ()
    assert {first.manifest.sha256, second.manifest.sha256} == {third.manifest.sha256}
    assert first.manifest.revision == IMAGE.digest
    metadata = objects(doctor)[f"{PREFIX}/MANIFEST.json"]["metadata"]
    assert metadata["tpuflex-source"] == "vllm/vllm-tpu"


@pytest.mark.parametrize("broken", ["gone", "altered layer", "altered config", "other"])
def test_a_layout_that_is_not_the_image_is_refused(
    doctor: Doctor, tmp_path: Path, broken: str
) -> None:
    """Nothing is sent of blobs that are missing or have another content than their digest says."""
    layout = IMAGE.layout(tmp_path / "layout") / "blobs" / "sha256"
    large = max(IMAGE.blobs, key=lambda name: len(IMAGE.blobs[name]))
    if broken == "gone":
        (layout / large).unlink()
    elif broken == "altered layer":
        (layout / large).write_bytes(IMAGE.blobs[large][:-1] + b"x")
    elif broken == "altered config":
        (layout / IMAGE.config).write_bytes(b"{}")
    else:
        image(layer("a", b"1")).layout(tmp_path / "other")
        layout = tmp_path / "other" / "blobs" / "sha256"
    with pytest.raises(WeightsError):
        push_image(doctor.cloud, REFERENCE, layout.parents[1], quiet(), again=False)
    assert objects(doctor) == {}


@pytest.mark.parametrize("kind", ["schema 2", "converted"])
def test_an_image_of_dockers_own_kind(doctor: Doctor, tmp_path: Path, kind: str) -> None:
    """A layout that has Docker's manifest under its own digest is taken. One whose manifest was
    converted to OCI has another digest, which is named, with the tool that converts nothing."""
    (tmp_path / "index.json").write_text(
        json.dumps({"manifests": [{"digest": f"sha256:{IMAGE.manifest}"}]})
    )
    document = json.loads(IMAGE.blobs[IMAGE.manifest])
    document["mediaType"] = "application/vnd.docker.distribution.manifest.v2+json"
    text = json.dumps(document).encode()
    reference = f"vllm/vllm-tpu@sha256:{hashlib.sha256(text).hexdigest()}"
    layout = IMAGE.layout(tmp_path)
    if kind == "schema 2":
        (layout / "blobs" / "sha256" / reference[-64:]).write_bytes(text)
        report = push_image(doctor.cloud, reference, layout, quiet(), again=False)
        assert f"blobs/sha256/{reference[-64:]}" in report.sent
        return
    with pytest.raises(WeightsError, match=f"what it lists: sha256:{IMAGE.manifest}") as caught:
        push_image(doctor.cloud, reference, layout, quiet(), again=False)
    assert f"crane pull --format=oci {reference}" in caught.value.hint
    assert objects(doctor) == {}


def test_two_pushes_of_one_image_do_not_meet(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each fetches into the same directory and removes it: the second one begins when the first has
    removed it, and says that it waits."""
    cloud, inside = doctor.cloud, threading.Event()
    order: list[bool] = []
    said = threading.Event()

    def fetch(_cloud: Cloud, _image: str, directory: Path, _output: Output) -> Image:
        order.append(directory.exists())
        layout = IMAGE.layout(directory)
        if not inside.is_set():
            inside.set()
            assert said.wait(60)  # the other one is at the lock
        return read_layout(REFERENCE, layout)

    class Second(Output):
        def progress(self, text: str) -> None:
            super().progress(text)
            said.set()

    def other() -> PushReport:
        assert inside.wait(60)
        output = Second(json=True, verbose=False)
        return push_image(cloud, REFERENCE, None, output, again=False)

    monkeypatch.setattr(library_image, "_fetch", fetch)
    with ThreadPoolExecutor() as pool:
        second = pool.submit(other)
        first = push_image(cloud, REFERENCE, None, quiet(), again=False)
        assert second.result().sent == ()
    assert len(first.sent) == len(IMAGE.blobs)
    assert order == [False, False]
    assert "Another push of" in capsys.readouterr().err
    assert not (doctor.stack.project.home / "images" / REFERENCE[-64:]).exists()


def test_in_a_rehearsal_the_registry_has_no_content(doctor: Doctor) -> None:
    """The embedded cloud's registries list images and keep none: the push says so, and which
    layout it takes instead."""
    with pytest.raises(WeightsError, match=r"another content than its digest says.*\n.*--layout"):
        push_image(doctor.cloud, REFERENCE, None, quiet(), again=False)
    assert objects(doctor) == {}


def test_the_image_is_looked_at_before_chips_are_asked_for(doctor: Doctor, tmp_path: Path) -> None:
    """`doctor` and `up` refuse an image that is not in the library, or not whole, or not the
    planned one, by the kind of the error and with the command that brings it."""
    push_it = "tpuflex --stack dev library image push"
    missing = doctor.checks()["image"]
    with pytest.raises(NotFoundError, match="the library has no such image"):
        require_ready(doctor.cloud)
    report = push(doctor, tmp_path / "layout")
    unplanned = doctor.checks()["image"]
    doctor.change("serving", image_manifest_sha256=report.manifest.sha256)
    good = doctor.checks()["image"]
    require_ready(doctor.cloud)
    remove(doctor, f"{PREFIX}/blobs/sha256/{IMAGE.config}")
    damaged = doctor.checks()["image"]

    assert (missing.standing, missing.remedy) == (Standing.FAILED, push_it)
    assert (unplanned.standing, unplanned.kind) == (Standing.FAILED, WeightsError)
    assert report.manifest.sha256 in unplanned.text
    assert good.standing is Standing.OK
    assert good.text == f"gs://{BUCKET}/{PREFIX}, 0.00 GB"
    assert (damaged.standing, damaged.remedy) == (Standing.FAILED, push_it)
    assert damaged.text.endswith(": missing")
    push(doctor, tmp_path / "layout")
    assert doctor.checks()["image"].standing is Standing.OK
    for name in objects(doctor):
        remove(doctor, name)
    doctor.remove(f"storage/v1/b/{BUCKET}")
    gone = doctor.checks()["image"]
    assert gone.standing is Standing.FAILED
    assert "has no bucket in us-east5" in gone.text


def test_a_library_shows_its_images_apart_from_models(
    doctor: Doctor, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`library status` has each image with repository, digest, size, cost and last use."""
    push(doctor, tmp_path / "layout")
    found = library_contents(doctor.cloud)
    documents: list[Any] = [each.to_json() for each in found]
    show_contents(doctor.cloud, Output(json=False, verbose=False), found)
    shown = capsys.readouterr().out

    assert [each["models"] for each in documents] == [[]]
    (one,) = documents[0]["images"]
    assert one["digest"] == IMAGE.digest
    assert one["source"] == "vllm/vllm-tpu"
    assert (one["complete"], one["in_use"], one["files"]) == (True, False, len(IMAGE.blobs))
    assert one["last_used"] == doctor.cloud.now().date()
    assert f"vllm/vllm-tpu  {IMAGE.digest[:19]}…" in shown
    assert [each.prefix for each in doctor.cloud.weights.list()] == [PREFIX]


def test_an_image_with_a_blob_missing_is_not_shown_as_complete(
    doctor: Doctor, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its manifest is there, and no host could load it."""
    push(doctor, tmp_path / "layout")
    remove(doctor, f"{PREFIX}/blobs/sha256/{IMAGE.config}")
    found = library_contents(doctor.cloud)
    (document,) = [each.to_json() for each in found]
    show_contents(doctor.cloud, Output(json=False, verbose=False), found)
    run_weights_ls(doctor.cloud, Output(json=False, verbose=False))
    shown = capsys.readouterr().out

    (one,) = cast("list[dict[str, Any]]", document["images"])
    assert (one["complete"], one["wrong"]) == (False, 1)
    assert "vllm/vllm-tpu (damaged: 1 file)" in shown
    assert "  damaged, 1 file  " in shown


def test_a_node_names_the_image_that_it_loads() -> None:
    """What a host boots with says which image it loads from which bucket; most load none."""
    place = {"bucket": "b", "prefix": PREFIX}
    assert planned_image({CONFIG_KEY: json.dumps({"image": place})}) == ("b", PREFIX)
    for text in ("{}", "", "[]", '{"image": null}', '{"image": {"bucket": "b"}}'):
        assert planned_image({CONFIG_KEY: text}) is None
    assert planned_image(None) is None


def test_a_stack_without_a_library_is_told_so(doctor: Doctor) -> None:
    """The image goes where the stack's weights are."""
    require_in_library(doctor.stack)
    weights = doctor.stack.settings.model.weights.model_copy(update={"bucket": "own"})
    doctor.change("model", weights=weights)
    with pytest.raises(SettingsError) as caught:
        require_in_library(doctor.stack)
    assert isinstance(caught.value, TpuflexError)
    assert caught.value.findings[0].key == "tpuflex:model.weights.bucket"


def test_the_same_image_has_one_place_under_every_name() -> None:
    """Mirrors share it: the digest says which it is."""
    assert image_prefix(f"a/b@{IMAGE.digest}") == image_prefix(f"quay.io/c@{IN_REGISTRY.digest}")
    assert PROJECT
