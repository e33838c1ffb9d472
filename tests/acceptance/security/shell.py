"""tpuflex as a command in a project of its own, on an embedded cloud of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests
import yaml

from tpuflex.naming import ENDPOINT_NAME, Names
from tpuflex.stack.known_state_ids import KnownStateIds

ROOT = Path(__file__).parents[3]
PROJECT = "tpuflex-dev"
#: Id of a state that the project's home has seen.
STATE = "0123456789abcdef0123"


@dataclass(frozen=True)
class Typed:
    """What a command did: its exit code, and all that it printed."""

    code: int
    text: str


class Shell:
    """A project directory, and its embedded cloud, which runs.

    Args:
        base: an empty directory.
        environ: variables for the command.
    """

    def __init__(self, base: Path, environ: dict[str, str]) -> None:
        self.project = base / "project"
        self.home = self.project / ".tpuflex"
        (self.project / "stacks").mkdir(parents=True)
        self.home.mkdir(mode=0o700)
        manifest = yaml.safe_load((ROOT / "Pulumi.yaml").read_text())
        manifest["plugins"]["providers"][0]["path"] = str(ROOT / "infra" / "plugin")
        manifest.pop("main")  # the program runs inline
        (self.project / "Pulumi.yaml").write_text(yaml.safe_dump(manifest))
        engine = ROOT / ".tpuflex" / "engine"
        engine.mkdir(parents=True, exist_ok=True)
        (self.home / "engine").symlink_to(engine)
        self.environ = {**environ, "TPUFLEX_HOME": str(self.home), "HOME": str(base)}
        self.stack()
        assert self.run("emulator", "start", "--port", "0").code == 0

    @property
    def bucket(self) -> str:
        """Name of the stack's bucket."""
        return str(json.loads(self.run("render", "--part", "config").text)["weights"]["bucket"])

    def stack(self, **weights: object) -> None:
        """Write the stack file with these settings of its weights."""
        document = yaml.safe_load((ROOT / "stacks" / "Pulumi.dev.yaml").read_text())
        document["config"]["tpuflex:model"]["weights"] = weights
        (self.project / "stacks" / "Pulumi.dev.yaml").write_text(yaml.safe_dump(document))

    def close(self) -> None:
        """Stop the embedded cloud."""
        self.run("emulator", "stop")

    def run(self, *arguments: str) -> Typed:
        """Type ``tpuflex ARGUMENTS``."""
        done = subprocess.run(
            [sys.executable, "-m", "tpuflex", *arguments],
            cwd=self.project,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
            check=False,
        )
        assert "Traceback" not in done.stdout, done.stdout
        return Typed(done.returncode, done.stdout)

    def storage(self, method: str, path: str, **request: Any) -> requests.Response:
        """Call Cloud Storage as the cloud's owner, who may write to every bucket."""
        lines = self.run("emulator", "env").text.splitlines()
        pairs = (line.removeprefix("export ").partition("=") for line in lines if "=" in line)
        variables = {name: value.strip("'\"") for name, _, value in pairs}
        with requests.Session() as session:
            session.trust_env = False
            token = (self.home / "emulator" / "token").read_text().strip()
            answer = session.request(
                method,
                variables["STORAGE_EMULATOR_HOST"] + path,
                headers={"Authorization": f"Bearer {token}"},
                timeout=30,
                **request,
            )
        assert answer.ok, answer.text
        return answer

    def make_bucket(self, project: str) -> str:
        """Make a bucket with the stack's name and marks in ``project``; its name."""
        KnownStateIds(self.home, "tpuflex").remember("dev", [STATE])
        labels = Names("tpuflex", "dev", ENDPOINT_NAME).labels(STATE)
        body = {"name": self.bucket, "location": "US-EAST5", "labels": labels}
        self.storage("POST", "/storage/v1/b", params={"project": project}, json=body)
        return self.bucket

    def objects(self, bucket: str) -> list[str]:
        """Names of the objects in ``bucket``."""
        listed = self.storage("GET", f"/storage/v1/b/{bucket}/o").json().get("items", [])
        return [str(item["name"]) for item in listed]

    def write(self, bucket: str, name: str, content: bytes) -> None:
        """Write an object, as somebody who may write to the bucket."""
        query = {"uploadType": "media", "name": name}
        self.storage("POST", f"/upload/storage/v1/b/{bucket}/o", params=query, data=content)

    def calls(self) -> list[str]:
        """Everything that the embedded cloud was asked, as it keeps it itself."""
        history = self.home / "emulator" / "history.jsonl"
        return history.read_text().splitlines() if history.exists() else []
