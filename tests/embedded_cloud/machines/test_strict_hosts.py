"""Hosts as real ones may be: without docker, with little memory, not coming up, images to pull."""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from embedded_cloud.core.json_types import JsonObject
from embedded_cloud.core.strictness import LENIENT, Docker, Hosts, Strictness
from embedded_cloud.machines.docker.containers import DockerError
from embedded_cloud.machines.docker.pull import HostImages
from embedded_cloud.machines.hosts.commands import commands
from embedded_cloud.machines.hosts.guest_attributes import GuestAttributes
from embedded_cloud.machines.images import REPOSITORY, read_lock
from embedded_cloud.server import EmbeddedCloud
from embedded_cloud.strict.book import STRICT
from tests.embedded_cloud.api import PROJECT, TOKEN, ZONE, Api, error_of, flex_start
from tpuflex.catalog.catalog import builtin
from tpuflex.errors import EmulatorError

NODE = f"projects/{PROJECT}/locations/{ZONE}/nodes/n1"
DIGEST = "sha256:" + "ab" * 32
POLICY: JsonObject = {"constraints": {"compute.disableGuestAttributesAccess": True}}


def sh(directory: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run one of the commands in ``directory``."""
    return subprocess.run(
        [str(directory / words[0]), *words[1:]],
        capture_output=True,
        text=True,
        check=False,
        env={
            "PATH": "/usr/bin:/bin",
            "TPUFLEX_HOST_DIR": str(directory),
            "TPUFLEX_HOME": "/x",
            "TPUFLEX_ROOT": str(directory / "root"),
        },
    )


def installed(directory: Path, strictness: Strictness) -> Path:
    """The commands of a host, as files."""
    for name, text in commands(strictness).items():
        (directory / name).write_text(text)
        (directory / name).chmod(0o755)
    return directory


def test_iptables_knows_the_rules_that_were_inserted(tmp_path: Path) -> None:
    """A rule is there once it was inserted, in its chain alone, and any other kind is refused."""
    binaries = installed(tmp_path, LENIENT)
    (tmp_path / "root" / "run").mkdir(parents=True)
    rule = ("--in-interface", "tpuflex0", "--destination", "10.0.0.0/8", "--jump", "DROP")

    def code(verb: str, *words: str) -> int:
        return sh(binaries, "iptables", "--wait", "30", verb, *words).returncode

    assert code("--check", "INPUT", *rule) == 1
    assert code("--insert", "INPUT", "1", *rule) == 0
    assert code("--insert", "INPUT", "1", *rule[:2], *rule[-2:]) == 0
    assert code("--check", "INPUT", *rule) == 0
    assert code("--check", "DOCKER-USER", *rule) == 1
    assert code("--delete", "INPUT", *rule) == 2
    for other in (
        ("OUTPUT", *rule),
        ("INPUT", *rule[2:]),
        ("INPUT", *rule[:-1], "ACCEPT"),
        ("INPUT", "--not--in-interface", *rule[1:]),
        ("INPUT", " ".join(rule[:2]), *rule[2:]),
        ("INPUT", "--in-interface", f"x\n{' '.join(('INPUT', *rule))}", *rule[2:]),
    ):
        assert code("--insert", *other) == 2
        assert code("--check", *other) == 2


def test_iptables_writes_nothing_of_the_machine(tmp_path: Path) -> None:
    """Where no host is named, there is no list of rules to write to."""
    binaries = installed(tmp_path, LENIENT)
    words = ("--insert", "INPUT", "1", "--in-interface", "tpuflex0", "--jump", "DROP")
    for environ in ({}, {"TPUFLEX_ROOT": ""}):
        done = subprocess.run(
            [str(binaries / "iptables"), *words],
            capture_output=True,
            text=True,
            check=False,
            env=environ,
        )
        assert done.returncode == 2
        assert "TPUFLEX_ROOT" in done.stderr


def test_docker_that_is_absent_can_be_installed(tmp_path: Path) -> None:
    """Docker is a command that is not there until apt-get has installed it."""
    binaries = installed(tmp_path, Strictness(docker=Docker(preinstalled=False)))
    assert sh(binaries, "docker", "--version").returncode == 127
    assert sh(binaries, "apt-get", "--quiet", "update").returncode == 0
    assert sh(binaries, "apt-get", "install", "--yes", "docker.io", "-q").returncode == 0
    assert "Server Version" in sh(binaries, "docker", "--version").stdout
    assert sh(binaries, "apt-get", "install", "--yes", "nginx", "-q").returncode == 100


def test_docker_that_cannot_be_installed(tmp_path: Path) -> None:
    """Without a mirror, apt-get fails in its own words."""
    binaries = installed(tmp_path, Strictness(docker=Docker(False, False)))
    refused = sh(binaries, "apt-get", "update")
    assert refused.returncode == 100
    assert refused.stderr.startswith("E: Failed to fetch http://")


def test_memory_has_a_size(tmp_path: Path) -> None:
    """What is free is the size without what is there, and never negative."""
    binaries = installed(tmp_path, Strictness(hosts=Hosts(shm_bytes=1_000_000)))
    place = tmp_path / "memory"
    place.mkdir()
    (place / "a").write_bytes(b"x" * 300_000)
    free = int(
        sh(binaries, "df", "--output=avail", "--block-size=1", str(place)).stdout.split()[-1]
    )
    assert 690_000 < free <= 700_000
    (place / "b").write_bytes(b"x" * 900_000)
    assert sh(binaries, "df", str(place)).stdout.split() == ["Avail", "0"]


def test_the_memory_of_strict_hosts_is_half_of_a_small_ones() -> None:
    """A v6e-1 host has 176 GiB, of which Linux gives /dev/shm half at most."""
    ram = builtin().accelerators["v6e-1"].ram_gb_per_host
    assert ram is not None
    assert (STRICT.hosts.shm_bytes or 0) <= ram * 2**30 // 2


@pytest.fixture
def stubs(tmp_path: Path) -> Iterator[EmbeddedCloud]:
    """A cloud whose hosts are READY at once."""
    with EmbeddedCloud(tmp_path / "emulator", token=TOKEN, stub_hosts=True) as running:
        yield running


def reported(cloud: EmbeddedCloud, **node: Any) -> list[Any]:
    """What the host of a node reports."""
    made = Api(cloud.url).create(body=flex_start(**node))
    assert made.status_code == 200, made.text
    cloud.advance(600)
    return GuestAttributes(cloud.store).query(NODE, 0, "")


def test_secure_boot_may_keep_a_host_from_coming_up(stubs: EmbeddedCloud) -> None:
    """A host that does not come up reports nothing at all; its node is READY."""
    stubs.cloud.strictness.change({"hosts": {"secure_boot_boots": False}})
    assert reported(stubs, shieldedInstanceConfig={"enableSecureBoot": True}) == []
    assert Api(stubs.url).node_state() == "READY"


def test_a_policy_refuses_to_read_guest_attributes(stubs: EmbeddedCloud) -> None:
    """With the policy, reading is refused with its name."""
    stubs.cloud.strictness.change({"organization_policies": POLICY})
    assert reported(stubs) == []
    answer = Api(stubs.url).tpu("POST", "nodes/n1:getGuestAttributes", body={})
    status, code, message = error_of(answer)
    assert (status, code) == (400, "INVALID_ARGUMENT")
    assert "constraints/compute.disableGuestAttributesAccess violated" in message


def test_what_was_never_written_is_not_found(cloud: EmbeddedCloud, api: Api) -> None:
    """Before its first report, a strict host has no such namespace; a lenient one is empty."""
    api.create()
    cloud.advance(600)
    ask = {"queryPath": "tpuflex/"}
    lenient = api.tpu("POST", "nodes/n1:getGuestAttributes", body=ask)
    assert lenient.status_code == 200
    cloud.cloud.strictness.change({"guest_attributes": {"unknown_answers_404": True}})
    status, _, message = error_of(api.tpu("POST", "nodes/n1:getGuestAttributes", body=ask))
    assert status == 404
    assert message == "The resource 'tpuflex/' of type 'Guest Attribute' was not found."


def test_an_image_is_pulled_with_credentials(
    cloud: EmbeddedCloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A strict registry refuses docker without a login, in docker's words, and the host has the
    image once it was pulled with one."""
    registry = "us-east5-docker.pkg.dev"
    image = f"{registry}/{PROJECT}/mirror/vllm@{DIGEST}"
    api = Api(cloud.url)
    repositories = f"v1/projects/{PROJECT}/locations/us-east5/repositories"
    api.call("POST", repositories, body={"format": "DOCKER"}, repositoryId="mirror")
    cloud.cloud.strictness.change({"registry": {"token_required": True}})
    environ = {"TPUFLEX_REGISTRY": f"{cloud.url}/registry"}
    with pytest.raises(DockerError, match="denied: Unauthenticated request"):
        HostImages(tmp_path, environ).pull(image)
    auth = base64.b64encode(f"oauth2accesstoken:{TOKEN}".encode()).decode()
    document = {"auths": {registry: {"auth": auth}}}
    (tmp_path / "config.json").write_text(json.dumps(document))
    images = HostImages(tmp_path, {**environ, "DOCKER_CONFIG": str(tmp_path)})
    assert not images.has(image)
    images.pull(image)
    assert images.has(image)
    monkeypatch.delenv("TPUFLEX_REGISTRY", raising=False)
    assert HostImages(tmp_path, os.environ).has("another@sha256:1")


@pytest.mark.parametrize(
    ("rules", "name", "said"),
    [
        ({"anonymous_pulls_per_hour": 0}, "vllm/vllm-tpu", "daemon: toomanyrequests: You have"),
        (
            {"repository_requests_per_minute": 0},
            f"us-east5-docker.pkg.dev/{PROJECT}/mirror/vllm",
            "daemon: toomanyrequests: Quota exceeded",
        ),
        ({"absent": [DIGEST]}, "quay.io/a/b", "manifest unknown: manifest unknown"),
        ({"absent": []}, f"gcr.io/{PROJECT}/vllm", 'name unknown: Repository "gcr.io" not found'),
    ],
)
def test_a_pull_fails_in_dockers_words(
    cloud: EmbeddedCloud, tmp_path: Path, rules: dict[str, Any], name: str, said: str
) -> None:
    """The limits of Docker Hub and Artifact Registry, what is not there."""
    cloud.cloud.strictness.change({"registry": rules})
    with pytest.raises(DockerError, match=said):
        HostImages(tmp_path, {"TPUFLEX_REGISTRY": f"{cloud.url}/registry"}).pull(f"{name}@{DIGEST}")


def test_the_embedded_image_may_come_through_a_mirror() -> None:
    """An image is what its digest says, whichever registry it comes from."""
    lock = read_lock()
    lock.require(f"us-east5-docker.pkg.dev/{PROJECT}/dockerhub/{REPOSITORY}@sha256:{lock.digest}")
    with pytest.raises(EmulatorError, match="has no container engine"):
        lock.require(f"us-east5-docker.pkg.dev/{PROJECT}/dockerhub/vllm@sha256:{lock.digest}")
