"""The preview identity on the embedded cloud: every method of every service, one by one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import requests

from embedded_cloud.core.access import Caller, Principal
from embedded_cloud.core.json_types import JsonObject
from embedded_cloud.core.routing import Route
from embedded_cloud.server import EmbeddedCloud
from embedded_cloud.strict.permission_table import needs_of
from tests.embedded_cloud.api import PROJECT, TOKEN, Api
from tpuflex.roles.roles import roles

ACCOUNT = f"deployer@{PROJECT}.iam.gserviceaccount.com"
HELD = frozenset(roles().permissions_of("tpuflexPreview"))
#: What changes something and asks for nothing: no role holds a permission that would fit, or
#: it is the caller's own.
OPEN = {
    "oslogin.users.importSshPublicKey",
    "tpu.projects.locations.generateServiceIdentity",
}
#: Path parameters that have to name something that is there.
NAMED = {
    "bucket": "bk-1",
    "destinationBucket": "bk-1",
    "sourceBucket": "bk-1",
    "serviceAccount": ACCOUNT,
}
_PARAMETER = re.compile(r"\{(\w+)\}")


@pytest.fixture(scope="module")
def preview(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[EmbeddedCloud, Api]]:
    """A cloud that enforces IAM, and calls of an account that has tpuflexPreview."""
    state: Path = tmp_path_factory.mktemp("preview") / "emulator"
    strict: JsonObject = {"iam": {"enforced": True}}
    with EmbeddedCloud(state, token=TOKEN, strictness=strict) as cloud:
        owner = Api(cloud.url)
        made = [
            owner.call(
                "POST", f"v1/projects/{PROJECT}/serviceAccounts", body={"accountId": "deployer"}
            ),
            owner.call(
                "POST",
                f"v1/projects/{PROJECT}/roles",
                body={
                    "roleId": "tpuflexPreview",
                    "role": {"includedPermissions": sorted(HELD)},
                },
            ),
            owner.call("POST", "storage/v1/b", body={"name": "bk-1"}, project=PROJECT),
            owner.call(
                "POST",
                f"v1/projects/{PROJECT}:setIamPolicy",
                body={
                    "policy": {
                        "bindings": [
                            {
                                "role": f"projects/{PROJECT}/roles/tpuflexPreview",
                                "members": [f"serviceAccount:{ACCOUNT}"],
                            }
                        ]
                    }
                },
            ),
        ]
        assert [answer.status_code for answer in made] == [200] * 4, [a.text for a in made]
        caller = Caller(Principal.SERVICE_ACCOUNT, ACCOUNT)
        yield cloud, replace(owner, token=cloud.cloud.access.session_token(caller, 3600))


def routes(cloud: EmbeddedCloud) -> list[Route]:
    """Every path of every service."""
    return [route for service in cloud.cloud.services for route in service.routes()]


def call(api: Api, route: Route) -> requests.Response:
    """A call of ``route`` on things that are in the project, or would be."""

    def value(parameter: re.Match[str]) -> str:
        name = parameter[1]
        about_project = name.startswith(("project", "v1Id", "v1beta1Id", "resource"))
        return PROJECT if about_project else NAMED.get(name, "x")

    path = _PARAMETER.sub(value, route.path)
    body: JsonObject | None = {} if route.method in ("POST", "PUT", "PATCH") else None
    return api.call(route.method, path, body=body, project=PROJECT)


def test_what_is_not_in_the_role_is_refused(preview: tuple[EmbeddedCloud, Api]) -> None:
    """403 for each method that asks for more than the role holds, whatever is sent."""
    cloud, api = preview
    beyond = [route for route in routes(cloud) if not {*(needs_of(route.method_id) or ())} <= HELD]
    before = cloud.cloud.inventory()
    answers = {(route.method, route.path): call(api, route).status_code for route in beyond}
    assert len(answers) > 60
    assert {where: status for where, status in answers.items() if status != 403} == {}
    assert cloud.cloud.inventory() == before


def test_whatever_is_allowed_changes_nothing(preview: tuple[EmbeddedCloud, Api]) -> None:
    """The other methods read, but for those that nobody is refused."""
    cloud, _ = preview
    allowed = [route for route in routes(cloud) if {*(needs_of(route.method_id) or ())} <= HELD]
    writing = {
        route.method_id
        for route in allowed
        if route.method != "GET"
        and not route.method_id.endswith(
            (".getIamPolicy", ".testIamPermissions", ".getEffectiveOrgPolicy", ".getOrgPolicy")
        )
    }
    assert writing - {"tpu.projects.locations.nodes.getGuestAttributes"} == OPEN
