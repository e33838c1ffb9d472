"""The table of kinds is all that has to be told of a new kind."""

from __future__ import annotations

from typing import Any

import pytest

from tests.operate.marked_things import NAMES, STATE, Api, clients, here
from tests.provider.fakes import FakeTime
from tpuflex.errors import NotFoundError
from tpuflex.google.apis import Apis
from tpuflex.inventory import kinds
from tpuflex.inventory.cloud_resource import CloudResource, Marker
from tpuflex.inventory.inventory import Item, Scope, take_inventory
from tpuflex.inventory.kinds import KINDS, Kind
from tpuflex.inventory.listing import list_all
from tpuflex.operate.sweep import Disposition, leftovers
from tpuflex.operate.sweep_deletion import delete
from tpuflex.recovery.look import CloudLook, Presence

TYPE = "gcp:compute/disk:Disk"
DISK = "projects/p/zones/z/disks/d"
ROW = Kind(
    "disk",
    "projects/{project}/zones/{zone}/disks/{name}",
    TYPE,
    root="/compute/v1/",
    location="zone",
    names=lambda names, _project, _region: ("d",) if names == NAMES else (),
)


@pytest.fixture
def compute(monkeypatch: pytest.MonkeyPatch) -> Api:
    """Compute Engine with one disk of ours; the table has a row for disks."""
    monkeypatch.setattr(kinds, "KINDS", (*KINDS, ROW))
    disk: dict[str, Any] = {"name": "d", "labels": {**NAMES.labels(STATE)}}
    return Api(
        {
            "GET /compute/v1/projects/p/zones/z/disks": {"items": [disk]},
            f"GET /compute/v1/{DISK}": disk,
        }
    )


def swept(apis: Apis, *known: str) -> list[tuple[str, Disposition]]:
    found = leftovers(list_all(apis, "p", ("z",)), here(*known))
    return [(leftover.resource.id, leftover.disposition) for leftover in found]


def test_a_made_up_row_is_listed_by_a_teardown(compute: Api) -> None:
    """The inventory that proves a teardown holds it."""
    scope = Scope("p", ("z",), NAMES, frozenset({STATE}))

    found = take_inventory(scope, clients(compute=compute))

    assert found.items == (Item("disk", "d", "z"),)


def test_a_made_up_row_is_swept(compute: Api) -> None:
    """What no state knows is left behind, and can be deleted."""
    apis = clients(compute=compute)
    assert swept(apis, DISK) == []
    assert swept(apis) == [(DISK, Disposition.ORPHAN)]

    (leftover,) = leftovers(list_all(apis, "p", ("z",)), here())
    compute.answers[f"GET /compute/v1/{DISK}"] = [
        compute.answers[f"GET /compute/v1/{DISK}"],
        NotFoundError("gone"),
    ]
    (deleted,) = delete([leftover], apis, say=lambda _: None, timing=FakeTime().timing())

    assert deleted.problem == ""
    assert f"DELETE /compute/v1/{DISK}" in compute.calls


def test_a_made_up_row_is_recovered(compute: Api) -> None:
    """A recovery finds what was begun by its inputs, and tells whose it is."""
    look = CloudLook(clients(compute=compute))
    inputs = {"project": "p", "zone": "z", "name": "d", "labels": NAMES.labels(STATE)}

    assert (look(TYPE, inputs).presence, look(TYPE, inputs).id) == (Presence.OURS, DISK)
    assert look(TYPE, {**inputs, "name": "other"}).presence is Presence.ABSENT
    assert look(TYPE, {**inputs, "labels": {"tpuflex-owner": "me"}}).presence is Presence.FOREIGN


def test_what_tpuflex_does_not_make_is_shown_and_never_swept() -> None:
    """An address that somebody made for the endpoint is billed, so the inventory names it; a sweep
    leaves it alone, whatever it carries."""
    address = {"name": "mine", "description": NAMES.description()}
    apis = clients(
        compute=Api({"GET /compute/v1/projects/p/regions/us-east5/addresses": {"items": [address]}})
    )

    (item,) = take_inventory(Scope("p", ("us-east5-a",), NAMES), apis).foreign
    assert (item.kind, item.name, item.location) == ("address", "mine", "us-east5")
    assert leftovers(list_all(apis, "p", ("us-east5-a",)), here()) == ()


def test_a_node_without_labels_is_found_by_its_description() -> None:
    """Labels can be taken off; what is still billed is found by what else it carries."""
    node = {"name": "projects/p/locations/z/nodes/n", "description": NAMES.description()}
    tpu = Api({"GET /v2alpha1/projects/p/locations/z/nodes": {"nodes": [node]}})

    (found,) = list_all(clients(tpu=tpu), "p", ("z",)).resources

    assert (found.name, found.marker.owner) == ("n", NAMES.owner)


@pytest.mark.parametrize("zones", [("us-east5-a",), ()])
def test_a_name_of_ours_counts_for_every_kind(zones: tuple[str, ...]) -> None:
    """A teardown is proved by names, too: also where another owner is described, and for a kind
    that would not have that name."""
    scope = Scope("p", zones, NAMES)
    name = NAMES.compute("net")
    network = next(kind for kind in KINDS if kind.name == "network")
    bucket = next(kind for kind in KINDS if kind.name == "bucket")

    def owns(kind: Kind, owner: str) -> bool:
        there = CloudResource(kind, name, "global", name, f"/{name}", Marker(owner))
        return scope.lists(there)

    assert owns(network, "")
    assert owns(network, "somebody else")
    assert owns(bucket, "")
    assert not owns(bucket, "somebody else")
