"""`tpuflex logs`, `ssh` and `tunnel`: files of emulated hosts, gcloud for those on Google."""

from __future__ import annotations

import os
import socket
import sys
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue

from tests.cli.samples import status
from tests.cli.typing import Captured, TypeIn
from tests.security.strangers import STRANGER, needs_second_uid
from tpuflex.cli.endpoint.logs import run_logs
from tpuflex.cli.invocation import Invocation
from tpuflex.cli.options import until_interrupted
from tpuflex.errors import AccessError, ConflictError, NotFoundError, TpuflexError
from tpuflex.google.timing import Timing
from tpuflex.operate import endpoint_connection, host_access, host_log
from tpuflex.operate.host_access import ssh, tunnel
from tpuflex.operate.host_log import Part, bounded_lines
from tpuflex.operate.slice import SliceStatus
from tpuflex.stack.connection import Connection
from tpuflex.stack.emulator import Daemon
from tpuflex.stack.stack import Stack


@pytest.fixture
def google(stack: Stack) -> Stack:
    settings = stack.settings.model_copy(update={"cloud": "google"})
    return Stack(stack.project, "tpu", stack.file, settings)


@pytest.fixture(autouse=True)
def found(monkeypatch: pytest.MonkeyPatch) -> SliceStatus:
    """The slice that the cloud has."""
    found = status(address="10.0.0.2")
    monkeypatch.setattr(host_log, "host_status", lambda _cloud: found)
    monkeypatch.setattr(host_access, "host_status", lambda _cloud: found)
    return found


@pytest.fixture
def hosts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[dict[str, object]]:
    """The hosts that the embedded cloud says it has: another zone's node of the same name has the
    directory of that name."""
    found: list[dict[str, object]] = [
        {
            "key": f"n{suffix}",
            "node": f"projects/p/locations/{zone}/nodes/n",
            "worker": 0,
            "root": str(tmp_path / f"n{suffix}"),
            "serial_log": str(tmp_path / f"n{suffix}.log"),
            "container_logs": str(tmp_path / f"n{suffix}.containers"),
        }
        for suffix, zone in (("", "us-east5-b"), (".us-east5-a", "us-east5-a"))
    ]
    monkeypatch.setattr(Daemon, "call", lambda *_: {"hosts": found})
    return found


class Logs:
    """Cloud Logging with these answers, one after the other."""

    def __init__(self, *answers: dict[str, JsonValue] | TpuflexError) -> None:
        self._answers = list(answers)
        self.asked: list[Any] = []

    def call(self, method: str, path: str, *, body: Any, **_: object) -> dict[str, JsonValue]:
        assert (method, path) == ("POST", "/v2/entries:list")
        self.asked.append({**body})
        answer = self._answers.pop(0)
        if isinstance(answer, TpuflexError):
            raise answer
        return answer


def stand_in(directory: Path, components: str, then: str = "") -> dict[str, str]:
    """An environment with a gcloud that repeats its words, does what ``then`` says, and ends with
    5."""
    program = directory / "gcloud"
    program.write_text(
        f"#!{sys.executable}\nimport sys\n"
        f"if sys.argv[1] == 'version':\n    print('{components}')\n    sys.exit()\n"
        "print('\\x1b[2J' + ' '.join(sys.argv[1:]), flush=True)\n"
        f"{then}\nsys.exit(5)\n"
    )
    program.chmod(0o755)
    return {"PATH": str(directory)}


ALPHA = '{"alpha": "2025.06.20"}'
SSH = "alpha compute tpus tpu-vm ssh n --zone=us-east5-a --project=p --tunnel-through-iap"


@pytest.mark.usefixtures("hosts")
def test_the_log_of_an_emulated_host(
    tmp_path: Path, invocation: Invocation, stack: Stack, capsys: Captured
) -> None:
    """The end of the host's log, in the file that it has on Google, to which the watch writes, too;
    made printable. The directory need not have the node's name."""
    (tmp_path / "n.log").write_text("of another zone\n")
    (tmp_path / "n.us-east5-a.log").write_text("serial\n")
    log = tmp_path / "n.us-east5-a/var/log/tpuflex/startup.log"
    log.parent.mkdir(parents=True)
    log.write_text("one\ntwo\n\x1b[2Jthree\n")

    run_logs(invocation, Connection(stack, {}), Part(2), follow=False)

    shown = capsys.readouterr().out
    assert shown.startswith("two\n")
    assert shown.endswith("three\n")
    assert "\x1b" not in shown


