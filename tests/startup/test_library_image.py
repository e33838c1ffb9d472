"""The image from the library: its blobs are fetched and checked as weights are, and docker is given
nothing that the image's digest does not name."""

from __future__ import annotations

import hashlib
import json
import tarfile
from collections.abc import Callable

import pytest

from tests.images import TestImage, image, layer, sha256, small_image
from tests.startup.cloud import manifest_of
from tests.startup.host import StartupHost, StartupRun
from tpuflex.startup.image_archive import (
    MAX_DOCUMENT_BYTES,
    ImageError,
    read_image,
    tag_of,
)

IMAGE = small_image()
NAME = "vllm/vllm-tpu"
PREFIX = f"images/sha256/{IMAGE.digest.removeprefix('sha256:')}"
PUSH = "tpuflex --stack dev library image push"


def put(host: StartupHost, files: dict[str, bytes], *, planned: str = "") -> None:
    """Put an image's files into the bucket, and have the host boot with it."""
    text = json.dumps(manifest_of(files, part_bytes=8192)).encode()
    host.cloud.objects |= {f"{PREFIX}/{path}": content for path, content in files.items()}
    host.cloud.objects[f"{PREFIX}/MANIFEST.json"] = text
    config = host.config()
    host.cloud.config = {
        **config,
        "container": config["container"] | {"image": f"{NAME}@{IMAGE.digest}"},
        "image": {
            "bucket": "bucket-2",
            "prefix": PREFIX,
            "manifest": "MANIFEST.json",
            "manifest_sha256": planned or hashlib.sha256(text).hexdigest(),
        },
        "commands": config["commands"] | {"image": PUSH},
    }


def refused(host: StartupHost, run: StartupRun) -> str:
    """The error of a run that must not have loaded or served anything."""
    assert run.status != 0
    assert not (host.directory / "loaded.tar").exists()
    assert host.docker_calls("run") == []
    return host.cloud.last("error")


def test_it_is_loaded_and_run_by_its_id_and_no_registry_is_asked(host: StartupHost) -> None:
    """A host whose image is in the library fetches its blobs in ranges beside the weights, loads
    them, runs the image by the hash of its config, and keeps no copy in memory. No pull."""
    put(host, IMAGE.files())
    assert host.run().status == 0
    assert host.cloud.phases()[-1] == "READY"
    assert host.docker_calls("pull") == []
    (run,) = host.docker_calls("run")
    assert f"sha256:{IMAGE.config}" in run.split()
    largest = max(IMAGE.blobs, key=lambda name: len(IMAGE.blobs[name]))
    assert len([name for name, _ in host.cloud.ranges if name == largest]) > 3
    assert not host.memory("image").exists()
    assert set(host.weights()) == {
        "config.json",
        "empty.txt",
        "model-1.safetensors",
        "nested/model-2.safetensors",
    }
    assert "image: the image is there; weights: " in host.cloud.details()
    with tarfile.open(host.directory / "loaded.tar") as archive:
        assert archive.extractfile("manifest.json") is not None
        names = archive.getnames()
    wanted = set(IMAGE.files()) - {f"blobs/sha256/{IMAGE.digest.removeprefix('sha256:')}"}
    assert set(names) == {"oci-layout", "index.json", "manifest.json"} | wanted


def test_the_archive_names_the_image_and_its_layers_in_order(host: StartupHost) -> None:
    """What docker loads has the image's name with the digest for a tag, for both of its stores."""
    put(host, IMAGE.files())
    assert host.run().status == 0

    def document(path: str) -> object:
        with tarfile.open(host.directory / "loaded.tar") as archive:
            file = archive.extractfile(path)
            assert file is not None
            return json.load(file)

    tag = f"docker.io/{NAME}:sha256-{IMAGE.digest.removeprefix('sha256:')}"
    manifest = json.loads(IMAGE.blobs[IMAGE.manifest])
    layers = [f"blobs/sha256/{each['digest'][7:]}" for each in manifest["layers"]]
    config = f"blobs/sha256/{IMAGE.config}"
    assert document("manifest.json") == [{"Config": config, "RepoTags": [tag], "Layers": layers}]
    index = document("index.json")
    assert isinstance(index, dict)
    (described,) = index["manifests"]
    assert described["digest"] == f"sha256:{IMAGE.manifest}"
    assert described["size"] == len(IMAGE.blobs[IMAGE.manifest])
    assert described["annotations"]["io.containerd.image.name"] == tag


