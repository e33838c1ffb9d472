"""A shell on an emulated host over SSH: with and without a terminal, and its end."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from embedded_cloud.core.store import Store
from embedded_cloud.machines import namespace
from embedded_cloud.machines.hosts.processes import processes_of
from embedded_cloud.machines.hosts.ssh_server import HostSsh, host_key
from embedded_cloud.server import EmbeddedCloud
from embedded_cloud.services.oslogin import LoginProfiles, posix_name
from tests.embedded_cloud.api import AT_ONCE, PROJECT, TOKEN, Api, flex_start

pytestmark = pytest.mark.timeout(120)

#: How bash ends it, for root and for others.
PROMPT = "$ " if os.geteuid() else "# "
USER = "developer@example.com"
_OWN_MOUNTS: Any = {"hosts": {"own_mounts": not namespace.refusal(), "shm_bytes": 2**20}}


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCloud]:
    """A cloud with one host that runs, and has mounts of its own where the machine can."""
    with EmbeddedCloud(
        tmp_path_factory.mktemp("cloud") / "emulator",
        token=TOKEN,
        capacity=AT_ONCE,
        launch_hosts=True,
        strictness=_OWN_MOUNTS,
    ) as cloud:
        script = '#!/bin/bash\necho kept >"$TPUFLEX_ROOT/run/tpuflex/memory/kept" || true\n'
        assert Api(cloud.url).create(body=flex_start(metadata={"startup-script": script})).ok
        deadline = time.monotonic() + 60
        while (
            not (hosts := cloud.cloud.hosts.describe())
            or hosts[0]["startup_script_exit_code"] is None
        ):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        yield cloud


def directory_of(cloud: EmbeddedCloud) -> Path:
    (host,) = cloud.cloud.hosts.describe()
    return Path(str(host["root"])).parent


@asynccontextmanager
async def connected(
    cloud: EmbeddedCloud, *missing: str, directory: Path | None = None
) -> AsyncIterator[Any]:
    """An SSH client that OS Login knows, connected to the host."""
    key = asyncssh.generate_private_key("ssh-ed25519")
    profiles = LoginProfiles(Store(None))
    profiles.import_key(USER, PROJECT, key.export_public_key().decode())
    (spec,) = cloud.cloud.tpu.desired_hosts()
    ours, theirs = socket.socketpair()
    HostSsh(
        spec,
        address="10.128.0.2",
        root=(directory or directory_of(cloud)) / "root",
        keys_of=profiles.keys_of,
        key=host_key("secret"),
        missing=missing,
    ).serve(theirs)
    async with asyncssh.connect(
        "the-host",
        sock=ours,
        username=posix_name(USER),
        client_keys=[key],
        known_hosts=None,
        config=None,
    ) as client:
        yield client


async def test_commands_through_a_pipe(cloud: EmbeddedCloud) -> None:
    """Without a terminal, the shell reads commands: on the host, as itself, with its exit code."""
    said = 'cat "$TPUFLEX_ROOT/run/tpuflex/memory/kept"\nsudo echo root\npwd\nexit 7\n'
    async with connected(cloud) as client:
        done = await client.run(input=said)
    assert done.exit_status == 7
    assert done.stdout.splitlines()[-2:] == ["root", str(directory_of(cloud) / "root" / "home")]
    if not namespace.refusal():
        # What only the host's own processes see.
        assert done.stdout.splitlines()[0] == "kept"
    assert "This is an emulated host: a shell of this machine, as you." in done.stderr


async def test_a_command(cloud: EmbeddedCloud) -> None:
    """A command runs in such a shell, with the client's input, and nothing else is said."""
    async with connected(cloud) as client:
        done = await client.run("sudo cat; echo $HOME; exit 7", input="input\n")
    home = directory_of(cloud) / "root" / "home"
    assert (done.exit_status, done.stdout, done.stderr) == (7, f"input\n{home}\n", "")


@pytest.fixture
def interrupts_ignored() -> Iterator[None]:
    """This process as a script starts it with `&`: SIGINT is ignored, also in what it starts."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interrupts_ignored")
async def test_a_terminal(cloud: EmbeddedCloud) -> None:
    """With one, there is a prompt with the host's name, and the terminal's size and keys work,
    also where the emulator runs in the background of a script."""
    (spec,) = cloud.cloud.tpu.desired_hosts()
    async with (
        connected(cloud) as client,
        client.create_process(term_type="xterm", term_size=(91, 33)) as shell,
    ):
        assert f"{spec.name}:~{PROMPT}" in await shell.stdout.readuntil(PROMPT)
        shell.stdin.write("stty size; tty >&2\n")
        assert "33 91" in await shell.stdout.readuntil(PROMPT)
        shell.change_terminal_size(70, 20)
        # Said by what is to be interrupted: bash may lose the key between fork and exec.
        shell.stdin.write("sh -c 'echo be\"\"gun; exec sleep 1000'\n")
        await shell.stdout.readuntil("begun")
        shell.stdin.write("\x03")
        # Linux flushes the terminal after the signal (`isig` in drivers/tty/n_tty.c), and a quick
        # prompt with it; what is asked next is answered all the same.
        shell.stdin.write("stty size; exit 3\n")
        assert "20 70" in await shell.stdout.read()
        assert (await shell.wait()).exit_status == 3


async def test_it_ends_with_the_client(cloud: EmbeddedCloud) -> None:
    """Who breaks the connection off leaves no shell behind."""
    before = len(processes_of(directory_of(cloud)))
    async with connected(cloud) as client:
        shell = await client.create_process(term_type="xterm")
        await shell.stdout.readuntil(PROMPT)
        during = len(await asyncio.to_thread(processes_of, directory_of(cloud)))
        client.abort()
    assert during > before
    deadline = time.monotonic() + 60
    while len(await asyncio.to_thread(processes_of, directory_of(cloud))) > before:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)


async def test_without_the_role_of_an_administrator(cloud: EmbeddedCloud) -> None:
    """Who lacks compute.instances.osAdminLogin has a shell, and no `sudo`."""
    async with connected(cloud, "compute.instances.osAdminLogin") as client:
        done = await client.run(input="sudo id\n")
    assert (done.exit_status, done.stdout) == (1, "")
    assert done.stderr.endswith("sudo: a password is required\n")


async def test_a_host_on_which_nothing_runs(cloud: EmbeddedCloud, tmp_path: Path) -> None:
    """It has no shell, and says so."""
    async with connected(cloud, directory=tmp_path) as client:
        done = await client.run()
    assert done.exit_status == 126
    assert "nothing runs on this emulated host" in done.stderr
