"""`tpuflex events`."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click
import pytest

from embedded_cloud.core.json_types import JsonObject
from embedded_cloud.server import EmbeddedCloud
from tests.cli.boot_logs import WrittenBoot
from tests.cli.typing import NOON, Captured
from tpuflex.cli.endpoint.events import run_events
from tpuflex.cli.invocation import Invocation
from tpuflex.cli.options import Since, begin
from tpuflex.google import cloud_logging
from tpuflex.stack.connection import Connection
from tpuflex.stack.stack import Stack


def made_and_deleted(cloud: Connection) -> None:
    """A network of the stack and one of another, each made and deleted."""
    compute = cloud.apis().compute
    networks = f"/compute/v1/projects/{cloud.stack.settings.project}/global/networks"
    for name in (cloud.stack.names.compute("net"), "somebodys-net"):
        compute.call("POST", networks, body={"name": name, "autoCreateSubnetworks": False})
        compute.call("DELETE", f"{networks}/{name}")


def test_one_list(cloud: Connection, invocation: Invocation, capsys: Captured) -> None:
    """What hosts and people did to this stack, the newest last, from the audit log of the embedded
    cloud, too; a line tells what is left out."""
    boot = WrittenBoot(cloud, NOON - timedelta(hours=1))
    boot.write("config", 0)
    boot.write("READY", 90)
    died = "2026-11-21T11:40:00Z watch: degraded: the server died with status 137"
    boot.write("READY", 2400, died)
    made_and_deleted(cloud)
    run_events(invocation, cloud, NOON - timedelta(days=1), 4)
    shown = capsys.readouterr()
    name = cloud.stack.names.compute("net")
    lines = [line.split(None, 4) for line in shown.out.splitlines()[1:]]
    assert [*lines[:2], *sorted(lines[2:])] == [  # two are of one time
        ["11-21", "11:01:30", "READY", "n-g1", "after 90 s"],
        ["11-21", "11:40:00", "degraded", "n-g1", "the server died with status 137"],
        ["11-21", "12:00:00", "created", "owner@example.com", f"networks/{name}"],
        ["11-21", "12:00:00", "deleted", "owner@example.com", f"networks/{name}"],
    ]
    assert shown.err == "1 earlier event is left out: --lines 5\n"


def test_a_source_that_cannot_be_read(
    tmp_path: Path, stack: Stack, invocation: Invocation, capsys: Captured
) -> None:
    """It is named with the reason, and what the other sources have is shown."""
    strictness: JsonObject = {"permissions": {"missing": ["logging.logEntries.list"]}}
    project = stack.settings.project
    with EmbeddedCloud(tmp_path, project=project, strictness=strictness) as running:
        cloud = Connection(stack, running.environ())
        run_events(invocation, cloud, NOON, 50)
        assert capsys.readouterr().err.startswith(
            "Not read: the hosts' logs in Cloud Logging: 403 PERMISSION_DENIED: Permission"
        )
        run_events(Invocation(environ={}, json=True), cloud, NOON, 50)
    document = json.loads(capsys.readouterr().out)
    logs = ["the hosts' logs in Cloud Logging", "Cloud Audit Logs"]
    assert [each["source"] for each in document["unread"]][:2] == logs


def test_of_too_many_entries_the_newest_are_read(
    cloud: Connection,
    invocation: Invocation,
    capsys: Captured,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The newest are shown, and that older ones are missing is said."""
    boot = WrittenBoot(cloud, NOON - timedelta(hours=1))
    for second in range(200):
        boot.write("config", second, "noise")
    boot.write("READY", 300, "2026-11-21T11:05:00Z watch: degraded: the server died")
    monkeypatch.setattr(cloud_logging, "_PAGES", 1)
    run_events(invocation, cloud, NOON - timedelta(days=1), 1)
    shown = capsys.readouterr()
    assert "the server died" in shown.out
    assert (
        "Not read: the hosts' logs in Cloud Logging: there are too many entries: only the newest"
        " 200 were read\n"
    ) in shown.err


def test_nothing(cloud: Connection, invocation: Invocation, capsys: Captured) -> None:
    """That nothing has happened is said, with since when."""
    run_events(invocation, cloud, NOON, 50)
    assert capsys.readouterr().out == "Nothing has happened since 2026-11-21 12:00 UTC.\n"


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2h", NOON - timedelta(hours=2)),
        ("2026-11-20", datetime(2026, 11, 20, tzinfo=UTC)),
        ("2026-11-20T03:00Z", datetime(2026, 11, 20, 3, tzinfo=UTC)),
        ("2026-11-20T03:00+01:00", datetime(2026, 11, 20, 2, tzinfo=UTC)),
        ("99999999d", datetime(1, 1, 1, tzinfo=UTC)),
    ],
)
def test_since(text: str, time: datetime) -> None:
    """--since takes an age or a time, which is in UTC unless it says otherwise."""
    assert begin(Since().convert(text, None, None), NOON) == time


def test_since_when() -> None:
    """--since refuses what is neither an age nor a time."""
    with pytest.raises(click.BadParameter, match="neither an age, such as 2h"):
        Since().convert("yesterday", None, None)
