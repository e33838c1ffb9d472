"""Custom roles of a project (iam.projects.roles), as Google keeps them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import tpuflex
from embedded_cloud.core.clock import ManualClock
from embedded_cloud.services.iam.roles import predefined_roles
from embedded_cloud.strict.permission_table import needs_of
from tests.embedded_cloud.api import PROJECT, Api, error_of

ROLES = f"v1/projects/{PROJECT}/roles"
_DAY = 86_400


def create(api: Api, role_id: str = "some_role", **role: Any) -> Any:
    return api.call("POST", ROLES, body={"roleId": role_id, "role": role})


def test_a_role_is_made_and_read(api: Api) -> None:
    """Its permissions are sorted, each once; a list shows them in the view FULL only."""
    held = ["tpu.nodes.list", "tpu.nodes.get", "tpu.nodes.get"]
    made = create(api, title="T", description="D", stage="GA", includedPermissions=held).json()
    assert made == {
        "name": f"projects/{PROJECT}/roles/some_role",
        "title": "T",
        "description": "D",
        "stage": "GA",
        "etag": made["etag"],
        "includedPermissions": ["tpu.nodes.get", "tpu.nodes.list"],
    }
    assert api.call("GET", f"{ROLES}/some_role").json() == made
    (listed,) = api.call("GET", ROLES).json()["roles"]
    assert listed == {key: made[key] for key in made if key != "includedPermissions"}
    assert api.call("GET", ROLES, view="FULL").json()["roles"] == [made]


def test_an_id_is_taken_for_37_days_after_its_deletion(api: Api, clock: ManualClock) -> None:
    """Gone from lists, back within 7 days, and its id cannot be used again before 37."""
    create(api)
    assert error_of(create(api))[:2] == (409, "ALREADY_EXISTS")
    assert api.call("DELETE", f"{ROLES}/some_role").json()["deleted"] is True
    assert api.call("GET", ROLES).json().get("roles", []) == []
    assert len(api.call("GET", ROLES, showDeleted="true").json()["roles"]) == 1
    assert error_of(create(api)) == (
        *(400, "FAILED_PRECONDITION"),
        "You can't create a role_id (some_role) which has been marked for deletion.",
    )
    assert "deleted" not in api.call("POST", f"{ROLES}/some_role:undelete", body={}).json()
    api.call("DELETE", f"{ROLES}/some_role")
    clock.advance(8 * _DAY)
    assert error_of(api.call("POST", f"{ROLES}/some_role:undelete", body={}))[0] == 400
    clock.advance(30 * _DAY)
    assert error_of(api.call("GET", f"{ROLES}/some_role"))[0] == 404
    assert create(api).ok


def test_an_etag_that_is_stale_changes_nothing(api: Api) -> None:
    """Read-modify-write: 409 for whoever comes second."""
    etag = create(api).json()["etag"]
    first = api.call("PATCH", f"{ROLES}/some_role", body={"title": "A", "etag": etag})
    second = api.call("PATCH", f"{ROLES}/some_role", body={"title": "B", "etag": etag})
    assert first.json()["title"] == "A"
    assert error_of(second)[:2] == (409, "ABORTED")
    assert error_of(api.call("DELETE", f"{ROLES}/some_role", etag=etag))[0] == 409


@pytest.mark.parametrize(
    ("role_id", "role", "message"),
    [
        ("no", {}, "must match the regular expression"),
        ("some-role", {}, "must match the regular expression"),
        ("some", {"includedPermissions": ["tpu.nodes"]}, "Permission tpu.nodes is not valid."),
        (
            "some",
            {"includedPermissions": ["resourcemanager.projects.list"]},
            "Permission resourcemanager.projects.list is not valid.",
        ),
    ],
)
def test_what_google_refuses(api: Api, role_id: str, role: Any, message: str) -> None:
    """400 that says which id or permission it is about."""
    refused = error_of(create(api, role_id, **role))
    assert refused[:2] == (400, "INVALID_ARGUMENT")
    assert message in refused[2]


def test_a_role_of_google_s_can_be_read(api: Api) -> None:
    """As far as it is known here."""
    found = api.call("GET", "v1/roles/logging.logWriter").json()
    assert found["includedPermissions"] == ["logging.logEntries.create"]
    assert error_of(api.call("GET", "v1/roles/no.such"))[0] == 404


def test_the_roles_that_tpuflex_names_are_known() -> None:
    """What it grants or advises can be bound where IAM is enforced."""
    role = re.compile(r"\broles/[a-z]+\.[a-zA-Z]+")
    files = Path(tpuflex.__file__).parent.rglob("*.py")
    named = {name for file in files for name in role.findall(file.read_text("utf-8"))}
    assert "roles/cloudkms.cryptoKeyDecrypter" in named
    assert named - {"roles/roles.yaml"} <= predefined_roles().keys()


@pytest.mark.parametrize(
    ("role", "method"),
    [
        ("roles/artifactregistry.reader", "artifactregistry.projects.locations.repositories"),
        ("roles/viewer", "cloudkms.projects.locations.keyRings.cryptoKeys"),
        ("roles/viewer", "iam.projects.locations.workloadIdentityPools.providers"),
    ],
)
def test_who_may_look_may_look_at_everything(role: str, method: str) -> None:
    """A role for reading holds what each method asks for that reads."""
    found = predefined_roles()[role]
    asked = [name for verb in ("get", "list") for name in needs_of(f"{method}.{verb}") or ()]
    assert len(asked) == 2
    assert [name for name in asked if not found.holds(name)] == []
