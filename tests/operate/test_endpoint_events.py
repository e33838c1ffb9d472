"""What of each source becomes an event: pure rules."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tpuflex.cli.endpoint.events import event_lines
from tpuflex.engine.history import Run, runs_in_files
from tpuflex.google.cloud_logging import BootEntry, Change
from tpuflex.operate.endpoint_events import (
    Event,
    change_events,
    host_events,
    merged,
    run_event,
    slice_events,
)
from tpuflex.queued_resource.model import Node, QueuedResource
from tpuflex.queued_resource.name import Nodes, RequestName
from tpuflex.queued_resource.snapshot import Snapshot

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
NAME = RequestName("tpuflex-dev", "us-east5-a", "chat-g1")
ENTRY = BootEntry("chat-g1", "us-east5-a", "2026-11-21T12:00:00Z", "READY", "", (), boot="1")
CHANGE = Change(
    "2026-11-21T12:00:00Z",
    "anna@example.com",
    "v1.compute.firewalls.delete",
    "projects/p/global/firewalls/chat-ssh",
    "chat-ssh",
)


def seen(lifecycle: str, **node: object) -> Snapshot:
    """A request that was granted an hour after it was made."""
    request = {"createTime": "2026-11-21T08:00:00Z", "state": {"state": lifecycle}}
    made = {
        "name": NAME.node("chat-g1"),
        "createTime": "2026-11-21T09:00:00Z",
        "acceleratorType": "v6e-8",
        **node,
    }
    nodes = Nodes(("chat-g1",), (Node.model_validate(made),))
    return Snapshot(NAME, QueuedResource.model_validate(request), nodes, NOON.timestamp())


def said(events: list[Event]) -> list[tuple[str, str, str]]:
    """When, what, and the detail."""
    return [(f"{each.time:%H:%M}", each.what, each.detail) for each in events]


def test_a_slice() -> None:
    """It was requested and granted, and when its run has ended, so that is said."""
    scheduling = {"terminationTimestamp": "2026-11-21T11:30:00Z"}
    ended = seen("SUSPENDED", state="TERMINATED", schedulingConfig=scheduling)
    assert said([*slice_events(ended, NOON)]) == [
        ("08:00", "requested", "in us-east5-a; it is SUSPENDED now"),
        ("09:00", "granted", "v6e-8 in us-east5-a"),
        ("11:30", "run ended", "Google took the hosts back"),
    ]
    active = seen("ACTIVE", state="READY", schedulingConfig=scheduling)
    assert [event.what for event in slice_events(active, NOON)] == ["requested", "granted"]


def test_maintenance_that_is_announced() -> None:
    """It is an event at the time when it begins, which may be to come."""
    maintenance = {
        "type": "SCHEDULED",
        "maintenanceStatus": "PENDING",
        "windowStartTime": "2026-11-22T04:00:00Z",
        "windowEndTime": "2026-11-22T08:00:00Z",
    }
    *_, last = slice_events(seen("ACTIVE", upcomingMaintenance=maintenance), NOON)
    assert last == Event(
        datetime(2026, 11, 22, 4, tzinfo=UTC),
        "maintenance",
        "chat-g1",
        "scheduled, pending, over by 2026-11-22 08:00 UTC",
    )


def test_a_host() -> None:
    """Boots with their ends, and each change of its server that its watch writes down, once, also
    where an entry was sent twice; what a server says of itself is no event."""
    began = NOON.timestamp() - 7200
    timeline = {"config": began, "health": began + 30, "READY": began + 300}
    watch = (
        "2026-11-21T11:00:00Z watch: degraded: no token came for 60 s; it is started once more",
        "  | 2026-11-21T11:00:00Z watch: failed: says the server",
        "2026-11-21T11:02:00Z watch: serving",
        "2026-11-21T11:55:00Z watch: draining, drained: the run ends",
        "2026-11-21T11:55:00Z phase health",
    )
    entry = replace(ENTRY, lines=watch, timeline=timeline)
    lost = replace(ENTRY, node="chat-g2", phase="image", timeline={"config": began}, boot="2")
    failed = replace(lost, boot="3", error="registry: no such image\nTraceback", worker=2)
    found = merged(host_events((entry, entry, lost, failed)), NOON - timedelta(days=1))
    assert [(f"{each.time:%H:%M}", each.what, each.who, each.detail) for each in found] == [
        ("10:00", "boot", "chat-g2 host 2", ""),
        ("10:00", "boot", "chat-g2", "no end yet, or the host was lost: in image"),
        ("10:00", "boot", "chat-g1", ""),
        ("10:05", "READY", "chat-g1", "after 5 min"),
        ("11:00", "degraded", "chat-g1", "no token came for 60 s; it is started once more"),
        ("11:02", "serving", "chat-g1", ""),
        ("11:55", "draining", "chat-g1", "drained: the run ends"),
        ("12:00", "boot failed", "chat-g2 host 2", "in image: registry: no such image"),
    ]


def test_a_host_that_says_that_it_is_later() -> None:
    """Its times are not after Google has heard of them: they would be the newest for ever."""
    far = datetime(9999, 1, 1, tzinfo=UTC)
    line = "9999-01-01T00:00:00Z watch: serving"
    timeline = {"config": far.timestamp(), "READY": far.timestamp()}
    found = [*host_events((replace(ENTRY, lines=(line,), timeline=timeline),))]
    assert {event.what: event.time for event in found} == dict.fromkeys(
        ("boot", "READY", "serving"), NOON
    )


@pytest.mark.parametrize(
    ("change", "event"),
    [
        ({}, ("deleted", "anna@example.com", "", "firewalls/chat-ssh")),
        (
            {"method": "google.cloud.secretmanager.v1.SecretManagerService.AddSecretVersion"},
            ("created", "anna@example.com", "", "firewalls/chat-ssh"),
        ),
        (
            {"method": "SetIamPolicy", "resource": "projects/p", "named": "chat-host"},
            ("changed", "anna@example.com", "SetIamPolicy", "projects/p (chat-host)"),
        ),
        (
            {"refusal": "PERMISSION_DENIED", "principal": ""},
            (
                "refused",
                "not named by Google",
                "delete: PERMISSION_DENIED",
                "firewalls/chat-ssh",
            ),
        ),
        (
            {"resource": "projects/p/locations/us-east5-a/queuedResources/chat-g1"},
            (
                "deleted",
                "anna@example.com",
                "",
                "queuedResources/chat-g1 (chat-ssh)",
            ),
        ),
    ],
)
def test_a_change(change: dict[str, str], event: tuple[str, str, str, str]) -> None:
    """It says what was done to what and by whom, in the same words for every API."""
    (found,) = change_events([replace(CHANGE, **change)])  # type: ignore[arg-type]
    assert (found.what, found.who, found.detail, *found.resources) == event


def test_changes_that_came_together() -> None:
    """Changes of one kind by one account that came together are one event: an `up` makes twenty
    resources. The end of an operation is no event of its own, unless it failed."""

    def after(seconds: int, name: str, **other: object) -> Change:
        time = (NOON + timedelta(seconds=seconds)).isoformat()
        return replace(CHANGE, time=time, resource=name, named=name, **other)  # type: ignore[arg-type]

    found = change_events(
        [
            after(0, "a"),
            after(1, "b", method="insert"),
            after(2, "a"),
            after(3, "c", ends_operation=True),
            after(60, "d"),
            after(400, "e"),
            after(401, "f", ends_operation=True, refusal="in use"),
        ]
    )
    assert [(event.what, event.resources) for event in merged(found, NOON)] == [
        ("deleted", ("a", "d")),
        ("created", ("b",)),
        ("deleted", ("e",)),
        ("refused", ("f",)),
    ]


def test_runs_of_pulumi(tmp_path: Path) -> None:
    """They are read from the file backend's history; a file that is none is left out."""
    history = tmp_path / ".pulumi" / "history" / "p" / "dev"
    history.mkdir(parents=True)
    ended = int(NOON.timestamp())
    run = {
        "kind": "destroy",
        "startTime": ended - 100,
        "endTime": ended,
        "result": "failed",
        "resourceChanges": {"delete": 3, "same": 1},
    }
    for name, text in ((f"dev-{ended}000000000", json.dumps(run)), ("dev-1", "{}"), ("x", "")):
        (history / f"{name}.history.json").write_text(text)
    (history / f"dev-{ended}000000001.history.json").write_text("{")
    (found,) = runs_in_files(tmp_path, "p", "dev", NOON - timedelta(hours=1))
    assert run_event(found) == Event(
        NOON - timedelta(seconds=100), "down", "", "failed after 100 s: delete 3, same 1"
    )
    assert run_event(Run("refresh", NOON, NOON, "succeeded", {})).what == "refresh"
    assert runs_in_files(tmp_path, "p", "dev", NOON + timedelta(hours=1)) == ()


def test_the_table_at_80_columns() -> None:
    """Nothing is cut, and nothing is wider than the terminal; of many resources, their number."""
    many = ("firewalls/a", "firewalls/b", "secrets/c", "networks/d")
    shown = [
        Event(NOON, "created", "a-deployer@chat-prod-project.iam.gserviceaccount.com", "", many),
        Event(NOON, "degraded", "chat-prod-vllm-g1", "the server died with status 137"),
        Event(NOON, "deleted", "anna@example.com", "", ("secrets/chat-prod-vllm-api-key",)),
    ]
    assert [*event_lines(shown, 80)] == [
        "TIME (UTC)      WHAT      WHO, WHERE              DETAIL",
        "11-21 12:00:00  created   a-deployer@chat-prod-p  firewalls 2, secrets 1,",
        "                          roject.iam.gserviceacc  networks 1",
        "                          ount.com",
        "11-21 12:00:00  degraded  chat-prod-vllm-g1       the server died with status",
        "                                                  137",
        "11-21 12:00:00  deleted   anna@example.com        secrets/chat-prod-vllm-api-key",
    ]
    # Piped, an event is a line.
    assert len([*event_lines(shown, 0)]) == 4
