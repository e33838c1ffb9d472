"""`weights push --from-region` into a bucket of yours, and what `down` finds of it there."""

from __future__ import annotations

import json

import pytest

from reliability.rig import StackRig
from tests.engine.region_copies import (
    PUSH,
    Bucket,
    kill,
    of_compute,
    run,
    write_weights,
)

HOME = "llm/models/huggingfacetb-smollm2-135m-instruct/1"

pytestmark = [pytest.mark.engine, pytest.mark.timeout(400)]


def test_a_copy_into_a_bucket_of_yours_leaves_nothing_but_weights(rig: StackRig) -> None:
    """It may be of another project and lie elsewhere, which is said. The machine may add to the
    set's place and no other, and what it writes bears the mark of a push. Killed, the same command
    goes on. With the stack file changed since, `down` takes away what the machine may there."""
    bucket = Bucket(rig, "EUROPE-WEST4")
    bucket.put("llm/notes.txt")
    write_weights(rig, bucket=f"gs://{bucket.name}/llm")
    killed = rig.run(*PUSH, rules=[kill("compute.instances.insert")])
    assert killed.exit_code == -9
    assert "in EUROPE-WEST4, and the machine in us-east5" in rig.said[-1].stderr
    assert sorted(bucket.let_in()) == ["roles/storage.objectCreator", "roles/storage.objectViewer"]
    assert all(f"/objects/{HOME}/" in where for where in bucket.let_in().values())

    document = json.loads(run(rig, *PUSH, "--json"))
    assert len([*document["sent"], *document["kept"]]) == 4
    assert (of_compute(rig), bucket.let_in()) == ({}, {})
    written = bucket.objects()
    assert written.pop("llm/notes.txt") == {}
    assert len(written) == 5
    assert all(name.startswith(f"{HOME}/") for name in written)
    assert all(about["tpuflex-pushed"] == "1" for about in written.values())
    assert document["manifest_sha256"] in run(rig, "weights", "verify")

    write_weights(rig, bucket=f"gs://{bucket.name}/llm", revision="2")
    rig.run(*PUSH, rules=[kill("compute.instances.insert")])
    assert len(bucket.let_in()) == 2
    write_weights(rig)
    run(rig, "down")
    assert (of_compute(rig), bucket.let_in()) == ({}, {})
    assert written.keys() <= bucket.objects().keys()


def test_what_bears_the_hubs_names_and_sums_is_read_all_the_same(rig: StackRig) -> None:
    """Whoever may write there can put other bytes of the same size under the Hub's sum: their
    checksum is Cloud Storage's, and their mark anybody's. Another home believes no such manifest; a
    machine reads what is there, and ends."""
    bucket = Bucket(rig)
    write_weights(rig, bucket=f"gs://{bucket.name}/llm")
    run(rig, *PUSH)
    notes = rig.home / ".tpuflex" / "pushed-weights.json"
    notes.unlink()
    again = json.loads(run(rig, *PUSH, "--json"))
    assert (again["sent"], len(again["kept"])) == ([], 4)

    notes.unlink()
    manifest = json.loads(bucket.read(f"{HOME}/MANIFEST.json")[0])
    shard = next(each for each in manifest["files"] if each["path"].endswith(".safetensors"))
    place = f"{HOME}/{shard['path']}"
    content, about = bucket.read(place)
    bucket.put(place, content[:-1] + b"?", **about["metadata"])
    shard["crc32c"] = bucket.read(place)[1]["crc32c"]
    told = bucket.read(f"{HOME}/MANIFEST.json")[1]["metadata"]
    bucket.put(f"{HOME}/MANIFEST.json", json.dumps(manifest).encode(), **told)
    assert rig.run(*PUSH).exit_code == 1, rig.said[-1]
    assert f"weights rm {HOME} --unfinished" in rig.said[-1].stderr
    assert not notes.exists()
    assert (of_compute(rig), bucket.let_in()) == ({}, {})


def test_an_account_with_roles_elsewhere_is_made_anew(rig: StackRig) -> None:
    """A command is killed before it made its machine, and the stack file then names another bucket:
    the account that copies there is another one, which may do nothing in the first."""
    first, second = Bucket(rig), Bucket(rig, name="other-models")
    write_weights(rig, bucket=f"gs://{first.name}/llm")
    rig.run(*PUSH, rules=[kill("compute.instances.insert", "before-commit")])
    assert ("instances" in of_compute(rig), len(first.let_in())) == (False, 2)

    write_weights(rig, bucket=f"gs://{second.name}/llm")
    rig.run(*PUSH, rules=[kill("compute.instances.insert")])
    assert (first.let_in(), len(second.let_in())) == ({}, 2)
    assert len(first.let_in(gone=True)) == 2
    run(rig, "down")
    assert (of_compute(rig), second.let_in(), second.let_in(gone=True)) == ({}, {}, {})


def test_down_tells_of_roles_that_it_may_not_take_away(rig: StackRig) -> None:
    """The bucket's policy is somebody else's. The exit code says that something is left, and the
    next `down`, which finds nothing else, takes it away."""
    bucket = Bucket(rig)
    write_weights(rig, bucket=f"gs://{bucket.name}/llm")
    rig.run(*PUSH, rules=[kill("compute.instances.insert")])
    where = {"method_id": "storage.buckets.setIamPolicy"}
    effect = {"kind": "answer", "status": 403, "message": "no"}
    ended = rig.run("down", rules=[{"where": where, "effect": effect, "times": 0}])
    assert ended.exit_code == 10, rig.said[-1]
    assert f"iam.gserviceaccount.com on the bucket {bucket.name}" in rig.said[-1].stderr
    assert (of_compute(rig), len(bucket.let_in(gone=True))) == ({}, 2)

    run(rig, "down")
    assert bucket.let_in(gone=True) == {}


@pytest.mark.parametrize(
    ("uniform", "there", "code", "said"),
    [
        (False, "llm/notes.txt", 6, "--uniform-bucket-level-access"),
        (True, f"{HOME}/config.json", 1, "Nothing was made"),
    ],
)
def test_no_machine_is_made_for_a_bucket_of_yours_that_it_cannot_fill(
    rig: StackRig, uniform: bool, there: str, code: int, said: str
) -> None:
    """One that lets nobody into a part of it, and a place with a file that no push has written."""
    bucket = Bucket(rig, uniform=uniform)
    bucket.put(there)
    write_weights(rig, bucket=f"gs://{bucket.name}/llm")
    assert rig.run(*PUSH).exit_code == code, rig.said[-1]
    assert said in rig.said[-1].stderr
    assert (of_compute(rig), bucket.let_in()) == ({}, {})
    assert [*bucket.objects()] == [there]
