"""A copy within the region: the machine is made, works, is watched and goes; whatever happens to
the command at whichever write."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from embedded_cloud.cloud import project_number
from embedded_cloud.strictness import STRICT
from tests.embedded_cloud.api import PROJECT
from tests.hub_models import MODEL, TOKEN
from tests.operate.region_rig import (
    BUCKET,
    NAMES,
    PREFIX,
    ZONES,
    Killed,
    RegionRig,
    killed,
    lost,
    quick,
    region_rig,
)
from tpuflex.copier.job import BucketOrigin, Job, JobFile
from tpuflex.errors import (
    AccessError,
    AlreadyExistsError,
    ApiError,
    CapacityError,
    ConflictError,
    TpuflexError,
)
from tpuflex.gcp.transport import JsonObject
from tpuflex.naming import LABEL_OWNER
from tpuflex.operate.region_copy.bodies import machine
from tpuflex.operate.region_copy.grants import revoke, secret_grant, source_grant
from tpuflex.operate.region_copy.machine import CopyMachine
from tpuflex.operate.region_copy.run import CopyPlan, copies_into, same_job, start, watch

ADDRESSES = "constraints/compute.vmExternalIpAccess"
#: Writes of a whole copy: account, role, network, subnetwork, machine; then their removal.
WRITES = 10


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[RegionRig]:
    """An embedded cloud whose machines run."""
    with region_rig(tmp_path) as found:
        yield found


def whole(rig: RegionRig) -> None:
    """The bucket holds all of the model, and nothing else is left."""
    assert rig.bucket.verify(PREFIX).problems == ()
    assert rig.left() == []


def test_machine_and_disk_have_the_labels_of_the_user(rig: RegionRig) -> None:
    """Beside the marks by which `down` finds them, which no label of the user's takes over."""
    place = replace(rig.place, labels={"team": "search", LABEL_OWNER: "nobody"})

    made: Any = machine(place, ZONES[0], rig.job(), 1800)

    marked = {"team": "search", **place.names.labels(place.state_id)}
    assert made["labels"] == made["disks"][0]["initializeParams"]["labels"] == marked


def test_the_disk_has_the_key_of_the_user(rig: RegionRig) -> None:
    """And no other machine names one."""
    key = "projects/acme-keys/locations/us-east5/keyRings/team/cryptoKeys/weights"
    with_key: Any = machine(replace(rig.place, kms_key=key), ZONES[0], rig.job(), 1800)
    without: Any = machine(rig.place, ZONES[0], rig.job(), 1800)

    assert with_key["disks"][0].pop("diskEncryptionKey") == {"kmsKeyName": key}
    assert with_key == without


def test_a_machine_copies_and_goes(rig: RegionRig) -> None:
    """The model arrives by a machine that is made and deleted; nothing of it stays, in the bucket's
    policy either."""
    apis, writes = rig.at_writes(lambda _place, forward: forward())

    report = rig.copy(apis)

    assert report.state == "done"
    assert len(writes) == WRITES
    whole(rig)


def test_a_command_killed_at_any_write_is_continued_by_the_same_command(rig: RegionRig) -> None:
    """Before or after each write, of the beginning and of the end: the next command goes on, and
    leaves all of the weights and nothing else."""
    for number in range(WRITES):
        for before in (True, False):
            apis, _ = rig.at_writes(killed(number, before=before))
            with pytest.raises(Killed):
                rig.copy(apis)
            rig.copy()
            whole(rig)


def test_an_answer_lost_at_any_write_makes_nothing_twice(rig: RegionRig) -> None:
    """A write that is asked again because its answer was lost is taken for what it is."""
    for number in range(WRITES):
        apis, _ = rig.at_writes(lost(number))
        rig.copy(apis)
        whole(rig)


def test_a_machine_that_is_there_is_waited_for(rig: RegionRig) -> None:
    """A second command makes no second machine, and one for other weights is refused."""
    job, machine = rig.job(), rig.machine()
    plan = CopyPlan(rig.place, job, ZONES, 1800, rig.grants)
    made = start(plan, machine, rig.apis, quick(), lambda _line: None)

    found = rig.machine().find()
    assert found is not None
    assert found.resource.birth == made.resource.birth
    with pytest.raises(ConflictError, match="other weights"):
        same_job(found, rig.job(revision="r2"))
    again = rig.machine().make(ZONES, job, 1800)
    assert again.resource.birth == made.resource.birth
    assert rig.copy().state == "done"
    whole(rig)