@pytest.mark.usefixtures("hosts")
def test_the_log_of_an_emulated_host_that_just_boots(
    tmp_path: Path, invocation: Invocation, stack: Stack, capsys: Captured
) -> None:
    """Before the script has a log, the end of the host's serial log is shown."""
    (tmp_path / "n.us-east5-a.log").write_text("one\n")

    run_logs(invocation, Connection(stack, {}), Part(2), follow=False)

    assert capsys.readouterr().out == "one\n"


SERVER_LOG = """\
INFO 11-28 02:59:59 [loggers.py:335] Running: 0 reqs
INFO:     127.0.0.1:39328 - "GET /metrics HTTP/1.1" 200 OK
(EngineCore pid=7) ERROR 11-28 03:00:00 [core.py:9] died
Traceback
INFO:     127.0.0.1:38958 - "GET /tpuflex/requests HTTP/1.1" 200 OK
INFO:     127.0.0.1:38958 - "POST /v1/completions HTTP/1.1" 500
"""
BOOT_LOG = """\
2026-11-28T02:59:59Z phase health
2026-11-28T03:00:00Z phase READY
  | beside it
"""


@pytest.mark.usefixtures("hosts")
@pytest.mark.parametrize(
    ("server", "since", "first"),
    [
        (True, None, "INFO 11-28 02:59:59"),
        (True, datetime(2026, 11, 28, 3), "(EngineCore pid=7) ERROR"),
        (False, datetime(2026, 11, 28, 3, tzinfo=UTC), "2026-11-28T03:00:00Z phase READY"),
    ],
)
def test_the_server_of_an_emulated_host(
    server: bool,
    since: datetime | None,
    first: str,
    tmp_path: Path,
    invocation: Invocation,
    stack: Stack,
    capsys: Captured,
) -> None:
    """--server shows what the server writes now, without its lines about the looks of the watch;
    with a time, what either log has from then on is shown. A server's times are this machine's."""
    for name, text in (
        ("n.us-east5-a.containers/vllm.log", SERVER_LOG),
        ("n.us-east5-a/var/log/tpuflex/startup.log", BOOT_LOG),
    ):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(text)
    part = Part(50, server=server, since=None if since is None else since.astimezone())

    run_logs(invocation, Connection(stack, {}), part, follow=False)

    shown = capsys.readouterr().out
    assert shown.startswith(first)
    assert "GET /" not in shown
    assert shown.splitlines()[-1] == (SERVER_LOG if server else BOOT_LOG).splitlines()[-1]
    assert len(shown.splitlines()) == (4 if since is None else 3 if server else 2)


@pytest.mark.usefixtures("hosts")
def test_no_log_yet(invocation: Invocation, stack: Stack) -> None:
    """A host that has written nothing is an error with the path."""
    with pytest.raises(NotFoundError, match=r"no log yet: .*n\.us-east5-a\.log"):
        run_logs(invocation, Connection(stack, {}), Part(2), follow=False)


ENTRY: dict[str, JsonValue] = {
    "timestamp": "2026-11-22T10:00:00Z",
    "resource": {"type": "generic_node", "labels": {"node_id": "n-g2", "location": "us-east5-a"}},
    "jsonPayload": {
        "phase": "health",
        "error": "container-died: the server died",
        "message": "one\ntwo\n\x1b[2Jthree",
        "container": "x\ny\nz\n",
    },
}
ABSENT = NotFoundError("Stack dev has no queued resource in us-east5-a.", hint="Run up.")


def absent(_cloud: Connection) -> SliceStatus:
    raise ABSENT


