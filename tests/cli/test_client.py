"""`tpuflex client`: what programs need to call an endpoint, which runs on loopback here."""

from __future__ import annotations

import json
import os
import pty
import shutil
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.cli.samples import status
from tests.cli.typing import NOON, Captured, TypeIn
from tests.docs.blocks import ROOT
from tests.loopback import serving
from tests.security.certificates import certificate
from tpuflex.cli.endpoint.client import show_client
from tpuflex.cli.invocation import Invocation
from tpuflex.errors import BootError, NotFoundError, UsageError
from tpuflex.google.secrets import SecretClient
from tpuflex.operate import endpoint_connection
from tpuflex.operate.openai_client import Client, client, run_client
from tpuflex.stack.connection import Connection
from tpuflex.stack.stack import Stack

KEY = "sk-canary'4711"
VERSION = "projects/p/secrets/api-key/versions/1"
SHOWN = Client("dev", "http://127.0.0.9:8000/v1", "google/gemma-4-E4B-it", VERSION)

PAGE = """\
Endpoint of stack dev
  base URL  http://127.0.0.9:8000/v1
  model     google/gemma-4-E4B-it
  API key   projects/p/secrets/api-key/versions/1

A command with these
tpuflex client -- python hello.py

A shell with these
eval "$(tpuflex client --as env --show-key)"

curl
printf 'Authorization: Bearer %s' "$OPENAI_API_KEY" |
  curl -sS "$OPENAI_BASE_URL/chat/completions" --header @- \\
    --header 'Content-Type: application/json' \\
    --data '{"model": "google/gemma-4-E4B-it",
  "messages": [{"role": "user",
    "content": "In one sentence, what is the capital of France?"}],
  "max_tokens": 256, "temperature": 0}'

hello.py
from openai import OpenAI  # pip install openai

client = OpenAI()  # reads OPENAI_BASE_URL and OPENAI_API_KEY
question = "In one sentence, what is the capital of France?"
answer = client.chat.completions.create(
    model="google/gemma-4-E4B-it",
    messages=[{"role": "user", "content": question}],
    max_tokens=256,
    temperature=0,
)
print(answer.choices[0].message.content)

hello.mts
import OpenAI from "openai"; // npm install openai

const client = new OpenAI(); // reads OPENAI_BASE_URL and OPENAI_API_KEY
const question = "In one sentence, what is the capital of France?";
const answer = await client.chat.completions.create({
  model: "google/gemma-4-E4B-it",
  messages: [{ role: "user", content: question }],
  max_tokens: 256,
  temperature: 0,
});
console.log(answer.choices[0].message.content);
"""

#: A program that ends with 0 if it has the key, and no process of the machine has it in its words.
SEES_THE_KEY = """
import os, pathlib, sys
key = os.environ["OPENAI_API_KEY"]
for words in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
    try:
        if key.encode() in words.read_bytes():
            sys.exit(f"{words} has the key")
    except OSError:
        pass
names = ("OPENAI_BASE_URL", "OPENAI_MODEL", "OPENAI_API_KEY", "OWN")
pathlib.Path(sys.argv[1]).write_text(" ".join(os.environ[name] for name in names))
sys.exit(7)
"""


class Endpoint(BaseHTTPRequestHandler):
    """Answers as a host that serves."""

    healthy = True

    def do_GET(self) -> None:
        self._answer(200 if self.healthy else 503, b"")

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        has_key = self.headers["Authorization"] == f"Bearer {KEY}"
        said = f"asked {asked['model']} at {self.path}"
        if self.path == "/v1/completions":
            choice = {"text": said, "finish_reason": "length"}
            said = json.dumps({"choices": [choice], "usage": {"completion_tokens": 1}})
        self._answer(200 if has_key else 401, said.encode())

    def _answer(self, code: int, body: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def endpoint() -> Iterator[str]:
    """Address of an endpoint."""
    with serving(type("Serving", (Endpoint,), {})) as url:
        yield url


@pytest.fixture
def cloud(stack: Stack, endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Connection:
    """The cloud of a stack with that endpoint."""
    monkeypatch.setattr(
        endpoint_connection, "slice_status", lambda *_, **__: status(address="127.0.0.1")
    )
    monkeypatch.setattr(SecretClient, "access", lambda *_: KEY)
    serves = changed(stack, "serving", port=urlsplit(endpoint).port)
    return Connection(serves, {}, now=lambda: NOON)


def changed(stack: Stack, section: str, **values: object) -> Stack:
    """``stack`` with other values in a section of its settings."""
    part = getattr(stack.settings, section).model_copy(update=values)
    return replace(stack, settings=stack.settings.model_copy(update={section: part}))


def environment(**more: str) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], **more}


