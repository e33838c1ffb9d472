"""`tpuflex library` and stacks that keep their weights there, on an embedded cloud of the tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from embedded_cloud.core.access import Caller, Principal
from tests.checkpoints import everything_in
from tests.engine.embedded import Embedded
from tpuflex.cli.invocation import Invocation
from tpuflex.deploy import library
from tpuflex.errors import TpuflexError
from tpuflex.naming import library_names
from tpuflex.project import open_project
from tpuflex.settings.load import load_stack_file
from tpuflex.stack.connection import Connection
from tpuflex.stack.progress import agree
from tpuflex.stack.stack import Stack
from tpuflex.weights.model import manifest_of_model

PROJECT = "tpuflex-dev"
Captured = pytest.CaptureFixture[str]
#: The model of the stacks.
MODEL = "acme/tiny"
BUCKET = library_names(PROJECT).bucket(PROJECT, "us-east5")


def manifest_of(directory: Path, model: str, revision: str = "1") -> str:
    """The hash of the manifest that a push of ``directory`` writes."""
    return manifest_of_model(everything_in(directory), name=model, revision=revision).sha256


def write_stack(
    embedded: Embedded, name: str, model: str, weights: Mapping[str, object], **serving: object
) -> None:
    """A stack that keeps its weights in the library."""
    stacks = embedded.root / "stacks"
    document = yaml.safe_load((stacks / "Pulumi.dev.yaml").read_text())
    config = document["config"]
    config["tpuflex:model"] = {"name": model, "weights": {"bucket": "library", **weights}}
    config["tpuflex:serving"] |= serving
    (stacks / f"Pulumi.{name}.yaml").write_text(yaml.safe_dump(document))


def command(
    embedded: Embedded, stack: str = "dev", *, yes: bool = True, json_: bool = True
) -> tuple[Invocation, Connection]:
    """What a command on ``stack`` works with."""
    project = open_project(embedded.root, embedded.environ)
    file = project.stack_file(stack)
    opened = Stack(project, stack, file, load_stack_file(file, deploying=False).settings)
    environ = embedded.environ
    invocation = Invocation(environ=environ, chosen_stack=stack, json=json_, yes=yes)
    return invocation, Connection(opened, environ)


def begin(embedded: Embedded, word: str) -> subprocess.Popen[bytes]:
    """Begin `tpuflex library up` (or `down`) as typed in a terminal of its own."""
    return subprocess.Popen(
        [sys.executable, __file__, str(embedded.root), str(embedded.engine.path.parent), word],
        env={**embedded.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def bucket_of(embedded: Embedded, name: str = BUCKET) -> Any:
    """The bucket as the cloud has it; None if it is gone."""
    answer = call(embedded, "GET", f"storage/v1/b/{name}")
    return answer.json() if answer.ok else None


def call(
    embedded: Embedded, method: str, path: str, *, token: str = "", **more: Any
) -> requests.Response:
    """A call of the cloud, by its owner unless there is a ``token``."""
    token = token or embedded.environ["GOOGLE_OAUTH_ACCESS_TOKEN"]
    headers = {"Authorization": f"Bearer {token}"}
    url = f"{embedded.cloud.url}/{path}"
    return requests.request(method, url, headers=headers, timeout=60, **more)


def said(capsys: Captured) -> Any:
    """What a command has printed as JSON."""
    return json.loads(capsys.readouterr().out)


def library_up(embedded: Embedded, *regions: str) -> Any:
    """The document of `tpuflex library up`."""
    return library.library_up(command(embedded)[1], regions, consent=agree).to_json()


def library_down(embedded: Embedded, *, with_readers: bool = False, dry_run: bool = False) -> Any:
    """The document of `tpuflex library down`."""
    _, cloud = command(embedded)
    return library.library_down(
        cloud, with_readers=with_readers, dry_run=dry_run, consent=agree
    ).to_json()


def library_status(embedded: Embedded) -> Any:
    """The document of `tpuflex library status`."""
    return library.library_status(command(embedded)[1]).to_json()


def token_of_hosts(embedded: Embedded, resources: Any) -> str:
    """A token of the account that a stack's hosts run as."""
    account = next(
        each["outputs"]["email"]
        for each in resources
        if each["type"] == "gcp:serviceaccount/account:Account"
    )
    caller = Caller(Principal.SERVICE_ACCOUNT, account)
    return str(embedded.cloud.cloud.access.session_token(caller, 600))


def main(root: str, engine: str, word: str) -> None:
    """Run one command; its error goes to standard error."""
    environ = {**os.environ, "PATH": f"{engine}:{os.environ['PATH']}"}
    project = open_project(Path(root), environ)
    file = project.stack_file("dev")
    settings = load_stack_file(file, deploying=False).settings
    invocation = Invocation(environ=environ, json=True, yes=True)
    cloud = Connection(Stack(project, "dev", file, settings), dict(os.environ))
    try:
        if word == "up":
            library.library_up(cloud, consent=agree)
        else:
            library.library_down(cloud, consent=agree)
    except TpuflexError as error:
        sys.exit(invocation.output.failure(error))


if __name__ == "__main__":
    main(*sys.argv[1:])