@pytest.mark.parametrize("gone", ["slice", "host"])
def test_the_log_of_a_host_that_is_gone(
    gone: str,
    invocation: Invocation,
    stack: Stack,
    hosts: list[dict[str, object]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: Captured,
) -> None:
    """A dead boot leaves its end in Cloud Logging, which is read where nothing else is left; an
    empty page is not the last."""
    cloud, kept = Connection(stack, {}), Logs({"nextPageToken": "t"}, {"entries": [ENTRY]})
    vars(cloud)["logging"] = kept
    if gone == "slice":
        monkeypatch.setattr(host_log, "host_status", absent)
    hosts.clear()

    run_logs(invocation, cloud, Part(2), follow=True)

    assert kept.asked[0] == {
        "resourceNames": ["projects/tpuflex-dev"],
        "filter": 'logName="projects/tpuflex-dev/logs/tpuflex-boot"'
        ' AND labels."tpuflex-project"="tpuflex" AND labels."tpuflex-stack"="dev"'
        ' AND labels."tpuflex-name"="vllm"',
        "orderBy": "timestamp desc",
        "pageSize": 1,
    }
    assert kept.asked[1]["pageToken"] == "t"
    shown = capsys.readouterr()
    assert shown.out.splitlines()[0] == "two"
    assert shown.out.endswith("three\ny\nz\n")
    assert "\x1b" not in shown.out
    assert (
        "The end of the boot log of n-g2 in us-east5-a, 2026-11-22T10:00:00Z, phase health:"
        " container-died: the server died\n"
    ) in shown.err


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({}, "Cloud Logging has no boot log of it."),
        (AccessError("403: denied", hint="Ask."), "cannot be read: 403: denied"),
        ({"entries": ["x"]}, "Cloud Logging has no boot log of it."),
    ],
)
def test_a_host_that_left_no_log(
    answer: dict[str, JsonValue] | TpuflexError,
    said: str,
    invocation: Invocation,
    stack: Stack,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """There is no host, and no log either: exit code 4, with why, and what to do about both."""
    cloud = Connection(stack, {})
    vars(cloud)["logging"] = Logs(answer)
    monkeypatch.setattr(host_log, "host_status", absent)

    with pytest.raises(NotFoundError) as caught:
        run_logs(invocation, cloud, Part(2), follow=False)

    assert caught.value.message.startswith(f"{ABSENT.message} ")
    assert caught.value.message.endswith(said)
    assert "Run up." in str(caught.value.hint)


def test_following_gives_whole_lines(tmp_path: Path) -> None:
    """A line that is only begun is shown when its end is written."""
    log = tmp_path / "serial.log"
    log.write_text("one\ntw")
    written = ["o\nthree\n"]

    def pause() -> None:
        with log.open("a") as end:
            end.write(written.pop())

    with log.open() as file:
        lines = bounded_lines(file, pause)
        assert [next(lines), next(lines), next(lines)] == ["one", "two", "three"]
    assert written == []


def test_a_line_without_end() -> None:
    """Of a line that is too long the beginning is shown, with a mark, even if it has no end; the
    next line is whole."""
    most, mark = host_log._LINE, " [the line goes on]"
    file = StringIO(f"{'a' * most}\n{'b' * 3 * most}\nnext\n{'c' * (most + 1)}")
    shown = ["a" * most, "b" * most + mark, "next", "c" * most + mark]
    assert [*bounded_lines(file)] == shown


def test_lines_that_are_too_much_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last lines are kept, and that earlier ones are left out is said."""
    monkeypatch.setattr(host_log, "_ALL", 10)
    assert host_log._last(["aaaa", "bbbb", "cccc"], 3) == (
        "[earlier lines are left out: they are too long]",
        *("bbbb", "cccc"),
    )
    assert host_log._last(["aaaa", "bbbb", "cccc"], 2) == ("bbbb", "cccc")


def test_the_log_of_a_host_on_google(
    tmp_path: Path, invocation: Invocation, google: Stack, capsys: Captured
) -> None:
    """Gcloud reads it through IAP; what comes is made printable, its exit code passed on."""
    cloud = Connection(google, stand_in(tmp_path, ALPHA))

    with pytest.raises(SystemExit) as ended:
        run_logs(invocation, cloud, Part(9), follow=True)

    shown = capsys.readouterr().out
    assert ended.value.code == 5
    assert (
        f"{SSH} --command sudo tail -n 9 -F /var/log/tpuflex/startup.log "
        "-- -o ServerAliveInterval=15 -o ServerAliveCountMax=3\n"
    ) in shown
    assert "\x1b" not in shown


def test_the_server_of_a_host_on_google(
    tmp_path: Path, invocation: Invocation, google: Stack, capsys: Captured
) -> None:
    """Docker is given the time. As most lines are about the looks of the watch, which are not
    shown, more are read than are asked for."""
    look = 'INFO: "GET /metrics HTTP/1.1" 200 OK'
    then = f"print({look!r})\nfor n in range(20): print('line', n)"
    cloud = Connection(google, stand_in(tmp_path, ALPHA, then))
    part = Part(9, server=True, since=datetime(2026, 11, 28, 3, tzinfo=UTC))

    with pytest.raises(SystemExit):
        run_logs(invocation, cloud, part, follow=False)

    shown = capsys.readouterr()
    assert shown.out.splitlines() == [f"line {number}" for number in range(11, 20)]
    assert (
        f"{SSH} --command 'sudo docker logs --tail 90 --since 2026-11-28T03:00:00+00:00 vllm 2>&1'"
    ) in shown.err


def test_ssh_and_tunnel_on_google(
    tmp_path: Path, invocation: Invocation, google: Stack, capfd: Captured
) -> None:
    """Both run gcloud's alpha command through IAP and pass its exit code on."""
    cloud = Connection(google, stand_in(tmp_path, ALPHA))

    codes = ssh(cloud, invocation.report), tunnel(cloud, 9000, invocation.report)

    shown = capfd.readouterr()
    assert codes == (5, 5)
    assert f"{SSH}\n" in shown.out
    assert (
        f"{SSH} --command cat -- -o ExitOnForwardFailure=yes -o ControlPath=none "
        "-o ServerAliveInterval=15 -o ServerAliveCountMax=3 -L 127.0.0.1:9000:10.0.0.2:8000\n"
    ) in shown.out
    assert "tpuflex ask" not in shown.err


def test_ctrl_c_is_the_end_of_a_tunnel() -> None:
    """It is no error: nothing is said, and the exit code is that of Ctrl-C."""
    with pytest.raises(SystemExit) as ended, until_interrupted():
        raise KeyboardInterrupt

    assert ended.value.code == 130


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("sudo", "docker", "ps"), "sudo docker ps"),
        (("echo", "two words", "$HOME"), "echo 'two words' '$HOME'"),
        (("docker ps | head -1",), "docker ps | head -1"),
    ],
)
def test_ssh_runs_a_command(
    tmp_path: Path,
    invocation: Invocation,
    google: Stack,
    capfd: Captured,
    words: tuple[str, ...],
    line: str,
) -> None:
    """Words reach the program as they are, a single one the host's shell; no terminal is asked for
    where there is none here; the exit code is passed on."""
    cloud = Connection(google, stand_in(tmp_path, ALPHA))
    assert ssh(cloud, invocation.report, words=words) == 5
    assert f"{SSH} --command {line}\n" in capfd.readouterr().out


