"""A secret of the user's own that a machine is to read: refused by key, with what to do."""

from __future__ import annotations

import pytest

from tests.operate.marked_things import Api
from tpuflex.errors import (
    AccessError,
    AlreadyExistsError,
    ApiError,
    NotFoundError,
    TpuflexError,
)
from tpuflex.gcp.brought_secret import GRANTS, project_of, require_grantable
from tpuflex.gcp.transport import JsonObject
from tpuflex.naming import HF_TOKEN
from tpuflex.settings.secrets import BroughtSecret

TOKEN = BroughtSecret("acme-vault", "hub", 2)
THERE: JsonObject = {"name": "projects/123/secrets/hub"}


def api(found: JsonObject | Exception, *held: str) -> Api:
    """Secret Manager, which holds that of the secret, and says of ``held`` that the caller may."""
    path = "/v1/projects/acme-vault/secrets/hub"
    return Api(
        {f"GET {path}": found, f"POST {path}:testIamPermissions": {"permissions": [*held]}},
    )


@pytest.mark.parametrize(
    ("found", "held", "error", "said"),
    [
        (NotFoundError("404"), GRANTS, NotFoundError, "hub does not exist"),
        (AccessError("secrets.get denied"), GRANTS, AccessError, "secrets.get denied"),
        (
            {**THERE, "labels": {"tpuflex-owner": "x"}},
            GRANTS,
            AlreadyExistsError,
            "made by tpuflex for an endpoint",
        ),
        (THERE, GRANTS[:1], AccessError, "setIamPolicy is missing"),
        (THERE, (), AccessError, "getIamPolicy, secretmanager.secrets.setIamPolicy is missing"),
        ({"name": "hub"}, GRANTS, ApiError, "in which project"),
    ],
)
def test_a_secret_that_nobody_can_be_let_into_is_refused(
    found: JsonObject | Exception, held: tuple[str, ...], error: type[TpuflexError], said: str
) -> None:
    """Each by the key of the stack file."""
    with pytest.raises(error) as caught:
        require_grantable(api(found, *held), HF_TOKEN, TOKEN)
    assert caught.value.message.startswith("tpuflex:secrets.hf_token: ")
    assert said in caught.value.message


def test_conditions_name_the_project_by_its_number() -> None:
    """Which the secret itself says, whoever has it."""
    require_grantable(api(THERE, *GRANTS), HF_TOKEN, TOKEN)
    assert project_of(api(THERE), HF_TOKEN, TOKEN) == "123"