def test_a_zone_without_room_is_followed_by_the_next(rig: RegionRig) -> None:
    """A machine is made in the first zone that has one; if none has, that is said, and nothing is
    left but what the removal takes away."""
    rig.api.call("POST", "_emulator/faults", body={"rules": [_full(1)]})
    job, machine = rig.job(), rig.machine()
    plan = CopyPlan(rig.place, job, ZONES, 1800, rig.grants)
    assert start(plan, machine, rig.apis, quick(), lambda _line: None).zone == ZONES[1]
    rig.remove()

    rig.api.call("POST", "_emulator/faults", body={"rules": [_full(2)]})
    with pytest.raises(CapacityError, match="us-east5-a, us-east5-b"):
        start(plan, machine, rig.apis, quick(), lambda _line: None)
    assert rig.remove() == ()
    assert rig.left() == []


def test_a_cloud_that_takes_its_time(tmp_path: Path) -> None:
    """Accounts that are not known at once, operations that take seconds, roles that take effect
    later: waited for."""
    strict = {key: value for key, value in STRICT.to_json().items() if key != "apis"}
    with region_rig(tmp_path, strictness=strict) as rig:
        rig.cloud.cloud.run_at(20)
        assert rig.copy().state == "done"
        whole(rig)


def test_what_somebody_else_has_is_not_touched(rig: RegionRig) -> None:
    """A network, an account or a machine with our names and other marks is refused, and stays."""
    path = f"compute/v1/projects/{PROJECT}/global/networks"
    body = {"name": NAMES.compute("copy"), "autoCreateSubnetworks": False}
    rig.api.call("POST", path, body=body)
    with pytest.raises(AlreadyExistsError, match="not this stack's"):
        rig.copy()
    rig.remove()
    assert rig.api.call("GET", f"{path}/{body['name']}").status_code == 200


def test_a_refused_revocation_does_not_keep_the_machine(rig: RegionRig) -> None:
    """The machine is deleted first; what cannot be revoked is said."""
    job, machine = rig.job(), rig.machine()
    plan = CopyPlan(rig.place, job, ZONES, 1800, rig.grants)
    start(plan, machine, rig.apis, quick(), lambda _line: None)

    def at(_place: int, forward: Callable[[], JsonObject]) -> JsonObject:
        if seen[-1].endswith("/iam"):
            raise AccessError("storage.buckets.setIamPolicy is missing")
        return forward()

    apis, seen = rig.at_writes(at)
    (problem,) = rig.remove(apis)

    assert "setIamPolicy" in problem
    assert rig.machine().find() is None
    assert all("instance" not in each for each in rig.left())


def test_a_refused_look_does_not_keep_the_machine(rig: RegionRig) -> None:
    """Without the right to look at the network the machine is deleted all the same, and what could
    not be looked at is said."""
    plan = CopyPlan(rig.place, rig.job(), ZONES, 1800, rig.grants)
    start(plan, rig.machine(), rig.apis, quick(), lambda _line: None)

    class Refusing:
        def call(self, method: str, path: str, **rest: Any) -> JsonObject:
            if method == "GET" and "/global/networks/" in path:
                raise AccessError("compute.networks.get is missing")
            return rig.apis.compute.call(method, path, **rest)

    problems = rig.remove(replace(rig.apis, compute=Refusing()))

    assert problems == ("networks: compute.networks.get is missing",)
    assert [each.partition(" ")[0] for each in rig.left()] == ["network"]
    assert rig.remove() == ()


def test_a_machine_of_another_state_is_named_and_left(rig: RegionRig) -> None:
    """When the state was lost, the machine that it had is not ours any more: it is not deleted, and
    nobody is told that nothing is left."""
    plan = CopyPlan(rig.place, rig.job(), ZONES, 1800, rig.grants)
    made = start(plan, rig.machine(), rig.apis, quick(), lambda _line: None)
    maker = replace(rig.maker, states=frozenset({"f" * 20}))
    found, problems = CopyMachine(rig.place, maker, rig.apis, quick()).resources()
    assert found == ()
    assert CopyMachine(rig.place, maker, rig.apis, quick()).is_foreign()
    assert not rig.machine().is_foreign()
    (problem,) = problems
    assert made.resource.name in problem
    assert "not this stack's" in problem
    assert rig.remove() == ()


