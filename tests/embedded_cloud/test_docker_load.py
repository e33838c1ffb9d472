"""`docker load` on an emulated host: what the daemon would refuse is refused, and what was loaded
runs by its id without a registry."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from embedded_cloud.docker.errors import DockerError
from embedded_cloud.docker.load import LoadedImages
from tests.images import TestImage, image, layer, small_image
from tpuflex.startup.image_archive import read_image, tag_of, write_archive

NAME = "vllm/vllm-tpu"


def archive(of: TestImage, directory: Path, name: str = NAME) -> bytes:
    """What a host has docker load."""
    written = io.BytesIO()
    found = read_image(of.digest[7:], lambda sha256: of.blobs[sha256])
    write_archive(found, tag_of(f"{name}@{of.digest}"), of.layout(directory), written)
    return written.getvalue()


def test_an_image_is_known_by_its_id_and_its_tag(tmp_path: Path) -> None:
    """The id is the hash of the config; by it and by its tag the image is there, also with docker's
    short name for Docker Hub, and no other is."""
    one, host = small_image(), LoadedImages(tmp_path / "host")
    (tag,) = host.load(io.BytesIO(archive(one, tmp_path)))
    id_ = f"sha256:{one.config}"
    assert tag == f"docker.io/{NAME}:sha256-{one.digest[7:]}"
    for name in (id_, tag, tag.removeprefix("docker.io/")):
        assert host.find(name) == (id_, tag)
        assert host.reference(name) == f"docker.io/{NAME}@{id_}"
    assert host.find("vllm/vllm-tpu") is None
    assert host.reference("vllm/other@sha256:1") == "vllm/other@sha256:1"
    with pytest.raises(DockerError, match="No such image"):
        host.reference("sha256:" + "0" * 64)


def _cut(whole: bytes) -> bytes:
    return whole[: len(whole) // 2]


def test_what_is_no_archive_is_refused(tmp_path: Path) -> None:
    """An archive that was cut short, or is something else, leaves no image."""
    host = LoadedImages(tmp_path / "host")
    whole = archive(small_image(), tmp_path)
    for broken in (b"", b"no archive at all", _cut(whole)):
        with pytest.raises(DockerError, match="Error processing tar file"):
            host.load(io.BytesIO(broken))
    assert host.find(tag_of(f"{NAME}@{small_image().digest}")) is None


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (image(layer("a", b"1"), diff_ids=["sha256:" + "1" * 64]), "invalid diffID for layer 0"),
    ],
)
def test_a_layer_that_the_config_does_not_name_is_refused(
    tmp_path: Path, other: TestImage, said: str
) -> None:
    """As the daemon, it compares what a layer is when it is unpacked."""
    host = LoadedImages(tmp_path / "host")
    with pytest.raises(DockerError, match=said):
        host.load(io.BytesIO(archive(other, tmp_path)))
    assert host.find(f"sha256:{other.config}") is None


def test_the_command_reads_what_is_piped_to_it(tmp_path: Path) -> None:
    """`docker load --quiet` as a startup script calls it, and `docker image inspect` afterwards."""
    one = small_image()
    environment = {
        **os.environ,
        "TPUFLEX_HOST_DIR": str(tmp_path / "host"),
        "TPUFLEX_HOME": str(tmp_path / "home"),
    }
    docker = [sys.executable, "-P", "-m", "embedded_cloud.docker"]
    told = subprocess.run(
        [*docker, "load", "--quiet"],
        input=archive(one, tmp_path),
        capture_output=True,
        env=environment,
        check=True,
    )
    tag = told.stdout.decode().removeprefix("Loaded image: ").strip()
    found = subprocess.run(
        [*docker, "image", "inspect", tag], capture_output=True, env=environment, check=True
    )
    assert json.loads(found.stdout) == [{"Id": f"sha256:{one.config}", "RepoTags": [tag]}]
    missing = subprocess.run(
        [*docker, "image", "inspect", tag.replace("vllm-tpu", "other")],
        capture_output=True,
        env=environment,
        check=False,
    )
    assert missing.returncode != 0
