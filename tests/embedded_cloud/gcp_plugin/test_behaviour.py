"""The gcp stand-in: labels, deletion, policies and shared plugin processes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
import requests

from embedded_cloud.core.json_types import JsonObject
from embedded_cloud.server import EmbeddedCloud
from pulumi_plugin.serve import RunningPlugin
from pulumi_plugin.values import SIGNATURE_KEY, Properties, Value
from tests.embedded_cloud.api import TOKEN, Api
from tests.embedded_cloud.gcp_plugin.calls import (
    PROJECT,
    SAMPLES,
    Calls,
    Held,
    connected,
    make,
    refusal,
)
from tests.embedded_cloud.storage_api import put

CUSTOM: Properties = {"autoCreateSubnetworks": False}


@pytest.fixture
def url(world: tuple[EmbeddedCloud, RunningPlugin]) -> str:
    """The embedded cloud's URL."""
    return world[0].url


def rest(method: str, url: str, body: Properties | None = None) -> requests.Response:
    """A call by another client."""
    headers = {"Authorization": f"Bearer {TOKEN}"}
    return requests.request(method, url, json=body, headers=headers, timeout=60)


def test_labels_carry_the_attribution_and_those_of_other_tools_stay(calls: Calls, url: str) -> None:
    """The program's labels change; Pulumi's attribution and labels of other tools stay."""
    held = make(calls, "Bucket")
    assert held.state["pulumiLabels"] == {"env": "dev", "goog-pulumi-provisioned": "true"}
    assert {"pulumiLabels", "effectiveLabels"} <= calls.secrets
    path = f"{url}/storage/v1/b/{held.id}"
    rest("PATCH", path, {"labels": {"theirs": "1"}}).raise_for_status()
    seen = calls.read(held)
    assert seen is not None
    assert seen.state["labels"] == {"env": "dev"}
    updated = calls.update(seen, SAMPLES["Bucket"] | {"labels": {"tier": "a"}})
    expected = {"tier": "a", "theirs": "1", "goog-pulumi-provisioned": "true"}
    assert rest("GET", path).json()["labels"] == expected
    assert updated.state["effectiveLabels"] == expected
    assert updated.state["pulumiLabels"] == {"tier": "a", "goog-pulumi-provisioned": "true"}


def test_default_labels_of_the_provider_reach_resources(
    world: tuple[EmbeddedCloud, RunningPlugin],
) -> None:
    """Resources get the provider's default labels, and a change of these shows in the diff."""
    with connected(world[1].port, defaultLabels='{"owner":"a"}') as first:
        held = make(first, "Secret")
        assert held.state["pulumiLabels"] == {
            "env": "dev",
            "owner": "a",
            "goog-pulumi-provisioned": "true",
        }
    with connected(world[1].port, defaultLabels='{"owner":"b"}') as second:
        assert second.diff(held, SAMPLES["Secret"]).diffs == ["pulumiLabels"]
        updated = second.update(held, SAMPLES["Secret"])
        assert isinstance(updated.state["effectiveLabels"], dict)
        assert updated.state["effectiveLabels"]["owner"] == "b"


def test_keys_of_buckets_and_secrets_change_in_place(calls: Calls, url: str) -> None:
    """The published plugin replaces neither; a secret in another region it does."""
    place = f"projects/{PROJECT}/locations/us-east5/keyRings"
    rest("POST", f"{url}/v1/{place}?keyRingId=team", {}).raise_for_status()
    keys = f"{url}/v1/{place}/team/cryptoKeys"
    body: Properties = {"purpose": "ENCRYPT_DECRYPT"}
    rest("POST", f"{keys}?cryptoKeyId=k", body).raise_for_status()
    number = rest("GET", f"{url}/v1/projects/{PROJECT}").json()["projectNumber"]
    agents: list[Value] = [
        f"serviceAccount:service-{number}@{each}.iam.gserviceaccount.com"
        for each in ("gs-project-accounts", "gcp-sa-secretmanager")
    ]
    role = "roles/cloudkms.cryptoKeyEncrypterDecrypter"
    policy: Properties = {"policy": {"bindings": [{"role": role, "members": agents}]}}
    rest("POST", f"{keys}/k:setIamPolicy", policy).raise_for_status()
    key = f"{place}/team/cryptoKeys/k"

    def secret(region: str) -> Properties:
        replica: Properties = {"location": region}
        encrypted: Properties = {**replica, "customerManagedEncryption": {"kmsKeyName": key}}
        return {**SAMPLES["Secret"], "replication": {"userManaged": {"replicas": [encrypted]}}}

    bucket, held = make(calls, "Bucket"), make(calls, "Secret")
    with_key = SAMPLES["Bucket"] | {"encryption": {"defaultKmsKeyName": key}}
    for made, asked in ((bucket, with_key), (held, secret("us-east5"))):
        assert not calls.diff(made, asked).replaces
    encrypted = calls.update(bucket, with_key)
    calls.update(held, secret("us-east5"))
    path = f"{url}/storage/v1/b/{bucket.id}"

    assert rest("GET", path).json()["encryption"] == {"defaultKmsKeyName": key}
    calls.update(encrypted, SAMPLES["Bucket"])
    assert "encryption" not in rest("GET", path).json()
    replication = rest("GET", f"{url}/v1/{held.id}").json()["replication"]
    assert replication == secret("us-east5")["replication"]
    assert calls.diff(held, secret("us-east1")).replaces == ["replication"]