def test_a_zone_that_cannot_be_looked_into_is_told(rig: RegionRig) -> None:
    """No second machine is made because the first could not be seen, and what is left is not said
    to be nothing; zones of other regions do not matter."""

    class Blind:
        def __init__(self, zone: str) -> None:
            self.zone = zone

        def call(self, method: str, path: str, **rest: Any) -> JsonObject:
            if path.endswith("/aggregated/instances"):
                warning: JsonObject = {"code": "UNREACHABLE"}
                return {"items": {f"zones/{self.zone}": {"warning": warning}}}
            return rig.apis.compute.call(method, path, **rest)

    ours = rig.machine(replace(rig.apis, compute=Blind(ZONES[0])))
    with pytest.raises(ApiError, match=ZONES[0]):
        ours.find()
    assert ours.resources() == ((), (f"{ZONES[0]} could not be looked into",))
    others = rig.machine(replace(rig.apis, compute=Blind("asia-east1-c")))
    assert (others.find(), others.resources()) == (None, ((), ()))


def test_which_machine_copies_into_a_place(rig: RegionRig) -> None:
    """That of an earlier command for the same weights does, whatever else it was told; one for
    other weights, or with a job that nobody can read, does not."""
    job = rig.job()
    made = start(
        CopyPlan(rig.place, job, ZONES, 1800, rig.grants),
        rig.machine(),
        rig.apis,
        quick(),
        lambda _line: None,
    )
    assert copies_into(made, replace(job, again=True, known=("0" * 64,)))
    assert not copies_into(made, replace(job, prefix="models/tiny/r2"))
    assert not copies_into(replace(made, job='{"bucket":'), job)
    assert not copies_into(replace(made, job="[]"), job)
    rig.remove()


def test_a_policy_against_external_addresses_is_told(rig: RegionRig) -> None:
    """The refusal names the constraint, and what to do instead; what was made before goes."""
    body = {"policy": {"constraint": ADDRESSES, "listPolicy": {"allValues": "DENY"}}}
    rig.api.call("POST", f"v1/projects/{PROJECT}:setOrgPolicy", body=body)
    with pytest.raises(AccessError, match="vmExternalIpAccess") as caught:
        rig.copy()
    assert "tpuflex weights push" in caught.value.hint
    assert rig.remove() == ()
    assert rig.left() == []


def test_a_failure_of_the_machine_is_the_commands(rig: RegionRig) -> None:
    """What the machine gives up on ends the command with that reason; and everything is removed."""
    with pytest.raises(TpuflexError, match="the Hub answered with 404"):
        rig.copy(job=rig.job(commit="0" * 40))
    assert rig.remove() == ()
    assert rig.left() == []


def test_a_machine_that_disappears_is_told(rig: RegionRig) -> None:
    """At the end of its time Google deletes it: the command says so, and the next one goes on."""
    job, machine = rig.job(), rig.machine()
    plan = CopyPlan(rig.place, job, ZONES, 1800, rig.grants)
    running = start(plan, machine, rig.apis, quick(), lambda _line: None)
    rig.api.call("DELETE", running.resource.path)
    with pytest.raises(ApiError, match="gone before it was done"):
        watch(running, rig.job(revision="r2"), machine, quick(), lambda _d, _t: None)
    rig.copy()
    whole(rig)


def test_the_account_may_write_below_the_prefix_and_nothing_else(rig: RegionRig) -> None:
    """With its token nothing can be written elsewhere, also where bindings are not enforced."""
    rig.api.call("POST", "_emulator/strictness", body={"iam": {"enforced": True}})
    with pytest.raises(TpuflexError):
        rig.copy(job=rig.job(prefix="models/another/r1"))
    rig.remove()
    found = rig.api.call("GET", f"storage/v1/b/{BUCKET}/o").json().get("items", [])
    assert found == []
    assert rig.copy().state == "done"
    whole(rig)


def test_of_another_bucket_the_account_reads_the_one_place(rig: RegionRig) -> None:
    """Where bindings decide, it copies what is below the prefix, and nothing beside that, whatever
    its job says; a file that was replaced ends the command as what it is, by the object that is
    there: without the right to list, a generation that is gone cannot be told from a missing
    right."""
    body = {"name": "acme-models", "location": "US-EAST5"}
    assert rig.api.call("POST", "storage/v1/b", body=body, project=PROJECT).ok
    models = rig.bucket._bucket.client.bucket("acme-models")
    listed: dict[str, list[JobFile]] = {}
    for place in ("team/tiny", "team/secret"):
        for name in ("config.json", "model.safetensors"):
            blob = models.blob(f"{place}/{name}")
            blob.upload_from_string(f"{place} {name}")
            file = JobFile(name, blob.size, crc32c=blob.crc32c, generation=blob.generation)
            listed.setdefault(place, []).append(file)
    rig.api.call("POST", "_emulator/strictness", body={"iam": {"enforced": True}})
    reading = replace(rig, more=(source_grant("acme-models", "team/tiny"),))

    def of(place: str) -> Job:
        origin = BucketOrigin("acme-models", place)
        return rig.job(source=str(origin), files=tuple(listed[place]), origin=origin)

    with pytest.raises(AccessError, match="answered with 403 for gs://acme-models/team/secret"):
        reading.copy(job=of("team/secret"))
    reading.remove()
    assert reading.copy(job=of("team/tiny")).state == "done"
    whole(rig)

    models.blob("team/tiny/config.json").upload_from_string("another")
    with pytest.raises(ConflictError, match="has changed since it was listed") as caught:
        reading.copy(job=replace(of("team/tiny"), again=True))
    assert "lists them anew" in caught.value.hint
    assert reading.remove() == ()
    policy = rig.api.call("GET", "storage/v1/b/acme-models/iam").json()
    assert not [m for b in policy.get("bindings", []) for m in b["members"] if "copy" in m]


