"""A host for the startup script: a directory as its root, a docker that only records, and one
server that plays Google and, once the container runs, vLLM. bash, curl and python3 are real."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from tpuflex.boot.script import startup_script

API_KEY = "key-canary-3141592653"
VERSION = "projects/p/secrets/api-key/versions/1"
PREFIX = "models/tiny/1"
FILES = {
    "config.json": b'{"architectures": ["LlamaForCausalLM"]}',
    "model-1.safetensors": b"first shard " * 5000,
    "nested/model-2.safetensors": b"second shard " * 3000,
    "empty.txt": b"",
}

_DOCKER = r"""#!/bin/bash
# Records each call as one line of %q words; a container is the file container.json.
here=${0%/*}/..
printf '%q ' "$@" >>"$here/docker.calls"
printf '\n' >>"$here/docker.calls"
case $1 in
info)
    [[ ! -e $here/docker-down ]] && exit
    echo 'Cannot connect to the Docker daemon' >&2
    exit 1
    ;;
image) [[ -e $here/image ]] ;;
pull)
    [[ ! -e $here/registry-down ]] && : >"$here/image" && exit
    echo 'no route to registry' >&2
    exit 1
    ;;
inspect) [[ -e $here/container.json ]] && cat "$here/container.json" ;;
logs) cat "$here/container.log" 2>/dev/null ;;
rm) rm -f "$here/container.json" ;;
stop) : ;;
run)
    for word in "$@"; do
        case $word in tpuflex.spec=*) spec=${word#tpuflex.spec=} ;; esac
    done
    status=running restarts=0
    [[ ! -e $here/crashes ]] || { status=restarting restarts=3; }
    printf '[{"RestartCount": %d, "State": {"Status": "%s", "ExitCode": 2},' \
        "$restarts" "$status" >"$here/container.json"
    printf ' "Config": {"Labels": {"tpuflex.spec": "%s"}}}]\n' "$spec" >>"$here/container.json"
    ;;
esac
"""

_SLEEP = """#!/bin/bash
printf '%s\\n' "$1" >>"${0%/*}/../slept"
exec sleep 0.01
"""


def manifest_of(files: dict[str, bytes]) -> dict[str, Any]:
    """The manifest document of ``files``."""
    return {
        "schema": 1,
        "model": "tiny",
        "revision": "1",
        "created": "2026-01-01T00:00:00Z",
        "total_bytes": sum(map(len, files.values())),
        "files": [
            {
                "path": path,
                "size": len(content),
                "crc32c": "AAAAAA==",
                "sha256": hashlib.sha256(content).hexdigest(),
            }
            for path, content in sorted(files.items())
        ],
    }


@dataclass
class Cloud:
    """What the server knows and was asked.

    Attributes:
        config: the document under `tpuflex-config`; None answers 404.
        attributes: other metadata attributes.
        objects: the bucket's objects by name.
        secrets: values by version name.
        answers: HTTP statuses to give first, by a part of the path, before the real answer.
        health: whether vLLM answers once its container runs.
        requests: every request as `METHOD path`.
        reports: every guest attribute written, in order.
    """

    config: dict[str, Any] | None = None
    attributes: dict[str, str] = field(default_factory=dict)
    objects: dict[str, bytes] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=lambda: {VERSION: API_KEY})
    answers: dict[str, list[int]] = field(default_factory=dict)
    health: bool = True
    key_checked: bool = True
    requests: list[str] = field(default_factory=list)
    reports: list[tuple[str, str]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def put_weights(self, files: dict[str, bytes], *, manifest: bool = True) -> None:
        """Put ``files`` into the bucket, with their manifest unless told otherwise."""
        self.objects |= {f"{PREFIX}/{path}": content for path, content in files.items()}
        if manifest:
            text = json.dumps(manifest_of(files)).encode()
            self.objects[f"{PREFIX}/MANIFEST.json"] = text

    def asked(self, part: str) -> int:
        """How many requests had ``part`` in them."""
        return sum(part in request for request in self.requests)

    def last(self, key: str) -> str:
        """The present value of the guest attribute ``key``."""
        return next((value for name, value in reversed(self.reports) if name == key), "")

    def phases(self) -> list[str]:
        """The phases in the order in which they were reported."""
        return [value for name, value in self.reports if name == "phase"]

    def details(self) -> str:
        """All details, one per line."""
        return "\n".join(value for name, value in self.reports if name == "detail")


class _Handler(BaseHTTPRequestHandler):
    cloud: Cloud
    container: Path
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def do_PUT(self) -> None:
        key = self.path.rpartition("/")[2]
        body = self._body().decode()
        with self.cloud.lock:
            self.cloud.reports.append((key, body))
        self._answer(200)

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        with self.cloud.lock:
            self.cloud.requests.append(f"GET {path}")
            for part, statuses in self.cloud.answers.items():
                if part in path and statuses:
                    return self._answer(statuses.pop(0))
        if path.startswith("/computeMetadata/v1/"):
            return self._metadata(path.removeprefix("/computeMetadata/v1/"))
        if path.startswith("/storage/v1/b/bucket-1/o/"):
            return self._object(path.removeprefix("/storage/v1/b/bucket-1/o/"))
        if path.startswith("/v1/projects/"):
            return self._secret(path.removeprefix("/v1/").removesuffix(":access"))
        if not self.container.exists() or not self.cloud.health:
            return self._answer(503)
        if path == "/health":
            return self._answer(200)
        authorized = self.headers.get("Authorization") == f"Bearer {API_KEY}"
        return self._answer(200 if authorized or not self.cloud.key_checked else 401)

    def do_POST(self) -> None:
        request = json.loads(self._body())
        with self.cloud.lock:
            self.cloud.requests.append(f"POST {self.path} {json.dumps(request)}")
            statuses = self.cloud.answers.get(self.path, [])
            if statuses:
                return self._answer(statuses.pop(0), b'{"error": {"message": "not now"}}')
        if self.headers.get("Authorization") != f"Bearer {API_KEY}":
            return self._answer(401)
        choice = {"message": {"role": "assistant", "content": "ready"}}
        answer = {"choices": [choice], "usage": {"completion_tokens": 1}}
        return self._answer(200, json.dumps(answer).encode())

    def _metadata(self, key: str) -> None:
        if self.headers.get("Metadata-Flavor") != "Google":
            return self._answer(403)
        config = self.cloud.config
        values = {
            "instance/attributes/tpuflex-config": None if config is None else json.dumps(config),
            "instance/network-interfaces/0/ip": "127.0.0.1",
            "instance/service-accounts/default/token": json.dumps({"access_token": "ya29.host"}),
            **{f"instance/attributes/{name}": text for name, text in self.cloud.attributes.items()},
        }
        value = values.get(key)
        return self._answer(404) if value is None else self._answer(200, value.encode())

    def _object(self, name: str) -> None:
        if self.headers.get("Authorization") != "Bearer ya29.host":
            return self._answer(401)
        content = self.cloud.objects.get(name)
        if content is None:
            return self._answer(404)
        asked = self.headers.get("Range", "")
        if asked:
            start = int(asked.removeprefix("bytes=").rstrip("-"))
            return self._answer(206 if start < len(content) else 416, content[start:])
        return self._answer(200, content)

    def _secret(self, version: str) -> None:
        if self.headers.get("Authorization") != "Bearer ya29.host":
            return self._answer(401)
        value = self.cloud.secrets.get(version)
        if value is None:
            return self._answer(404)
        data = base64.b64encode(value.encode()).decode()
        return self._answer(200, json.dumps({"payload": {"data": data}}).encode())

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def _answer(self, status: int, body: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class _Server(ThreadingHTTPServer):
    # A script that gives up leaves half-read answers behind; that is not news.
    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing."""


@dataclass(frozen=True)
class StartupRun:
    """How a run of the script ended, and what it printed."""

    status: int
    output: str


class StartupHost:
    """One host on which the startup script can be run, also several times."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.root = directory / "root"
        self.cloud = Cloud()
        handler = type("Handler", (_Handler,), {"cloud": self.cloud})
        handler.container = directory / "container.json"  # type: ignore[attr-defined]
        self._server = _Server(("127.0.0.1", 0), handler)
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        for name, text in {"docker": _DOCKER, "sleep-stub": _SLEEP}.items():
            self.command(name, text)
        (directory / "bin" / "python3").symlink_to(sys.executable)
        self.script = directory / "startup-script"
        self.script.write_text(startup_script())
        self.cloud.config = self.config()

    def close(self) -> None:
        """Stop the server."""
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        """The server's base address."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def command(self, name: str, text: str) -> None:
        """Put an executable on the host's PATH."""
        path = self.directory / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def mark(self, name: str) -> Path:
        """A file that changes how the docker of this host behaves."""
        path = self.directory / name
        path.touch()
        return path

    def config(self, **changes: Any) -> dict[str, Any]:
        """A configuration for this host."""
        return {
            "schema": 1,
            "endpoint": {"project": "p", "stack": "dev", "name": "e"},
            "container": {
                "name": "vllm",
                "image": "registry/vllm@sha256:" + "ab" * 32,
                "shm_size": "1g",
                "env": {"PLAIN": "two words; $(touch injected) 'quoted'"},
            },
            "serving": {
                "model_name": "tiny",
                "port": self._server.server_address[1],
                "args": ["--dtype", "bfloat16", "--speculative-config", '{"a": "b c"}'],
            },
            "weights": {
                "bucket": "bucket-1",
                "prefix": PREFIX,
                "manifest": "MANIFEST.json",
                "parallelism": 3,
            },
            "secrets": [{"role": "api-key", "version": VERSION}],
            "timeouts": {"ready_s": 30, "secret_s": 20},
            "commands": {
                "weights": "tpuflex weights push --stack dev",
                "secrets": "tpuflex secrets ensure --stack dev",
            },
        } | changes

    def run(self, **environment: str) -> StartupRun:
        """Run the startup script to its end."""
        self.root.mkdir(exist_ok=True)
        done = subprocess.run(
            ["/bin/bash", str(self.script)],
            env={
                "PATH": f"{self.directory / 'bin'}:/usr/bin:/bin",
                "LANG": "C.UTF-8",
                "TPUFLEX_ROOT": str(self.root),
                "TPUFLEX_SLEEP": str(self.directory / "bin" / "sleep-stub"),
                "GCE_METADATA_HOST": self.url.removeprefix("http://"),
                "STORAGE_EMULATOR_HOST": self.url,
                "CLOUDSDK_API_ENDPOINT_OVERRIDES_SECRETMANAGER": f"{self.url}/",
                **environment,
            },
            cwd=self.directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            check=False,
        )
        return StartupRun(done.returncode, done.stdout)

    def docker_calls(self, command: str) -> list[str]:
        """The docker calls that began with ``command``, as they were quoted for the shell."""
        path = self.directory / "docker.calls"
        lines = path.read_text().splitlines() if path.exists() else []
        return [line for line in lines if line.split(" ")[0] == command]

    def memory(self, *parts: str) -> Path:
        """A path below the host's directory in memory."""
        return self.root.joinpath("dev", "shm", "tpuflex", *parts)

    def weights(self) -> dict[str, bytes]:
        """The files that a server on this host would find."""
        (directory,) = self.memory("weights").iterdir()
        return {
            str(path.relative_to(directory)): path.read_bytes()
            for path in directory.rglob("*")
            if path.is_file()
        }

    def slept(self) -> int:
        """Seconds that the script would have slept."""
        path = self.directory / "slept"
        return sum(map(int, path.read_text().split())) if path.exists() else 0

    def files_with(self, text: str) -> list[str]:
        """Files of the host that hold ``text``, relative to its directory."""
        found = []
        for folder, _, names in os.walk(self.directory):
            for name in names:
                path = Path(folder, name)
                if path.is_file() and not path.is_symlink() and text.encode() in path.read_bytes():
                    found.append(str(path.relative_to(self.directory)))
        return sorted(found)
