"""An endpoint whose data a key of the user's encrypts, with the real engine."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from tests.acceptance.killed import stack_run
from tests.engine.embedded import Embedded
from tests.engine.libraries import call, command
from tpuflex.cli.down.run import run_down
from tpuflex.deploy.stack_run import StackRun
from tpuflex.doctor.check import Standing
from tpuflex.doctor.cloud import ExaminedCloud
from tpuflex.doctor.encryption_key import key_checks
from tpuflex.engine.events import EnginePlan
from tpuflex.errors import AccessError, ConflictError, NotFoundError, TpuflexError
from tpuflex.google.existing_key import agents
from tpuflex.stack.connection import Connection

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300)]

RING = "projects/acme-keys/locations/us-east5/keyRings/team"
KEY = f"{RING}/cryptoKeys/weights"
ROLE = "roles/cloudkms.cryptoKeyEncrypterDecrypter"
# Bucket and secret are made side by side: the words of the one that is refused first.
REFUSED_BY_GOOGLE = (
    r"Permission denied on Cloud KMS key"
    r"|Permission 'cloudkms\.cryptoKeyVersions\.useToEncrypt' denied"
)


def make(embedded: Embedded, key: str) -> None:
    """Make a key of that name, as those who look after keys do."""
    call(embedded, "POST", f"v1/{RING.rpartition('/')[0]}?keyRingId=team", json={})
    body = {"purpose": "ENCRYPT_DECRYPT"}
    assert call(embedded, "POST", f"v1/{RING}/cryptoKeys?cryptoKeyId={key}", json=body).ok


def let(embedded: Embedded, cloud: Connection) -> None:
    """Let those use every key of the ring who have to."""
    members = [each.member for each in agents(cloud.stack.settings, cloud.project_number)]
    policy = {"policy": {"bindings": [{"role": ROLE, "members": members}]}}
    assert call(embedded, "POST", f"v1/{RING}:setIamPolicy", json=policy).ok


def write(embedded: Embedded, key: str) -> None:
    """A stack with the key."""
    file = embedded.root / "stacks" / "Pulumi.dev.yaml"
    document = yaml.safe_load(file.read_text())
    document["config"]["tpuflex:encryption"] = {"kms_key": f"{RING}/cryptoKeys/{key}"}
    file.write_text(yaml.safe_dump(document))


def encrypting(embedded: Embedded, cloud: Connection) -> tuple[str, str, str]:
    """Which keys new objects and new versions of the API key get, and the disks have."""
    bucket = call(embedded, "GET", f"storage/v1/b/{cloud.bucket}").json()
    secret = call(embedded, "GET", f"v1/{cloud.secret('api-key')}").json()
    (replica,) = secret["replication"]["userManaged"]["replicas"]
    settings = cloud.stack.settings
    place = f"v2alpha1/projects/{settings.project}/locations/{settings.slice.zones[0]}"
    (node,) = call(embedded, "GET", f"{place}/nodes").json()["nodes"]
    return (
        bucket.get("encryption", {}).get("defaultKmsKeyName", ""),
        replica.get("customerManagedEncryption", {}).get("kmsKeyName", ""),
        node.get("bootDiskConfig", {}).get("customerEncryptionKey", {}).get("kmsKeyName", ""),
    )


def test_a_key_encrypts_what_is_made_and_stays(
    embedded: Embedded, capsys: pytest.CaptureFixture[str]
) -> None:
    """One that is missing or destroyed is refused at the plan; while nobody may use it, `doctor`
    says who has to, and Google's refusal ends the update; with the grants bucket, secrets and disks
    have it; another key changes bucket and secrets in place and replaces the slice, and the plan
    says so, also to who may not read the key; the teardown leaves the keys and names the one that
    is used as kept."""
    write(embedded, "weights")
    with pytest.raises(NotFoundError) as missing:
        StackRun(command(embedded)[1]).preview_without_weights()
    make(embedded, "weights")
    make(embedded, "old")
    assert call(embedded, "POST", f"v1/{RING}/cryptoKeys/old/cryptoKeyVersions/1:destroy").ok
    write(embedded, "old")
    with pytest.raises(ConflictError) as destroyed:
        StackRun(command(embedded)[1]).preview_without_weights()
    write(embedded, "weights")
    invocation, cloud = command(embedded)
    before = key_checks(ExaminedCloud(cloud))
    run = stack_run(embedded.root, embedded.engine, embedded.environ)
    with pytest.raises(TpuflexError, match=REFUSED_BY_GOOGLE):
        run.up()
    let(embedded, cloud)
    after = key_checks(ExaminedCloud(cloud))
    run.up()
    first = encrypting(embedded, cloud)
    again = run.preview(refresh=True)
    make(embedded, "next")
    write(embedded, "next")
    other = StackRun(command(embedded)[1])
    whole = other.plan().plan
    plan = {step.type: step.operation for step in whole.resources}
    state = other.engine.resources()
    by_a_reader = _planned_by_a_reader(embedded)
    capsys.readouterr()
    run_down(invocation, cloud, dry_run=False)
    down: dict[str, Any] = json.loads(capsys.readouterr().out)

    setting = "tpuflex:encryption.kms_key"
    assert missing.value.message == f"{setting}: {KEY} does not exist"
    assert destroyed.value.message == (
        f"{setting}: the primary version of {RING}/cryptoKeys/old is DESTROY_SCHEDULED"
    )
    assert [each.standing for each in before] == [Standing.OK, *[Standing.FAILED] * 3]
    assert {each.standing for each in after} == {Standing.OK}
    assert first == (KEY, KEY, KEY)
    assert (again.changes, again.drift) == ((), ())
    assert by_a_reader.digest == whole.digest
    assert plan["gcp:storage/bucket:Bucket"] == "update"
    assert plan["gcp:secretmanager/secret:Secret"] == "update"
    assert plan["tpuflex:tpu:QueuedResource"] == "replace"
    (read,) = [each for each in state if each["type"] == "gcp:kms/cryptoKey:CryptoKey"]
    assert (read["id"], read["external"]) == (KEY, True)
    assert down["kept"] == [KEY]
    assert call(embedded, "GET", f"v1/{KEY}").json()["primary"]["state"] == "ENABLED"
    assert sorted(embedded.remaining()) == ["cryptoKeys", "keyRings"]


def _planned_by_a_reader(embedded: Embedded) -> EnginePlan:
    """The plan of somebody who may not read the key: a preview takes it for usable and says so; an
    update is refused."""
    strictness = embedded.cloud.cloud.strictness
    strictness.change({"permissions": {"missing": ["cloudkms.cryptoKeys.get"]}})
    reader = StackRun(command(embedded)[1])
    try:
        plan = reader.plan(reader=True).plan
        with pytest.raises(AccessError, match=r"cloudkms\.cryptoKeys\.get"):
            StackRun(command(embedded)[1]).plan()
    finally:
        strictness.change({"permissions": {"missing": []}})
    assert reader.key_unread is not None
    return plan