def shown(capsys: Captured, form: str | None, found: Client, **environ: str) -> str:
    show_client(Invocation(environ=environ, now=lambda: NOON), found, form)
    return capsys.readouterr().out


def test_a_page_for_a_person(capsys: Captured) -> None:
    """It shows all that a program needs but the key, which a line of it sets."""
    assert shown(capsys, None, SHOWN) == PAGE
    assert all(len(line) <= 80 for line in PAGE.splitlines())


def test_programs_are_programs(capsys: Captured) -> None:
    """The Python that is shown can be run, whatever the model is called, and is that of the manual
    and of the page."""
    odd = Client("dev", SHOWN.url, 'a"b\\c', VERSION)
    text = shown(capsys, "python", odd)

    compile(text, "hello.py", "exec")
    assert "model=" + json.dumps('a"b\\c') in text
    small = Client("dev", SHOWN.url, "HuggingFaceTB/SmolLM2-135M-Instruct", VERSION)
    assert shown(capsys, "python", small) == (ROOT / "docs/examples/client/hello.py").read_text()
    assert shown(capsys, "python", SHOWN) in PAGE
    assert shown(capsys, "typescript", SHOWN) in PAGE


def test_variables_of_a_shell(capsys: Captured) -> None:
    """A shell that evaluates them has them, the key only if it was asked for."""

    def evaluated(found: Client) -> str:
        lines = shown(capsys, "env", found)
        words = "$OPENAI_BASE_URL $OPENAI_MODEL ${OPENAI_API_KEY-none}"
        typed = ["sh", "-c", f'{lines}printf %s "{words}"']
        return subprocess.run(typed, env={}, check=True, capture_output=True, text=True).stdout

    keyed = Client("dev", SHOWN.url, SHOWN.model, VERSION, KEY)
    assert evaluated(SHOWN) == f"{SHOWN.url} {SHOWN.model} none"
    assert evaluated(keyed) == f"{SHOWN.url} {SHOWN.model} {KEY}"
    assert KEY not in repr(keyed)
    assert shown(capsys, "env", SHOWN, TPUFLEX_STACK="other").endswith(
        "# OPENAI_API_KEY is set by: tpuflex client --stack dev --as env --show-key\n"
    )


@pytest.mark.parametrize(
    ("environ", "without"),
    [
        ({}, None),
        ({"no_proxy": "a"}, None),
        ({"https_proxy": "http://p"}, "127.0.0.9"),
        ({"HTTP_PROXY": "http://p", "NO_PROXY": "a, b"}, "a,b,127.0.0.9"),
        (
            {"ALL_PROXY": "http://p", "NO_PROXY": "a,b", "no_proxy": "c,127.0.0.9"},
            "a,b,c,127.0.0.9",
        ),
        ({"https_proxy": "http://p", "no_proxy": "*"}, "*"),
    ],
)
def test_a_proxy_is_not_sent_the_key(environ: dict[str, str], without: str | None) -> None:
    """Where clients go through a proxy, they go to the endpoint without it, and to all that either
    variable lists."""
    found = SHOWN.variables(environ)

    assert (found.get("no_proxy"), found.get("NO_PROXY")) == (without, without)


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
def test_curl_is_answered_and_its_words_have_no_key(
    cloud: Connection, tmp_path: Path, capsys: Captured
) -> None:
    """The text for curl, typed into a shell, is answered by the endpoint, and the key's header is
    not among the words of curl's command line, which every user of the machine can read."""
    (tmp_path / "curl").write_text(
        f'#!/bin/sh\nprintf "%s " "$@" > {tmp_path}/words\nexec {shutil.which("curl")} "$@"\n'
    )
    (tmp_path / "curl").chmod(0o755)
    found = client(cloud, show_key=True)
    variables = found.variables({}) | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    typed = ["sh", "-c", shown(capsys, "curl", found)]
    done = subprocess.run(typed, env=variables, check=True, capture_output=True, text=True)

    assert done.stdout == f"asked {found.model} at /v1/chat/completions"
    assert "Authorization" not in (tmp_path / "words").read_text()