def test_where_others_serve_it_may_add_and_replaces_nothing(rig: RegionRig) -> None:
    """Where bindings decide, the account brings a whole set, and goes on with half of one; what is
    there with another content is refused and stays, to the generation."""
    rig.api.call("POST", "_emulator/strictness", body={"iam": {"enforced": True}})
    adding = replace(rig, create_only=True)
    assert adding.copy().state == "done"
    whole(rig)
    name = f"{PREFIX}/config.json".replace("/", "%2F")
    for gone in (f"{PREFIX}/MANIFEST.json".replace("/", "%2F"), name):
        assert rig.api.call("DELETE", f"storage/v1/b/{BUCKET}/o/{gone}").ok
    assert adding.copy().state == "done"
    whole(rig)
    manifest = f"{PREFIX}/MANIFEST.json".replace("/", "%2F")
    rig.api.call("DELETE", f"storage/v1/b/{BUCKET}/o/{manifest}")
    theirs = rig.bucket._bucket.blob(f"{PREFIX}/config.json")
    theirs.upload_from_string("a colleague's")

    with pytest.raises(ConflictError, match="another content"):
        adding.copy()
    assert adding.remove() == ()
    assert rig.bucket.find(PREFIX) is None
    assert rig.bucket._bucket.get_blob(theirs.name).generation == theirs.generation
    assert rig.left() == []


def test_a_gated_model_is_read_with_the_one_version_of_the_secret(rig: RegionRig) -> None:
    """Where bindings decide, the account reads that version and no other; the token is in no
    metadata, no report and no line of the machine."""
    (rig.cloud.state_dir / "hub" / MODEL / ".gated").write_text(TOKEN)
    secret = f"projects/{PROJECT}/secrets/hub"
    rig.api.call(
        "POST",
        f"v1/projects/{PROJECT}/secrets",
        body={"replication": {"automatic": {}}},
        secretId="hub",
    )
    for value in (TOKEN, "hf_of-another-time"):
        payload = {"data": base64.b64encode(value.encode()).decode()}
        rig.api.call("POST", f"v1/{secret}:addVersion", body={"payload": payload})
    rig.api.call("POST", "_emulator/strictness", body={"iam": {"enforced": True}})
    number = project_number(PROJECT)
    grants = (*rig.grants, secret_grant(secret, 1, number))
    told: list[str] = []

    def copy(version: int) -> str:
        job = rig.job(token=TOKEN, token_version=f"{secret}/versions/{version}")
        machine = rig.machine()
        plan = CopyPlan(rig.place, job, ZONES, 1800, grants)
        running = start(plan, machine, rig.apis, quick(), lambda _line: None)
        try:
            return watch(running, job, machine, quick(), lambda _d, _t: None).state
        except AccessError as error:
            return error.message
        finally:
            hosts = rig.api.call("GET", "_emulator/hosts").json()["hosts"]
            told.extend(Path(host["serial_log"]).read_text() for host in hosts)
            told.append(rig.api.call("GET", running.resource.path).text)
            path = f"{running.resource.path}/getGuestAttributes"
            told.append(rig.api.call("GET", path, queryPath="tpuflex/").text)
            for grant in grants:
                revoke(grant.resource, rig.place.account, rig.apis, lambda _s: None)
            assert rig.remove() == ()

    assert "Secret Manager answered with 403" in copy(2)
    assert copy(1) == "done"
    assert len(told) == 6
    assert "copy" in "".join(told)
    assert TOKEN not in "".join(told)
    whole(rig)


def _full(times: int) -> dict[str, object]:
    effect = {
        "kind": "operation-error",
        "code": 14,
        "reason": "ZONE_RESOURCE_POOL_EXHAUSTED",
        "message": "The zone does not have enough resources.",
    }
    where = {"method_id": "compute.instances.insert"}
    return {"where": where, "effect": effect, "times": times}
