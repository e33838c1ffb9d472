"""`weights push` of a model of the Hub by the real command line, killed while it fetches."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
import requests
import yaml

from embedded_cloud.environment import HUB_PATH
from reliability import processes
from reliability.rig import StackRig
from tests.hub_models import MODEL, put_model, safetensors
from tests.loopback import serving
from tpuflex.cli.source_access import ENDPOINT_VARIABLE

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300)]

PUSH = ("weights", "push", "--yes")
SHARD = "model-00001-of-00002.safetensors"
HALF = len(safetensors()) // 2


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[StackRig]:
    """A stack whose weights come from the Hub."""
    with StackRig(tmp_path / "project", speed=20) as rig:
        file = rig.home / "stacks" / "Pulumi.dev.yaml"
        document = yaml.safe_load(file.read_text())
        document["config"]["tpuflex:model"]["weights"] = {"source": f"hf://{MODEL}"}
        file.write_text(yaml.safe_dump(document))
        put_model(rig.home / ".tpuflex" / "emulator")
        yield rig


def run(rig: StackRig, *words: str) -> None:
    """A command that succeeds."""
    assert rig.run(*words).exit_code == 0, rig.said[-1]


@dataclass
class Mirror:
    """A mirror of the Hub that sends half of a shard and then kills who has asked for it.

    Attributes:
        url: its address.
        deadly: whether it does; else it sends all that is asked for.
        asked: where in a file the last request for it began, by the file's name.
    """

    url: str = ""
    deadly: bool = True
    asked: dict[str, int] = field(default_factory=dict)


@contextmanager
def mirrored(rig: StackRig, models: Path) -> Iterator[Mirror]:
    """A mirror for commands of ``rig``, which fetch into ``models``: killed are all processes of a
    command, once something of the shard is on the disk."""
    hub, mirror = f"{rig.control.url}{HUB_PATH}", Mirror()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Say nothing."""

        def do_GET(self) -> None:
            wanted = self.headers.get("Range", "bytes=0-")
            answer = requests.get(f"{hub}{self.path}", headers={"Range": wanted}, timeout=60)
            self.send_response(answer.status_code)
            for name in ("Content-Type", "Content-Length", "Content-Range", "X-Repo-Commit"):
                if name in answer.headers:
                    self.send_header(name, answer.headers[name])
            self.end_headers()
            if "/resolve/" in self.path:
                mirror.asked[self.path.rpartition("/")[2]] = int(wanted[len("bytes=") : -1])
            deadly = mirror.deadly and self.path.endswith(SHARD)
            self.wfile.write(answer.content[: HALF if deadly else None])
            if deadly:
                self.wfile.flush()
                while not any(part.stat().st_size for part in models.glob(f"*/{SHARD}.part")):
                    time.sleep(0.01)
                for process in processes.marked(rig.mark):
                    process.kill()

    with serving(Handler) as mirror.url:
        yield mirror


def test_a_push_killed_while_it_fetches_goes_on(rig: StackRig) -> None:
    """M11: kill -9 in the middle of a file leaves what has come of it, and nothing that counts as a
    model. The same command asks for the rest of that file and for no whole one again, and pushes
    each file once; the weights verify."""
    models = rig.home / ".tpuflex" / "models"
    with mirrored(rig, models) as mirror:
        rig.environment[ENDPOINT_VARIABLE] = mirror.url
        assert rig.run(*PUSH).exit_code == -9
        (partial,) = models.glob("hub-*.partial")
        came = (partial / f"{SHARD}.part").read_bytes()
        assert 0 < len(came) <= HALF
        assert safetensors().startswith(came)
        whole = {path.name for path in partial.iterdir() if path.suffix != ".part"}

        mirror.deadly = False
        mirror.asked.clear()
        run(rig, *PUSH)
        run(rig, "weights", "verify")
    assert mirror.asked[SHARD] == len(came)
    assert not whole & mirror.asked.keys()
    assert not partial.exists()
    assert partial.with_suffix("").joinpath(SHARD).read_bytes() == safetensors()
    (bucket,) = rig.control.inventory()["storage"]["buckets"]
    name = str(bucket["name"]).rpartition("/")[2]
    listed = requests.get(
        f"{rig.control.url}/storage/v1/b/{name}/o?versions=true",
        headers={"Authorization": f"Bearer {rig.control.token}"},
        timeout=60,
    ).json()["items"]
    assert len(listed) == len({each["name"] for each in listed}) == 5