#: A tunnel that holds for one connection.
LISTENS = """
import os, socket
port = int(sys.argv[-1].split(":")[1])
os.setuid({uid})
with socket.create_server(("127.0.0.1", port)) as server:
    server.accept()[0].recv(1)
"""


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def test_a_tunnel_is_said_to_be_there_when_it_is(
    tmp_path: Path, invocation: Invocation, google: Stack, capfd: Captured
) -> None:
    """Who asks through it earlier would send the key to whoever listens there."""
    port = _free_port()
    cloud = Connection(google, stand_in(tmp_path, ALPHA, LISTENS.format(uid=os.getuid())))

    tunnel(cloud, port, invocation.report)

    line = f"tpuflex ask --stack tpu --url http://127.0.0.1:{port}/v1 …\n"
    assert capfd.readouterr().err.endswith(line)


@needs_second_uid
def test_a_tunnel_of_another_user(
    tmp_path: Path, invocation: Invocation, google: Stack, capfd: Captured
) -> None:
    """Whoever takes the port first has no question sent there."""
    cloud = Connection(google, stand_in(tmp_path, ALPHA, LISTENS.format(uid=STRANGER)))

    with pytest.raises(AccessError, match="No tunnel: port"):
        tunnel(cloud, _free_port(), invocation.report)

    assert "tpuflex ask" not in capfd.readouterr().err


