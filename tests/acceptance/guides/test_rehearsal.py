"""docs/rehearsal.md, typed as it is printed, from a project that was just made: a rehearsal on an
embedded cloud as strict as Google.

Real are tpuflex, engine, provider, startup script, and gcloud where there is one; what stands in
for weights and server is what stands in for them for every user.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from embedded_cloud.machines.stand_in.server import ANSWER
from tests.docs.typed_pages import REHEARSAL, lines_of, untyped
from tests.engine.readme_shell import Shell, rehearsed
from tpuflex.engine.find import Engine
from tpuflex.google.endpoints import Endpoints
from tpuflex.google.session import authorized_session
from tpuflex.operate.gcloud import find_gcloud
from tpuflex.settings.model import PLACEHOLDER_PROJECT
from tpuflex.stack.emulator import Daemon
from tpuflex.stack.rehearsal import NOTICE

pytestmark = [pytest.mark.engine, pytest.mark.timeout(580)]

PROJECT = "acme-prod-1"
STACK = "tpuflex --stack first-proof"
#: What the two commands of gcloud call, for where there is no gcloud.
CALLS = {
    "gcloud services enable": (
        "{serviceusage}/v1/projects/{project}/services/artifactregistry.googleapis.com:enable",
        {},
    ),
    "gcloud artifacts repositories create": (
        "{artifactregistry}/v1/projects/{project}/locations/us-east5/repositories"
        "?repositoryId=dockerhub",
        {
            "format": "DOCKER",
            "mode": "REMOTE_REPOSITORY",
            "remoteRepositoryConfig": {
                "dockerRepository": {"publicRepository": "DOCKER_HUB"},
            },
        },
    ),
}
#: What is answered to a question in a terminal, and is not typed on a command's line.
_AGREED = dict.fromkeys((f"{STACK} up", f"{STACK} down"), " --yes")


@pytest.fixture
def clone(tmp_path: Path, pulumi_engine: Engine) -> Iterator[Shell]:
    """A clone whose stack file has got its project, in a shell as the page sets one up."""
    with rehearsed(tmp_path, pulumi_engine, PROJECT) as shell:
        gcloud = find_gcloud(shell.environ)
        if gcloud is None or "alpha" not in gcloud.components:  # as the page says
            loopback = '{"network": {"private_addresses": false}}'
            shell.type(f"tpuflex emulator strictness '{loopback}'")
        yield shell


#: One of Google's machines that does not know yet, when all others do.
LATE = {
    "id": "late",
    "where": {"method_id": "compute.networks.insert"},
    "effect": {
        "kind": "answer",
        "status": 403,
        "reason": "accessNotConfigured",
        "message": "Compute Engine API has not been used in project 1 before or it is disabled.",
    },
    "times": 1,
}


def call_as_gcloud(line: str, environ: dict[str, str]) -> None:
    """Make the call that ``line`` makes."""
    (url, body) = next(call for words, call in CALLS.items() if line.startswith(words))
    endpoints = Endpoints.from_environ(environ)
    places = {"serviceusage": endpoints.serviceusage, "project": PROJECT}
    places["artifactregistry"] = endpoints.artifactregistry
    with authorized_session(endpoints, environ, PROJECT) as session:
        answer = session.post(url.format(**places), json=body, timeout=30)
    assert answer.ok, answer.text


def typed(shell: Shell, line: str) -> str:
    """Type ``line`` of the page, with the consent that a terminal would ask for."""
    printed, line, said = line, line.replace(PLACEHOLDER_PROJECT, PROJECT), ""
    if line.startswith("gcloud ") and shutil.which("gcloud", path=shell.environ["PATH"]) is None:
        call_as_gcloud(line, shell.environ)
        shell.typed.append(printed)
    else:
        said = shell.type(line + _AGREED.get(line, ""), printed=printed)
    if line.startswith("gcloud services enable"):
        # The page's minute, in which a fast gcloud would be refused.
        Daemon(shell.root / ".tpuflex").call("POST", "clock", {"advance": 90})
    return said


def left(home: Path) -> dict[str, Any]:
    """What is in the cloud, by kind."""
    inventory = Daemon(home).call("GET", "inventory")
    return {kind: found for kinds in inventory.values() for kind, found in kinds.items() if found}


def test_the_page(clone: Shell) -> None:
    """From a bare project without weights, each command succeeds the first time, in this order;
    `up` needs no help, though an API refuses once more after it has answered; every command says
    that it is a rehearsal, and that the weights are a stand-in; nothing is left, and no file of the
    real stack is written."""
    home, file = clone.root / ".tpuflex", clone.root / "stacks" / "Pulumi.first-proof.yaml"
    before = file.read_bytes()
    *prepare, bring_up, ask, call, show, take_down, stop = lines_of("docs/rehearsal.md")[2:]
    doctor = [typed(clone, line) for line in prepare][-1]  # exit code 0: nothing is in the way
    Daemon(home).call("POST", "faults", {"rules": [LATE]})
    up = typed(clone, bring_up)
    said_by_up = clone.said
    answer = typed(clone, ask)
    page = typed(clone, call)
    table = typed(clone, show)
    status = json.loads(clone.type(f"{STACK} status --no-tunnel --json"))
    log = clone.type(f"{STACK} logs")

    assert "models/gemma-4-E4B-it is not on this machine: on Google" in " ".join(doctor.split())
    assert said_by_up.splitlines()[:2] == [
        NOTICE,
        "The weights are a stand-in for models/gemma-4-E4B-it, which a rehearsal does not fetch.",
    ]
    assert "An API that was enabled a moment ago refused once more" in said_by_up
    assert "14.32 GiB weights" in up + said_by_up  # planned as the real ones
    assert "rehearsal: READY: a completion was served" in up
    assert ANSWER in answer
    assert "Endpoint of stack first-proof\n  base URL  http://" in page
    assert "READY" in table
    assert (status["rehearsal"], status["ready"], status["cloud"]) == (True, True, "google")
    assert status["endpoint"].startswith(("http://10.128.", "http://127."))
    assert "phase READY" in log

    assert "Nothing is left" in typed(clone, take_down)
    assert list(left(home)) == ["repositories"]
    assert file.read_bytes() == before
    assert not list((home / "backend").glob("**/*.json"))
    assert not (home / "state-ids").exists()
    assert not (home / "pushed-weights.json").exists()
    typed(clone, stop)
    assert untyped(REHEARSAL, clone.typed) == []
