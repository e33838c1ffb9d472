"""An endpoint whose hosts run as an account that was there before, under Pulumi's mocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pulumi
import pytest

from tests.components.pulumi_plan import Plan
from tests.unit.stack_sections import sections
from tpuflex.naming import Names

Deploy = Callable[..., Plan]

EMAIL = "serving@acme-serving.iam.gserviceaccount.com"
MEMBER = f"serviceAccount:{EMAIL}"
SLICE = "tpuflex:tpu:QueuedResource vllm"
READER = "gcp:storage/bucketIAMMember:BucketIAMMember vllm-library-reader"


def given(**changes: object) -> dict[str, Any]:
    """The sections of a stack with the account; of its identity, of the rest by dotted key."""
    identity = {"service_account": EMAIL, **changes.pop("identity", {})}  # type: ignore[dict-item]
    return sections({"identity": identity, **changes})


def grants(plan: Plan) -> dict[str, tuple[str, str]]:
    """Role and member of each grant."""
    return {
        key.split(" ")[1]: (inputs["role"], inputs["member"])
        for key, inputs in plan.inputs.items()
        if "member" in inputs and "role" in inputs
    }


@pytest.mark.parametrize("preview", [False, True])
def test_hosts_run_as_the_account_and_read_their_own(deployed: Deploy, preview: bool) -> None:
    """No account is made, and roles are granted on what is the stack's alone: one on the project
    would be one of all endpoints with that account."""
    plan = deployed(given(), preview=preview, read={"disabled": False})

    assert not [key for key in plan.inputs if key.startswith("gcp:serviceaccount/account")]
    assert plan.inputs[SLICE]["serviceAccount"] == EMAIL
    assert grants(plan) == {
        "vllm-weights-reader": ("roles/storage.objectViewer", MEMBER),
        "vllm-weights-compile-cache": ("roles/storage.objectCreator", MEMBER),
        "vllm-secrets-api-key-reader": ("roles/secretmanager.secretAccessor", MEMBER),
        "vllm-secrets-programs-key-reader": ("roles/secretmanager.secretAccessor", MEMBER),
    }
    assert plan.inputs["tpuflex:index:HostIdentity vllm-host"]["existing"] == {
        "project": "acme-serving",
        "email": EMAIL,
    }


@pytest.mark.parametrize("preview", [False, True])
def test_nothing_is_granted_where_others_do_that(deployed: Deploy, preview: bool) -> None:
    """The slice still waits for bucket and secrets, and these outlive it."""
    plan = deployed(given(identity={"manage_grants": False}), preview=preview)

    assert grants(plan) == {}
    assert plan.inputs[SLICE]["serviceAccount"] == EMAIL
    waited = {each.split(" ")[0] for each in plan.dependencies[SLICE]}
    assert {"gcp:storage/bucket:Bucket", "gcp:secretmanager/secret:Secret"} <= waited


@pytest.mark.parametrize("manage_grants", [True, False])
def test_weights_of_a_library(deployed: Deploy, manage_grants: bool) -> None:
    """The right to read them is a binding of this endpoint alone, by the title of its condition:
    another endpoint with that account and model keeps its own when this one goes."""
    library = {"model.weights": {"manifest_sha256": "5a" * 32, "bucket": "library"}}
    plan = deployed(given(identity={"manage_grants": manage_grants}, **library))

    assert (READER in plan.inputs) is manage_grants
    if manage_grants:
        owner = Names("tpuflex", "dev", "vllm").owner
        condition = plan.inputs[READER]["condition"]
        assert condition["title"] == f"tpuflex_weights_only_{owner}"
        assert plan.inputs[READER]["member"] == MEMBER
    own = deployed(sections(library)).inputs
    assert own[READER]["condition"]["title"] == "tpuflex_weights_only"


@pytest.mark.parametrize("preview", [False, True])
@pytest.mark.parametrize(
    ("seen", "email", "said"),
    [
        (
            {"disabled": True},
            EMAIL,
            f"tpuflex:identity.service_account: {EMAIL} is disabled, so hosts get no token of it.\n"
            f"Run: gcloud iam service-accounts enable {EMAIL} --project=acme-serving",
        ),
        (
            {"description": Names("other", "dev", "vllm").description("0123456789abcdef0123")},
            EMAIL,
            f"tpuflex:identity.service_account: {EMAIL} is an endpoint's own, which that endpoint's"
            " `down` deletes.\nWrite one that others have made.",
        ),
        (
            {},
            "tpuflex-dev-vllm-host@acme-serving.iam.gserviceaccount.com",
            "tpuflex:identity.service_account: tpuflex-dev-vllm-"
            "host@acme-serving.iam.gserviceaccount.com has the name of the endpoint's own,"
            " which `down` and `sweep` delete.\nWrite one that others have made.",
        ),
    ],
)
def test_an_account_that_cannot_be_used_is_refused_at_the_plan(
    deployed: Deploy, preview: bool, seen: dict[str, object], email: str, said: str
) -> None:
    """Before chips are asked for, by key and with what to do."""
    mapping = given(identity={"service_account": email})

    with pytest.raises(pulumi.RunError) as caught:
        deployed(mapping, preview=preview, read=seen)

    assert str(caught.value) == said
