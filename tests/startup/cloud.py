"""One server that plays Google for a host and, once the container runs, vLLM."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

API_KEY = "key-canary-3141592653"
VERSION = "projects/p/secrets/api-key/versions/1"
#: What signs compiled programs.
PROGRAMS_KEY = "programs-canary-2718281828"
PROGRAMS_VERSION = "projects/p/secrets/programs-key/versions/1"
PREFIX = "models/tiny/1"
FILES = {
    "config.json": b'{"architectures": ["LlamaForCausalLM"]}',
    "model-1.safetensors": b"first shard " * 5000,
    "nested/model-2.safetensors": b"second shard " * 3000,
    "empty.txt": b"",
}

#: The part of vLLM's metrics that describes its KV cache, as vLLM 0.32.0 writes it.
METRICS = b"""# HELP vllm:cache_config_info Information of the LLMEngine CacheConfig
# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{block_size="16",cache_dtype="auto",engine="0",kv_cache_size_tokens="2048",\
num_gpu_blocks="129",prefix_caching_hash_algo="sha256"} 1.0
""".replace(b"\\\n", b"")


def manifest_of(files: dict[str, bytes], part_bytes: int = 2**30) -> dict[str, Any]:
    """The manifest document of ``files``, with the sums of their parts."""
    return {
        "schema": 2,
        "part_bytes": part_bytes,
        "model": "tiny",
        "revision": "1",
        "total_bytes": sum(map(len, files.values())),
        "files": [
            {
                "path": path,
                "size": len(content),
                "crc32c": "AAAAAA==",
                "sha256": hashlib.sha256(content).hexdigest(),
                **({"parts": _sums(content, part_bytes)} if part_bytes < len(content) else {}),
            }
            for path, content in sorted(files.items())
        ],
    }


def _sums(content: bytes, part_bytes: int) -> list[str]:
    parts = (content[at : at + part_bytes] for at in range(0, len(content), part_bytes))
    return [hashlib.sha256(part).hexdigest() for part in parts]


def _text_of(files: dict[str, bytes], part_bytes: int = 2**30) -> bytes:
    return json.dumps(manifest_of(files, part_bytes)).encode()


#: That of the weights, and one that is only for programs.
_OBJECTS = re.compile(r"/storage/v1/b/(bucket-[12])/o(?:/(.+))?", re.DOTALL)
_UPLOAD = re.compile(r"/upload/storage/v1/b/(bucket-[12])/o\?")


@dataclass
class Cloud:
    """The server's data, and the requests that it received.

    Attributes:
        config: the document under `tpuflex-config`; None answers 404.
        zone: where the host is, as its metadata says it; None answers 404.
        attributes: other metadata attributes.
        objects: the bucket's objects by name.
        secrets: values by version name.
        answers: HTTP statuses to return before the real answer, by a part of the path.
        health: whether vLLM answers once its container runs.
        open_routes: methods and paths that vLLM answers without the key.
        openapi: vLLM's list of its routes.
        version: vLLM's answer to `/version`.
        metrics: vLLM's answer to `/metrics`.
        models: vLLM's answer to `/v1/models`.
        silent: a path whose POST requests vLLM never answers.
        shown: every key that vLLM was shown.
        requests: every request as `METHOD path`.
        ranges: the file and the `Range` of every request that had one.
        before_object: called with the path of an object that exists, before it is answered.
        altered: what is sent instead of the content of an object, by what was asked for.
        chunked: whether objects are sent without saying how long they are.
        reports: every field of the reports that changed, in order; empty when it is gone.
        written: the guest attribute as it was written, each time.
        lost: texts; for each, one report that holds it is dropped without a word, as Google may do.
        on_report: called with each report before it is answered.
        serving: the guest attribute `tpuflex/serving` as it was written, each time; None when it
            was removed.
        in_flight: the requests that the guard says are in flight.
        ahead: seconds by which the cloud's clock is ahead of the machine's.
        log_entries: requests of Cloud Logging's entries:write.
        points: requests of Cloud Monitoring's timeSeries.create.
        on_log: called with each of these before it is kept and answered.
        uploaded_to: the bucket of each upload; both buckets hold ``objects``.
        page: how many objects are listed at a time.
    """

    config: dict[str, Any] | None = None
    zone: str | None = "us-east5-a"
    attributes: dict[str, str] = field(default_factory=dict)
    objects: dict[str, bytes] = field(default_factory=dict)
    secrets: dict[str, str] = field(
        default_factory=lambda: {VERSION: API_KEY, PROGRAMS_VERSION: PROGRAMS_KEY}
    )
    answers: dict[str, list[int]] = field(default_factory=dict)
    health: bool = True
    open_routes: set[tuple[str, str]] = field(default_factory=set)
    openapi: dict[str, Any] = field(default_factory=lambda: {"paths": {"/v1/models": {"get": {}}}})
    version: bytes = b'{"version": "0.32.0"}'
    metrics: bytes = METRICS
    models: bytes = b'{"data": [{"id": "tiny", "max_model_len": 200}]}'
    silent: str = ""
    shown: set[str] = field(default_factory=set)
    requests: list[str] = field(default_factory=list)
    ranges: list[tuple[str, str]] = field(default_factory=list)
    before_object: Callable[[str], object] = lambda _path: None
    altered: Callable[[str, bytes], bytes] = lambda _asked, body: body
    chunked: bool = False
    reports: list[tuple[str, str]] = field(default_factory=list)
    written: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    log_entries: list[dict[str, Any]] = field(default_factory=list)
    points: list[dict[str, Any]] = field(default_factory=list)
    on_log: Callable[[dict[str, Any]], object] = lambda _request: None
    on_report: Callable[[dict[str, str]], object] = lambda _report: None
    serving: list[dict[str, Any] | None] = field(default_factory=list)
    in_flight: int = 0
    ahead: float = 0.0
    uploaded_to: list[str] = field(default_factory=list)
    page: int = 1000
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take_report(self, text: str) -> None:
        """Keep a report, and what it changes."""
        before = json.loads(self.written[-1]) if self.written else {}
        after = json.loads(text)
        self.written.append(text)
        # The phase last: its fields are there when somebody sees it.
        for key in sorted({**before, **after}, key=lambda key: (key == "phase", key)):
            if before.get(key) != after.get(key):
                self.reports.append((key, after.get(key, "")))
        self.on_report(after)

    def put_weights(
        self, files: dict[str, bytes], *, manifest: bool = True, part_bytes: int = 2**30
    ) -> None:
        """Put ``files`` into the bucket, by default with their manifest."""
        self.objects |= {f"{PREFIX}/{path}": content for path, content in files.items()}
        if manifest:
            self.objects[f"{PREFIX}/MANIFEST.json"] = _text_of(files, part_bytes)

    def document(self) -> dict[str, Any] | None:
        """The configuration as the host reads it: made for the manifest that lies in the bucket
        now, unless it names another."""
        if self.config is None:
            return None
        weights = self.config.get("weights")
        if not isinstance(weights, dict):
            return self.config
        text = self.objects.get(f"{PREFIX}/MANIFEST.json", _text_of(FILES))
        found = hashlib.sha256(text).hexdigest()
        return self.config | {"weights": {"manifest_sha256": found} | weights}

    def asked(self, part: str) -> int:
        """The number of requests that contained ``part``."""
        return sum(part in request for request in self.requests)

    def last(self, key: str) -> str:
        """The current value of the guest attribute ``key``."""
        return next((value for name, value in reversed(self.reports) if name == key), "")

    def phases(self) -> list[str]:
        """The phases in the order reported."""
        return [value for name, value in self.reports if name == "phase"]

    def details(self) -> str:
        """All details, one per line."""
        return "\n".join(value for name, value in self.reports if name == "detail")


class Handler(BaseHTTPRequestHandler):
    cloud: Cloud
    container: Path
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def date_time_string(self, timestamp: float | None = None) -> str:
        """The cloud's time, as a header."""
        return super().date_time_string((timestamp or time.time()) + self.cloud.ahead)

    def do_PUT(self) -> None:
        body = self._body().decode()
        with self.cloud.lock:
            if self.cloud.answers.get("guest-attributes"):
                return self._answer(self.cloud.answers["guest-attributes"].pop(0))
            if self.path.endswith("/guest-attributes/tpuflex/serving"):
                self.cloud.serving.append(json.loads(body))
                return self._answer(200)
            if not self.path.endswith("/guest-attributes/tpuflex/report") or not body:
                return self._answer(400)
            dropped = next((text for text in self.cloud.lost if text in body), None)
            if dropped is None:
                self.cloud.take_report(body)
            else:
                self.cloud.lost.remove(dropped)
        return self._answer(200)

    def do_DELETE(self) -> None:
        with self.cloud.lock:
            self.cloud.serving.append(None)
        return self._answer(200)

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        with self.cloud.lock:
            self.cloud.requests.append(f"GET {path}")
            if "Range" in self.headers:
                self.cloud.ranges.append((path.rpartition("/")[2], self.headers["Range"]))
            for part, statuses in self.cloud.answers.items():
                if part in path and statuses and self._is_expected(path):
                    return self._answer(statuses.pop(0))
        if path.startswith("/computeMetadata/v1/"):
            return self._metadata(path.removeprefix("/computeMetadata/v1/"))
        if found := _OBJECTS.fullmatch(path):
            if not found[2]:
                return self._listing(parse_qs(urlsplit(self.path).query)["prefix"][0])
            return self._object(found[2])
        if path.startswith("/v1/projects/"):
            return self._secret(path.removeprefix("/v1/").removesuffix(":access"))
        crashes = self.container.with_name("crashes").exists()
        if crashes or not self._is_up() or not self.cloud.health:
            return self._answer(503)
        if path == "/health":
            return self._answer(200)
        if not self._may_ask(path):
            return self._answer(401)
        if path == "/openapi.json":
            return self._answer(200, json.dumps(self.cloud.openapi).encode())
        if path == "/v1/models":
            return self._answer(200, self.cloud.models)
        if path == "/version":
            return self._answer(200, self.cloud.version)
        if path == "/tpuflex/requests":
            said = {"in_flight": self.cloud.in_flight}
            return self._answer(200, json.dumps(said).encode())
        if path == "/metrics":
            return self._answer(200, self.cloud.metrics)
        return self._answer(200)

    def _is_up(self) -> bool:
        return self.container.exists() and "exited" not in self.container.read_text()

    def _is_expected(self, path: str) -> bool:
        google = ("/computeMetadata/", "/storage/", "/v1/projects/")
        return path.startswith((*google, "/health")) or self._may_ask(path)

    def _may_ask(self, path: str) -> bool:
        if (self.command, path) in self.cloud.open_routes:
            return True
        key = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if key:
            self.cloud.shown.add(key)
        # As the guard does.
        keys = self.container.with_name("root") / "run" / "tpuflex" / "guard" / "keys.json"
        digests = json.loads(keys.read_text())["full"] if keys.exists() else []
        return hashlib.sha256(key.encode()).hexdigest() in digests

    def do_OPTIONS(self) -> None:
        self._answer(200 if self._may_ask(self.path) else 401)

    def do_HEAD(self) -> None:
        self.do_OPTIONS()

    def do_POST(self) -> None:
        if found := _UPLOAD.match(self.path):
            with self.cloud.lock:
                self.cloud.uploaded_to.append(found[1])
            return self._upload(parse_qs(urlsplit(self.path).query), self._body())
        request = json.loads(self._body() or b"{}")
        if self.path == "/v2/entries:write":
            return self._keep(request, self.cloud.on_log, self.cloud.log_entries)
        if self.path == "/v3/projects/p/timeSeries":
            return self._keep(request, lambda _: None, self.cloud.points)
        if not self._may_ask(self.path):
            return self._answer(401)
        with self.cloud.lock:
            self.cloud.requests.append(f"POST {self.path} {json.dumps(request)}")
            statuses = self.cloud.answers.get(self.path, [])
            if statuses:
                status, error = statuses.pop(0), b'{"error": {"message": "not now"}}'
                # A stream has begun when it fails.
                return self._answer(status, b"data: " + error if status == 200 else error)
        if self.path == self.cloud.silent:
            # Until the client gives up.
            self.rfile.read(1)
            return None
        choice = {"message": {"role": "assistant", "content": "ready"}}
        answer = {"choices": [choice], "usage": {"completion_tokens": 1}}
        return self._answer(200, json.dumps(answer).encode())

    def _keep(
        self,
        request: dict[str, Any],
        before: Callable[[dict[str, Any]], object],
        kept: list[dict[str, Any]],
    ) -> None:
        if self.headers.get("Authorization") != "Bearer ya29.host":
            return self._answer(401)
        before(request)
        with self.cloud.lock:
            statuses = self.cloud.answers.get(self.path, [])
            if statuses:
                return self._answer(statuses.pop(0), b'{"error": {"message": "no"}}')
            kept.append(request)
        return self._answer(200, b"{}")

    def _metadata(self, key: str) -> None:
        if self.headers.get("Metadata-Flavor") != "Google":
            return self._answer(403)
        config = self.cloud.document()
        values = {
            "instance/attributes/tpuflex-config": None if config is None else json.dumps(config),
            "instance/guest-attributes/tpuflex/report": self.cloud.written[-1]
            if self.cloud.written
            else None,
            "instance/name": "t1v-n-1-w-0",
            "instance/network-interfaces/0/ip": "127.0.0.1",
            "instance/zone": self.cloud.zone and f"projects/1/zones/{self.cloud.zone}",
            "project/project-id": "p",
            "instance/attributes/": json.dumps(self.cloud.attributes),
            "instance/service-accounts/default/token": json.dumps({"access_token": "ya29.host"}),
            **{f"instance/attributes/{name}": text for name, text in self.cloud.attributes.items()},
        }
        value = values.get(key)
        return self._answer(404) if value is None else self._answer(200, value.encode())

    def _listing(self, prefix: str) -> None:
        if self.headers.get("Authorization") != "Bearer ya29.host":
            return self._answer(401)
        items = [{"name": name} for name in sorted(self.cloud.objects) if name.startswith(prefix)]
        body: dict[str, Any] = {"items": items[: self.cloud.page]} if items else {}
        if len(items) > self.cloud.page:
            body["nextPageToken"] = "more"
        return self._answer(200, json.dumps(body).encode())

    def _upload(self, query: dict[str, list[str]], content: bytes) -> None:
        """A new object; the host may replace none (roles/storage.objectCreator)."""
        name = query["name"][0]
        with self.cloud.lock:
            self.cloud.requests.append(f"POST {name}")
            statuses = self.cloud.answers.get("/upload", [])
            if statuses:
                return self._answer(statuses.pop(0))
            if self.headers.get("Authorization") != "Bearer ya29.host":
                return self._answer(401)
            if query["ifGenerationMatch"] != ["0"] or name in self.cloud.objects:
                return self._answer(412)
            self.cloud.objects[name] = content
        return self._answer(200, b"{}")

    def _object(self, name: str) -> None:
        if self.headers.get("Authorization") != "Bearer ya29.host":
            return self._answer(401)
        content = self.cloud.objects.get(name)
        if content is None:
            return self._answer(404)
        with suppress(threading.BrokenBarrierError):
            self.cloud.before_object(name.removeprefix(f"{PREFIX}/"))
        asked = self.headers.get("Range", "")
        status, body, content_range = ranged(content, asked)
        return self._answer(status, self.cloud.altered(asked, body), content_range)

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

    def _answer(self, status: int, body: bytes = b"", content_range: str = "") -> None:
        self.send_response(status)
        if content_range:
            self.send_header("Content-Range", content_range)
        if content_range and self.cloud.chunked:
            self.send_header("Transfer-Encoding", "chunked")
            body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
        else:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def ranged(content: bytes, asked: str) -> tuple[int, bytes, str]:
    """Cloud Storage's answer to a `Range` header: status, body and `Content-Range`."""
    if not asked:
        return 200, content, ""
    first, _, last = asked.removeprefix("bytes=").partition("-")
    start, end = int(first), min(int(last or len(content)), len(content) - 1)
    if start >= len(content):
        return 416, b"", f"bytes */{len(content)}"
    return 206, content[start : end + 1], f"bytes {start}-{end}/{len(content)}"


class Server(ThreadingHTTPServer):
    # A script that gives up leaves half-read answers behind; that is expected.
    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing."""
