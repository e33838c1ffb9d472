"""A stack whose zones are in two regions, with the real engine on the embedded cloud."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.checkpoints import everything_in, tiny
from tests.engine.embedded import Embedded
from tests.engine.libraries import (
    PROJECT,
    bucket_of,
    call,
    command,
    manifest_of,
    write_stack,
)
from tpuflex.cli.down.run import run_down
from tpuflex.deploy.before_chips import look_before_chips
from tpuflex.deploy.plan import replaced_secrets
from tpuflex.deploy.stack_run import StackRun
from tpuflex.deploy.weights_bucket import ensure_weights_bucket
from tpuflex.errors import ConflictError
from tpuflex.naming import library_names
from tpuflex.queued_resource.name import RequestName
from tpuflex.stack.connection import Connection
from tpuflex.stack.progress import agree
from tpuflex.weights.copies import fill_regions, filling_texts
from tpuflex.weights.stack_push import push_weights
from tpuflex.weights.stack_weights import StackWeights
from tpuflex.weights.use import weights_uses

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300)]

MODEL, PREFIX = "acme/tiny", "models/acme-tiny/1"
NEAR, FAR = (library_names(PROJECT).bucket(PROJECT, each) for each in ("us-east5", "europe-west4"))
Captured = pytest.CaptureFixture[str]


def write_regions(embedded: Embedded, weights: dict[str, Any], *regions: str) -> None:
    """The stack `two`, with a zone in each of ``regions``; at home in the first."""
    write_stack(embedded, "two", MODEL, weights, compile_cache="none")
    file = embedded.root / "stacks" / "Pulumi.two.yaml"
    document = yaml.safe_load(file.read_text())
    document["config"]["tpuflex:slice"]["zones"] = [f"{each}-a" for each in regions]
    if len(regions) > 1:
        ranges = {"subnetwork_cidrs": {regions[1]: "10.128.16.0/20"}}
        document["config"]["tpuflex:network"] = ranges
    file.write_text(yaml.safe_dump(document))


def listed(embedded: Embedded, bucket: str) -> set[str]:
    """The objects of a bucket."""
    answer = call(embedded, "GET", f"storage/v1/b/{bucket}/o").json()
    return {each["name"] for each in answer.get("items", [])}


def test_the_second_region_has_capacity(
    embedded: Embedded, capsys: Captured, tmp_path: Path
) -> None:
    """Where the home has no capacity, the other region's zone grants. Before chips are asked for,
    the model is copied into the library's bucket there, to the byte; the host is in the subnetwork
    of that region, boots with the buckets of both, and counts as a user of each. A set that is
    damaged there is mended, another one is refused. The home cannot change places with the other
    region. To go back to one region takes nothing away that is at home but the slice. `down` leaves
    nothing in any region but the library, and with
    --purge-weights no set in it."""
    directory = tiny(tmp_path / "tiny")
    weights = {"manifest_sha256": manifest_of(directory, MODEL)}
    write_regions(embedded, weights, "us-east5", "europe-west4")
    invocation, cloud = command(embedded, "two")
    ensure_weights_bucket(cloud, consent=agree)
    push_weights(StackWeights(cloud), everything_in(directory), print, lambda: False)
    before = listed(embedded, FAR)
    quick = {"admission_s": 0.0, "grant_after_s": 0.0, "provisioning_s": 0.1, "deleting_s": 0.1}
    embedded.set_capacity({**quick, "zones": {"us-east5-a": {**quick, "never": True}}})
    run = StackRun(cloud, invocation.report)
    plan = run.plan()
    seen = look_before_chips(run.preparation, plan.plan)
    run.preparation.check()
    run.up(plan.plan)
    outputs = run.engine.outputs()
    again = run.plan(refresh=True)

    assert [f"(us-east5) to gs://{FAR}" in line for line in seen.does] == [True]
    assert not seen.refuses
    assert not seen.unchecked
    assert bucket_of(embedded, NEAR) is not None
    assert before == set()
    assert {f"{PREFIX}/MANIFEST.json", f"{PREFIX}/model.safetensors"} <= listed(embedded, FAR)
    assert (again.plan.changes, again.plan.drift) == ((), ())
    name = RequestName.parse(str(outputs["queued_resource"]))
    assert name.zone == "europe-west4-a"
    (node,) = cloud.tpu.list_nodes(PROJECT, "europe-west4-a").nodes
    document = json.loads(node.metadata["tpuflex-config"])
    assert document["weights"]["buckets"] == {"us-east5": NEAR, "europe-west4": FAR}
    subnetwork = node.model_dump(by_alias=True)["networkConfig"]["subnetwork"]
    assert subnetwork.rpartition("/")[2] == "tpuflex-two-vllm-subnet"
    embedded.cloud.cloud.strictness.change({"network": {"private_addresses": True}})
    (node,) = cloud.tpu.list_nodes(PROJECT, "europe-west4-a").nodes
    embedded.cloud.cloud.strictness.change({"network": {"private_addresses": False}})
    assert node.network_endpoints[0].ip_address.startswith("10.128.16.")
    for each in StackWeights(cloud).everywhere():
        assert any("boots with it" in user for user in weights_uses(each).of(PREFIX))
        assert any("an endpoint's account" in user for user in weights_uses(each).of(PREFIX))
    _refusals(embedded, cloud, str(weights["manifest_sha256"]))
    _homes(embedded, weights)

    write_regions(embedded, weights, "us-east5")
    back = StackRun(command(embedded, "two")[1]).plan().plan
    assert {step.name: step.operation for step in back.changes if step.custom} == {
        "vllm": "replace",
        "vllm-library-europe-west4-reader": "delete",
        "vllm-network-subnet-europe-west4": "delete",
    }

    write_regions(embedded, weights, "us-east5", "europe-west4")
    capsys.readouterr()
    run_down(*command(embedded, "two"), dry_run=False, purge_weights=True)
    down = json.loads(capsys.readouterr().out)
    assert down["purged_copies"][0]["bucket"] == FAR
    assert [listed(embedded, each) for each in (NEAR, FAR)] == [set(), set()]
    # The library keeps what was removed for a week.
    assert set(embedded.remaining()) == {"buckets", "objects", "secrets", "versions"}
    buckets = embedded.cloud.cloud.inventory()["storage"]["buckets"]
    assert {each["name"] for each in buckets} == {NEAR, FAR}


def _homes(embedded: Embedded, weights: dict[str, Any]) -> None:
    """Another region for a home, in one step with the regions that are there, is refused; the
    engine would make the API key's secret anew."""
    write_regions(embedded, weights, "europe-west4", "us-east5")
    invocation, cloud = command(embedded, "two")
    run = StackRun(cloud, invocation.report)
    with pytest.raises(ConflictError, match="from us-east5 to europe-west4 in one step") as refused:
        run.plan()
    assert "us-east5 alone, then europe-west4 alone, then all regions" in str(refused.value.hint)
    assert replaced_secrets(cloud.stack, run.engine.preview()) == ("api-key",)


