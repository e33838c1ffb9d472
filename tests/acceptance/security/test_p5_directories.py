"""P5: the host's secrets are only ever written into directories of the script's own user."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from tests.security.strangers import STRANGER, needs_second_uid
from tests.startup.conftest import host
from tests.startup.host import StartupHost, StartupRun

__all__ = ["host"]

#: All are made by one function, so what else it refuses is tried where secrets are.
SECRETS = "run/tpuflex/memory"
PLACES = ("run/tpuflex", SECRETS, "var/log/tpuflex")


def refused(host: StartupHost, run: StartupRun) -> bool:
    """Whether the script gave up before it asked for a token or a secret."""
    asked = host.cloud.asked("/token") + host.cloud.asked("secrets/")
    return run.status != 0 and "error directory" in run.output and asked == 0


def parent_of(host: StartupHost, place: str) -> Path:
    """The directory that holds ``place``, made as the script makes it."""
    parent = (host.root / place).parent
    parent.mkdir(parents=True)
    for each in (parent, *parent.parents):
        if each.is_relative_to(host.root):
            each.chmod(0o755)
    if place.endswith("memory"):
        parent.chmod(0o700)
    return parent


@needs_second_uid
@pytest.mark.parametrize("place", PLACES)
def test_a_strangers_directory_is_refused(host: StartupHost, place: str) -> None:
    """S9: a directory that a login user made first is refused, and nothing is written into it."""
    parent_of(host, place)
    planted = host.root / place
    planted.mkdir(mode=0o777)
    os.chown(planted, STRANGER, STRANGER)
    assert refused(host, host.run())
    assert list(planted.iterdir()) == []
    assert "others could exchange" not in host.cloud.last("error")
    assert f"user {STRANGER}" in host.cloud.last("error")


@needs_second_uid
def test_the_shared_memory_of_all_users_is_not_used(host: StartupHost) -> None:
    """S9: what a login user prepared in /dev/shm gets no token."""
    planted = host.root / "dev" / "shm" / "tpuflex"
    planted.mkdir(parents=True)
    (planted / "authorization").touch()
    for path in (planted, planted / "authorization"):
        path.chmod(0o777)
        os.chown(path, STRANGER, STRANGER)
    assert host.run().status == 0
    assert [path.name for path in planted.iterdir()] == ["authorization"]
    assert (planted / "authorization").read_bytes() == b""


@pytest.mark.parametrize("place", PLACES)
def test_a_symbolic_link_is_refused(host: StartupHost, tmp_path: Path, place: str) -> None:
    """S9: a link to a directory that others can read is refused; its target stays empty."""
    target = tmp_path / "theirs"
    target.mkdir()
    parent_of(host, place)
    (host.root / place).symlink_to(target)
    assert refused(host, host.run())
    assert list(target.iterdir()) == []


def test_a_dangling_link_makes_nothing(host: StartupHost, tmp_path: Path) -> None:
    """S9: a link to a name that does not exist yet is refused, and the name stays free."""
    target = tmp_path / "theirs"
    parent_of(host, SECRETS)
    (host.root / SECRETS).symlink_to(target)
    assert refused(host, host.run())
    assert not target.exists()


def test_a_hard_link_is_refused(host: StartupHost, tmp_path: Path) -> None:
    """S9: a file, linked from elsewhere, in place of the directory is refused and unchanged."""
    theirs = tmp_path / "theirs"
    theirs.write_text("theirs")
    parent_of(host, SECRETS)
    (host.root / SECRETS).hardlink_to(theirs)
    assert refused(host, host.run())
    assert theirs.read_text() == "theirs"


def test_a_directory_open_to_others_is_refused(host: StartupHost) -> None:
    """S9: a directory into which others may write is refused, whoever owns it."""
    parent_of(host, SECRETS)
    planted = host.root / SECRETS
    planted.mkdir()
    planted.chmod(0o777)
    assert refused(host, host.run())
    assert list(planted.iterdir()) == []


def test_a_parent_open_to_others_is_refused(host: StartupHost) -> None:
    """S9: where others may exchange the directory for another one, nothing is written."""
    parent = parent_of(host, SECRETS)
    parent.chmod(0o777)
    assert refused(host, host.run())
    assert not [path for path in parent.rglob("*") if path.is_file()]


def test_the_directories_of_an_earlier_run_are_used_again(host: StartupHost) -> None:
    """A second run takes over what the first one made, readable by the script's user only; also in
    a sticky directory, where others can neither rename nor remove it."""
    parent_of(host, "run/tpuflex").chmod(0o1777)
    assert host.run().status == 0
    assert host.run().status == 0
    for place in PLACES:
        found = (host.root / place).stat()
        assert (found.st_uid, stat.S_IMODE(found.st_mode)) == (os.geteuid(), 0o700)


@pytest.mark.skipif(
    os.geteuid() != 0
    or not shutil.which("unshare")
    or subprocess.run(
        ["unshare", "--mount", "mount", "-t", "tmpfs", "t", "/mnt"],
        capture_output=True,
        check=False,
    ).returncode
    != 0,
    reason="only root with a mount namespace of its own can mount what a real host mounts",
)
def test_a_real_host_keeps_secrets_in_memory_of_its_own(host: StartupHost) -> None:
    """S9: without TPUFLEX_ROOT, secrets and weights are in a tmpfs that only root can enter."""
    run = host.root / "run"  # where the server finds the digests of its keys
    run.mkdir(mode=0o755, parents=True)
    host.script.write_text(
        "\n".join(
            (
                f"mount --bind {run} /run && mount -t tmpfs t /var/log",
                host.script.read_text().removesuffix('main "$@"\n\n'),
                'main "$@"',
                "stat --file-system --format=%T /run/tpuflex/memory",
                "stat --format='%u %a' /run/tpuflex/memory /run/tpuflex/memory/secrets",
                "find /run/tpuflex -name api-key",
            )
        )
    )
    found = host.run(in_mount_namespace=True, TPUFLEX_ROOT="")
    assert found.output.splitlines()[-4:] == [
        "tmpfs",
        "0 700",
        "0 700",
        "/run/tpuflex/memory/secrets/api-key",
    ], found.output
