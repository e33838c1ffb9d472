"""A tunnel that a command opens for itself: open, ended with the block, and why it is not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tpuflex.errors import AccessError, ApiError, ConflictError, TpuflexError
from tpuflex.operate.endpoint_connection import Route, route_to, takes_connections
from tpuflex.operate.iap_tunnel import open_tunnel
from tpuflex.operate.tunnel_failure import is_final, tunnel_failure

#: Listens on the port of its first argument as gcloud's ssh would, with a child that hears no
#: SIGTERM, and writes both pids to its second argument.
_LISTENER = """
import os, signal, socket, subprocess, sys, threading
one = socket.create_server(("127.0.0.1", int(sys.argv[1])))
ignore = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True)"
child = subprocess.Popen(
    [sys.executable, "-c", ignore + "; time.sleep(600)"], stdout=subprocess.PIPE
)
child.stdout.readline()
open(sys.argv[2] + "~", "w").write(f"{os.getpid()} {child.pid}")
os.rename(sys.argv[2] + "~", sys.argv[2])
held = []
accept = lambda: held.append(one.accept()) or accept()
threading.Thread(target=accept, daemon=True).start()
sys.stdin.read()
child.kill()
"""


def listener(pids: Path) -> Callable[[int], list[str]]:
    return lambda port: [sys.executable, "-c", _LISTENER, str(port), str(pids)]


def started(pids: Path) -> list[int]:
    while not pids.exists():  # bounded by pytest-timeout
        time.sleep(0.01)
    return [int(pid) for pid in pids.read_text().split()]


def alive(pids: list[int]) -> list[int]:
    def lives(pid: int) -> bool:
        try:
            return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False

    return [pid for pid in pids if lives(pid)]


def await_end(pids: list[int]) -> None:
    while alive(pids):  # a killed process takes a moment; bounded by pytest-timeout
        time.sleep(0.01)


class Stop(BaseException):
    """Ends the block as Ctrl-C does."""


@pytest.mark.parametrize("end", [None, KeyboardInterrupt, TpuflexError, Stop])
def test_nothing_is_left_of_a_tunnel(tmp_path: Path, end: type[BaseException] | None) -> None:
    """However the block ends, the command and what it started are gone, even what hears no
    SIGTERM."""
    pids = tmp_path / "pids"
    seen: list[int] = []

    def use() -> None:
        with open_tunnel(listener(pids), os.environ, project="p", within=20) as port:
            assert takes_connections("127.0.0.1", port)
            seen.extend(started(pids))
            assert alive(seen) == seen
            if end is not None:
                raise end("ended")

    if end is None:
        use()
    else:
        with pytest.raises(end):
            use()
    assert len(seen) == 2
    await_end(seen)


def test_a_killed_command_leaves_no_tunnel(tmp_path: Path) -> None:
    """A process that is killed cannot end its tunnel: the end of the pipe does."""
    pids = tmp_path / "pids"
    program = (
        "import os, sys, time\n"
        "from tpuflex.operate.iap_tunnel import open_tunnel\n"
        f"words = {[sys.executable, '-c', _LISTENER]!r}\n"
        f"command = lambda port: [*words, str(port), {str(pids)!r}]\n"
        "with open_tunnel(command, os.environ, project='p', within=20):\n"
        "    time.sleep(600)\n"
    )
    holder = subprocess.Popen([sys.executable, "-c", program])
    there = started(pids)

    holder.send_signal(signal.SIGKILL)
    holder.wait()

    await_end(there)


def test_a_command_that_ends_says_why() -> None:
    """What gcloud said decides the kind of error, and is shown."""
    said = "ERROR: (gcloud.alpha) Error while connecting [4033: 'not authorized']."
    words = [sys.executable, "-c", f"import sys; sys.exit({said!r})"]

    with (
        pytest.raises(AccessError, match="you may not open tunnels") as raised,
        open_tunnel(lambda _port: words, os.environ, project="acme"),
    ):
        pytest.fail("it is open")

    assert "add-iam-policy-binding acme" in str(raised.value.hint)
    assert str(raised.value.hint).endswith(f"gcloud said: {said}")


def test_a_tunnel_that_does_not_open_is_given_up(tmp_path: Path) -> None:
    """It is given up within its bound, and nothing is left of it."""
    pids = tmp_path / "pids"
    program = f"import os, sys; open({str(pids)!r}, 'w').write(str(os.getpid())); sys.stdin.read()"

    with (
        pytest.raises(ApiError, match="It was not open after 1 s"),
        open_tunnel(
            lambda _port: [sys.executable, "-c", program], os.environ, project="p", within=1.0
        ),
    ):
        pytest.fail("it is open")

    await_end([int(pids.read_text())])


def test_gcloud_is_not_waited_for_while_it_says_the_same_again(tmp_path: Path) -> None:
    """gcloud tries ten times to get what a missing rule does not give: two are enough."""
    pids = tmp_path / "pids"
    said = "Error while connecting [4003: 'failed to connect to backend']."
    program = (
        f"import os, sys; open({str(pids)!r}, 'w').write(str(os.getpid())); "
        f"print({said!r}, flush=True); print({said!r}, flush=True); sys.stdin.read()"
    )
    with (
        pytest.raises(ConflictError, match="no firewall rule lets it in"),
        open_tunnel(lambda _port: [sys.executable, "-c", program], os.environ, project="p"),
    ):
        pytest.fail("it is open")
    await_end([int(pids.read_text())])

    assert not is_final(said)
    assert not is_final("Permission denied (publickey).\n" * 9)
    assert is_final("Error while connecting [4033: 'not authorized'].")


@pytest.mark.parametrize(
    ("said", "kind", "advice"),
    [
        ("Error while connecting [4033: 'not authorized'].", AccessError, "tunnelResourceAccessor"),
        (
            "Error while connecting [4003: 'failed to connect to backend']. (Failed to connect to "
            "port 22)\nkex_exchange_identification: Connection closed by remote host",
            ConflictError,
            "`tpuflex up --refresh` makes a rule again",
        ),
        ("Error while connecting [4047: 'Failed to lookup instance'].", ConflictError, "status"),
        ("You do not currently have an active account selected.", AccessError, "gcloud auth login"),
        ("user@tpu.1: Permission denied (publickey).", AccessError, "compute.osAdminLogin"),
        ("user@tpu.1: Permission denied (keyboard-interactive).", AccessError, "in a terminal"),
        ("reason: SERVICE_DISABLED", AccessError, "Enable it"),
        (
            "Failed to connect to TPU.\n- Verify that the 'compute.disableGuestAttributesAccess'",
            ConflictError,
            "disableGuestAttributesAccess must not",
        ),
        ("Required 'tpu.nodes.get' permission for 'n'", AccessError, "name it"),
        ("bind [127.0.0.1]:8000: Address already in use", ConflictError, "again"),
        ("boom", ApiError, "`tpuflex ssh` shows more"),
    ],
)
def test_the_kind_of_a_failure(said: str, kind: type[TpuflexError], advice: str) -> None:
    """Each thing that gcloud is known to say has its exit code and its remedy."""
    error = tunnel_failure(said, "p")

    assert type(error) is kind
    assert advice in str(error.hint)


@pytest.mark.parametrize(
    ("address", "embedded", "cidrs", "way"),
    [
        ("127.84.70.1", True, (), Route.DIRECT),
        ("127.84.70.1", True, ("10.0.0.0/8",), Route.DIRECT),
        ("10.128.0.2", True, ("10.0.0.0/8",), Route.IAP),
        ("10.128.0.2", False, (), Route.IAP),
        ("10.128.0.2", False, ("10.0.0.0/8",), Route.TRY),
    ],
)
def test_the_way_to_an_address(
    address: str, embedded: bool, cidrs: tuple[str, ...], way: Route
) -> None:
    """A private address is tried only where the stack lets somebody reach it: elsewhere the same
    address may be a stranger's."""
    assert route_to(address, embedded=embedded, allowed_cidrs=cidrs) is way


def test_an_address_where_nothing_listens() -> None:
    """A refused connection is no way in."""
    assert not takes_connections("127.0.0.1", 1, within=1.0)
