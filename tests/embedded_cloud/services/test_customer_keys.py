"""Buckets, secrets, machines and TPUs that a key of the user's encrypts, over HTTP."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tests.embedded_cloud.api import PROJECT, Api, error_of
from tests.embedded_cloud.storage_api import upload

REGION = "us-east5"
RING = f"projects/acme-keys/locations/{REGION}/keyRings/team"
KEY = f"{RING}/cryptoKeys/weights"
FIRST = f"{KEY}/cryptoKeyVersions/1"
ROLE = "roles/cloudkms.cryptoKeyEncrypterDecrypter"
STORAGE, SECRETS, COMPUTE = "gs-project-accounts", "gcp-sa-secretmanager", "compute-system"
DENIED = (
    "Permission denied on Cloud KMS key. Please ensure that your Cloud Storage service account has"
    " been authorized to use this key."
)


@pytest.fixture
def key(api: Api) -> Api:
    """The API of a project beside one with a key, which nobody may use."""
    rings = RING.rpartition("/")[0]
    api.call("POST", f"v1/{rings}", body={}, keyRingId="team").raise_for_status()
    body = {"purpose": "ENCRYPT_DECRYPT"}
    api.call("POST", f"v1/{RING}/cryptoKeys", body=body, cryptoKeyId="weights").raise_for_status()
    return api


def agent(api: Api, service: str) -> str:
    """The service agent of the project, as policies name it."""
    project = api.call("GET", f"v1/projects/{PROJECT}").json()
    number = project["projectNumber"]
    return f"serviceAccount:service-{number}@{service}.iam.gserviceaccount.com"


def let(api: Api, *services: str, on: str = KEY) -> None:
    """Let these service agents, and no others, use the key."""
    members = [agent(api, service) for service in services]
    policy = {"bindings": [{"role": ROLE, "members": members}]}
    api.call("POST", f"v1/{on}:setIamPolicy", body={"policy": policy}).raise_for_status()


def destroy(api: Api) -> None:
    """Have the key's version destroyed."""
    api.call("POST", f"v1/{FIRST}:destroy", body={}).raise_for_status()


def bucket(key: str, location: str = REGION) -> dict[str, Any]:
    """The body of a bucket with that default key."""
    encryption = {"defaultKmsKeyName": key}
    return {"name": "acme-weights", "location": location, "encryption": encryption}


def secret(key: str) -> dict[str, Any]:
    """The body of a secret whose one replica has that key."""
    replica = {"location": REGION, "customerManagedEncryption": {"kmsKeyName": key}}
    return {"replication": {"userManaged": {"replicas": [replica]}}}


def make(api: Api, body: dict[str, Any]) -> Any:
    """Ask for a bucket."""
    return api.call("POST", "storage/v1/b", body=body, project=PROJECT)


def uploaded(api: Api) -> Any:
    """Ask for an object in it."""
    return upload(api, "a", b"weights", "acme-weights")


@pytest.mark.parametrize(
    ("key_name", "status", "said"),
    [
        (KEY, 403, DENIED),
        (f"{RING}/cryptoKeys/none", 403, DENIED),
        ("weights", 400, "Malformed Cloud KMS crypto key: weights"),
        (
            KEY.replace(REGION, "global"),
            400,
            "Cloud KMS region 'global' not available for use with GCS region 'US-EAST5'.",
        ),
    ],
)
def test_a_bucket_is_refused_a_key_that_cannot_be_used(
    key: Api, key_name: str, status: int, said: str
) -> None:
    """By an insert and by a patch alike; and the right of another service's agent is none."""
    let(key, SECRETS)
    refused = make(key, bucket(key_name))
    make(key, {"name": "acme-weights", "location": REGION}).raise_for_status()
    patch = {"encryption": {"defaultKmsKeyName": key_name}}
    patched = key.call("PATCH", "storage/v1/b/acme-weights", body=patch)

    for answer in (refused, patched):
        assert (answer.status_code, error_of(answer)[2]) == (status, said)
    assert "encryption" not in key.call("GET", "storage/v1/b/acme-weights").json()


