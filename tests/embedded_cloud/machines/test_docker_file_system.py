"""Containers with mounts of their own: targets alone are seen, /dev/shm fills up, nothing of the
host shows; and the memory of a host, which fills up, too."""

from __future__ import annotations

import dataclasses
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from embedded_cloud.core.errors import CloudError
from embedded_cloud.core.store import Store
from embedded_cloud.machines import namespace
from embedded_cloud.machines.docker.containers import DockerError
from embedded_cloud.machines.images import embedded_image, image_directory, read_lock
from embedded_cloud.machines.namespace import OWN_MOUNTS_VARIABLE, Plan
from embedded_cloud.server import EmbeddedCloud
from embedded_cloud.strict.book import STRICT, StrictnessBook
from tests.embedded_cloud.api import AT_ONCE, TOKEN, Api, eventually, flex_start
from tests.embedded_cloud.machines.test_docker_containers import Host

#: The other tests are about machines that have them, and about those that have none.
with_namespaces = pytest.mark.skipif(
    bool(namespace.refusal()), reason="this machine lets its user have no mount namespaces"
)


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    """A host with mounts of its own, and a directory of weights."""
    monkeypatch.setenv(OWN_MOUNTS_VARIABLE, "1")
    host = Host(tmp_path)
    (weights := weights_of(host)).mkdir(parents=True)
    (weights / "model").write_text("checked")
    yield host
    for container in host.containers.all():
        host.containers.remove(container)


def weights_of(host: Host) -> Path:
    return host.containers.root / "run" / "tpuflex" / "weights"


def ended(host: Host) -> tuple[int, list[str]]:
    """The exit code of the container called box, and its log."""
    eventually(lambda: host.inspect()["State"]["Status"] == "exited")
    return int(host.inspect()["State"]["ExitCode"]), host.docker("logs", "box").splitlines()


@with_namespaces
@pytest.mark.parametrize("target", ["/weights", "/usr/share/of-no-image/weights"])
def test_a_mount_is_seen_at_its_target_alone(host: Host, target: str) -> None:
    """As under docker: the target has the files, read-only; the source and all else of the
    host and of tpuflex is not there; and the machine has no trace of the target."""
    source = weights_of(host)
    (host.home / "token").write_text("of the owner")
    script = (
        f"cat {target}/model; echo; cat {source}/model; ls {host.home}; ls {host.containers.host};"
        f"echo more >{target}/more; pwd; echo mine >mine"
    )
    host.start(script, "--mount", f"type=bind,source={source},target={target},readonly")
    _, said = ended(host)
    assert said[0] == "checked"
    assert f"cat: {source}/model: No such file or directory" in said
    assert not {"token", "containers"} & set(said)
    assert any("Read-only file system" in line for line in said)
    assert said[-1] == str(host.containers.files("box"))
    assert (host.containers.files("box") / "mine").read_text() == "mine\n"
    assert [path.name for path in source.iterdir()] == ["model"]
    assert not Path(target).exists()
    (mount,) = host.inspect()["Mounts"]
    assert (mount["Source"], mount["Destination"], mount["RW"]) == (str(source), target, False)


@with_namespaces
@pytest.mark.parametrize(
    ("options", "size"), [((), 64 * 2**20), (("--shm-size", "128k"), 128 * 2**10)]
)
def test_shared_memory_fills_up(host: Host, options: tuple[str, ...], size: int) -> None:
    """K6, K9: /dev/shm has docker's 64 MiB, or --shm-size, and then no space is left on it."""
    place = "/dev/shm/all"
    fill = f"head -c {size} /dev/zero >{place} && echo full; head -c 1 /dev/zero >>{place}"
    host.start(f"{fill}; stat -c %s {place}", *options)
    _, said = ended(host)
    assert said[0] == "full"
    assert "No space left on device" in said[1]
    assert said[2] == str(size)
    assert not Path("/dev/shm/all").exists()