def test_without_attribution_no_label_is_added(
    world: tuple[EmbeddedCloud, RunningPlugin],
) -> None:
    """``addPulumiAttributionLabel: false`` is honoured."""
    with connected(world[1].port, addPulumiAttributionLabel="false") as calls:
        assert make(calls, "Bucket").state["effectiveLabels"] == {"env": "dev"}


def test_a_change_made_elsewhere_shows_after_a_refresh(calls: Calls, url: str) -> None:
    """Drift is read back, and the next diff restores the program's value."""
    held = make(calls, "Firewall")
    path = f"{url}/compute/v1/projects/{PROJECT}/global/firewalls/fw"
    rest("PATCH", path, {"sourceRanges": ["0.0.0.0/0"]}).raise_for_status()
    drifted = calls.read(held)
    assert drifted is not None
    assert drifted.inputs["sourceRanges"] == ["0.0.0.0/0"]
    answer = calls.diff(drifted, SAMPLES["Firewall"])
    assert list(answer.diffs) == ["sourceRanges"]


def test_a_bucket_with_objects_is_kept_unless_destroy_is_forced(calls: Calls, url: str) -> None:
    """Without forceDestroy it is refused; with it, all generations of objects are deleted first."""
    held = make(calls, "Bucket")
    for payload in (b"one", b"two"):
        put(Api(url), "models/a b/w.bin", payload, held.id)
    with pytest.raises(grpc.RpcError) as caught:
        calls.delete(held)
    assert refusal(caught.value).startswith(
        "Error trying to delete bucket plugin-bucket-1 containing objects without "
        "`force_destroy` set to true"
    )
    forced = calls.update(held, SAMPLES["Bucket"] | {"forceDestroy": True})
    calls.delete(forced)
    assert rest("GET", f"{url}/storage/v1/b/{held.id}").status_code == 404


def test_a_bucket_that_is_gone_cannot_be_deleted(calls: Calls, url: str) -> None:
    """The published plugin fails with Google's 404, and a refresh drops the bucket."""
    held = make(calls, "Bucket")
    rest("DELETE", f"{url}/storage/v1/b/{held.id}").raise_for_status()
    with pytest.raises(grpc.RpcError) as caught:
        calls.delete(held)
    assert refusal(caught.value).startswith("googleapi: Error 404: ")
    assert calls.read(held) is None


def test_deletion_policies_are_honoured(calls: Calls, url: str) -> None:
    """PREVENT refuses a delete; ABANDON leaves the resource in the cloud."""
    protected = calls.create("Network", CUSTOM | {"name": "keep", "deletionPolicy": "PREVENT"})
    with pytest.raises(grpc.RpcError, match="deletionPolicy is PREVENT"):
        calls.delete(protected)
    abandoned = calls.update(protected, CUSTOM | {"name": "keep", "deletionPolicy": "ABANDON"})
    calls.delete(abandoned)
    path = f"{url}/compute/v1/projects/{PROJECT}/global/networks/keep"
    assert rest("GET", path).status_code == 200


def test_a_protected_secret_is_not_deleted(calls: Calls) -> None:
    """``deletionProtection`` refuses a delete."""
    held = make(calls, "Secret", deletionProtection=True)
    with pytest.raises(grpc.RpcError, match="deletion_protection=false"):
        calls.delete(held)


