"""A machine that copies a model of another bucket: where its account may have roles, and what is
there already."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.cli.test_down_purge import library_stack
from tests.copier.jobs import job_of
from tests.operate.marked_things import clients as apis_of
from tpuflex.boot.manifest import WeightsFile, manifest
from tpuflex.cli.cloud import Cloud
from tpuflex.cli.region_bucket import wrong_paths
from tpuflex.cli.region_job import lists, of_git
from tpuflex.cli.region_machine import RegionMachine
from tpuflex.cli.region_source import region_source
from tpuflex.cli.stack import OpenStack
from tpuflex.copier.job import JobFile
from tpuflex.errors import AccessError, NotFoundError
from tpuflex.gcp.weights_objects import SetObjects

SHARD, SUM = "a.safetensors", "yZRlqg=="
JOB = job_of(JobFile(SHARD, 4, crc32c=SUM, generation=7))


def from_place(stack: OpenStack, place: str = "gs://acme-models/team/tiny") -> OpenStack:
    """``stack`` with its weights from a bucket."""
    model = stack.settings.model
    weights = model.weights.model_copy(update={"source": place})
    changed = {"model": model.model_copy(update={"weights": weights})}
    return replace(stack, settings=stack.settings.model_copy(update=changed))


def machine_of(cloud: Cloud, policies: dict[str, object], said: list[str]) -> RegionMachine:
    """The machine of a stack, where the buckets have these policies, or refuse to show them."""

    def call(method: str, path: str, **_query: object) -> object:
        assert method == "GET"
        found = policies[path.split("/")[4]]
        if isinstance(found, Exception):
            raise found
        return found

    api: Any = SimpleNamespace(call=call)
    vars(cloud)["apis"] = lambda: apis_of(storage=api)
    return RegionMachine(cloud, said.append, frozenset())


def test_a_role_on_the_source_is_found_where_nothing_else_is_left(stack: OpenStack) -> None:
    """It outlives the stack, whose own bucket goes; that others read there is no reason to look
    further."""
    cloud, said = Cloud(from_place(stack), {}), list[str]()
    policies: dict[str, object] = {"acme-models": {}, cloud.bucket: NotFoundError("gone")}
    machine = machine_of(cloud, policies, said)
    both = f"the bucket {cloud.bucket} and the bucket acme-models"
    assert machine.where_granted() == f"were looked for on {both}, as the stack file says"
    assert not machine.granted()
    for member, left in (("deleted:serviceAccount:{}?uid=1", True), ("serviceAccount:x{}", False)):
        members = [member.format(machine.place.account)]
        policies["acme-models"] = {"bindings": [{"role": "roles/x", "members": members}]}
        assert machine.granted() is left
    assert said == []


def test_one_bucket_is_looked_at_once(stack: OpenStack) -> None:
    """Where the model lies in the bucket that keeps the weights."""
    cloud = library_stack(stack)
    bucket = cloud.bucket
    cloud = Cloud(from_place(cloud.stack, f"gs://{bucket}/team/tiny"), {})
    said = machine_of(cloud, {bucket: {}}, []).where_granted()
    assert said == f"were looked for on the bucket {bucket}, as the stack file says"


def test_whoever_may_only_read_a_model_is_not_told_so_by_each_down(stack: OpenStack) -> None:
    """They cannot have let anybody into its bucket; what cannot be looked at of the library is
    told."""
    cloud, said = library_stack(stack), list[str]()
    cloud = Cloud(from_place(cloud.stack), {})
    refused = AccessError("storage.buckets.getIamPolicy denied")
    machine = machine_of(cloud, {cloud.bucket: {}, "acme-models": refused}, said)
    assert (machine.granted(), said) == (False, [])
    # Who types --stop asks for it.
    assert "; not on the bucket acme-models, whose policy cannot be read" in machine.where_granted()
    machine = machine_of(cloud, {cloud.bucket: refused, "acme-models": {}}, said)
    assert not machine.granted()
    assert [line.partition(":")[0] for line in said] == ["Could not be looked at"]


def test_what_is_granted_and_said_of_it(stack: OpenStack) -> None:
    """The place and no other, by a role that changes nothing; no secret, though the stack has a
    token for the Hub."""
    source = region_source("gs://acme-models/team/tiny")
    cloud = Cloud(from_place(stack), {})
    (grant,) = source.grants(cloud)
    assert (str(grant.resource), grant.roles) == (
        "the bucket acme-models",
        ("roles/storage.objectViewer",),
    )
    assert "/objects/team/tiny/'" in grant.expression
    assert source.reads(cloud) == "gs://acme-models/team/tiny"


@pytest.mark.parametrize(
    ("size", "crc32c", "same"), [(4, SUM, True), (5, SUM, False), (4, "AAAAAA==", False)]
)
def test_a_set_is_held_to_what_the_bucket_lists(size: int, crc32c: str, same: bool) -> None:
    """Sizes and CRC32C: a manifest of others is none of these files, and an object with another one
    is in the way where nothing may be replaced."""
    files = (WeightsFile(path=SHARD, size=size, crc32c=crc32c, sha256="a" * 64),)
    found = manifest(files, model="m", revision="r")
    assert lists(found, JOB) is same
    blob = SimpleNamespace(size=size, crc32c=crc32c, metadata=None)
    there = SetObjects(cast(Any, None), JOB.prefix, {SHARD: cast(Any, blob)}, None, False)
    assert wrong_paths(there, JOB) == ([] if same else [SHARD])


def test_nothing_of_a_bucket_is_in_git(stack: OpenStack) -> None:
    """Its files are not read from here to be compared by Git's sums, of which there are none."""
    del stack
    files = (WeightsFile(path=SHARD, size=4, crc32c=SUM, sha256="a" * 64),)
    known = SimpleNamespace(manifest=manifest(files, model="m", revision="r"))
    bucket = cast(Any, SimpleNamespace(name="b", client=SimpleNamespace(project="p")))
    there = SetObjects(bucket, JOB.prefix, {}, cast(Any, known), False)
    assert of_git(there, JOB)
