"""Subnetworks are found in every region, wherever the stack is now."""

from __future__ import annotations

from typing import Any

from tests.operate.marked_things import NAMES, STATE, Api, clients
from tpuflex.errors import AccessError
from tpuflex.inventory.listing import Listing, list_all

NAME = NAMES.compute("subnet")
EVERYWHERE = "GET /compute/v1/projects/p/aggregated"


def listed(answers: dict[str, Any]) -> Listing:
    """What an inventory of zone z-a in region z finds."""
    return list_all(clients(compute=Api(answers)), "p", ("z-a",))


def test_a_subnetwork_elsewhere_is_found_and_one_here_once() -> None:
    """The list of all regions adds what the stack's own does not have; where it is refused, nothing
    is added, and nothing said."""
    here = {"name": NAME, "description": NAMES.description(STATE)}
    own = {"GET /compute/v1/projects/p/regions/z/subnetworks": {"items": [here]}}
    items = {
        "regions/z": {"subnetworks": [here]},
        "regions/far": {"subnetworks": [here]},
        "regions/none": {"warning": {"code": "NO_RESULTS_ON_PAGE"}},
        "regions/odd": None,
    }

    found = listed({**own, f"{EVERYWHERE}/subnetworks": {"items": items}})
    assert [each.location for each in found.resources] == ["z", "far"]

    found = listed({**own, f"{EVERYWHERE}/subnetworks": AccessError("no")})
    assert [each.location for each in found.resources] == ["z"]
    assert found.unlisted == ()
