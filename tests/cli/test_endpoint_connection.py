"""`tpuflex ask` and `status` where the endpoint is private: a tunnel of their own, by whole output.

gcloud is a stand-in here, which serves what the host would; gcloud's own client goes through the
emulated IAP in tests/acceptance/gcloud/test_iap_gcloud.py.
"""

from __future__ import annotations

import io
import json
import os
import re
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.cli.samples import status
from tests.cli.typing import NOON, Captured, TypeIn
from tests.reports import lines_to
from tpuflex.cli.endpoint.status import show_status
from tpuflex.cli.invocation import Invocation
from tpuflex.cli.up.run import show_endpoint
from tpuflex.deploy import UpResult, boot
from tpuflex.deploy.boot import wait_ready
from tpuflex.errors import AccessError, ApiError, BootError, TpuflexError
from tpuflex.measure import server as server_module
from tpuflex.measure.server import open_server
from tpuflex.operate import endpoint_connection, endpoint_status, openai_client
from tpuflex.operate import question as question_module
from tpuflex.operate.endpoint_connection import tunnel_environment
from tpuflex.operate.endpoint_status import status as read_status
from tpuflex.operate.openai_client import run_client
from tpuflex.operate.question import Answer, Question, ask
from tpuflex.planning.cost import cost_in
from tpuflex.project import open_project
from tpuflex.stack import connection as stack_connection
from tpuflex.stack.connection import Connection
from tpuflex.stack.emulator import Daemon
from tpuflex.stack.stack import Stack, read_stack
from tpuflex.terminal.output import Output

#: A gcloud that serves a completion where its ssh would forward to the host.
_GCLOUD = """#!{python}
import http.server, json, os, sys, threading
if sys.argv[1] == "version":
    print('{components}')
    sys.exit()
open("{directory}/pid", "w").write(str(os.getpid()))
if {fails!r}:
    sys.exit({fails!r})
local = sys.argv[-1].split(":")[1]


class Host(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.answer(b"")

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/v1/completions":
            choice = {{"text": " Paris", "finish_reason": "length"}}
            said = {{"choices": [choice], "usage": {{"completion_tokens": 1}}}}
            return self.answer(json.dumps(said).encode())
        piece = {{"choices": [{{"delta": {{"content": "Paris"}}, "finish_reason": "stop"}}]}}
        self.answer(b"data: " + json.dumps(piece).encode() + b"\\n\\ndata: [DONE]\\n\\n")

    def answer(self, body):
        self.send_response({code})
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", int(local)), Host)
threading.Thread(target=server.serve_forever, daemon=True).start()
sys.stdin.read()
"""

COMMAND = (
    "$ gcloud alpha compute tpus tpu-vm ssh n --zone=us-east5-a --project=p --tunnel-through-iap "
    "--command cat -- -o ExitOnForwardFailure=yes -o ControlPath=none -o ServerAliveInterval=15 "
    "-o ServerAliveCountMax=3 -L 127.0.0.1:PORT:10.0.0.2:8000\n"
)
WHY = "10.0.0.2 is a private address, and tpuflex:network.allowed_cidrs lets nobody in"


@pytest.fixture
def google(project: Path, monkeypatch: pytest.MonkeyPatch) -> Stack:
    """A stack on Google whose slice is at a private address."""
    dev = read_stack(open_project(project, {}), "dev")
    found = status(address="10.0.0.2")
    monkeypatch.setattr(endpoint_connection, "slice_status", lambda *_, **__: found)
    monkeypatch.setattr(endpoint_status, "slice_status", lambda *_, **__: found)
    for module in (question_module, endpoint_status, openai_client, server_module):
        monkeypatch.setattr(module, "api_key", lambda _cloud: "key")
    monkeypatch.setenv("TZ", "UTC")
    settings = dev.settings.model_copy(update={"cloud": "google"})
    return Stack(dev.project, "tpu", dev.file, settings)


def cloud_with(
    stack: Stack,
    directory: Path,
    *,
    components: str = '{"alpha": "1"}',
    fails: str = "",
    code: int = 200,
) -> Connection:
    program = directory / "gcloud"
    program.write_text(
        _GCLOUD.format(
            python=sys.executable,
            components=components,
            directory=directory,
            fails=fails,
            code=code,
        )
    )
    program.chmod(0o755)
    environ = {"PATH": f"{directory}:{os.environ['PATH']}"}
    return Connection(stack, environ, now=lambda: NOON)