@with_namespaces
def test_a_container_on_a_bridge_has_its_devices(host: Host) -> None:
    """Network and mounts of its own, together: the device that it was given is there."""
    device = host.containers.root / "dev" / "vfio" / "0"
    device.parent.mkdir(parents=True)
    device.symlink_to("/dev/null")
    host.docker("network", "create", "tpuflex")
    rights = ["--cap-drop", "ALL", "--security-opt", "no-new-privileges"]
    words = ["run", "-d", "--name", "box", "--network", "tpuflex", *rights]
    shell = ["--entrypoint", "/bin/sh", embedded_image(), "-c"]
    script = f"test -c {device} && echo device; ls {device.parent}; cat /proc/net/route | wc -l"
    host.docker(*words, "--device", str(device), *shell, script)
    assert ended(host) == (0, ["device", "0", "1"])


def test_two_mounts_cannot_share_a_target(host: Host) -> None:
    """docker's own refusal."""
    weights = weights_of(host)
    with pytest.raises(DockerError, match="Duplicate mount point: /w"):
        host.start("true", "-v", f"{weights}:/w", "-v", f"{weights}:/w")


@with_namespaces
def test_the_memory_of_a_host_fills_up(tmp_path: Path) -> None:
    """A host's memory is a file system of the size that strictness says, which a container may
    see; it is gone with the host."""
    home = tmp_path
    image = image_directory(read_lock(), home)
    image.mkdir(parents=True)
    (image / "complete").touch()
    script = f"""#!/bin/bash
memory=$TPUFLEX_ROOT/run/tpuflex/memory
df --output=avail --block-size=1 "$memory" | tail -n 1
head -c 1000000 /dev/zero >"$memory/weights"
echo checked >"$memory/model"
head -c 2000000 /dev/zero >>"$memory/weights" || echo "no room: $?"
docker run -d --name box --network host -v "$memory:/weights:ro" --entrypoint /bin/cat \\
    {embedded_image()} /weights/model >/dev/null
until docker logs box | grep checked; do sleep 0.05; done
"""
    hosts: Any = {"hosts": {"own_mounts": True, "shm_bytes": 2_097_152}}
    with EmbeddedCloud(
        home / "emulator", token=TOKEN, capacity=AT_ONCE, launch_hosts=True, strictness=hosts
    ) as cloud:
        api = Api(cloud.url)
        assert api.create(body=flex_start(metadata={"startup-script": script})).ok
        eventually(lambda: bool(cloud.cloud.hosts.describe()))
        (described,) = cloud.cloud.hosts.describe()
        log = Path(str(described["serial_log"]))
        eventually(lambda: log.exists() and "\nchecked" in log.read_text(), within=60)
        seen_from_outside = list(Path(str(described["root"]), "run/tpuflex/memory").iterdir())
    said = log.read_text()
    assert said.splitlines()[0].strip() == "2097152"
    assert "No space left on device\nno room: 1\n" in said
    assert seen_from_outside == []


def test_a_machine_without_namespaces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where they cannot be had, `strict` goes without, a wish is refused with the reason, and
    docker refuses a mount elsewhere rather than show it where it is."""
    monkeypatch.setattr(namespace, "refusal", lambda: "unshare: Operation not permitted")
    book = StrictnessBook(Store(tmp_path / "store.sqlite"))
    lesser = dataclasses.replace(STRICT.hosts, own_mounts=False)
    assert book.use("strict").hosts == book.current().hosts == lesser
    with pytest.raises(CloudError, match=r"own_mounts: .* none \(unshare: Operation not"):
        book.change({"hosts": {"own_mounts": True}})
    monkeypatch.delenv(OWN_MOUNTS_VARIABLE, raising=False)
    with pytest.raises(DockerError, match="a mount must keep its path"):
        Host(tmp_path).start("true", "-v", "/etc:/other")


def test_what_cannot_be_mounted_says_so(capfd: pytest.CaptureFixture[str]) -> None:
    """125 as docker's, and the reason, where a plan cannot be done."""
    plan = Plan(binds=(namespace.Bind("/of/no/machine", "/weights"),))
    done = subprocess.run(plan.command(["true"]), check=False)
    assert done.returncode == 125
    assert "no mount namespace: " in capfd.readouterr().err
