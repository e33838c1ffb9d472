"""An endpoint whose zones are in several regions: what is made in each, and what in one only."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.components.pulumi_plan import Plan
from tests.unit.stack_sections import sections
from tpuflex.naming import library_names

Deploy = Callable[..., Plan]

SLICE = "tpuflex:tpu:QueuedResource vllm"
MEMBER = "gcp:storage/bucketIAMMember:BucketIAMMember"
ONE = {"slice.zones": ["us-east5-a"], "model.weights.bucket": "library"}
TWO = {
    **ONE,
    "slice.zones": ["europe-west4-a", "us-east5-a"],
    "network.subnetwork_cidrs": {"europe-west4": "10.128.16.0/20"},
}
_PROJECT = "acme-serving"


def of(plan: Plan, type_: str) -> dict[str, dict[str, Any]]:
    """The inputs of all resources of a type, by logical name."""
    return {
        address.partition(" ")[2]: inputs
        for address, inputs in plan.inputs.items()
        if address.partition(" ")[0] == type_
    }


def test_each_region_has_a_subnetwork_and_a_role_on_its_bucket(deployed: Deploy) -> None:
    """All subnetworks have one name, which the slice asks for; each has its range and Private
    Google Access; and the hosts may read the model in the library's bucket of each region. The
    slice waits for all of it. The endpoint's secrets are at home, and it has no bucket."""
    plan = deployed(sections(TWO))

    subnetworks = of(plan, "gcp:compute/subnetwork:Subnetwork")
    assert {
        name: (each["region"], each["ipCidrRange"], each["name"], each["privateIpGoogleAccess"])
        for name, each in subnetworks.items()
    } == {
        "vllm-network-subnet": ("us-east5", "10.128.0.0/20", "tpuflex-dev-vllm-subnet", True),
        "vllm-network-subnet-europe-west4": (
            *("europe-west4", "10.128.16.0/20", "tpuflex-dev-vllm-subnet"),
            True,
        ),
    }
    assert plan.inputs[SLICE]["subnetwork"] == "tpuflex-dev-vllm-subnet"
    library = library_names(_PROJECT)
    grants = of(plan, MEMBER)
    readers = {
        name: (each["bucket"], each["condition"]["expression"])
        for name, each in grants.items()
        if "/objects/models/" in str(each.get("condition"))
    }
    near, far = (library.bucket(_PROJECT, each) for each in ("us-east5", "europe-west4"))
    below = (
        "resource.name.startsWith('projects/_/buckets/{}/objects/models/google-gemma-4-e4b-it/1/')"
    )
    assert readers == {
        "vllm-library-reader": (near, below.format(near)),
        "vllm-library-europe-west4-reader": (far, below.format(far)),
    }
    barriers = plan.dependencies[SLICE]
    assert {
        *(f"gcp:compute/subnetwork:Subnetwork {name}" for name in subnetworks),
        *(f"{MEMBER} {name}" for name in readers),
    } <= barriers
    for secret in of(plan, "gcp:secretmanager/secret:Secret").values():
        (replica,) = secret["replication"]["userManaged"]["replicas"]
        assert replica["location"] == "us-east5"
    assert of(plan, "gcp:storage/bucket:Bucket") == {}
    document = json.loads(plan.inputs[SLICE]["metadata"]["tpuflex-config"])
    assert document["weights"]["bucket"] == near
    assert document["weights"]["buckets"] == {"europe-west4": far, "us-east5": near}


def test_programs_are_kept_in_the_library_of_each_region(deployed: Deploy) -> None:
    """Where it runs, a host lists the library's bucket, reads and adds below the endpoint's own
    place, and reads what tells its programs from others'; the slice waits for all of it."""
    plan = deployed(sections(TWO))
    library = library_names(_PROJECT)
    document = json.loads(plan.inputs[SLICE]["metadata"]["tpuflex-config"])["compile_cache"]
    assert (document["mode"], "bucket" in document) == ("bucket", False)
    for region, name in (("us-east5", ""), ("europe-west4", "-europe-west4")):
        bucket = f"projects/_/buckets/{library.bucket(_PROJECT, region)}"
        below = f"resource.name.startsWith('{bucket}/objects/{document['prefix']}/')"
        grants = {
            word: plan.inputs[f"{MEMBER} vllm-library-programs{name}-{word}"]
            for word in ("reader", "writer")
        }
        said = {word: each["condition"]["expression"] for word, each in grants.items()}
        assert grants["reader"]["role"] == "roles/storage.objectViewer"
        assert grants["writer"]["role"] == "roles/storage.objectCreator"
        assert said["reader"] == f"resource.name == '{bucket}' || {below}"
        assert said["writer"] == below
        waited = {f"{MEMBER} vllm-library-programs{name}-{word}" for word in grants}
        assert waited <= plan.dependencies[SLICE]
    key = "gcp:secretmanager/secretIamMember:SecretIamMember vllm-library-programs-key"
    secret = f"projects/{_PROJECT}/secrets/{plan.inputs[key]['secretId']}"
    assert document["key"] == f"{secret}/versions/latest"
    assert plan.inputs[key]["role"] == "roles/secretmanager.secretAccessor"
    assert key in plan.dependencies[SLICE]


@pytest.mark.parametrize("egress", ["google", "internet"])
def test_another_region_changes_nothing_that_is_there(deployed: Deploy, egress: str) -> None:
    """All that a stack of one region has made keeps logical name and inputs when a region is added
    to it, and when it is taken away again; but for the slice, whose zones these are, and what says
    which ranges there are."""
    one = deployed(sections({**ONE, "network.egress": egress})).inputs
    two = deployed(sections({**TWO, "network.egress": egress})).inputs

    changed = {address for address in one if one[address] != two.get(address)}
    assert changed == {
        "tpuflex:index:VllmEndpoint vllm",
        "tpuflex:index:Network vllm-network",
        SLICE,
    }
    added = sorted(address.partition(" ")[2] for address in two.keys() - one.keys())
    nat = ["vllm-network-nat-europe-west4", "vllm-network-router-europe-west4"]
    assert added == sorted(
        [
            "vllm-library-europe-west4",
            "vllm-library-europe-west4-reader",
            "vllm-library-programs-europe-west4",
            *(f"vllm-library-programs-europe-west4-{word}" for word in ("reader", "writer")),
            "vllm-network-subnet-europe-west4",
            *(nat if egress == "internet" else ()),
        ]
    )
    assert "buckets" not in json.loads(one[SLICE]["metadata"]["tpuflex-config"])["weights"]


def test_the_order_of_the_zones_moves_nothing(deployed: Deploy) -> None:
    """Which region is asked first says nothing of where secrets and subnetworks are."""
    zones = ["us-east5-a", "europe-west4-a"]
    one, two = (deployed(sections({**TWO, **more})).inputs for more in ({}, {"slice.zones": zones}))

    changed = {address for address in one if one[address] != two.get(address)}
    assert changed == {"tpuflex:index:VllmEndpoint vllm", SLICE}
    assert one.keys() == two.keys()
    assert one[SLICE]["metadata"] == two[SLICE]["metadata"]