def without_port(text: str) -> str:
    before, found, after = text.partition("-L 127.0.0.1:")
    return f"{before}{found}PORT:{after.partition(':')[2]}" if found else text


def nothing_runs(directory: Path) -> bool:
    pid = int((directory / "pid").read_text())
    for _ in range(6000):
        if not psutil.pid_exists(pid):
            return True
        time.sleep(0.01)
    return False


def question(endpoint: str = "") -> Question:
    return Question(endpoint, "m", "capital?")


def asked(cloud: Connection, question: Question) -> tuple[str, str]:
    """The answer, and the lines that are told meanwhile."""
    pieces, lines = list[str](), list[str]()
    answer = ask(cloud, question, pieces.append, lines_to(lines))
    assert answer.summary.startswith("TTFT ")
    return "".join(pieces), "".join(f"{line}\n" for line in lines)


def run_status(invocation: Invocation, cloud: Connection, *, tunnel: bool) -> None:
    """As the command does."""
    found = read_status(cloud, invocation.report, tunnel=tunnel)
    show_status(invocation.output, found)
    raise SystemExit(found.exit_code)


def test_ask_goes_through_a_tunnel_of_its_own(tmp_path: Path, google: Stack) -> None:
    """A private endpoint is asked through IAP; it says why and how, and the tunnel ends with it."""
    answer, told = asked(cloud_with(google, tmp_path), question())

    assert answer == "Paris"
    assert without_port(told) == f"{WHY}: opening a tunnel through IAP.\n{COMMAND}"
    assert nothing_runs(tmp_path)


def test_measuring_goes_through_a_tunnel_of_its_own(tmp_path: Path, google: Stack) -> None:
    """What `verify`, `details` and `metrics` ask, they ask through it; it ends with them."""
    lines = list[str]()
    with open_server(cloud_with(google, tmp_path), lines_to(lines)) as server:
        assert server.through == "iap"
        assert server.code("/health") == 200
        completion = server.probe().ask(lambda: server.key).completion

    assert completion is not None
    assert completion.text == " Paris"
    assert without_port("".join(f"{line}\n" for line in lines)).endswith(COMMAND)
    assert nothing_runs(tmp_path)