def _refusals(embedded: Embedded, cloud: Connection, wanted: str) -> None:
    """Another set in the other region is not written over; what is damaged there is mended."""
    (far,) = StackWeights(cloud).further()
    with pytest.raises(ConflictError, match="holds other weights"):
        filling_texts(StackWeights(cloud), "0" * 64)
    path = f"storage/v1/b/{FAR}/o/{PREFIX.replace('/', '%2F')}%2Fmodel.safetensors"
    call(embedded, "DELETE", path).raise_for_status()
    (anew,) = filling_texts(StackWeights(cloud), wanted)
    assert f"gs://{FAR}/{PREFIX} does not match its manifest (model.safetensors: " in anew
    ((mended, report),) = fill_regions(StackWeights(cloud), wanted, print, lambda: False)
    assert (mended.bucket, report.sent) == (FAR, ("model.safetensors",))
    assert fill_regions(StackWeights(cloud), wanted, print, lambda: False) == ()
    assert far.elsewhere == "europe-west4"
    for each in listed(embedded, FAR):
        place = each.replace("/", "%2F")
        call(embedded, "DELETE", f"storage/v1/b/{FAR}/o/{place}").raise_for_status()
    (line,) = filling_texts(StackWeights(cloud), wanted)
    assert f"(us-east5) to gs://{FAR}; nothing passes through here" in line
    fill_regions(StackWeights(cloud), wanted, print, lambda: False)
    assert filling_texts(StackWeights(cloud), wanted) == []
    assert listed(embedded, FAR) == listed(embedded, NEAR)
