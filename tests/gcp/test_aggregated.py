"""Machines are found in every zone, subnetworks in every region, wherever the stack is now."""

from __future__ import annotations

from typing import Any

import pytest

from tests.operate.marked_things import NAMES, STATE, Api, clients
from tpuflex.errors import AccessError, ApiError, CapacityError, QuotaError
from tpuflex.gcp.compute_operations import finish
from tpuflex.gcp.listing import Listing, list_all
from tpuflex.naming import COPY_ROLE

NAME = NAMES.compute(COPY_ROLE)
EVERYWHERE = "GET /compute/v1/projects/p/aggregated"


def listed(answers: dict[str, Any]) -> Listing:
    """What an inventory of zone z-a in region z finds."""
    return list_all(clients(compute=Api(answers)), "p", ("z-a",))


def test_a_machine_is_found_in_any_zone() -> None:
    """Also in one that no stack names any more; a zone that is unreachable is told."""
    machine = {"name": NAME, "labels": NAMES.labels(STATE)}
    items = {
        "zones/here-a": {"warning": {"code": "NO_RESULTS_ON_PAGE"}},
        "zones/there-b": {"instances": [machine]},
        "zones/lost-c": {"warning": {"code": "UNREACHABLE"}},
        "zones/odd-d": None,
    }
    found = listed({f"{EVERYWHERE}/instances": {"items": items}})

    (resource,) = found.resources
    assert (resource.kind.name, resource.name, resource.location) == ("instance", NAME, "there-b")
    assert resource.path == f"/compute/v1/projects/p/zones/there-b/instances/{NAME}"
    assert resource.marker.state_id == STATE
    assert "instances: lost-c is unreachable" in found.unseen
    assert found.unseen_kinds == {"instance"}


def test_machines_that_may_not_be_listed_are_told() -> None:
    """A refusal is never taken for an empty list."""
    found = listed({f"{EVERYWHERE}/instances": AccessError("compute.instances.list is missing")})
    assert found.unseen == ("instances: compute.instances.list is missing",)
    assert found.unseen_kinds == {"instance"}


def test_a_subnetwork_elsewhere_is_found_and_one_here_once() -> None:
    """The list of all regions adds what the stack's own does not have; where it is refused, nothing
    is added, and nothing said."""
    here = {"name": NAME, "description": NAMES.description(STATE)}
    own = {"GET /compute/v1/projects/p/regions/z/subnetworks": {"items": [here]}}
    items = {"regions/z": {"subnetworks": [here]}, "regions/far": {"subnetworks": [here]}}

    found = listed({**own, f"{EVERYWHERE}/subnetworks": {"items": items}})
    assert [each.location for each in found.resources] == ["z", "far"]

    found = listed({**own, f"{EVERYWHERE}/subnetworks": AccessError("no")})
    assert [each.location for each in found.resources] == ["z"]
    assert found.unseen == ()


def _operation(status: str, **more: Any) -> dict[str, Any]:
    link = "https://elsewhere.example/compute/v1/projects/p/zones/z/operations/o"
    return {"name": "o", "status": status, "selfLink": link, **more}


def test_an_operation_is_waited_for_at_our_own_address() -> None:
    """Its link names the path, and nothing of its host is believed."""
    path = "GET /compute/v1/projects/p/zones/z/operations/o"
    api = Api({path: [_operation("RUNNING"), _operation("DONE")]})
    waited: list[float] = []
    finish(_operation("PENDING"), api, now=lambda: 0.0, sleep=waited.append)
    assert api.calls == [path, path]
    assert waited == [2.0, 2.0]


@pytest.mark.parametrize(
    ("code", "raised"),
    [
        ("ZONE_RESOURCE_POOL_EXHAUSTED", CapacityError),
        ("QUOTA_EXCEEDED", QuotaError),
        ("RESOURCE_NOT_FOUND", ApiError),
        ("SOMETHING_ELSE", ApiError),
    ],
)
def test_a_failed_operation_says_who_must_act(code: str, raised: type[Exception]) -> None:
    """By its code; its text is shown printable and short."""
    error = {"errors": [{"code": code, "message": "no\x1b[2J" + "x" * 1000}]}
    with pytest.raises(raised) as caught:
        finish(_operation("DONE", error=error), Api(), now=lambda: 0.0, sleep=lambda _s: None)
    assert "\x1b" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_an_operation_that_does_not_end_is_given_up() -> None:
    """After five minutes; and one without a link at once."""
    clock = iter(range(0, 10_000, 100))
    path = "GET /compute/v1/projects/p/zones/z/operations/o"
    with pytest.raises(ApiError, match="does not end"):
        finish(
            _operation("PENDING"),
            Api({path: _operation("RUNNING")}),
            now=lambda: float(next(clock)),
            sleep=lambda _s: None,
        )
    with pytest.raises(ApiError, match="no operation"):
        finish({"status": "PENDING"}, Api(), now=lambda: 0.0, sleep=lambda _s: None)