def test_a_tunnel_ends_with_a_question_that_is_interrupted(
    tmp_path: Path, google: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C during the answer ends gcloud, too."""

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(question_module, "stream_answer", interrupted)

    with pytest.raises(KeyboardInterrupt):
        asked(cloud_with(google, tmp_path), question())

    assert nothing_runs(tmp_path)


def test_a_command_goes_through_a_tunnel_of_its_own(tmp_path: Path, google: Stack) -> None:
    """It has the tunnel's end in its environment; gcloud has no key in its own."""
    own, gclouds = tmp_path / "own", tmp_path / "gclouds"
    typed = f"env > {own}; tr '\\0' '\\n' < /proc/$(cat {tmp_path}/pid)/environ > {gclouds}; exit 3"
    lines = list[str]()
    environ = {"PATH": os.environ["PATH"]}
    code = run_client(cloud_with(google, tmp_path), ("sh", "-c", typed), environ, lines_to(lines))

    assert code == 3
    assert without_port("".join(f"{line}\n" for line in lines)).endswith(COMMAND)
    assert re.search(r"^OPENAI_BASE_URL=http://127\.0\.0\.1:\d+/v1$", own.read_text(), re.M)
    assert "OPENAI_API_KEY=key\n" in own.read_text()
    assert "OPENAI" not in gclouds.read_text()
    assert nothing_runs(tmp_path)


@pytest.mark.parametrize(
    ("fails", "kind", "code"),
    [
        ("Error while connecting [4033: 'not authorized'].", AccessError, 6),
        ("Error while connecting [4003: 'failed to connect to backend'].", ApiError, 1),
    ],
)
def test_ask_says_why_there_is_no_tunnel(
    tmp_path: Path,
    google: Stack,
    fails: str,
    kind: type[TpuflexError],
    code: int,
) -> None:
    """A missing role or rule ends `ask` with its own exit code."""
    with pytest.raises(kind) as raised:
        asked(cloud_with(google, tmp_path, fails=fails), question())

    assert raised.value.exit_code == code
    assert str(raised.value.hint).endswith(f"gcloud said: {fails}")


@pytest.fixture
def put(google: Stack, monkeypatch: pytest.MonkeyPatch) -> list[Question]:
    """The questions that `ask` puts; each is answered."""
    questions = list[Question]()

    def answer(_cloud: object, question: Question, *_: object, **__: object) -> Answer:
        questions.append(question)
        return Answer("4", 0.1, 0.2, 5, 1, "stop")

    monkeypatch.setattr(stack_connection, "connect", lambda *_, **__: Connection(google, {}))
    monkeypatch.setattr(question_module, "ask", answer)
    return questions


@pytest.mark.parametrize(
    ("given", "said"),
    [(b"What is\n2 + 2?\n", ""), (b" \n", "question is empty"), (b"\xff", "input is no text")],
)
def test_a_question_from_standard_input(
    given: bytes, said: str, put: list[Question], type_in: TypeIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every user of the machine could read it on the command line."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(given), "utf-8"))

    typed = type_in("ask", "-")

    assert typed.code == (2 if said else 0)
    assert said in typed.err
    assert [question.text for question in put] == ([] if said else ["What is\n2 + 2?"])


@pytest.mark.parametrize("url", ["http://a:1", "http://a:1/", "http://a:1/v1", "http://a:1/v1/"])
def test_a_url_is_taken_with_and_without_its_path(
    url: str, put: list[Question], type_in: TypeIn
) -> None:
    """`tunnel` prints it with `/v1`; people leave that out."""
    assert type_in("ask", "--url", url, "Hello").code == 0
    assert [question.endpoint for question in put] == ["http://a:1/v1"]


@pytest.mark.parametrize("url", ["a:1", "http://jo:key@a:1/v1", "http://a:1/v1?key=x"])
def test_what_is_no_url_is_not_asked(url: str, put: list[Question], type_in: TypeIn) -> None:
    """Nor one with a secret in it, which errors would repeat."""
    typed = type_in("ask", "--url", url, "Hello")

    assert (typed.code, put) == (2, [])
    assert "--url" in typed.err


def test_an_endpoint_that_is_named_needs_no_tunnel(tmp_path: Path, google: Stack) -> None:
    """--url goes where it says, and only there."""
    with pytest.raises(ApiError, match=r"127\.0\.0\.1:1/v1 cannot be reached"):
        asked(cloud_with(google, tmp_path), question("http://127.0.0.1:1/v1"))

    assert not (tmp_path / "pid").exists()


@pytest.mark.parametrize(("code", "exit_code"), [(200, 0), (503, 7)])
def test_status_is_of_what_answers(
    tmp_path: Path,
    invocation: Invocation,
    google: Stack,
    capsys: Captured,
    code: int,
    exit_code: int,
) -> None:
    """READY is what the host said once: headline, advice and exit code are of what answers now."""
    with pytest.raises(SystemExit) as ended:
        run_status(invocation, cloud_with(google, tmp_path, code=code), tunnel=True)

    shown = capsys.readouterr()
    assert ended.value.code == exit_code
    expected = (
        _shown("yes, in N ms (through IAP)", "READY")
        if code == 200
        else _shown(
            "NO (through IAP): /health answered 503",
            "NOT READY, /health answered 503",
            "Its host notices that within some minutes and starts the server again, which `tpuflex"
            " logs --stack tpu` shows; `tpuflex restart --stack tpu` does it now. If that does not"
            " help, `tpuflex reboot --stack tpu` boots the machine again.",
        )
    )
    assert re.sub(r"in \d+ ms", "in N ms", shown.out) == expected
    assert without_port(shown.err) == f"{WHY}: opening a tunnel through IAP.\n{COMMAND}"
    assert nothing_runs(tmp_path)


def test_status_without_a_way_in_is_a_status_all_the_same(
    tmp_path: Path, invocation: Invocation, google: Stack, capsys: Captured
) -> None:
    """Without alpha, and with --no-tunnel, the rest is shown and the exit code is the same."""
    for tunnel in (True, False):
        with pytest.raises(SystemExit) as ended:
            run_status(invocation, cloud_with(google, tmp_path, components="{}"), tunnel=tunnel)
        assert ended.value.code == 0

    program = tmp_path / "gcloud"
    assert capsys.readouterr().out == _shown(
        f"not asked: {program} lacks the component alpha, which alone can go through IAP to a TPU "
        "VM. Run: gcloud components install alpha"
    ) + _shown("not asked: 10.0.0.2 is a private address (--no-tunnel)")


def test_an_up_that_changes_nothing_asks_what_was_ready(
    tmp_path: Path, google: Stack, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    """READY is what answers now: one that does not ends `up` with the exit code of that. That it
    cannot be asked from here is said, and is no failure."""
    monkeypatch.setattr(boot, "slice_status", lambda *_, **__: status(address="10.0.0.2"))
    with pytest.raises(BootError, match="its server does not answer: /health answered 503"):
        wait_ready(cloud_with(google, tmp_path, code=503))
    told = list[str]()
    for components in ('{"alpha": "1"}', "{}"):
        found, health = wait_ready(cloud_with(google, tmp_path, components=components))
        cost = cost_in(google.settings, found.zone)
        result = UpResult(google, found, cost, NOON, health=health)
        show_endpoint(Output(json=False, verbose=False), result, {})
        told.append(capsys.readouterr().out)
    assert told[0].startswith("\nREADY: a completion was served\n")
    assert "  answers   yes, in " in told[0]
    assert told[1].startswith("\nREADY, as its host says\n")
    assert "  answers   not asked: " in told[1]


def test_status_for_scripts(tmp_path: Path, google: Stack, capsys: Captured) -> None:
    """With --json: whether it answers, by which way, or why it was not asked."""
    invocation = Invocation(environ={}, now=lambda: NOON, json=True)
    with pytest.raises(SystemExit):
        run_status(invocation, cloud_with(google, tmp_path), tunnel=False)

    assert json.loads(capsys.readouterr().out)["health"] == {
        "answers": None,
        "through": None,
        "why": "10.0.0.2 is a private address (--no-tunnel)",
        "seconds": None,
    }


#: Said of one that serves.
_NEXT = (
    "`tpuflex ask --stack tpu` talks to it, `tpuflex client --stack tpu` shows how programs do, "
    "`tpuflex down --stack tpu` ends it"
)


def _shown(answers: str, headline: str = "READY, as its host says", next_: str = _NEXT) -> str:
    return (
        f"Stack tpu: {headline}\n"
        "  queued resource  tpuflex-dev-vllm-g1 in us-east5-a\n"
        "  state            ACTIVE: the hosts run\n"
        "  node             READY, HEALTHY\n"
        "  host             READY\n"
        "  endpoint         http://10.0.0.2:8000/v1\n"
        f"  answers          {answers}\n"
        "  model            HuggingFaceTB/SmolLM2-135M-Instruct\n"
        "  expires          2026-11-21 15:05 UTC (in 3 h 05 min)\n"
        "  cost so far      $0.68\n"
        f"  next             {next_}\n"
    )


def test_tls_goes_through_a_tunnel(google: Stack) -> None:
    """With a certificate, the tunnel's end is asked by https; its fingerprint is what is checked
    (tests/acceptance/security/test_p5_tls.py), so that the name of the end does not matter."""
    secrets = google.settings.secrets.model_copy(update={"tls_certificate_version": 2})
    settings = google.settings.model_copy(update={"secrets": secrets})

    assert settings.url("127.0.0.1", port=4711) == "https://127.0.0.1:4711/v1"
    assert settings.url("10.0.0.2") == "https://10.0.0.2:8000/v1"


def test_the_emulated_iap_is_told_to_gcloud_alone(
    tmp_path: Path, google: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the embedded cloud the same command goes through the emulated IAP, by its environment."""
    monkeypatch.setattr(
        Daemon, "call", lambda *_: {"port": 4711, "certificate": "/e/iap/certificate.pem"}
    )
    settings = google.settings.model_copy(update={"cloud": "embedded"})
    embedded = Stack(google.project, "tpu", google.file, settings)
    cloud = cloud_with(embedded, tmp_path)
    told = tunnel_environment(cloud)

    answer, lines = asked(cloud, question())

    assert told["https_proxy"] == "http://127.0.0.1:4711"
    assert told["CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE"] == "/e/iap/certificate.pem"
    assert "https_proxy" not in cloud.environ
    assert answer == "Paris"
    assert without_port(lines) == f"{WHY}: opening a tunnel through IAP.\n{COMMAND}"
