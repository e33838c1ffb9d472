"""`weights push --from-region` of a model in a bucket, and what is left of it there."""

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
from tests.hub_models import safetensors

PLACE = "team/tiny"
HOME = "llm/models/huggingfacetb-smollm2-135m-instruct/1"
#: More than one request of an upload.
SHARD = safetensors(bytes(17 * 2**20))
FILES = {"config.json": b"{}", "model.safetensors": SHARD, "tokenizer.json": b"{}"}
VIEWER = "roles/storage.objectViewer"

pytestmark = [pytest.mark.engine, pytest.mark.timeout(400)]


def put_model(bucket: Bucket, place: str = PLACE) -> None:
    """Somebody of its team writes a model there, and a pickle."""
    for name, content in {**FILES, "pytorch_model.bin": b"a pickle"}.items():
        bucket.put(f"{place}/{name}", content)


def test_a_model_of_another_bucket_arrives_as_by_a_push_from_here(rig: StackRig) -> None:
    """The manifest is that of a push through this machine, to the hash; the machine may read that
    place and no other, and nobody may when it is done. Killed with the machine just made, the same
    command goes on with it; once more, and nothing is made."""
    models, mine = Bucket(rig, "EUROPE-WEST4"), Bucket(rig, name="my-models")
    put_model(models)
    source = f"gs://{models.name}/{PLACE}"
    write_weights(rig, bucket=f"gs://{mine.name}/llm", source=source)
    killed = rig.run(*PUSH, rules=[kill("compute.instances.insert")])
    assert killed.exit_code == -9
    said = rig.said[-1].stderr
    assert f"and nowhere else and read {source}." in said
    assert f"gs://{models.name} is in EUROPE-WEST4, and the machine in us-east5" in said
    assert "left out, as no data formats: pytorch_model.bin" in said
    where = f"resource.name.startsWith('projects/_/buckets/{models.name}/objects/{PLACE}/')"
    assert models.let_in() == {VIEWER: where}

    document = json.loads(run(rig, *PUSH, "--json"))
    assert sorted([*document["sent"], *document["kept"]]) == [*FILES]
    assert (of_compute(rig), models.let_in(), mine.let_in()) == ({}, {}, {})
    assert {name: mine.read(f"{HOME}/{name}")[0] for name in FILES} == FILES
    manifest, about = mine.read(f"{HOME}/MANIFEST.json")
    assert about["metadata"]["tpuflex-source"] == source
    assert (
        document["manifest_sha256"]
        == json.loads(run(rig, "weights", "hash", "--json"))["manifest_sha256"]
    )

    again = json.loads(run(rig, *PUSH, "--json"))
    assert (again["sent"], len(again["kept"])) == ([], 3)
    made = [
        call for call in rig.control.history() if call["method_id"] == "compute.instances.insert"
    ]
    assert len(made) == 1
    from_here = json.loads(run(rig, "weights", "push", "--json"))
    assert from_here["manifest_sha256"] == document["manifest_sha256"]
    assert from_here["sent"] == []
    assert mine.read(f"{HOME}/MANIFEST.json")[0] == manifest


def test_one_bucket_for_both_and_a_command_that_is_killed_at_each_grant(rig: StackRig) -> None:
    """The machine reads one place of the bucket and adds to another, by one change of its policy.
    Killed when the roles were just given, and before its machine is made, the same command,
    `--stop` and `down` leave neither."""
    bucket = Bucket(rig)
    put_model(bucket)
    write_weights(rig, bucket=f"gs://{bucket.name}/llm", source=f"gs://{bucket.name}/{PLACE}")
    for ended in ((*PUSH, "--stop"), ("down",)):
        assert rig.run(*PUSH, rules=[kill("storage.buckets.setIamPolicy")]).exit_code == -9
        there = bucket.bindings()
        assert sorted(role for role, _ in there) == [
            "roles/storage.objectCreator",
            VIEWER,
            VIEWER,
        ]
        assert {where.partition("/objects/")[2] for _, where in there} == {
            f"{HOME}/')",
            f"{PLACE}/')",
        }
        assert "instances" not in of_compute(rig)
        run(rig, *ended)
        assert (of_compute(rig), bucket.let_in(), bucket.let_in(gone=True)) == ({}, {}, {})

    killed = rig.run(*PUSH, rules=[kill("compute.instances.insert", "before-commit")])
    assert killed.exit_code == -9
    document = json.loads(run(rig, *PUSH, "--json"))
    assert len(document["sent"]) == 3
    assert (of_compute(rig), bucket.let_in(), bucket.let_in(gone=True)) == ({}, {}, {})
    assert document["manifest_sha256"] in run(rig, "weights", "verify")


def test_what_a_killed_copy_may_read_is_found_by_whatever_ends_it(rig: StackRig) -> None:
    """Also where the stack file has another source since: its machine names the bucket. What
    `sweep` has left in the policy, for an account that is gone, the next `--stop` takes away."""
    models = Bucket(rig)
    put_model(models)
    source = f"gs://{models.name}/{PLACE}"
    write_weights(rig, source=source)
    rig.run(*PUSH, rules=[kill("compute.instances.insert")])
    assert [*models.let_in()] == [VIEWER]
    write_weights(rig)
    run(rig, *PUSH, "--stop")
    assert (of_compute(rig), models.let_in(), models.let_in(gone=True)) == ({}, {}, {})

    write_weights(rig, source=source)
    rig.run(*PUSH, rules=[kill("compute.instances.insert")])
    run(rig, "sweep", "--yes")
    assert (of_compute(rig), models.let_in()) == ({}, {})
    run(rig, *PUSH, "--stop")
    assert models.let_in(gone=True) == {}
