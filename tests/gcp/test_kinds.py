"""The table of kinds is all that has to be told of a new kind."""

from __future__ import annotations

from typing import Any

import pytest

from tests.operate.marked_things import NAMES, Api, clients
from tpuflex.engine.recovery.look import CloudLook, Presence
from tpuflex.errors import NotFoundError
from tpuflex.gcp import kinds
from tpuflex.gcp.inventory import Item, Scope, take_inventory
from tpuflex.gcp.kinds import KINDS, Kind
from tpuflex.gcp.listing import Apis, list_marked
from tpuflex.operate.sweep import Disposition, Here, delete, leftovers

TYPE = "gcp:compute/disk:Disk"
DISK = "projects/p/zones/z/disks/d"
ROW = Kind(
    "disk",
    "projects/{project}/zones/{zone}/disks/{name}",
    TYPE,
    root="/compute/v1/",
    location="zone",
)


@pytest.fixture
def compute(monkeypatch: pytest.MonkeyPatch) -> Api:
    """Compute Engine with one disk of ours; the table has a row for disks."""
    monkeypatch.setattr(kinds, "KINDS", (*KINDS, ROW))
    disk: dict[str, Any] = {"name": "d", "labels": {**NAMES.labels()}}
    return Api(
        {
            "GET /compute/v1/projects/p/zones/z/disks": {"items": [disk]},
            f"GET /compute/v1/{DISK}": disk,
        }
    )


def swept(apis: Apis, *known: str) -> list[tuple[str, Disposition]]:
    here = Here("shop", "p", ("dev",), frozenset(known))
    found = leftovers(list_marked(apis, "p", ("z",), {}), here)
    return [(leftover.resource.id, leftover.disposition) for leftover in found]


def test_a_made_up_row_is_listed_by_a_teardown(compute: Api) -> None:
    """The inventory that proves a teardown holds it."""
    found = take_inventory(Scope("p", ("z",), NAMES), clients(compute=compute))

    assert found.items == (Item("disk", "d", "z"),)


def test_a_made_up_row_is_swept(compute: Api) -> None:
    """What no state knows is left behind, and can be deleted."""
    apis = clients(compute=compute)
    assert swept(apis, DISK) == []
    assert swept(apis) == [(DISK, Disposition.ORPHAN)]

    here = Here("shop", "p", ("dev",), frozenset())
    (leftover,) = leftovers(list_marked(apis, "p", ("z",), {}), here)
    compute.answers[f"GET /compute/v1/{DISK}"] = [
        compute.answers[f"GET /compute/v1/{DISK}"],
        NotFoundError("gone"),
    ]
    (deleted,) = delete([leftover], apis, say=lambda _: None, now=lambda: 0.0, sleep=lambda _: None)

    assert deleted.problem == ""
    assert f"DELETE /compute/v1/{DISK}" in compute.calls


def test_a_made_up_row_is_recovered(compute: Api) -> None:
    """A recovery finds what was begun by its inputs, and tells whose it is."""
    look = CloudLook(clients(compute=compute))
    inputs = {"project": "p", "zone": "z", "name": "d", "labels": NAMES.labels()}

    assert (look(TYPE, inputs).presence, look(TYPE, inputs).id) == (Presence.OURS, DISK)
    assert look(TYPE, {**inputs, "name": "other"}).presence is Presence.ABSENT
    assert look(TYPE, {**inputs, "labels": {"tpuflex-owner": "me"}}).presence is Presence.FOREIGN
