"""An endpoint whose weights are in a bucket of the user's own."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pulumi
import pytest

from tests.components.pulumi_plan import Plan
from tests.unit.stack_sections import sections
from tpuflex.naming import Names, library_names

Deploy = Callable[..., Plan]

SLICE = "tpuflex:tpu:QueuedResource vllm"
BUCKET = "gcp:storage/bucket:Bucket"
GRANT = "gcp:storage/bucketIAMMember:BucketIAMMember"
READ = f"{BUCKET} vllm-brought-weights-bucket"
READER = f"{GRANT} vllm-brought-weights-reader"
PREFIX = "llm/models/google-gemma-4-e4b-it/1"
SEEN: dict[str, Any] = {"effectiveLabels": {"team": "ml"}, "uniformBucketLevelAccess": True}


def storage(plan: Plan) -> list[str]:
    """What the plan makes of Cloud Storage."""
    return [name for name in plan.inputs if name.startswith("gcp:storage")]


def mine(**more: object) -> dict[str, Any]:
    """A stack whose weights are in gs://acme-models, and that makes no bucket."""
    weights = {f"model.weights.{key}": value for key, value in more.items()}
    return sections(
        {
            "model.weights.bucket": "gs://acme-models/llm",
            "serving.compile_cache": "host",
            **weights,
        }
    )


@pytest.mark.parametrize("preview", [False, True])
def test_only_the_right_to_read_the_model_is_made(deployed: Deploy, preview: bool) -> None:
    """On condition of the model's prefix, for the hosts alone; no bucket is made, and the slice
    waits for bucket and right."""
    plan = deployed(mine(), preview=preview, read=SEEN)

    assert storage(plan) == [READER]
    grant = plan.inputs[READER]
    assert (grant["bucket"], grant["role"]) == ("acme-models", "roles/storage.objectViewer")
    assert grant["condition"]["expression"] == (
        f"resource.name.startsWith('projects/_/buckets/acme-models/objects/{PREFIX}/')"
    )
    assert {READ, READER} <= plan.dependencies[SLICE]
    weights = json.loads(plan.inputs[SLICE]["metadata"]["tpuflex-config"])["weights"]
    assert (weights["bucket"], weights["prefix"]) == ("acme-models", PREFIX)


def test_programs_are_kept_in_a_bucket_of_its_own(deployed: Deploy) -> None:
    """Who writes them runs code on the chips: nothing of them goes into a bucket of others."""
    kept = sections({"serving.compile_cache": "bucket"})["serving"]

    assert set(storage(deployed(mine() | {"serving": kept}, read=SEEN))) == {
        READER,
        f"{BUCKET} vllm-weights",
        f"{GRANT} vllm-weights-reader",
        f"{GRANT} vllm-weights-compile-cache",
    }


def test_no_grant_where_grants_are_yours(deployed: Deploy) -> None:
    """With manage_grants: false nothing is made in the bucket, and uniform access is not needed."""
    seen = {**SEEN, "uniformBucketLevelAccess": False}
    plan = deployed(mine(manage_grants=False), read=seen)

    assert storage(plan) == []
    assert READ in plan.dependencies[SLICE]


@pytest.mark.parametrize("preview", [False, True])
@pytest.mark.parametrize(
    ("seen", "says"),
    [
        (
            {"uniformBucketLevelAccess": False},
            "tpuflex:model.weights.bucket: gs://acme-models has no uniform bucket-level access, so"
            " nobody can be let into a part of it alone.\n"
            "Run: gcloud storage buckets update gs://acme-models --uniform-bucket-level-access"
            " --public-access-prevention\n"
            "Or write tpuflex:model.weights.manage_grants: false, and let the hosts' account read.",
        ),
        (
            {"effectiveLabels": {"tpuflex-owner": "0123456789abcdef"}},
            "tpuflex:model.weights.bucket: gs://acme-models was made by tpuflex, which deletes it"
            " with all that is in it.\n"
            "Write a bucket that others have made; or library, or own.",
        ),
    ],
)
def test_a_bucket_that_cannot_be_used_is_refused_at_the_plan(
    deployed: Deploy, preview: bool, seen: dict[str, object], says: str
) -> None:
    """Before anything is made in it, in a sentence with what to do."""
    with pytest.raises(pulumi.RunError) as caught:
        deployed(mine(), preview=preview, read={**SEEN, **seen})

    assert str(caught.value) == says


@pytest.mark.parametrize(
    ("names", "word"),
    [(Names("tpuflex", "dev", "vllm"), "own"), (library_names("acme-serving"), "library")],
)
def test_a_name_that_tpuflex_gives_is_refused(deployed: Deploy, names: Names, word: str) -> None:
    """`down` and `sweep` would take it for the endpoint's."""
    name = names.bucket("acme-serving", "us-east5")
    with pytest.raises(pulumi.RunError) as caught:
        deployed(mine(bucket=f"gs://{name}"), read=SEEN)

    assert str(caught.value) == (
        f"tpuflex:model.weights.bucket: gs://{name} has the name that tpuflex gives.\n"
        f"Write {word} for that; or a bucket that others have made."
    )
