"""The copying program on an embedded cloud: its metadata server, and what lies between it and the
cloud, which loses answers and ends programs."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from embedded_cloud.server import EmbeddedCloud
from tests.embedded_cloud.api import TOKEN, Api
from tests.hub_models import MODEL, pauses
from tpuflex.boot.manifest import MANIFEST_NAME
from tpuflex.copier.__main__ import main
from tpuflex.copier.job import HubOrigin, Job, JobFile
from tpuflex.copier.report import Report
from tpuflex.operate.hub.client import HubClient
from tpuflex.operate.hub.snapshot import HubSource

#: What of a job is the Hub's.
OF_ORIGIN = {"hub", "commit", "token_version"}
PROJECT, BUCKET, PREFIX = "my-project", "weights-of-tests", "models/tiny/r1"
#: The owner's: the rights of the machine's account are tested with the machine.
ACCESS_TOKEN = TOKEN


class _Quiet(BaseHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def answer(self, status: int, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for key, value in (headers or {}).items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))


class _Server(ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """Say nothing: a program that was killed reads no answer."""


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """The address of a server on loopback."""
    server = _Server(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.01), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@dataclass
class Metadata:
    """What a machine's metadata server says, and what it was told.

    Attributes:
        job: the text of the job.
        told: the guest attributes that were written, in order.
        environ: names the server.
    """

    job: str = ""
    told: list[str] = field(default_factory=list)
    environ: dict[str, str] = field(default_factory=dict)

    @property
    def last(self) -> dict[str, Any]:
        """The last report."""
        found: dict[str, Any] = json.loads(self.told[-1])
        return found


@contextmanager
def metadata_server() -> Iterator[Metadata]:
    """A metadata server."""
    metadata = Metadata()

    class Handler(_Quiet):
        def do_GET(self) -> None:
            if self.headers.get("Metadata-Flavor") != "Google":
                self.answer(403)
            elif self.path.endswith("/attributes/tpuflex-copy"):
                self.answer(200, metadata.job.encode())
            else:
                token = {"access_token": ACCESS_TOKEN, "expires_in": 3599}
                self.answer(200, json.dumps(token).encode())

        def do_PUT(self) -> None:
            assert self.path == "/computeMetadata/v1/instance/guest-attributes/tpuflex/copy"
            metadata.told.append(self.body().decode())
            self.answer(200)

    with serving(Handler) as url:
        metadata.environ["GCE_METADATA_HOST"] = urlsplit(url).netloc
        yield metadata


@dataclass
class Line:
    """A line to a cloud: forwards requests, and may lose an answer or end the program at a write.

    Attributes:
        url: its address.
        writes: the writes that went through, in order.
        lose_at: place of the write whose answer is lost; None for none.
        at_write: called with the place of each write, before it is forwarded.
    """

    url: str = ""
    writes: list[str] = field(default_factory=list)
    lose_at: int | None = None
    at_write: Callable[[int], None] = lambda _place: None


@contextmanager
def line_to(target: str) -> Iterator[Line]:
    """A line to the server at ``target``."""
    line, lock = Line(), threading.Lock()
    host = urlsplit(target).netloc

    class Handler(_Quiet):
        def _forward(self) -> None:
            body, write = self.body(), self.command != "GET"
            with lock:
                place = len(line.writes)
                if write:
                    line.writes.append(f"{self.command} {self.path}")
            if write:
                line.at_write(place)
            connection = http.client.HTTPConnection(host)
            headers = {key: value for key, value in self.headers.items() if key != "Host"}
            connection.request(self.command, self.path, body=body, headers=headers)
            answer = connection.getresponse()
            content = answer.read()
            connection.close()
            if write and place == line.lose_at:
                self.close_connection = True
                return
            kept = {
                key: value.replace(target, line.url)
                for key, value in answer.getheaders()
                if key in ("Location", "Range", "Content-Range", "Retry-After")
            }
            self.answer(answer.status, content, kept)

        do_GET = do_PUT = do_POST = do_DELETE = _forward  # noqa: N815 - names that http.server asks

    with serving(Handler) as url:
        line.url = url
        yield line


@dataclass(frozen=True)
class Rig:
    """An embedded cloud with a bucket, and a machine's metadata server.

    Attributes:
        cloud: the cloud.
        api: calls on it as its owner.
        metadata: the metadata server.
    """

    cloud: EmbeddedCloud
    api: Api
    metadata: Metadata

    def job(self, url: str = "", token: str = "", **changes: Any) -> Job:
        """The job that copies the model of the small Hub; ``url`` is the line to the cloud."""
        origin = {key: changes.pop(key) for key in OF_ORIGIN & changes.keys()}
        hub = f"{self.cloud.url}/huggingface"
        snapshot = HubClient(hub, lambda: token, pauses([])).snapshot(HubSource(MODEL, ""))
        made = Job(
            origin=replace(HubOrigin(hub, snapshot.repository, snapshot.commit), **origin),
            files=tuple(JobFile(f.path, f.size, f.sha256, f.git_id) for f in snapshot.files),
            bucket=BUCKET,
            prefix=PREFIX,
            model="tiny",
            revision="r1",
            source=snapshot.source,
            pinned="",
            known=(),
            again=False,
            storage=url or self.cloud.url,
            secretmanager=url or self.cloud.url,
        )
        return replace(made, **changes)

    def run(self, job: Job) -> dict[str, Any]:
        """Run the program in this process; its last report."""
        self.metadata.job = job.to_json()
        main(self.metadata.environ, sleep=lambda _seconds: None)
        return self.metadata.last

    def read(self, path: str) -> bytes:
        """An object below the prefix."""
        name = f"{PREFIX}/{path}".replace("/", "%2F")
        answer = self.api.call("GET", f"storage/v1/b/{BUCKET}/o/{name}", alt="media")
        assert answer.status_code == 200, path
        return answer.content

    def write(self, path: str, content: bytes) -> None:
        """Write an object below the prefix, as anybody who may."""
        import requests

        requests.post(
            f"{self.cloud.url}/upload/storage/v1/b/{BUCKET}/o",
            params={"uploadType": "media", "name": f"{PREFIX}/{path}"},
            data=content,
            headers={"Authorization": f"Bearer {TOKEN}"},
            timeout=30,
        ).raise_for_status()

    def names(self) -> set[str]:
        """What is below the prefix."""
        found = self.api.call("GET", f"storage/v1/b/{BUCKET}/o").json().get("items", [])
        return {entry["name"].removeprefix(f"{PREFIX}/") for entry in found}

    def manifest(self) -> bytes:
        """The manifest's bytes."""
        return self.read(MANIFEST_NAME)


def done(report: dict[str, Any]) -> Report:
    """``report`` as one of success."""
    assert report["state"] == "done", report
    fields = {key: value for key, value in report.items() if key != "schema"}
    return Report(**{**fields, "kept": tuple(fields["kept"])})


def directory_of(state_dir: Path) -> Path:
    """Where the small Hub has the model."""
    return state_dir / "hub" / MODEL
