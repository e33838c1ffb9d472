"""An endpoint whose data a key of the user's encrypts, under Pulumi's mocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pulumi
import pytest

from tests.components.pulumi_plan import Plan
from tests.unit.stack_sections import sections
from tests.unit.test_encryption_settings import KEY
from tpuflex.components.given import Given

Deploy = Callable[..., Plan]

BUCKET = "gcp:storage/bucket:Bucket vllm-weights"
SECRET = "gcp:secretmanager/secret:Secret vllm-secrets-api-key"
SLICE = "tpuflex:tpu:QueuedResource vllm"
GOOD = {"purpose": "ENCRYPT_DECRYPT", "primaries": [{"name": f"{KEY}/1", "state": "ENABLED"}]}


def given(**changes: object) -> dict[str, Any]:
    """The sections of a stack with the key; of the rest by dotted key."""
    return sections({"encryption": {"kms_key": KEY}, **changes})


@pytest.mark.parametrize("preview", [False, True])
@pytest.mark.parametrize("read", [GOOD, {}])
def test_it_encrypts_all_that_is_made_and_keeps_data(
    deployed: Deploy, preview: bool, read: dict[str, object]
) -> None:
    """Bucket, secrets and the hosts' disks, also where a preview does not know all of the key. The
    key itself is only read, and nobody is granted anything on it."""
    plan = deployed(given(), preview=preview, read=read)

    assert plan.inputs[BUCKET]["encryption"] == {"defaultKmsKeyName": KEY}
    (replica,) = plan.inputs[SECRET]["replication"]["userManaged"]["replicas"]
    assert replica == {
        "location": "us-east5",
        "customerManagedEncryption": {"kmsKeyName": KEY},
    }
    assert plan.inputs[SLICE]["bootDisk"] == {"kmsKeyName": KEY}
    assert plan.inputs["tpuflex:index:ExistingKey vllm-key"] == {"kmsKey": KEY}
    assert not [address for address in plan.inputs if address.startswith("gcp:kms/")]
    services = [each for each in plan.inputs if each.startswith("gcp:projects/service:Service")]
    assert "gcp:projects/service:Service vllm-apis-cloudkms" in services


@pytest.mark.parametrize("preview", [False, True])
@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (
            {**GOOD, "primaries": [{"state": "DESTROY_SCHEDULED"}]},
            f"the primary version of {KEY} is DESTROY_SCHEDULED\nLook: gcloud kms keys describe"
            " weights --keyring=team --location=us-east5 --project=acme-keys",
        ),
        (
            {**GOOD, "primaries": []},
            f"the primary version of {KEY} is not there\nLook: gcloud kms keys describe"
            " weights --keyring=team --location=us-east5 --project=acme-keys",
        ),
        (
            {"purpose": "MAC"},
            f"{KEY} is for MAC\nWrite a symmetric key, for encryption (ENCRYPT_DECRYPT).",
        ),
    ],
)
def test_a_key_that_cannot_encrypt_is_refused_at_the_plan(
    deployed: Deploy, preview: bool, seen: dict[str, object], said: str
) -> None:
    """Before anything is made with it."""
    with pytest.raises(pulumi.RunError) as caught:
        deployed(given(), preview=preview, read=seen)

    assert str(caught.value) == f"tpuflex:encryption.kms_key: {said}"


def test_a_key_that_a_reader_may_not_read_is_not_read(deployed: Deploy) -> None:
    """A preview by somebody who may not plans as with a key that can encrypt; an update reads it
    whoever runs it."""
    refused = {"purpose": "MAC"}

    reader = deployed(given(), preview=True, read=refused, key_unread=True)
    plan = deployed(given(), preview=True, read=GOOD)

    assert reader.inputs == plan.inputs
    with pytest.raises(pulumi.RunError, match="is for MAC"):
        deployed(given(), read=refused, key_unread=True)


def test_a_key_that_is_known_later_is_refused_with_the_reason() -> None:
    """An output, or what is awaited: its place is compared with the zones beforehand."""

    async def soon() -> str:
        return KEY

    with pytest.raises(pulumi.RunError, match="where the key is, is compared with the zones"):
        Given(sections({"encryption": {"kms_key": soon()}}))