def test_after_a_reboot_it_is_not_fetched_again(host: StartupHost) -> None:
    """Docker has it on disk: the next boot asks the library for nothing of it."""
    put(host, IMAGE.files())
    assert host.run().status == 0
    asked = host.cloud.asked(PREFIX)
    host.reboot()
    assert host.run().status == 0
    assert host.cloud.asked(PREFIX) == asked
    assert len(host.docker_calls("load")) == 1


def test_a_killed_boot_goes_on_with_the_parts_that_were_checked(host: StartupHost) -> None:
    """What was checked before a kill is not fetched again."""
    put(host, IMAGE.files())
    host.mark("load-broken")
    assert "no space left on device" in refused(host, host.run())
    before = host.cloud.asked(f"{PREFIX}/blobs")
    (host.directory / "load-broken").unlink()
    assert host.run().status == 0
    assert host.cloud.asked(f"{PREFIX}/blobs") == before


def _other_layer(files: dict[str, bytes]) -> None:
    """A layer of another content under the right name."""
    layers = json.loads(IMAGE.blobs[IMAGE.manifest])["layers"]
    path = f"blobs/sha256/{layers[1]['digest'][7:]}"
    files[path] = files[path][:-1] + bytes([files[path][-1] ^ 1])


def _other_config(files: dict[str, bytes]) -> None:
    path = f"blobs/sha256/{IMAGE.config}"
    files[path] = files[path].replace(b"linux", b"LINUX")


def _without_layer(files: dict[str, bytes]) -> None:
    layers = json.loads(IMAGE.blobs[IMAGE.manifest])["layers"]
    del files[f"blobs/sha256/{layers[0]['digest'][7:]}"]


def _more(files: dict[str, bytes]) -> None:
    files["blobs/sha256/" + "a" * 64] = b"more"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_other_config, "has another content than its digest says"),
        (_without_layer, "its blobs are not those that its manifest names"),
        (_more, "its blobs are not those that its manifest names"),
    ],
)
def test_what_the_digest_does_not_name_is_not_loaded(
    host: StartupHost, change: Callable[[dict[str, bytes]], None], said: str
) -> None:
    """Even with the planned manifest: blobs that are not the image's are refused before docker has
    any of them, with what to do."""
    files = IMAGE.files()
    change(files)
    put(host, files)
    error = refused(host, host.run())
    assert error.startswith("image-digest: what gs://bucket-2/images/sha256/")
    assert said in error
    assert error.endswith(f"Run: {PUSH} --again")


def test_another_manifest_than_the_planned_one_is_refused(host: StartupHost) -> None:
    """Whoever writes to the library changes nothing for a node that was made before."""
    put(host, IMAGE.files(), planned="0" * 64)
    error = refused(host, host.run())
    assert error.startswith("image-changed: MANIFEST.json in gs://bucket-2/images/sha256/")
    assert "somebody changed the image after `up`" in error
    assert PUSH in error


def test_an_altered_part_is_refused(host: StartupHost) -> None:
    """A blob that does not match the manifest is not loaded."""
    put(host, IMAGE.files())
    altered: dict[str, bytes] = IMAGE.files()
    _other_layer(altered)
    host.cloud.objects |= {f"{PREFIX}/{path}": content for path, content in altered.items()}
    error = refused(host, host.run())
    assert error.startswith("image-checksum: blobs/sha256/")
    assert error.endswith(f"run: {PUSH} --again")


def test_one_that_is_not_there_is_waited_for_and_then_told(host: StartupHost) -> None:
    """Without the image in the library the host says what to run, and gives up after a while."""
    put(host, IMAGE.files())
    del host.cloud.objects[f"{PREFIX}/MANIFEST.json"]
    error = refused(host, host.run())
    assert error.startswith("image-missing: gave up after 30 s waiting for MANIFEST.json; run: ")
    assert PUSH in error


