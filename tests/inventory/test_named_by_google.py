"""Alert policies and dashboards, whose ids Google gives: found by display name and marks."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.operate.marked_things import NAMES, STATE, Api, clients, here, maker
from tpuflex.engine.state import known_ids
from tpuflex.errors import ServiceDisabledError
from tpuflex.inventory.inventory import Inventory, Scope, take_inventory
from tpuflex.inventory.listing import list_all
from tpuflex.inventory.removal import remove
from tpuflex.inventory.unlisted import recorded
from tpuflex.operate.sweep import Disposition, leftovers
from tpuflex.recovery.look import CloudLook, Presence

POLICY = "gcp:monitoring/alertPolicy:AlertPolicy"
DASHBOARD = "gcp:monitoring/dashboard:Dashboard"
POLICIES, DASHBOARDS = "projects/p/alertPolicies", "projects/p/dashboards"
CALLED = NAMES.shown("TargetDown")
OTHER_STATE = "0" * 20


def policy(number: int, name: str = CALLED, state_id: str = STATE) -> dict[str, Any]:
    """A policy as the API has it."""
    labels = NAMES.labels(state_id)
    return {"name": f"{POLICIES}/{number}", "displayName": name, "userLabels": labels}


def board(state_id: str = STATE) -> dict[str, Any]:
    """A dashboard as the API has it, by the project's number."""
    labels = NAMES.labels(state_id)
    return {"name": "projects/123/dashboards/b", "displayName": NAMES.shown(), "labels": labels}


def monitoring(*policies: dict[str, Any], boards: tuple[dict[str, Any], ...] = ()) -> Api:
    """Cloud Monitoring with these."""
    read = {f"GET /v3/{each['name']}": each for each in policies}
    return Api(
        {
            f"GET /v3/{POLICIES}": {"alertPolicies": [*policies]},
            f"GET /v1/{DASHBOARDS}": {"dashboards": [*boards]},
            **read,
            **{f"GET /v1/{DASHBOARDS}/{each['name'].rpartition('/')[2]}": each for each in boards},
        }
    )


def test_a_teardown_lists_them_by_what_they_are_called() -> None:
    """Another state's policy of the same display name is listed, and not ours; that of another
    endpoint is not listed."""
    elsewhere = {"name": f"{POLICIES}/3", "displayName": "shop-prod-vllm/TargetDown"}
    api = monitoring(policy(1), policy(2, state_id=OTHER_STATE), elsewhere, boards=(board(),))

    found = take_inventory(Scope("p", ("z",), NAMES, frozenset({STATE})), clients(monitoring=api))

    assert [(item.kind, item.name) for item in found.ours] == [
        ("alert policy", CALLED),
        ("dashboard", NAMES.shown()),
    ]
    assert [item.foreign for item in found.foreign] == [
        f"it was made by another state ({OTHER_STATE})"
    ]


def test_a_sweep_deletes_them_by_the_ids_that_google_gave() -> None:
    """What a state knows is in use; what none knows is deleted, under its own id."""
    api = monitoring(policy(1), policy(2), boards=(board(),))
    apis = clients(monitoring=api)
    listing = list_all(apis, "p", ("z",))

    found = leftovers(listing, here(f"{POLICIES}/1"))

    assert {each.resource.id: each.disposition for each in found} == {
        f"{POLICIES}/2": Disposition.ORPHAN,
        f"{DASHBOARDS}/b": Disposition.ORPHAN,
    }
    for each in found:
        remove(each.resource, maker(), apis, lambda _: "")
    assert [call for call in api.calls if call.startswith("DELETE")] == [
        f"DELETE /v3/{POLICIES}/2",
        f"DELETE /v1/{DASHBOARDS}/b",
    ]


def test_a_recovery_finds_ours_among_several() -> None:
    """Display names are not unique: another's of the same name is in nobody's way."""
    inputs = {"project": "p", "displayName": CALLED, "userLabels": NAMES.labels(STATE)}
    look = CloudLook(clients(monitoring=monitoring(policy(1, state_id=OTHER_STATE), policy(2))))

    ours = look(POLICY, inputs)
    none = look(POLICY, {**inputs, "displayName": NAMES.shown("Other")})

    assert (ours.presence, ours.id) == (Presence.OURS, f"{POLICIES}/2")
    assert none.presence is Presence.ABSENT
    another = CloudLook(clients(monitoring=monitoring(policy(1, state_id=OTHER_STATE))))
    assert another(POLICY, inputs).presence is Presence.ABSENT


@pytest.mark.parametrize("known", [True, False])
def test_a_dashboard_is_asked_for_by_its_json(known: bool) -> None:
    """Its name and labels are within its one input, which is not known before the state's id is."""
    document = {"displayName": NAMES.shown(), "labels": NAMES.labels(STATE)}
    text = json.dumps(document) if known else "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
    look = CloudLook(clients(monitoring=monitoring(boards=(board(),))))

    found = look(DASHBOARD, {"project": "p", "dashboardJson": text})

    assert found.presence is (Presence.OURS if known else Presence.UNKNOWN)


def test_where_cloud_monitoring_is_off_there_are_none() -> None:
    """A stack without alert policies does not need it, nor does its teardown."""
    off = ServiceDisabledError("not enabled")
    api = Api({f"GET /v3/{POLICIES}": off, f"GET /v1/{DASHBOARDS}": off})
    scope = Scope("p", ("z",), NAMES, frozenset({STATE}))

    found = take_inventory(scope, clients(monitoring=api))

    assert not [each for each in found.unlisted if "polic" in each.what or "dash" in each.what]


def test_what_could_not_be_listed_is_shown_by_its_display_name() -> None:
    """The state knows it, and it says more than Google's number."""
    resource = {
        "type": POLICY,
        "id": f"{POLICIES}/1",
        "outputs": {"displayName": CALLED},
    }
    unlisted = Inventory((), unlisted_kinds=frozenset({"alert policy"}))

    assert [item.name for item in recorded([resource], unlisted)] == [CALLED]


@pytest.mark.parametrize("project", ["123", "p"])
def test_a_state_knows_a_dashboard_by_the_project_s_id(project: str) -> None:
    """Google names it by the project's number, and an import by the id: lists are asked for by the
    id, and what a state knows is not swept."""
    resource = {
        "urn": "urn:pulumi:dev::tpuflex::gcp:monitoring/dashboard:Dashboard::d",
        "type": DASHBOARD,
        "custom": True,
        "id": f"projects/{project}/dashboards/b",
        "inputs": {"project": "p"},
    }
    known = known_ids({"resources": [resource]})

    assert f"{DASHBOARDS}/b" in known
    listing = list_all(clients(monitoring=monitoring(boards=(board(),))), "p", ("z",))
    assert not leftovers(listing, here(*known))