def test_a_command_has_the_key_in_its_environment_alone(cloud: Connection, tmp_path: Path) -> None:
    """The command has it beside what its environment has anyway, no other process has it in its
    words, and the command's exit code is passed on."""
    words = (sys.executable, "-c", SEES_THE_KEY, str(tmp_path / "seen"))
    code = run_client(cloud, words, environment(OWN="mine", OPENAI_API_KEY="another's"))

    seen = (tmp_path / "seen").read_text()
    assert code == 7
    assert seen == f"{client(cloud).url} {cloud.stack.settings.model.name} {KEY} mine"
    assert "OPENAI_API_KEY" not in os.environ


def test_a_signal_is_passed_on(cloud: Connection) -> None:
    """What ends `tpuflex client` ends its command, and the exit code is that of a shell."""
    words = ("sh", "-c", "kill -TERM $PPID; exec sleep 60")

    assert run_client(cloud, words, environment()) == 128 + 15


#: In the foreground of a terminal of its own: a command that takes a while to end after Ctrl-C.
IN_A_TERMINAL = """
import fcntl, sys, termios
from tpuflex.operate.openai_client import run_command
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
child = '''
import signal, sys, time
asked = []
signal.signal(signal.SIGINT, lambda *_: asked.append(1))
print("begun", flush=True)
while not asked:
    time.sleep(0.02)
time.sleep(0.2)
sys.exit(len(asked))
'''
sys.exit(run_command([sys.executable, "-c", child], {}))
"""


def test_ctrl_c_reaches_the_command_once() -> None:
    """A terminal sends it to both; the command ends as it likes to, and is waited for."""
    ours, its = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", IN_A_TERMINAL],
        stdin=its,
        stdout=subprocess.PIPE,
        stderr=its,
        start_new_session=True,
    )
    assert process.stdout is not None
    with process:
        assert process.stdout.readline() == b"begun\n"
        os.write(ours, b"\x03")
        assert process.wait() == 1
    os.close(its)
    os.close(ours)


def test_no_command_is_run_where_nothing_answers(cloud: Connection, tmp_path: Path) -> None:
    """Before COMMAND is started, it is looked up, and the endpoint is asked whether it serves."""
    words = ("touch", str(tmp_path / "begun"))
    with pytest.raises(UsageError, match="no command 'nonesuch'"):
        run_client(cloud, ("nonesuch",), environment())

    assert run_client(cloud, words, environment()) == 0
    (tmp_path / "begun").unlink()
    Endpoint.healthy = False
    try:
        with pytest.raises(BootError, match="does not answer: /health answered 503") as raised:
            run_client(cloud, words, environment())
    finally:
        Endpoint.healthy = True

    assert "`tpuflex logs` shows" in str(raised.value.hint)
    assert not (tmp_path / "begun").exists()


