"""P5: with a certificate, keys cross the network only to the server that holds its key."""

from __future__ import annotations

import shlex
import ssl
import stat
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.security.certificates import certificate
from tests.startup.cloud import FILES, VERSION, Handler, Server
from tests.startup.host import StartupHost, StartupRun
from tests.unit.stack_sections import sections
from tpuflex.boot.certificate import read_certificate
from tpuflex.errors import AccessError, ApiError, SettingsError
from tpuflex.naming import Names
from tpuflex.operate.endpoint_connection import session, tls_session
from tpuflex.operate.question import Question, stream_answer
from tpuflex.settings.load import parse

TLS_VERSION = "projects/p/secrets/tls-certificate/versions/1"
MODEL = "tiny"


class TlsHost(StartupHost):
    """A host with a certificate in Secret Manager, and a server that speaks TLS with one."""

    def __init__(self, directory: Path, served: tuple[str, str]) -> None:
        super().__init__(directory)
        self.cloud.put_weights(FILES)
        pem, key = directory / "served.pem", directory / "served.key"
        pem.write_text(served[0])
        key.write_text(served[1])
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pem, key)
        handler: Any = type("Handler", (Handler,), {"cloud": self.cloud})
        handler.container = directory / "container.json"
        self._tls = Server(("127.0.0.1", 0), handler)
        self._tls.socket = context.wrap_socket(self._tls.socket, server_side=True)
        threading.Thread(target=self._tls.serve_forever, args=(0.05,), daemon=True).start()
        self.port = int(self._tls.server_address[1])

    def boot(self, pem: str) -> StartupRun:
        """Run the script with ``pem`` in the secret."""
        self.cloud.secrets[TLS_VERSION] = pem
        serving = self.config()["serving"] | {"port": self.port}
        secrets = [
            {"role": "api-key", "version": VERSION},
            {"role": "tls-certificate", "version": TLS_VERSION},
        ]
        self.cloud.config = self.config(serving=serving, secrets=secrets)
        return self.run()

    def close(self) -> None:
        """Stop both servers."""
        self._tls.shutdown()
        self._tls.server_close()
        super().close()


@pytest.fixture
def ours() -> tuple[str, str]:
    """The stack's certificate and key."""
    return certificate()


@pytest.fixture
def host(tmp_path: Path, ours: tuple[str, str]) -> Iterator[TlsHost]:
    """A host whose server has the stack's certificate."""
    host = TlsHost(tmp_path / "host", ours)
    yield host
    host.close()


@pytest.fixture
def impostor(tmp_path: Path) -> Iterator[TlsHost]:
    """A host whose server has a certificate of somebody else, for the same name."""
    host = TlsHost(tmp_path / "impostor", certificate())
    yield host
    host.close()


def test_the_server_speaks_tls_and_every_probe_verifies(
    host: TlsHost, ours: tuple[str, str]
) -> None:
    """S13: health, closed routes and completion are asked over TLS; READY follows."""
    run = host.boot("".join(ours))
    assert run.status == 0, run.output
    assert host.cloud.last("phase") == "READY"
    words = shlex.split(host.docker_calls("run")[0])
    for option, name in (("--ssl-certfile", "certificate.pem"), ("--ssl-keyfile", "key.pem")):
        path = Path(words[words.index(option) + 1])
        assert path == host.memory("tls", name)
        assert stat.S_IMODE(path.stat().st_mode) == 0o400
    assert host.memory("tls", "certificate.pem").read_text() == ours[0]
    assert ours[1].splitlines()[1] not in run.output


def test_a_server_with_another_certificate_is_never_ready(
    impostor: TlsHost, ours: tuple[str, str]
) -> None:
    """S13: what answers with somebody else's certificate gets no key, and the host fails."""
    run = impostor.boot("".join(ours))
    assert run.status != 0
    assert "READY" not in impostor.cloud.phases()
    assert not [line for line in impostor.cloud.requests if "POST" in line]


@pytest.mark.parametrize(
    ("pem", "problem"),
    [
        (lambda: "not a certificate", "holds no certificate"),
        (lambda: certificate()[0], "0 private keys"),
        (lambda: certificate()[0] + certificate()[1], "cannot be used together"),
        (lambda: "".join(certificate(passphrase=b"x")), "encrypted"),
        (lambda: "".join(certificate(days=-1)), "expired"),
    ],
)
def test_a_certificate_that_no_server_could_use_ends_the_boot(
    host: TlsHost, pem: Any, problem: str
) -> None:
    """The host says what is wrong with it, which is before a server is started."""
    host.memory("secrets").mkdir(parents=True)
    host.memory("secrets", "tls-certificate").write_text(pem())
    said = host.functions("prepare_tls")
    assert said.startswith("tls: ")
    assert problem in said


class TestAsk:
    def question(self, host: TlsHost) -> Question:
        """A question to that host's server."""
        return Question(f"https://127.0.0.1:{host.port}/v1", MODEL, "Anybody there?")

    def test_the_key_goes_to_the_holder_of_the_certificate(
        self, host: TlsHost, ours: tuple[str, str]
    ) -> None:
        """S13: `tpuflex ask` talks to the server with that very certificate, by any address."""
        fingerprint = read_certificate("".join(ours), datetime.now(UTC)).fingerprint
        host.boot("".join(ours))
        with pytest.raises(ApiError, match="broke off"):  # it does not stream
            stream_answer(
                self.question(host),
                "key-canary-3141592653",
                show=lambda _: None,
                now=lambda: 0.0,
                session=tls_session(fingerprint),
            )
        assert sum("Anybody there?" in line for line in host.cloud.requests) == 1

    def test_nobody_else_gets_it(self, impostor: TlsHost, ours: tuple[str, str]) -> None:
        """S13: another certificate, even for the same name, ends the connection before the key."""
        fingerprint = read_certificate("".join(ours), datetime.now(UTC)).fingerprint
        with pytest.raises(ApiError):
            stream_answer(
                self.question(impostor),
                "key-canary-3141592653",
                show=lambda _: None,
                now=lambda: 0.0,
                session=tls_session(fingerprint),
            )
        assert impostor.cloud.requests == []


@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:8000/v1", "HTTP://llm.example.com/v1"])
def test_ask_sends_no_key_in_clear(endpoint: str) -> None:
    """S13: a stack with a certificate is asked over https only, whatever --url says."""
    settings = parse(sections({"secrets": {"tls_certificate_version": 2}}), "test")
    stack = SimpleNamespace(settings=settings, names=Names("p", "s", "e"))
    cloud: Any = SimpleNamespace(stack=stack, secrets=None)
    with pytest.raises(AccessError, match="in clear"):
        session(cloud, endpoint)


@pytest.mark.parametrize(
    ("pem", "problem"),
    [
        (lambda: "", "no certificate"),
        (lambda: certificate()[0], "one private key"),
        (lambda: "".join(certificate()) + certificate()[1], "one private key"),
        (lambda: certificate()[0] + certificate()[1], "not that of its first certificate"),
        (lambda: "".join(certificate(passphrase=b"x")), "passphrase"),
        (lambda: "".join(certificate(days=-1)), "not now"),
    ],
)
def test_an_unusable_certificate_is_refused_before_it_is_stored(pem: Any, problem: str) -> None:
    """`secrets put` and `up` say what is wrong, and quote nothing of the key."""
    text = pem()
    with pytest.raises(SettingsError) as refused:
        read_certificate(text, datetime.now(UTC))
    assert problem in str(refused.value)
    assert not [line for line in text.splitlines() if len(line) > 40 and line in str(refused.value)]