def test_a_bucket_with_a_key_encrypts_its_objects_with_it(key: Api) -> None:
    """New ones, and only while the agent may use the key; those of before keep theirs, and are not
    to be had without it."""
    let(key, STORAGE, on=RING)
    make(key, {"name": "acme-weights", "location": REGION}).raise_for_status()
    plain = uploaded(key).json()
    patch = {"encryption": {"defaultKmsKeyName": KEY}}
    key.call("PATCH", "storage/v1/b/acme-weights", body=patch).raise_for_status()
    path = "storage/v1/b/acme-weights/o/a"
    still = key.call("GET", path).json()
    encrypted = uploaded(key).json()
    copied = key.call("POST", f"{path}/rewriteTo/b/acme-weights/o/b", body={}).json()["resource"]
    read = key.call("GET", path, alt="media")
    let(key, SECRETS, on=RING)
    denied = [uploaded(key), key.call("GET", path, alt="media")]
    let(key, STORAGE, on=RING)
    destroy(key)
    gone = [uploaded(key), key.call("GET", path, alt="media")]

    assert "kmsKeyName" not in plain
    assert "kmsKeyName" not in still
    assert encrypted["kmsKeyName"] == copied["kmsKeyName"] == FIRST
    assert read.content == b"weights"
    assert [(each.status_code, error_of(each)[2]) for each in denied] == [(403, DENIED)] * 2
    state = f"{FIRST} is not enabled, current state is: DESTROY_SCHEDULED."
    assert [(each.status_code, error_of(each)[2]) for each in gone] == [(400, state)] * 2
    cleared = key.call("PATCH", "storage/v1/b/acme-weights", body={"encryption": None})
    assert "encryption" not in cleared.json()
    assert uploaded(key).ok


def test_a_secret_is_encrypted_with_the_key_of_its_location(key: Api) -> None:
    """It is refused a key that is elsewhere or that the agent may not use; its key alone can be
    changed; new versions get the new one, and none can be read when its key is gone."""
    secrets = f"v1/projects/{PROJECT}/secrets"

    def asked(body: dict[str, Any]) -> Any:
        return key.call("POST", secrets, body=body, secretId="s")

    def changed(body: dict[str, Any]) -> Any:
        return key.call("PATCH", f"{secrets}/s", body=body, updateMask="replication")

    def added() -> Any:
        data = base64.b64encode(b"canary").decode()
        return key.call("POST", f"{secrets}/s:addVersion", body={"payload": {"data": data}})

    elsewhere = KEY.replace(REGION, "global")
    denied, misplaced = asked(secret(KEY)), asked(secret(elsewhere))
    replica = {"location": REGION}
    asked({"replication": {"userManaged": {"replicas": [replica]}}}).raise_for_status()
    plain = added().json()
    still_denied = changed(secret(KEY))
    let(key, SECRETS)
    encrypting = changed(secret(KEY))
    encrypted = added().json()
    moved = changed({"replication": {"automatic": {}}})
    read = key.call("GET", f"{secrets}/s/versions/2:access")
    destroy(key)
    gone = [added(), key.call("GET", f"{secrets}/s/versions/2:access")]
    before = key.call("GET", f"{secrets}/s/versions/1:access")

    use = "cloudkms.cryptoKeyVersions.useToEncrypt"
    said = f"Permission '{use}' denied on resource '{KEY}' (or it may not exist)."
    for answer in (denied, still_denied):
        assert (answer.status_code, error_of(answer)[2]) == (400, said)
    assert error_of(misplaced)[2] == (
        "User-managed replication policy can only be configured with Cloud KMS keys in location"
        f" [{REGION}]. Requested: [{elsewhere}]"
    )
    assert plain["replicationStatus"] == {"userManaged": {"replicas": [replica]}}
    assert encrypting.json()["replication"] == secret(KEY)["replication"]
    status = {**replica, "customerManagedEncryption": {"kmsKeyVersionName": FIRST}}
    assert encrypted["replicationStatus"] == {"userManaged": {"replicas": [status]}}
    assert (moved.status_code, read.status_code) == (400, 200)
    assert {each.status_code for each in gone} == {400}
    assert before.ok


def test_a_tpu_boots_from_a_disk_with_a_key(key: Api) -> None:
    """By Compute Engine's agent, with a key of its region."""

    def tpu(name: str) -> Any:
        parent = f"projects/{PROJECT}/locations/{REGION}-a"
        node = {
            "acceleratorType": "v6e-4",
            "runtimeVersion": "v2-alpha-tpuv6e",
            "bootDiskConfig": {"customerEncryptionKey": {"kmsKeyName": name}},
        }
        body = {"tpu": {"nodeSpec": [{"parent": parent, "nodeId": "t", "node": node}]}}
        path = f"v2alpha1/{parent}/queuedResources"
        return key.call("POST", path, body=body, queuedResourceId="t")

    other = KEY.replace(REGION, "us-east1")
    refused = [tpu(name) for name in (KEY, other)]
    let(key, COMPUTE)
    tpu(KEY).raise_for_status()

    assert {each.status_code for each in refused} == {400}
    texts = [
        error_of(each)[2].removeprefix("Cloud TPU received a bad request. ") for each in refused
    ]
    assert [text.partition(": ")[0] for text in texts] == [
        f"Cloud KMS error when using key {name}" for name in (KEY, other)
    ]