def test_a_private_endpoint_is_called_through_a_tunnel(
    cloud: Connection, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    """The URL is the one at which `tpuflex tunnel` listens; that a tunnel is needed is said, and
    that nothing serves now."""
    found = status(address="10.0.0.2", host=None)
    monkeypatch.setattr(endpoint_connection, "slice_status", lambda *_, **__: found)
    port = cloud.stack.settings.serving.port
    private = client(cloud)

    assert private.url == f"http://127.0.0.1:{port}/v1"
    assert client(cloud, tunnel=False).url == f"http://10.0.0.2:{port}/v1"
    assert list(map(str, private.remarks)) == [
        "It does not serve now: `tpuflex status` says why.",
        "10.0.0.2 is a private address, and tpuflex:network.allowed_cidrs lets nobody in: keep"
        " `tpuflex tunnel` running in another terminal, or let `tpuflex client -- COMMAND` open a"
        " tunnel.",
    ]
    assert "  note      It does not serve now: " in shown(capsys, None, private)


def test_a_certificate_is_trusted_beside_the_usual_ones(
    cloud: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients get a file with the usual certificates and the stack's own, without its key; that the
    certificate does not name the address is said, as clients would refuse it."""
    pem, key = certificate()
    monkeypatch.setattr(SecretClient, "access", lambda *_: pem + key)
    found = client(Connection(changed(cloud.stack, "secrets", tls_certificate_version=1), {}))

    assert found.url.startswith("https://127.0.0.1:")
    assert found.certificates is not None
    text = found.certificates.read_text()
    assert pem.strip() in text
    assert "PRIVATE" not in text
    trusted = ssl.create_default_context(cafile=str(found.certificates))
    assert trusted.cert_store_stats()["x509"] > 100
    assert found.variables({})["SSL_CERT_FILE"] == str(found.certificates)
    assert list(map(str, found.remarks)) == [
        "The stack's certificate names llm.example.com, not 127.0.0.1: most clients refuse it"
        " there. Put one that names 127.0.0.1, too."
    ]


def test_the_callers_own_authorities_are_kept(
    cloud: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind a proxy that looks into TLS, a company's are trusted and the usual ones are no help;
    a shell that has the variables already gets no more of them."""
    company, more = (certificate()[0].strip() for _ in range(2))
    pem, key = certificate()
    own = pem.strip()
    monkeypatch.setattr(SecretClient, "access", lambda *_: pem + key)
    for name, text in (("company.pem", company), ("more.pem", more)):
        (tmp_path / name).write_text(f"# {name}\n{text}\n")
    stack = changed(cloud.stack, "secrets", tls_certificate_version=1)
    named = {
        "REQUESTS_CA_BUNDLE": str(tmp_path / "company.pem"),
        "NODE_EXTRA_CA_CERTS": str(tmp_path / "more.pem"),
    }
    for _ in range(2):
        found = client(Connection(stack, named))
        assert found.certificates is not None
        assert found.certificates.read_text() == f"{company}\n{more}\n{own}\n"
        named |= found.variables(named)

    with pytest.raises(UsageError, match="SSL_CERT_FILE names /nonesuch, which cannot be read"):
        client(Connection(stack, {"SSL_CERT_FILE": "/nonesuch"}))


def test_no_key_is_shown_where_another_user_may_listen(
    cloud: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no tunnel of this user listens at the port, anybody on this machine could: the key is
    refused."""
    found = status(address="10.0.0.2")
    monkeypatch.setattr(endpoint_connection, "slice_status", lambda *_, **__: found)
    with_tunnel = client(cloud, show_key=True)
    with socket.socket() as bound:  # nobody else can take it, and it takes no connection
        bound.bind(("127.0.0.1", 0))
        stack = changed(cloud.stack, "serving", port=bound.getsockname()[1])
        with pytest.raises(NotFoundError, match="nothing listens at http://127") as raised:
            client(Connection(stack, {}), show_key=True)

    assert with_tunnel.key == KEY
    assert str(raised.value.hint).startswith("Keep `tpuflex tunnel` running in another terminal")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--as curl --show-key", "--show-key is for --as env and --json"),
        ("--show-key", "--show-key is for --as env and --json"),
        ("--as env --json", "--json has all of it"),
        ("--json -- true", "COMMAND has the variables in its environment"),
        ("--show-key true", "COMMAND has the variables in its environment"),
    ],
)
def test_what_contradicts_itself_is_refused(type_in: TypeIn, words: str, said: str) -> None:
    """Nothing that was asked for is left out silently."""
    typed = type_in("client", *words.split())

    assert typed.code == 2
    assert said in typed.err


def test_for_scripts(cloud: Connection) -> None:
    """The document of --json has all of it, the key only if it was asked for."""
    assert client(cloud, show_key=True).to_json() == {
        "stack": "dev",
        "base_url": f"http://127.0.0.1:{cloud.stack.settings.serving.port}/v1",
        "model": cloud.stack.settings.model.name,
        "api_key": KEY,
        "api_key_version": cloud.secret_version("api-key"),
        "certificates": None,
        "remarks": [],
    }
    assert client(cloud).to_json()["api_key"] is None
