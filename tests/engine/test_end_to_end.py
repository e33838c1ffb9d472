"""The whole product on the embedded cloud, as its user types it: real engine, script, vLLM, model.

It is installed from its wheel, in a directory that was empty before, with nothing of it on PATH.
One stack is brought up once for this module; canary secrets travel with it. The cloud refuses and
delays as Google does, from a bare project on. Where there is a gcloud with the component alpha, the
host has a private address, and is reached through IAP; elsewhere its address is on loopback.
"""

from __future__ import annotations

import base64
import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psutil
import pytest
import requests

from embedded_cloud.machines import namespace
from tests.engine.embedded import ROOT, pulumi_engine
from tests.engine.installed_shell import Shell, reached
from tests.wheel.installed import Installed, installed
from tpuflex.engine.find import Engine
from tpuflex.operate.gcloud import find_gcloud
from tpuflex.stack.emulator import Daemon
from tpuflex.startup.series import PREFIX, SERIES

__all__ = ["installed", "pulumi_engine"]

KEY_CANARY = "sk-Canary+4TnB/8vRkE3s"
#: What changes nothing and is a POST all the same.
READS = (":getGuestAttributes", ":testIamPermissions", "/token")
#: What a host writes by itself, every minute.
METRICS = "/timeSeries"
QUESTION = "In one sentence, what is the capital of France?"