def test_a_port_that_is_taken(invocation: Invocation, google: Stack) -> None:
    """What listens there already would be taken for the tunnel."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(ConflictError, match=f"Port {port} of .*already in use") as caught:
            tunnel(Connection(google, {}), port, invocation.report)

    assert (
        caught.value.hint.for_stack("tpu", {})
        == "Choose another: tpuflex tunnel --stack tpu --port PORT"
    )


@pytest.mark.parametrize(
    ("components", "message", "hint"),
    [
        (None, "gcloud is not on PATH", "cloud.google.com/sdk/docs/install"),
        ("{}", "lacks the component alpha", "gcloud components install alpha"),
        ("no JSON", "does not work", "gcloud version"),
    ],
)
def test_gcloud_that_cannot(
    tmp_path: Path,
    invocation: Invocation,
    google: Stack,
    components: str | None,
    message: str,
    hint: str,
) -> None:
    """A gcloud that is missing, broken or without alpha is an error with the remedy."""
    environ = {"PATH": ""} if components is None else stand_in(tmp_path, components)

    with pytest.raises(TpuflexError, match=message) as raised:
        ssh(Connection(google, environ), invocation.report)

    assert hint in str(raised.value.hint)


def test_emulated_hosts_need_no_way_in(
    invocation: Invocation, stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the embedded cloud, ssh and tunnel say why they are not needed."""
    monkeypatch.setattr(host_access, "host_status", lambda _cloud: status(address="127.0.0.9"))
    with pytest.raises(ConflictError, match="nothing to log in to"):
        ssh(Connection(stack, {}), invocation.report)
    with pytest.raises(ConflictError, match="needs no tunnel"):
        tunnel(Connection(stack, {}), None, invocation.report)


def test_a_shell_on_an_emulated_host(
    tmp_path: Path,
    invocation: Invocation,
    stack: Stack,
    monkeypatch: pytest.MonkeyPatch,
    capfd: Captured,
) -> None:
    """With a private address, `ssh` runs the very command of Google, through the emulated IAP."""
    door = {"https_proxy": "http://127.0.0.1:1"}
    monkeypatch.setattr(Daemon, "tunnel_environment", lambda _daemon: door)
    assert ssh(Connection(stack, stand_in(tmp_path, ALPHA)), invocation.report) == 5
    assert f"{SSH}\n" in capfd.readouterr().out


def test_one_document(type_in: TypeIn) -> None:
    """A log that goes on cannot be one JSON document: refused, not ignored."""
    typed = type_in("logs", "--follow", "--json")

    assert typed.code == 2
    assert "--follow" in typed.err


def test_a_connection_that_breaks_off_is_made_again(
    invocation: Invocation, stack: Stack, capsys: Captured
) -> None:
    """A connection that held is made again after a pause; one that did not has its own reason."""
    held, codes, clock = [3600.0, 61.0, 59.0], [255, 1, 255], [0.0]
    timing = Timing(lambda: clock[0], lambda: 0.0, lambda _seconds: False, lambda: 0.0)
    cloud = Connection(stack, {})
    cloud.__dict__["timing"] = timing

    def run() -> int:
        clock[0] += held.pop(0)
        return codes.pop(0)

    assert endpoint_connection.reconnecting(run, cloud, invocation.report) == 255
    assert capsys.readouterr().err == (
        "The connection broke off (exit code 255): once more in 5 s.\n"
        "The connection broke off (exit code 1): once more in 5 s.\n"
    )
    assert held == []
