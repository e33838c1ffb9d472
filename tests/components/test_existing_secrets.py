"""An endpoint whose keys are in secrets of the user's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pulumi
import pytest

from tests.components.pulumi_plan import Plan
from tests.unit.stack_sections import sections
from tpuflex.naming import Names

Deploy = Callable[..., Plan]

SLICE = "tpuflex:tpu:QueuedResource vllm"
SECRET = "gcp:secretmanager/secret:Secret"
GRANT = "gcp:secretmanager/secretIamMember:SecretIamMember"
MINE: dict[str, Any] = {
    "api_key": "projects/acme-vault/secrets/vllm-key/versions/3",
    "programs_key": "projects/acme-vault/secrets/programs/versions/1",
    "hf_token": "projects/acme-vault/secrets/hub/versions/1",
}
SEEN: dict[str, object] = {"name": "projects/1234/secrets/vllm-key", "effectiveLabels": {}}


def made(plan: Plan) -> list[str]:
    """What the plan makes in Secret Manager."""
    return [name for name in plan.inputs if name.startswith("gcp:secretmanager")]


@pytest.mark.parametrize("preview", [False, True])
def test_only_the_right_to_read_one_version_is_made(deployed: Deploy, preview: bool) -> None:
    """In the project that has the secret, for the hosts, and not for the token of the Hub; a
    secret of the stack's own beside it is as ever."""
    plan = deployed(
        sections({"secrets": {**MINE, "metrics_key_version": 1}}), preview=preview, read=SEEN
    )

    reader = f"{GRANT} vllm-brought-secrets-api-key-reader"
    assert sorted(made(plan)) == [
        f"{SECRET} vllm-secrets-metrics-key",
        reader,
        f"{GRANT} vllm-brought-secrets-programs-key-reader",
        f"{GRANT} vllm-secrets-metrics-key-reader",
    ]
    grant = plan.inputs[reader]
    assert (grant["project"], grant["secretId"]) == ("acme-vault", "vllm-key")
    assert grant["role"] == "roles/secretmanager.secretAccessor"
    assert grant["condition"]["expression"] == (
        "resource.name == 'projects/1234/secrets/vllm-key/versions/3'"
    )
    assert reader in plan.dependencies[SLICE]


def test_no_grant_where_grants_are_yours(deployed: Deploy) -> None:
    """With manage_grants: false nothing is made in Secret Manager."""
    plan = deployed(sections({"secrets": {**MINE, "manage_grants": False}}), read=SEEN)

    assert made(plan) == []
    assert "vllm-brought-secrets-api-key-reader" not in str(plan.dependencies[SLICE])


def test_endpoints_with_one_account_have_a_binding_each(deployed: Deploy) -> None:
    """Bindings of one role are one if their conditions are alike: `down` of one endpoint would take
    the key from another with the same account."""
    mine = {"service_account": "serving@acme-prod.iam.gserviceaccount.com"}
    titles = {
        str(endpoint): deployed(
            sections({"secrets": {**MINE, "manage_grants": True}, "identity": identity}), read=SEEN
        ).inputs[f"{GRANT} vllm-brought-secrets-api-key-reader"]["condition"]["title"]
        for endpoint, identity in enumerate(({}, mine))
    }

    assert titles["0"] == "tpuflex_version_only"
    assert titles["1"].startswith("tpuflex_version_only_")


def test_no_grant_where_all_grants_are_yours(deployed: Deploy) -> None:
    """What holds for the account holds for the secrets, too."""
    mine = {"service_account": "serving@acme-prod.iam.gserviceaccount.com", "manage_grants": False}
    plan = deployed(sections({"secrets": MINE, "identity": mine}), read=SEEN)

    assert made(plan) == []


def test_the_endpoints_own_secret_is_not_yours(deployed: Deploy) -> None:
    """The endpoint would make it no more, and the next update delete it with all its versions."""
    own = Names("tpuflex", "dev", "vllm").secret("api-key")
    mine = {"api_key": f"projects/acme-serving/secrets/{own}/versions/1"}

    with pytest.raises(pulumi.RunError, match=f"{own} is the endpoint's own, which `up` would"):
        deployed(sections({"secrets": mine}), read=SEEN)


@pytest.mark.parametrize("manage_grants", [True, False])
def test_what_tpuflex_has_made_is_not_yours(deployed: Deploy, manage_grants: bool) -> None:
    """Another endpoint's secret goes with that endpoint; no slice is asked for."""
    secrets = {**MINE, "manage_grants": manage_grants}
    theirs = {**SEEN, "effectiveLabels": {"tpuflex-owner": "shop-prod-chat"}}

    with pytest.raises(Exception, match="was made by tpuflex for an endpoint, which deletes it"):
        deployed(sections({"secrets": secrets}), read=theirs)