pytestmark = [pytest.mark.engine, pytest.mark.vllm, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def shell(
    installed: Installed, pulumi_engine: Engine, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Shell]:
    """What `tpuflex init` makes in an empty directory; only what is large is this checkout's."""
    base = tmp_path_factory.mktemp("e2e")
    project, home = base / "project", base / "project" / ".tpuflex"
    home.mkdir(parents=True, mode=0o700)
    for cache in ("engine", "vllm", "models"):
        shared = ROOT / ".tpuflex" / cache
        shared.mkdir(parents=True, exist_ok=True)
        (home / cache).symlink_to(shared)
    user_home, tmp = base / "home", base / "tmp"
    user_home.mkdir()
    tmp.mkdir()
    environ = {**os.environ, "HOME": str(user_home), "TMPDIR": str(tmp), "PATH": "/usr/bin:/bin"}
    if pulumi_engine.source == "path":
        environ["PATH"] += f":{pulumi_engine.path.parent}"
    gcloud = find_gcloud(environ)
    private = gcloud is not None and "alpha" in gcloud.components
    shell = Shell(installed, project, home, environ, private)
    shell.run("init", "--cloud", "embedded", "--set", "secrets.api_key_version=1")
    shell.run("emulator", "start", "--port", "0", "--strict")
    if not private:
        shell.run("emulator", "strictness", '{"network": {"private_addresses": false}}')
    # A minute of the cloud's clock in twelve seconds; its deadlines leave time for a slow machine.
    Daemon(home).call("POST", "clock", {"speed": 5})
    try:
        yield shell
    finally:
        shell.run("emulator", "stop", check=False)


@pytest.fixture(scope="module")
def running(shell: Shell) -> dict[str, object]:
    """The dev stack, up and READY, with a canary for the key."""
    shell.run("secrets", "put", "api-key", stdin=KEY_CANARY)
    return shell.json("up", "--yes")


def spellings(secret: str) -> set[bytes]:
    """The secret as itself, URL-encoded, JSON-escaped, and in base64 at all three offsets."""
    found = {secret.encode(), quote(secret, safe="").encode(), json.dumps(secret)[1:-1].encode()}
    for offset in range(3):
        encoded = base64.b64encode(b"x" * offset + secret.encode()).rstrip(b"=")
        found.add(encoded[4 if offset else 0 : -2])
    return found


def test_up_serves_and_ask_gets_the_answer(shell: Shell, running: dict[str, object]) -> None:
    """The real model, asked through the endpoint that `up` printed, knows France's capital."""
    answer = shell.run("ask", QUESTION)

    assert str(running["endpoint"]).startswith("http://10.128." if shell.private else "http://127.")
    assert ("opening a tunnel through IAP" in answer.stderr) is shell.private
    assert "Paris" in answer.stdout
    assert not (shell.project / "infra").exists()
    assert "tokens/s" in answer.stderr


def test_the_server_says_what_it_is(shell: Shell, running: dict[str, object]) -> None:
    """Its tokens verify it, its KV cache is the one of `memory`, it counts what it has done, and no
    alert fires: each command by a tunnel of its own where the address is private."""
    del running
    verified = shell.json("verify")
    details = shell.json("details")
    metrics = shell.json("metrics")
    alerts = shell.json("alerts")
    (row,) = shell.json("status", "--all")["stacks"]

    assert verified["ok"] is True, verified["checks"]
    assert [each["standing"] for each in verified["checks"]] == ["ok"] * 6
    assert details["missing"] == []
    assert details["kv_cache"]["tokens"] == 46_592
    assert not any(fact["planned"] for fact in details["facts"])
    assert metrics["since_start"]["generation_tokens"] >= 16
    assert metrics["since_start"]["ttft"]["count"] == sum(
        metrics["since_start"]["success"].values()
    )
    assert (alerts["firing"], alerts["refused"]) == ([], None)
    assert {each["alert"]: each["state"] for each in alerts["alerts"]}["TargetDown"] == "ok"
    assert (row["ready"], row["phase"], row["alerts"]) == (True, "serving", [])
    assert isinstance(row["tokens_per_second"], float) or shell.private


def test_a_second_up_changes_nothing(shell: Shell, running: dict[str, object]) -> None:
    """`up` on a stack that is up makes no mutating call and says so, as `preview` does before."""
    del running
    before = mutating_calls(shell)
    preview = shell.run("preview")
    again = shell.run("up", "--yes")

    assert mutating_calls(shell) == before
    assert "resources  none" in preview.stdout
    assert "no change" in (again.stdout + again.stderr).lower()


def mutating_calls(shell: Shell) -> list[str]:
    """What has changed the cloud so far, read from the emulator's own history."""
    lines = (shell.home / "emulator" / "history.jsonl").read_text().splitlines()
    calls = (json.loads(line) for line in lines)
    return [
        f"{call['method']} {call['path']}"
        for call in calls
        if call["method"] != "GET" and not call["path"].endswith((*READS, METRICS))
    ]


def test_the_planned_cache_is_the_one_that_the_server_reports(
    shell: Shell, running: dict[str, object]
) -> None:
    """Before anything is made, `memory` says how many blocks vLLM will allocate; it does."""
    del running
    planned = shell.json("memory")
    status: Any = shell.json("status", "--no-tunnel")

    reported = status["slice"]["host"]["kv_cache"]
    assert status["memory"] == planned
    assert (planned["blocks"], planned["block_size"], planned["cached_tokens"]) == (
        reported["num_blocks"],
        reported["block_size"],
        reported["tokens"],
    )


def test_the_weights_in_the_bucket_are_planned_like_the_model(
    shell: Shell, running: dict[str, object]
) -> None:
    """`memory` reads the headers of what `up` pushed, where it lies, and plans the same cache."""
    del running
    (bucket,) = shell.json("emulator", "status")["inventory"]["storage"]["buckets"]
    (stored,) = json.loads(shell.run("--json", "weights", "ls").stdout)

    planned = shell.json("memory", "--model-dir", f"gs://{bucket['name']}/{stored['prefix']}")

    assert planned["blocks"] == shell.json("memory")["blocks"]
    assert planned["model"] == stored["prefix"].split("/")[1]


def test_status_tells_what_is_running(shell: Shell, running: dict[str, object]) -> None:
    """`status --json` names Google's state, the host's phase and the endpoint."""
    status = shell.json("status")

    text = json.dumps(status)
    assert "ACTIVE" in text
    assert "READY" in text
    assert str(running["endpoint"]) in text


def test_cloud_logging_has_the_boot(shell: Shell, running: dict[str, object]) -> None:
    """`boots` tells how long its phases took, and `logs` shows the lines of one: by the host's own
    entries, the last of which may still be on its way."""
    del running
    (boot,) = shell.json("logs", "--boots")["boots"]
    assert boot["generation"] == 1
    assert {"config", "capacity", "secrets", "container"} <= boot["boot_seconds"].keys()
    lines = shell.json("logs", "--phase", "container")["lines"]
    assert lines[0].endswith("Z phase container")


def test_cloud_monitoring_has_the_servers_metrics(shell: Shell, running: dict[str, object]) -> None:
    """The host's account has written every series since it was READY, and nothing was refused."""
    del running
    database = sqlite3.connect(f"file:{shell.home}/emulator/store.sqlite?mode=ro", uri=True)
    with closing(database):
        rows = database.execute(
            "SELECT value FROM documents WHERE collection = '_monitoring/series'"
        ).fetchall()
    found = [json.loads(value) for (value,) in rows]

    assert {each["metric"]["type"] for each in found} == {
        f"{PREFIX}{series.name}" for series in SERIES
    }
    assert {each["resource"]["labels"]["namespace"] for each in found} == {"dev"}
    logged = shell.json("logs", "--phase", "READY")["lines"]
    assert not any("Cloud Monitoring" in line for line in logged)


def test_secrets_are_nowhere_but_where_they_belong(
    shell: Shell, running: dict[str, object]
) -> None:
    """Canaries occur only in Secret Manager's store and in the host's 0400 files."""
    del running
    shell.run("ask", QUESTION)
    allowed = {"store.sqlite", "store.sqlite-wal", "store.sqlite-shm"}
    shared = {(shell.home / name).resolve() for name in ("engine", "vllm", "models")}
    needles = spellings(KEY_CANARY)
    holders: list[Path] = []
    leaks: list[Path] = []
    for directory, folders, files in os.walk(shell.project.parent):
        folders[:] = [f for f in folders if (Path(directory) / f).resolve() not in shared]
        for name in files:
            path = Path(directory) / name
            if not path.is_file() or not any(n in path.read_bytes() for n in needles):
                continue
            (holders if path.parent.name == "secrets" else leaks).append(path)
    commands = [
        " ".join(process.info["cmdline"] or ()).encode()
        for process in psutil.process_iter(["cmdline"])
    ]

    assert {path.name for path in leaks} <= allowed
    # A strict host has a memory of its own (`hosts.own_mounts`), which only its processes see.
    assert {path.name for path in holders} == ({"api-key"} if namespace.refusal() else set())
    assert {oct(path.stat().st_mode & 0o777) for path in holders} <= {"0o400"}
    assert not [c for c in commands if any(n in c for n in needles)]


def test_no_service_but_secret_manager_stores_a_secret(
    shell: Shell, running: dict[str, object]
) -> None:
    """In the cloud's own store, node metadata among it, payloads stand with Secret Manager only."""
    del running
    database = sqlite3.connect(f"file:{shell.home}/emulator/store.sqlite?mode=ro", uri=True)
    with closing(database):
        rows = database.execute("SELECT collection, key, value FROM documents").fetchall()
    needles = spellings(KEY_CANARY)
    holders = {row[0] for row in rows if any(n in str(row[2]).encode() for n in needles)}

    assert any("startup-script" in str(row[2]) for row in rows)
    assert holders == {"_secretmanager/payloads"}


def test_the_key_is_asked_for(shell: Shell, running: dict[str, object]) -> None:
    """Without the key the endpoint answers 401, also to who has come through a tunnel."""
    with reached(shell, str(running["endpoint"])) as endpoint:
        assert requests.get(f"{endpoint}/models", timeout=60).status_code == 401


def test_down_leaves_nothing(shell: Shell, running: dict[str, object]) -> None:
    """`down` ends with an empty inventory; no process, no container, no file elsewhere is left."""
    del running
    down = shell.run("down", "--yes")
    inventory = shell.json("emulator", "status")["inventory"]
    shell.run("emulator", "stop")
    left = [
        process.info["cmdline"]
        for process in psutil.process_iter(["pid", "cmdline"])
        if process.info["pid"] != os.getpid()
        and str(shell.home) in "\0".join(process.info["cmdline"] or ())
    ]

    assert "nothing is left" in (down.stdout + down.stderr).lower()
    assert not [service for service, found in inventory.items() if found]
    assert left == []
    # gcloud keeps its configuration and logs there, wherever it runs.
    home = {str(p.relative_to(shell.project.parent)) for p in shell.project.parent.glob("home/*/*")}
    assert home <= ({"home/.config/gcloud"} if shell.private else set())
    assert {p.name for p in (shell.project.parent / "home").iterdir()} <= {".config"}
    assert sorted(p.name for p in (shell.project.parent / "tmp").iterdir()) == []