def test_members_added_at_the_same_time_are_all_there(calls: Calls) -> None:
    """Of sixteen members of one policy, created concurrently, no write overwrites another."""
    make(calls, "Bucket")
    members = [f"user:person{number}@example.com" for number in range(16)]

    def grant(member: str) -> Held:
        role = "roles/storage.objectViewer"
        inputs: Properties = {"bucket": "plugin-bucket-1", "role": role, "member": member}
        return calls.create("BucketIAMMember", inputs)

    with ThreadPoolExecutor(16) as pool:
        held = list(pool.map(grant, members))
    assert all(calls.read(one) is not None for one in held)


@pytest.mark.parametrize(
    "condition",
    [
        {},
        {
            "condition": {
                "title": "models",
                "expression": "resource.type == 'storage.googleapis.com/Object' && "
                "resource.name.startsWith('projects/_/buckets/plugin-bucket-1/objects/models/')",
            }
        },
    ],
)
def test_members_of_a_resource_that_is_gone_are_gone(calls: Calls, condition: Properties) -> None:
    """A member of a deleted bucket is read as gone, and its delete succeeds, with or without a
    condition."""
    inputs = make(calls, "BucketIAMMember").inputs
    member = calls.create("BucketIAMMember", {**inputs, **condition})
    assert calls.read(member) is not None
    bucket = calls.import_("Bucket", "plugin-bucket-1")
    assert bucket is not None
    calls.delete(bucket)
    assert calls.read(member) is None
    calls.delete(member)


def test_a_service_stays_enabled_unless_disabling_is_asked_for(calls: Calls) -> None:
    """``disableOnDestroy`` is off by default, as the published class documents."""
    held = calls.create("Service", {"service": "compute.googleapis.com"})
    assert "disableOnDestroy" not in held.inputs
    calls.delete(held)
    assert calls.read(held) is not None


def test_a_taken_name_is_refused_with_googles_message(calls: Calls) -> None:
    """A second create of the same name fails as with the published plugin."""
    make(calls, "Network")
    with pytest.raises(grpc.RpcError) as caught:
        make(calls, "Network")
    assert refusal(caught.value).startswith("Error creating Network: googleapi: Error 409: ")
    assert refusal(caught.value).endswith("alreadyExists")


def test_an_account_that_exists_can_be_accepted(calls: Calls) -> None:
    """``createIgnoreAlreadyExists`` adopts an existing service account."""
    first = make(calls, "Account")
    second = make(calls, "Account", createIgnoreAlreadyExists=True)
    assert second.state["uniqueId"] == first.state["uniqueId"]


def test_an_account_is_ready_for_policies_when_it_is_made(
    world: tuple[EmbeddedCloud, RunningPlugin], calls: Calls
) -> None:
    """A new account is polled for until the strict cloud knows it; then it is granted a
    role, and networks are waited for, too.
    """
    cloud = world[0].cloud
    cloud.run_at(10_000)
    strict: JsonObject = {
        "service_accounts": {"known_after_s": 600},
        "compute": {"operation_s": 600},
    }
    cloud.strictness.change(strict)
    began = cloud.clock.now()
    assert make(calls, "IAMMember").state["etag"]
    assert make(calls, "Network").id
    assert cloud.clock.now() >= began + 1200


def test_project_and_region_come_from_the_provider_behind_the_connection(
    world: tuple[EmbeddedCloud, RunningPlugin],
) -> None:
    """Two providers share one plugin process; each gives its own project to its resources."""
    with (
        connected(world[1].port, project="project-one") as one,
        connected(world[1].port, project="project-two", region="us-west1") as two,
    ):
        assert one.create("Network", CUSTOM | {"name": "n"}).state["project"] == "project-one"
        net = two.create("Network", CUSTOM | {"name": "n"})
        assert net.id == "projects/project-two/global/networks/n"
        router = two.create("Router", {"name": "r", "network": net.id})
        assert router.id == "projects/project-two/regions/us-west1/routers/r"
        again = one.create("Network", CUSTOM | {"name": "m"})
        assert again.id == "projects/project-one/global/networks/m"


ASSET: Properties = {SIGNATURE_KEY: "c44067f5952c0a294b673a41bacd8c17", "text": "canary"}


@pytest.mark.parametrize("property_", ["labels", "location"])
def test_an_asset_is_never_a_value(calls: Calls, property_: str) -> None:
    """A map of strings would take it for one, with its text as a label in the cloud."""
    with pytest.raises(grpc.RpcError) as caught:
        make(calls, "Bucket", **{property_: ASSET})

    assert "an asset or an archive" in refusal(caught.value)
    assert "canary" not in refusal(caught.value)