def test_an_image_that_docker_takes_for_another_is_not_run(host: StartupHost) -> None:
    """The id under which docker has it must be that of the digest."""
    put(host, IMAGE.files())
    host.mark("other-image")
    run = host.run()
    assert run.status != 0
    assert host.docker_calls("run") == []
    error = host.cloud.last("error")
    said = "image-digest: docker gives the image that it has loaded the id sha256:"
    assert error.startswith(said + "0" * 64)


@pytest.mark.parametrize(
    "part",
    [{"bucket": "B"}, {"prefix": ""}, {"manifest": "a/b"}, {"manifest_sha256": "1"}, {"bucket": 1}],
)
def test_a_configuration_that_is_not_valid_is_refused(
    host: StartupHost, part: dict[str, object]
) -> None:
    """The place of the image is checked like that of the weights."""
    put(host, IMAGE.files())
    assert host.cloud.config is not None
    host.cloud.config["image"] |= part
    error = refused(host, host.run())
    assert error.startswith(f"config: tpuflex-config: image.{next(iter(part))} is not valid")


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (image(layer("a", b"1"), architecture="arm64", index=False), "linux/arm64"),
        (image(layer("a", b"1"), architecture="arm64"), "has no manifest for linux/amd64"),
        (image(layer("a", b"1"), diff_ids=[]), ""),
        (image(layer("a", b"1"), diff_ids=["sha256:1", "sha256:2"]), "not as many layers"),
    ],
)
def test_an_image_for_something_else_is_refused(
    host: StartupHost, other: TestImage, said: str
) -> None:
    """Other platforms and documents that contradict each other are not loaded."""
    put(host, other.files())
    assert host.cloud.config is not None
    host.cloud.config["container"] |= {"image": f"{NAME}@{other.digest}"}
    run = host.run()
    if said:
        assert said in refused(host, run)
    else:
        assert run.status == 0


def test_docker_names_images_as_its_users_write_them() -> None:
    """The tag under which an image is kept follows docker's own reading of names."""
    digest = "sha256:" + "ab" * 32
    for written, kept in {
        "vllm": "docker.io/library/vllm",
        "vllm/vllm-tpu": "docker.io/vllm/vllm-tpu",
        "vllm/vllm-tpu:v1": "docker.io/vllm/vllm-tpu",
        "index.docker.io/vllm/vllm-tpu": "docker.io/vllm/vllm-tpu",
        "localhost/a": "localhost/a",
        "example.com:5000/a/b:1": "example.com:5000/a/b",
        "us-docker.pkg.dev/p/r/vllm-tpu": "us-docker.pkg.dev/p/r/vllm-tpu",
    }.items():
        assert tag_of(f"{written}@{digest}") == f"{kept}:sha256-{'ab' * 32}"


def test_a_blob_is_in_the_archive_once() -> None:
    """Layers may repeat: the archive has each blob once, and is the same every time."""
    twice = image(layer("a", b"1"), layer("a", b"1"), index=False)
    found = read_image(twice.digest[7:], lambda name: twice.blobs[name])
    assert len(found.layers) == 2
    assert {blob.sha256 for blob in found.blobs} == set(twice.blobs)


def test_a_document_without_an_end_is_not_read() -> None:
    """What is longer than a document of an image may be is refused before it is parsed."""
    long = b" " * (MAX_DOCUMENT_BYTES + 1)
    with pytest.raises(ImageError, match="longer"):
        read_image(sha256(long), lambda _: long)


def test_one_that_was_refused_is_not_run_at_the_next_boot(host: StartupHost) -> None:
    """Docker keeps what it has loaded: a later run of the script compares it, too."""
    put(host, IMAGE.files())
    host.mark("other-image")
    assert host.run().status != 0
    assert host.run().status != 0
    assert host.docker_calls("run") == []
    assert host.cloud.last("error").startswith("image-digest: docker gives the image")
